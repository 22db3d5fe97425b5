// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "host.h"
#include "pattern.h"

namespace hocket::perf {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool happens_in_place(const Job& job) { return job.in_place && job.collective.in_place; }

// Where a rank's data lies.
struct Place {
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
};

Place place_of(const Member& member, const Role& role, const Job& job, size_t unaligned_bytes) {
  if (!happens_in_place(job)) return {member.send.get() + unaligned_bytes, member.receive.get() + unaligned_bytes};
  std::byte* base = member.receive.get() + unaligned_bytes;
  const size_t rank_bytes = static_cast<size_t>(role.rank) * role.element_bytes;
  return {base + role.shape.send_in_place * rank_bytes, base + role.shape.receive_in_place * rank_bytes};
}

// The sequences that a job's data are made of.
class Sequences {
 public:
  Sequences(const Job& job, int ranks, uint64_t seed) : job_(job), ranks_(ranks), seed_(seed) {}

  Pattern of(const Part& part) const {
    if (part.source == Part::kReduction) return Pattern::reduction(job_.type, job_.op, ranks_, seed_);
    if (job_.collective.reduces) return Pattern::contribution(job_.type, job_.op, part.rank, ranks_, seed_);
    return Pattern::random_bits(job_.type.bytes, (seed_ << 32) + static_cast<uint64_t>(part.rank));
  }
  void write(const Parts& parts, std::byte* into) const {
    for (const Part& part : parts) of(part).write(into + part.at * job_.type.bytes, part.first, part.count);
  }
  size_t wrong(const Parts& parts, const std::byte* data) const {
    size_t wrong = 0;
    for (const Part& part : parts) wrong += of(part).wrong(data + part.at * job_.type.bytes, part.first, part.count);
    return wrong;
  }

 private:
  const Job& job_;
  int ranks_;
  uint64_t seed_;
};

// Equal exactly on ranks that read the same clock; a double can carry it.
double host_number() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return static_cast<double>(std::hash<std::string>()(boot + host_name()) >> 12);
}

constexpr std::chrono::milliseconds kLateness{2};

}  // namespace

struct Bench::Prepared {
  const Job& job;
  struct Rank {
    Role role;
    Call call;
    Place place;
  };
  std::vector<Rank> ranks;
  size_t stride_bytes = 0;  // --cold: from one iteration's data to the next
  size_t places = 1;
  Promise promise{};

  hocketResult_t run(const Rank& rank, size_t iteration) const {
    const size_t shift = places == 1 ? 0 : stride_bytes * (iteration % places);
    Call call = rank.call;
    call.send = rank.place.send + shift;
    call.receive = rank.place.receive + shift;
    return job.collective.run(rank.role, call);
  }
};

Shape Bench::shape_of(const Job& job) const {
  return job.collective.shape(job.size / job.type.bytes, job.type.bytes, team_.ranks(), options_.traffic);
}

size_t Bench::bytes_of(const Job& job) const {
  const Shape shape = shape_of(job);
  return std::max(shape.send, shape.receive) * job.type.bytes;
}

Outcome Bench::prepare(const Job& job, Prepared& prepared) {
  const Shape shape = shape_of(job);
  const size_t unaligned_bytes = static_cast<size_t>(options_.unalign) * job.type.bytes;
  HOCKET_PERF_TRY(prepared.promise.make(options_.codec, job.type, team_.ranks()));
  for (Member& member : team_.members()) {
    auto& rank = prepared.ranks.emplace_back();
    rank.role = {member.rank, member.ranks, job.root, job.type.bytes, shape, {}};
    const size_t total_bytes = shape.count * static_cast<size_t>(member.ranks) * job.type.bytes;
    rank.role.traffic = traffic_counts(options_.traffic, member.rank, member.ranks, total_bytes, job.type.bytes);
    rank.place = place_of(member, rank.role, job, unaligned_bytes);
    rank.call = {rank.place.send, rank.place.receive, job.type.type,           job.op.op,
                 member.comm,     member.stream(),    prepared.promise.codec()};
  }
  if (options_.cold) {
    prepared.stride_bytes = bytes_of(job);
    prepared.places = prepared.stride_bytes == 0 ? 1 : options_.sweep.last / prepared.stride_bytes;
  }
  if (!job.collective.reduces || job.op.fold != Fold::kMulSum) return {};
  for (auto& rank : prepared.ranks) {
    std::byte scalar[sizeof(uint64_t)];
    encode(job.type, mulsum_scalar(rank.role.rank), scalar);
    HOCKET_PERF_TRY(outcome_of(
        hocketRedOpCreatePreMulSum(&rank.call.op, scalar, job.type.type, hocketScalarHostImmediate, rank.call.comm),
        "hocketRedOpCreatePreMulSum", rank.call.comm));
  }
  return {};
}

void Bench::release(Prepared& prepared) {
  if (!prepared.job.collective.reduces || prepared.job.op.fold != Fold::kMulSum) return;
  for (auto& rank : prepared.ranks) hocketRedOpDestroy(rank.call.op, rank.call.comm);
}

