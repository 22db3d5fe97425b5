// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "observe/whereabouts.h"

namespace hocket {
namespace {

constexpr std::array<char, 8> kMagic = {'H', 'K', 'f', 'l', 'i', 'g', 'h', '5'};
constexpr size_t kNames = 32;
using Word = std::array<char, 24>;

struct Header {
  std::array<char, 8> magic;
  int32_t process;
  std::array<Word, kNames> kinds;
  std::array<Word, kNames> types;
  std::array<uint32_t, kNames> type_bytes;
};

struct Memory {
  Header header;
  std::array<FlightLane, FlightRecorder::kLanes> lanes;
};

template <size_t kSize>
void write_word(std::array<char, kSize>& word, std::string_view text) {
  word = {};
  std::memcpy(word.data(), text.data(), std::min(text.size(), kSize - 1));
}

template <size_t kSize>
std::string_view read_word(const std::array<char, kSize>& word) {
  return {word.begin(), std::find(word.begin(), word.end(), '\0')};
}

std::string_view named(const std::array<Word, kNames>& words, int16_t number) {
  const bool is_one = number >= 0 && static_cast<size_t>(number) < kNames;
  return is_one ? read_word(words[static_cast<size_t>(number)]) : "?";
}

std::string text_of(const Header& header, const FlightCall& call) {
  const std::string peer = call.peer < 0 ? "" : fmt::format(", rank {}", call.peer);
  return fmt::format("{}({} {}{})", named(header.kinds, call.kind), call.count, named(header.types, call.type), peer);
}

Memory& memory_of(const Segment& segment) { return *reinterpret_cast<Memory*>(segment.bytes().data()); }

}  // namespace

size_t FlightRecorder::bytes() { return sizeof(Memory); }

void FlightRow::clear() {
  begun_ = ended_ = 0;
  newest_kind_ = kKinds;
}

bool FlightLane::begin_transfer(uint32_t kind) {
  const uint64_t number = transfers_.begun();
  before_[number % before_.size()].store(collectives_.begun(), std::memory_order_relaxed);
  transfers_.begin(number, kind);
  return (number & sample_mask_) == 0;
}

// A call that others run beside is not timed: whose end was seen would not be known. Whoever turns sampled_ from 0 or
// to 0 owns the sample meanwhile.
void FlightLane::sample(const FlightCall& call, std::string_view algorithm, Time now) {
  const uint64_t number = begun();
  if (ended() + 1 != number || sampled_.load(std::memory_order_acquire) != 0) return;
  sample_ = {call, now.time_since_epoch().count(), 0, {}};
  write_word(sample_.algorithm, algorithm);
  sampled_.store(number, std::memory_order_release);
}

void FlightLane::end_sample(uint64_t sampled, Time now) {
  if (sampled == kTaken || !sampled_.compare_exchange_strong(sampled, kTaken, std::memory_order_acquire)) return;
  if (sampled == begun()) {
    sample_.end_ns = now.time_since_epoch().count();
    const uint64_t number = taken_.load(std::memory_order_relaxed);
    samples_[number % kSamples] = sample_;
    taken_.store(number + 1, std::memory_order_release);
  }
  sampled_.store(0, std::memory_order_release);
}

FlightRecorder::FlightRecorder(std::unique_ptr<Segment> memory, int32_t process, const FlightNames& names,
                               uint64_t sample_every)
    : memory_(std::move(memory)), sample_every_(sample_every) {
  Memory& all = *new (memory_->bytes().data()) Memory{};
  all.header.process = process;
  for (size_t i = 0; i < std::min(kNames, names.kinds.size()); ++i) write_word(all.header.kinds[i], names.kinds[i]);
  for (size_t i = 0; i < std::min(kNames, names.types.size()); ++i) write_word(all.header.types[i], names.types[i]);
  std::copy_n(names.type_bytes.begin(), std::min(kNames, names.type_bytes.size()), all.header.type_bytes.begin());
  all.header.magic = kMagic;
}

FlightLane* FlightRecorder::open(const FlightMember& member) {
  const std::lock_guard lock(mutex_);
  auto& lanes = memory_of(*memory_).lanes;
  const auto found = std::find_if(lanes.begin(), lanes.end(), [](const FlightLane& lane) { return lane.in_use_ == 0; });
  if (found == lanes.end()) return nullptr;
  FlightLane& lane = *found;
  lane.wait(-1, {});
  lane.sampled_ = lane.taken_ = 0;
  lane.collectives_.clear();
  lane.transfers_.clear();
  lane.waited_ns_ = 0;
  lane.pipe_budget_ = member.pipe_budget;
  lane.pipe_bytes_ = 0;
  lane.sample_mask_ = sample_every_ - 1;
  lane.hosts_ = member.hosts;
  lane.communicator_ = member.communicator;
  lane.rank_ = member.rank;
  lane.ranks_ = member.ranks;
  write_word(lane.name_, member.name);
  lane.in_use_ = 1;
  return &lane;
}

void FlightRecorder::close(FlightLane* lane) { lane->in_use_ = 0; }

// Looks into lanes for read_flight.
class FlightReader {
 public:
  static bool is_open(const FlightLane& lane) { return lane.in_use_ == 1; }

