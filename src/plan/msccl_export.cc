// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "plan/builders.h"
#include "plan/msccl.h"
#include "plan/msccl_file.h"
#include "plan/regions.h"
#include "plan/text.h"

namespace hocket {
namespace {

using msccl::Action;

constexpr Rank kNobody = -1;

// Consecutive chunks of one buffer.
struct Run {
  Buffer buffer = Buffer::kSend;
  int32_t first = 0;
  int32_t count = 1;
  friend bool operator==(const Run&, const Run&) = default;
};

// A step of the format, before its thread block is known.
struct Move {
  Action action = Action::kNothing;
  Run source;
  Run target;
  Rank recv = kNobody;
  Rank send = kNobody;
};

struct Position {
  size_t block = 0;
  size_t step = 0;
};

struct Written {
  Move move;
  std::optional<Position> awaited;
  bool is_awaited = false;
};

struct BlockDraft {
  Rank send = kNobody;
  Rank recv = kNobody;
  size_t lane = 0;
  std::vector<Written> steps;
};

// A step of ours on runs of chunks that are the same everywhere: all its chunks, or one after the other.
struct Operands {
  std::vector<Rank> from;
  std::vector<Run> sources;
  std::vector<Rank> to;
  std::vector<Run> targets;
};

class GpuWriter {
 public:
  GpuWriter(const Plan& plan, bool by_chunk) : plan_(plan), by_chunk_(by_chunk), scratch_(plan.scratch_chunks) {}