Outcome Bench::issue(const Prepared& prepared, size_t iteration) {
  const Member* first = team_.members().data();
  return team_.together(prepared.job.collective.program, [&](Member& member) {
    return prepared.run(prepared.ranks[static_cast<size_t>(&member - first)], iteration);
  });
}

// As thin as a loop by hand: what is around a short call is timed with it.
Outcome Bench::issue_all(const Prepared& prepared) {
  const auto iterations = static_cast<size_t>(options_.iterations);
  hocketResult_t result = hocketSuccess;
  for (size_t i = 0; i < iterations && result == hocketSuccess; ++i) result = prepared.run(prepared.ranks[0], i);
  return outcome_of(result, prepared.job.collective.program, prepared.ranks[0].call.comm);
}

Outcome Bench::warm_up(const Job& job) {
  Prepared prepared{.job = job, .ranks = {}};
  HOCKET_PERF_TRY(prepare(job, prepared));
  Outcome outcome;
  for (int i = 0; i < options_.warmup && outcome.ok(); ++i) outcome = issue(prepared, static_cast<size_t>(i));
  if (outcome.ok()) outcome = team_.wait();
  release(prepared);
  return outcome;
}

Outcome Bench::measure(const Job& job, Measurement& result) {
  Prepared prepared{.job = job, .ranks = {}};
  HOCKET_PERF_TRY(prepare(job, prepared));
  Outcome outcome = time(prepared, result);
  if (outcome.ok()) outcome = check(prepared, result);
  release(prepared);
  return outcome;
}

Outcome Bench::iterate(const Prepared& prepared, int iteration, std::vector<double>& times, double& seconds) {
  // A clock costs a quarter of a short call: it is read only where somebody asks for this iteration's time.
  const bool alone = options_.blocking == Blocking::kBarrierApart;
  const bool timed = alone || options_.times_each_iteration();
  const Clock::time_point start = timed ? Clock::now() : Clock::time_point();
  const bool one_by_one = options_.blocking == Blocking::kWaitAndBarrier || options_.blocking == Blocking::kWait;
  const bool grouped = options_.aggregate > 1 && !one_by_one;
  if (grouped) HOCKET_PERF_TRY(outcome_of(hocketGroupStart(), "hocketGroupStart"));
  for (int i = 0; i < options_.aggregate; ++i) {
    HOCKET_PERF_TRY(issue(
        prepared, static_cast<size_t>(iteration) * static_cast<size_t>(options_.aggregate) + static_cast<size_t>(i)));
    if (one_by_one) HOCKET_PERF_TRY(team_.wait());
    if (options_.blocking == Blocking::kWaitAndBarrier) HOCKET_PERF_TRY(team_.barrier());
  }
  if (grouped) HOCKET_PERF_TRY(outcome_of(hocketGroupEnd(), "hocketGroupEnd"));
  if (!timed) return {};
  HOCKET_PERF_TRY(team_.wait());
  const double elapsed = seconds_since(start);
  seconds += elapsed;
  if (options_.times_each_iteration()) times.push_back(elapsed / options_.aggregate);
  return alone ? team_.barrier() : Outcome();
}

Outcome Bench::time(Prepared& prepared, Measurement& result) {
  const Sequences sequences(prepared.job, team_.ranks(), seed_);
  for (const auto& rank : prepared.ranks) sequences.write(prepared.job.collective.sends(rank.role), rank.place.send);
  HOCKET_PERF_TRY(issue(prepared, 0));
  HOCKET_PERF_TRY(team_.wait());
  HOCKET_PERF_TRY(team_.barrier());
  std::vector<double> times;
  if (options_.times_each_iteration()) times.reserve(static_cast<size_t>(options_.iterations));
  double sum = 0;
  const Clock::time_point start = Clock::now();
  const bool in_a_row = options_.blocking == Blocking::kNone && !options_.times_each_iteration();
  if (in_a_row && options_.aggregate == 1 && prepared.ranks.size() == 1) {
    HOCKET_PERF_TRY(issue_all(prepared));
  } else {
    for (int i = 0; i < options_.iterations; ++i) HOCKET_PERF_TRY(iterate(prepared, i, times, sum));
  }
  const double issued = seconds_since(start);
  HOCKET_PERF_TRY(team_.wait());
  const double elapsed = seconds_since(start);
  const bool alone = options_.blocking == Blocking::kBarrierApart;
  const double calls = static_cast<double>(options_.iterations) * options_.aggregate;
  result.seconds = (alone ? sum : elapsed) / calls;
  result.issue_seconds = (alone ? sum : issued) / calls;
  HOCKET_PERF_TRY(team_.reduce(result.seconds, options_.average));
  const double rank_calls = (calls + 1) * static_cast<double>(prepared.ranks.size());  // one came before the clock
  HOCKET_PERF_TRY(prepared.promise.sent(rank_calls, result.coded));
  return options_.times_each_iteration() ? gather_iterations(times, result) : Outcome();
}