  static FlightCopy::Lane copy(const Header& header, const FlightLane& lane, size_t max_calls) {
    FlightCopy::Lane copy;
    copy.name = read_word(lane.name_);
    copy.rank = lane.rank_;
    copy.ranks = lane.ranks_;
    copy.hosts = lane.hosts_;
    copy.communicator = lane.communicator_;
    copy.waited_ns = lane.waited_ns_;
    copy.pipe_budget = lane.pipe_budget_;
    copy.pipe_bytes = lane.pipe_bytes_;
    copy.taken = lane.taken_.load(std::memory_order_acquire);
    copy.begun = lane.begun();
    copy.ended = lane.ended();
    copy.awaited = copy.begun == copy.ended ? -1 : lane.awaited_.load();
    copy.since_ns = lane.since_ns_;  // after that: it was written before
    copy.collectives = lane.collectives().begun();
    for (const FlightCall& call : newest_calls(lane, max_calls))
      copy.calls.push_back(fmt::format("#{} {}", call.number, text_of(header, call)));
    for (const FlightCall& call : newest_calls(lane, 1)) copy.newest = text_of(header, call);
    for (uint64_t back = std::min<uint64_t>(copy.taken, FlightLane::kSamples); back > 0; --back) {
      copy.timed.push_back(timed(header, lane.samples_[(copy.taken - back) % FlightLane::kSamples]));
    }
    return copy;
  }

 private:
  // Newest first.
  static std::vector<FlightCall> newest_calls(const FlightLane& lane, size_t max_calls) {
    std::vector<FlightCall> calls;
    uint64_t collectives = lane.collectives().begun();
    uint64_t transfers = lane.transfers().begun();
    while (calls.size() < std::min(max_calls, FlightRow::kCalls - 1)) {
      const bool is_transfer = transfers > 0 && lane.before(transfers - 1) >= collectives;
      if (!is_transfer && collectives == 0) break;
      const FlightRow& row = is_transfer ? lane.transfers() : lane.collectives();
      const uint64_t number = is_transfer ? --transfers : --collectives;
      FlightCall call = row.kept(row.kind_of(number));
      if (!is_transfer) call.number = number + 1;
      calls.push_back(call);
    }
    return calls;
  }

  static FlightCopy::Timed timed(const Header& header, const FlightSample& sample) {
    const FlightCall& call = sample.call;
    const bool has_type = call.type >= 0 && static_cast<size_t>(call.type) < kNames;
    return {std::string(named(header.kinds, call.kind)),
            std::string(read_word(sample.algorithm)),
            call.number,
            has_type ? call.count * header.type_bytes[static_cast<size_t>(call.type)] : 0,
            sample.begin_ns,
            sample.end_ns};
  }
};

Result<FlightCopy> read_flight(std::span<const std::byte> memory, size_t max_calls) {
  if (memory.size() < sizeof(Memory)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} bytes are no flight recorder: it has {}", memory.size(), sizeof(Memory)));
  }
  const auto whole = std::make_unique<Memory>();  // aligned
  std::memcpy(static_cast<void*>(whole.get()), memory.data(), sizeof(Memory));
  if (whole->header.magic != kMagic) {
    return Status(Code::kInvalidArgument, "this is no flight recorder, or one of another version");
  }
  FlightCopy copy;
  copy.process = whole->header.process;
  for (size_t place = 0; place < whole->lanes.size(); ++place) {
    if (!FlightReader::is_open(whole->lanes[place])) continue;
    copy.lanes.push_back(FlightReader::copy(whole->header, whole->lanes[place], max_calls));
    copy.lanes.back().place = place;
  }
  return copy;
}