  Status run() {
    done_.resize(plan_.lanes.size());
    ended_.resize(plan_.lanes.size());
    begins_.resize(plan_.lanes.size());
    for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) open_pass(lane);
    // Lanes go on as their waits let them, so that what is awaited has been written.
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) {
        while (done_[lane] < plan_.lanes[lane].steps.size() && may_go(plan_.lanes[lane].steps[done_[lane]])) {
          HOCKET_TRY(write_step(lane, plan_.lanes[lane].steps[done_[lane]]));
          ended_[lane].push_back(last_);
          ++done_[lane];
          moved = true;
          if (done_[lane] == plan_.lanes[lane].steps.size()) close_pass(lane);
        }
      }
    }
    return {};
  }

  std::string text() const {
    std::string out = fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", plan_.rank,
                                  plan_.send_chunks, plan_.recv_chunks, scratch_);
    const auto end = std::back_inserter(out);
    for (size_t block = 0; block < blocks_.size(); ++block) {
      fmt::format_to(end, "    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", block, blocks_[block].send,
                     blocks_[block].recv, blocks_[block].lane);
      for (size_t i = 0; i < blocks_[block].steps.size(); ++i) print(out, i, blocks_[block].steps[i]);
      out += "    </tb>\n";
    }
    return out + "  </gpu>\n";
  }

 private:
  bool may_go(const Step& step) const {
    return std::ranges::all_of(step.after, [&](const After& after) {
      return done_[static_cast<size_t>(after.lane)] > static_cast<size_t>(after.step);
    });
  }

  // Scratch is the same in every pass. A lane's blocks would run ahead of each other into the next one; a block of its
  // own that begins and ends its passes holds them together.
  bool uses_scratch(const Lane& lane) const {
    return plan_.scratch_chunks > 0 || std::ranges::any_of(lane.steps, [](const Step& step) {
             const auto is_chunk = [](const Place& place) { return place.kind == Place::Kind::kChunk; };
             return std::ranges::none_of(step.destinations, is_chunk) && !std::ranges::all_of(step.sources, is_chunk);
           });
  }

  void open_pass(size_t lane) {
    if (plan_.lanes[lane].steps.empty() || !uses_scratch(plan_.lanes[lane])) return;
    blocks_.push_back({kNobody, kNobody, lane, {}});
    lane_ = lane;
    last_.reset();
    put_in(blocks_.size() - 1, {});
    begins_[lane] = last_;
  }

  void close_pass(size_t lane) {
    if (begins_[lane]) put_in(begins_[lane]->block, {});
  }

  static void print(std::string& out, size_t number, const Written& step) {
    const auto letter = [](Buffer buffer) {
      return buffer == Buffer::kSend ? 'i' : buffer == Buffer::kRecv ? 'o' : 's';
    };
    const Move& move = step.move;
    const bool moves = move.action != Action::kNothing;
    fmt::format_to(
        std::back_inserter(out),
        "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" "
        "depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
        number, msccl::name(move.action), letter(move.source.buffer), moves ? move.source.first : -1,
        letter(move.target.buffer), moves ? move.target.first : -1, moves ? move.source.count : 0,
        step.awaited ? static_cast<int64_t>(step.awaited->block) : -1,
        step.awaited ? static_cast<int64_t>(step.awaited->step) : -1, step.is_awaited ? 1 : 0);
  }

  Status write_step(size_t lane, const Step& step) {
    lane_ = lane;
    last_ = done_[lane] > 0 ? ended_[lane].back() : begins_[lane];
    waits_.clear();
    for (const After& after : step.after) {
      const auto& end = ended_[static_cast<size_t>(after.lane)][static_cast<size_t>(after.step)];
      if (end) waits_.push_back(*end);
    }
    const int64_t length = length_of(step);
    if (length == 0)
      return {Code::kInvalidArgument,
              fmt::format("msccl: rank {} lane {}: '{}' moves nothing, which the format cannot say", plan_.rank, lane,
                          to_text(step))};
    for (int64_t chunk = 0; chunk < (by_chunk_ ? length : 1); ++chunk) write(operands(step, chunk));
    return {};
  }

  static int64_t length_of(const Step& step) {
    for (const auto* side : {&step.sources, &step.destinations}) {
      for (const Place& place : *side) {
        if (place.kind == Place::Kind::kChunk) return chunk_count(place.regions);
      }
    }
    return 0;
  }

  Operands operands(const Step& step, int64_t chunk) const {
    Operands result;
    for (const Place& place : step.sources) {
      if (place.kind == Place::Kind::kMessage) {
        result.from.push_back(place.peer);
      } else {
        result.sources.push_back(run_of(place, chunk));
      }
    }
    for (const Place& place : step.destinations) {
      if (place.kind == Place::Kind::kMessage) {
        result.to.push_back(place.peer);
      } else {
        result.targets.push_back(run_of(place, chunk));
      }
    }
    return result;
  }

  Run run_of(const Place& place, int64_t chunk) const {
    if (!by_chunk_) return {place.buffer, place.regions[0].first, place.regions[0].block};
    Run run{place.buffer, 0, 1};
    int64_t position = 0;
    for_each_chunk(place.regions, chunks_of(plan_, place.buffer), [&](int32_t number) {
      if (position++ == chunk) run.first = number;
    });
    return run;
  }

  // In one move where the format has one for it, else by a sum that grows in a place of ours.
  void write(const Operands& step) {
    if (fused(step)) return;
    const int32_t count = !step.sources.empty()  ? step.sources[0].count
                          : step.targets.empty() ? 1
                                                 : step.targets[0].count;
    if (step.from.empty() && step.sources.size() == 1) return spread(step, step.sources[0]);
    const Run sum = !step.targets.empty() ? step.targets[0] : fresh_scratch(count);
    std::vector<Run> locals = step.sources;
    std::vector<Rank> messages = step.from;
    if (const auto own = std::ranges::find(locals, sum); own != locals.end()) {
      locals.erase(own);
    } else if (!locals.empty()) {
      put({Action::kCopy, locals[0], sum});
      locals.erase(locals.begin());
    } else {
      put({Action::kRecv, sum, sum, messages[0]});
      messages.erase(messages.begin());
    }
    for (const Run& local : locals) put({Action::kReduce, local, sum});
    for (const Rank peer : messages) put({Action::kRecvReduceCopy, sum, sum, peer});
    spread(step, sum);
  }

  void spread(const Operands& step, const Run& value) {
    for (const Run& target : step.targets) {
      if (target != value) put({Action::kCopy, value, target});
    }
    for (const Rank peer : step.to) put({Action::kSend, value, value, kNobody, peer});
  }

  bool fused(const Operands& step) {
    if (step.from.size() != 1 || step.sources.size() > 1 || step.to.size() > 1 || step.targets.size() > 1) return false;
    const bool reduces = !step.sources.empty();
    const bool sends = !step.to.empty();
    const bool writes = !step.targets.empty();
    if (!writes && !reduces) return false;  // passing on alone: the format wants to keep a copy
    const Run& target = writes ? step.targets[0] : step.sources[0];
    const Action action = !reduces ? (sends ? Action::kRecvCopySend : Action::kRecv)
                          : !sends ? Action::kRecvReduceCopy
                          : writes ? Action::kRecvReduceCopySend
                                   : Action::kRecvReduceSend;
    const Move move{action, reduces ? step.sources[0] : target, target, step.from[0], sends ? step.to[0] : kNobody};
    if (!block_for(move.send, move.recv)) return false;
    put(move);
    return true;
  }

  Run fresh_scratch(int32_t count) {
    const Run run{Buffer::kScratch, scratch_, count};
    scratch_ += count;
    return run;
  }

  // The thread block of this lane that has these ends or can have them: each end belongs to one block only.
  std::optional<size_t> block_for(Rank send, Rank recv) {
    std::optional<size_t> sender;
    std::optional<size_t> receiver;
    std::optional<size_t> any;
    for (size_t block = 0; block < blocks_.size(); ++block) {
      if (blocks_[block].lane != lane_) continue;
      any = block;
      if (send != kNobody && blocks_[block].send == send) sender = block;
      if (recv != kNobody && blocks_[block].recv == recv) receiver = block;
    }
    if (send == kNobody && recv == kNobody && any) return any;
    if (sender && receiver) return sender == receiver ? sender : std::nullopt;
    if (sender && recv == kNobody) return sender;
    if (receiver && send == kNobody) return receiver;
    if (sender) return blocks_[*sender].recv == kNobody ? taken(*sender, send, recv) : std::optional<size_t>();
    if (receiver) return blocks_[*receiver].send == kNobody ? taken(*receiver, send, recv) : std::optional<size_t>();
    blocks_.push_back({send, recv, lane_, {}});
    return blocks_.size() - 1;
  }

  std::optional<size_t> taken(size_t block, Rank send, Rank recv) {
    blocks_[block].send = send;
    blocks_[block].recv = recv;
    return block;
  }

  // The steps of a lane follow each other; a step of the format waits for one other only.
  void put(const Move& move) { put_in(*block_for(move.send, move.recv), move); }

  void put_in(size_t block, const Move& move) {
    if (last_ && last_->block != block) waits_.push_back(*last_);
    std::erase_if(waits_, [&](const Position& wait) { return wait.block == block; });
    auto& steps = blocks_[block].steps;
    while (waits_.size() > 1) {
      steps.push_back({{}, waits_.back(), false});
      note_awaited(waits_.back());
      waits_.pop_back();
    }
    steps.push_back({move, waits_.empty() ? std::nullopt : std::optional(waits_[0]), false});
    if (!waits_.empty()) note_awaited(waits_[0]);
    waits_.clear();
    last_ = Position{block, steps.size() - 1};
  }

  void note_awaited(const Position& position) { blocks_[position.block].steps[position.step].is_awaited = true; }

  const Plan& plan_;
  const bool by_chunk_;
  int32_t scratch_;
  std::vector<BlockDraft> blocks_;
  std::vector<size_t> done_;                                 // steps of each lane
  std::vector<std::optional<Position>> begins_;              // of each lane's passes, where these must not overlap
  std::vector<std::vector<std::optional<Position>>> ended_;  // where each step's last move is
  size_t lane_ = 0;
  std::optional<Position> last_;  // the lane's last move
  std::vector<Position> waits_;   // of the next move
};