Outcome Bench::gather_iterations(const std::vector<double>& times, Measurement& result) {
  std::vector<double> all;
  HOCKET_PERF_TRY(team_.gather(times, all));
  const size_t count = times.size();
  const auto slowest = [](const double* row, std::vector<double>& into) {
    for (double& time : into) time = std::max(time, *row++);
  };
  const auto ranks = static_cast<size_t>(team_.ranks());
  const auto processes = static_cast<size_t>(processes_);
  result.of_process.assign(processes, std::vector<double>(count, 0.0));
  result.iterations.assign(count, 0.0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    slowest(&all[rank * count], result.of_process[rank / (ranks / processes)]);
    slowest(&all[rank * count], result.iterations);
  }
  return {};
}

Outcome Bench::check(const Prepared& prepared, Measurement& result) {
  const Collective& collective = prepared.job.collective;
  result.checked = options_.checks > 0 && (happens_in_place(prepared.job) || !prepared.job.in_place);
  for (int i = 0; result.checked && i < options_.checks && result.wrong == 0; ++i) {
    ++seed_;
    HOCKET_PERF_TRY(collective.has_data ? check_data(prepared, seed_, result) : check_barrier(seed_, result.wrong));
    HOCKET_PERF_TRY(team_.sum(result.wrong));
  }
  return {};
}

Outcome Bench::check_data(const Prepared& prepared, uint64_t seed, Measurement& result) {
  const Job& job = prepared.job;
  const Sequences sequences(job, team_.ranks(), seed);
  const Pattern untouched = Pattern::untouched(job.type.bytes);
  const Shape shape = shape_of(job);
  const size_t unaligned_bytes = static_cast<size_t>(options_.unalign) * job.type.bytes;
  for (size_t i = 0; i < prepared.ranks.size(); ++i) {
    untouched.write(team_.members()[i].receive.get() + unaligned_bytes, 0, std::max(shape.send, shape.receive));
    sequences.write(job.collective.sends(prepared.ranks[i].role), prepared.ranks[i].place.send);
  }
  HOCKET_PERF_TRY(issue(prepared, 0));
  HOCKET_PERF_TRY(team_.wait());
  size_t found = 0;
  for (const auto& rank : prepared.ranks) {
    const Parts sent = job.collective.sends(rank.role);
    const Parts received = job.collective.receives(rank.role);
    found += prepared.promise.lossy() ? wrong_of(prepared, rank.role, rank.place.receive, seed, result.coded)
                                      : sequences.wrong(received, rank.place.receive);
    // What was sent is still there, and who receives nothing finds nothing.
    if (!happens_in_place(job) || received.empty()) found += sequences.wrong(sent, rank.place.send);
    if (!happens_in_place(job) && received.empty()) found += untouched.wrong(rank.place.receive, 0, shape.receive);
  }
  result.wrong = static_cast<int64_t>(found);
  return options_.codec.empty() ? Outcome() : team_.reduce(result.coded.error, Average::kMaximum);
}

// Elements of a lossy result that break the codec's promise.
size_t Bench::wrong_of(const Prepared& prepared, const Role& role, const std::byte* received, uint64_t seed,
                       Coded& coded) {
  const Job& job = prepared.job;
  double largest = 0;
  std::vector<float> values(Pattern::kPeriod);
  for (int rank = 0; rank < role.ranks; ++rank) {
    const Pattern contribution = Pattern::contribution(job.type, job.op, rank, role.ranks, seed);
    contribution.write(reinterpret_cast<std::byte*>(values.data()), 0, values.size());
    for (const float value : values) largest = std::max(largest, static_cast<double>(std::fabs(value)));
  }
  std::vector<float> wanted(role.shape.receive);
  auto* bytes = reinterpret_cast<std::byte*>(wanted.data());
  Pattern::reduction(job.type, job.op, role.ranks, seed).write(bytes, 0, wanted.size());
  return prepared.promise.broken(received, bytes, wanted.size(), largest, coded);
}

// One rank comes late; whoever leaves before the last of its host has come is wrong.
Outcome Bench::check_barrier(uint64_t seed, int64_t& wrong) {
  const auto late = static_cast<int>(seed % static_cast<uint64_t>(team_.ranks()));
  for (const Member& member : team_.members()) {
    if (member.rank == late) std::this_thread::sleep_for(kLateness);
  }
  const auto now = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
  const double came = now();
  HOCKET_PERF_TRY(team_.together("hocketBarrier", [](Member& m) { return hocketBarrier(m.comm, m.stream()); }));
  HOCKET_PERF_TRY(team_.wait());
  const double left = now();
  const double host = host_number();
  std::vector<double> all;
  const double mine[] = {came, host};
  HOCKET_PERF_TRY(team_.gather(mine, all));
  wrong = 0;
  for (size_t i = 0; i + 1 < all.size(); i += 2) {
    if (all[i] > left && all[i + 1] == host) ++wrong;
  }
  return {};
}

}  // namespace hocket::perf