const FlightCopy::Lane* same_lane(const FlightCopy::Lane& lane, const FlightCopy& earlier) {
  const auto same = std::find_if(earlier.lanes.begin(), earlier.lanes.end(),
                                 [&](const FlightCopy::Lane& other) { return other.place == lane.place; });
  return same == earlier.lanes.end() || same->ended > lane.ended ? nullptr : &*same;
}

// The reader's clock is the writer's; what is written may be anything.
Duration waiting(const FlightCopy::Lane& lane, Time time) {
  constexpr Duration kLongest = std::chrono::hours(24 * 40);  // as many milliseconds as are counted
  if (lane.awaited < 0) return {};
  const Time since(Duration(std::max<int64_t>(lane.since_ns, 0)));
  return std::clamp(time - since, Duration::zero(), kLongest);
}

namespace {

constexpr Duration kStandstill = std::chrono::seconds(1);

double calls_per_second(const FlightCopy::Lane& lane, const FlightCopy& earlier, Duration between) {
  const FlightCopy::Lane* same = same_lane(lane, earlier);
  if (same == nullptr || between <= Duration::zero()) return 0;
  return static_cast<double>(lane.ended - same->ended) / seconds(between);
}

std::string waits_of(const FlightCopy::Lane& lane, const FlightCopy& earlier, Duration between) {
  const FlightCopy::Lane* same = same_lane(lane, earlier);
  if (same == nullptr || between <= Duration::zero()) return {};
  const double waited = 1e-9 * (static_cast<double>(lane.waited_ns) - static_cast<double>(same->waited_ns));
  const double share = waited / seconds(between);
  return share < 0.005 ? "" : fmt::format(", {:.0f} % of the time waiting", 100 * share);
}

std::string state_of(const FlightCopy::Lane& lane, Time time) {
  if (lane.begun == lane.ended) return "in no call";
  if (lane.awaited < 0) return "in a call";
  return fmt::format("waits for rank {} since {:.1f} s", lane.awaited, seconds(waiting(lane, time)));
}

std::string pipes_of(const FlightCopy::Lane& lane) {
  constexpr double kMiB = 1 << 20;
  if (lane.pipe_budget == 0) return {};
  return fmt::format("; pipes hold {:.1f} of {:.0f} MiB", static_cast<double>(lane.pipe_bytes) / kMiB,
                     static_cast<double>(lane.pipe_budget) / kMiB);
}

struct Standing {
  std::string title;
  std::map<int32_t, Whereabouts> ranks;
  Duration longest{};
};

Whereabouts whereabouts_of(const FlightCopy::Lane& lane, Time time) {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(waiting(lane, time)).count();
  return {static_cast<uint32_t>(lane.collectives), lane.newest, lane.awaited, static_cast<uint32_t>(waited)};
}

// By communicator.
std::map<uint64_t, Standing> standings(const std::vector<FlightCopy>& processes, Time time) {
  std::map<uint64_t, Standing> all;
  for (const FlightCopy& process : processes) {
    for (const FlightCopy::Lane& lane : process.lanes) {
      Standing& standing = all[lane.communicator];
      standing.title = fmt::format("{}{} ranks", lane.name.empty() ? "" : lane.name + ": ", lane.ranks);
      standing.ranks[lane.rank] = whereabouts_of(lane, time);
      standing.longest = std::max(standing.longest, waiting(lane, time));
    }
  }
  return all;
}

}  // namespace

std::string flight_report(const FlightCopy& now, const FlightCopy& earlier, Duration between, Time time) {
  std::string page = fmt::format("process {}: {} communicators\n", now.process, now.lanes.size());
  for (const FlightCopy::Lane& lane : now.lanes) {
    page +=
        fmt::format("  {}rank {} of {}: {} calls, {:.0f} a second{}; {}{}\n", lane.name.empty() ? "" : lane.name + ": ",
                    lane.rank, lane.ranks, lane.ended, calls_per_second(lane, earlier, between),
                    waits_of(lane, earlier, between), state_of(lane, time), pipes_of(lane));
    for (const std::string& call : lane.calls) page += fmt::format("    {}\n", call);
  }
  return page;
}

std::string standstill_report(const std::vector<FlightCopy>& processes, Time time) {
  std::string text;
  for (const auto& [communicator, standing] : standings(processes, time)) {
    if (standing.longest < kStandstill) continue;
    text += fmt::format("{}: {}\n", standing.title, wait_report(standing.ranks));
  }
  return text;
}

}  // namespace hocket