std::string_view word_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "allreduce";
    case Collective::kAllGather:
      return "allgather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllToAll:
      return "alltoall";
    default:
      return {};
  }
}

bool is_run(const Plan& plan, const Place& place) {
  if (place.kind == Place::Kind::kMessage) return true;
  return place.regions.size() == 1 && place.regions[0].count == 1 &&
         place.regions[0].first + place.regions[0].block <= chunks_of(plan, place.buffer);
}

bool has_runs_only(const Plan& plan) {
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      for (const auto* side : {&step.sources, &step.destinations}) {
        if (!std::ranges::all_of(*side, [&](const Place& place) { return is_run(plan, place); })) return false;
      }
    }
  }
  return true;
}

}  // namespace

Result<std::string> export_msccl(std::span<const Plan> plans) {
  if (plans.empty()) return Status(Code::kInvalidArgument, "msccl: no plans");
  const Plan& model = plans[0];
  const std::string_view collective = word_of(model.collective);
  if (collective.empty())
    return Status(Code::kInvalidArgument, fmt::format("msccl: the format has no {}", name(model.collective)));
  // What is one message must be as many on both sides, however each side's chunks lie.
  const bool by_chunk = !std::ranges::all_of(plans, has_runs_only);
  std::string out = fmt::format(
      "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" "
      "inplace=\"0\" "
      "outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\">\n",
      model.algorithm, model.lanes.size(), std::max(model.send_chunks, model.recv_chunks), model.ranks, collective);
  for (const Plan& plan : plans) {
    GpuWriter writer(plan, by_chunk);
    HOCKET_TRY(writer.run());
    out += writer.text();
  }
  return out + "</algo>\n";
}

}  // namespace hocket
