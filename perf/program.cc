// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "host.h"
#include "join.h"
#include "latency_probe.h"
#include "options.h"
#include "outcome.h"
#include "processes.h"
#include "run.h"
#include "team.h"

namespace hocket::perf {
namespace {

// What the threads of this process came to; the first failure is told, the others follow from it.
class Verdict {
 public:
  explicit Verdict(const Collective& collective) : collective_(collective) {}

  void add(const Outcome& outcome, int process, int first_rank) {
    const std::lock_guard lock(mutex_);
    if (outcome.ok() || (status_ != kExitOk && status_ != kExitResults)) return;
    status_ = outcome.status;
    if (outcome.message.empty()) return;
    fmt::print(stderr, "{}: process {} (from rank {} on) on {}: {}\n", collective_.program, process, first_rank,
               host_name(), outcome.message);
  }
  int status() const { return status_; }

 private:
  const Collective& collective_;
  std::mutex mutex_;
  int status_ = kExitOk;
};

Outcome check_run(const Collective& collective, const Options& options, const Joined& joined) {
  const int ranks = joined.processes * options.threads * options.ranks_per_thread;
  if (collective.rooted && options.root >= ranks) {
    return {kExitUsage, fmt::format("-r {}: there are only {} ranks", options.root, ranks)};
  }
  const auto here = static_cast<size_t>(options.threads * options.ranks_per_thread * std::max(1, options.processes));
  if (memory_bytes() != 0 && options.sweep.last > memory_bytes() / (2 * here)) {
    return {kExitUsage,
            fmt::format("-e {}: two buffers for each of {} ranks are more than this host's {}",
                        size_text(options.sweep.last), here, amount_text(static_cast<int64_t>(memory_bytes())))};
  }
  return {};
}

// One thread's life: its ranks (created already, or to be created here), the rows, and a clean end.
Outcome run_thread(const Collective& collective, const Options& options, const Joined& joined, int first_rank,
                   std::vector<hocketComm_t> comms) {
  if (comms.empty()) {
    HOCKET_PERF_TRY(create_ranks(collective, options, joined, first_rank, options.ranks_per_thread, comms));
  }
  Team team(std::move(comms));
  Outcome outcome = Run(collective, options, joined.processes, team).all();
  if (!outcome.ok() && outcome.status != kExitResults) {
    team.abort();
    return outcome;
  }
  Outcome finished = team.finish();
  return outcome.ok() ? finished : outcome;
}

int run_process(const Collective& collective, const Options& options, const Seat* seat) {
  Verdict verdict(collective);
  Joined joined;
  see_cores();
  if (seat != nullptr && options.threads == 1) seat->take_core();
  Outcome outcome = join(collective, options, seat, joined);
  if (outcome.ok()) outcome = check_run(collective, options, joined);
  const int here = options.threads * options.ranks_per_thread;
  const int first = joined.process * here;
  std::vector<hocketComm_t> comms;
  if (outcome.ok() && !options.parallel_init) outcome = create_ranks(collective, options, joined, first, here, comms);
  verdict.add(outcome, joined.process, first);
  if (!outcome.ok()) return verdict.status();
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    const auto begin = comms.begin() + (comms.empty() ? 0 : i * options.ranks_per_thread);
    std::vector<hocketComm_t> own(begin, comms.empty() ? begin : begin + options.ranks_per_thread);
    threads.emplace_back([&, i, own = std::move(own)] {
      const int first_rank = first + i * options.ranks_per_thread;
      verdict.add(run_thread(collective, options, joined, first_rank, own), joined.process, first_rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return verdict.status();
}

int list_algorithms(const Collective& collective) {
  const char* names = collective.algorithms == nullptr ? nullptr : hocketGetAlgorithms(collective.algorithms);
  std::string lines = names == nullptr ? "" : names;
  std::ranges::replace(lines, ',', '\n');
  fmt::print("{}{}", lines, lines.empty() ? "" : "\n");
  return kExitOk;
}

}  // namespace

int run_program(const Collective& collective, int argc, const char* const* argv) {
  const Parsed parsed = parse_options(collective, argc, argv);
  if (!parsed.options) {
    if (parsed.end.ok()) {
      fmt::print("{}", parsed.end.message);
    } else {
      fmt::print(stderr, "{}: {}\nSee {} --help\n", collective.program, parsed.end.message, collective.program);
    }
    return parsed.end.status;
  }
  const Options& options = *parsed.options;
  if (options.list_algorithms) return list_algorithms(collective);
  if (options.processes == 0) return run_process(collective, options, nullptr);
  return run_processes(std::string(collective.program), options.processes,
                       [&](const Seat& seat) { return run_process(collective, options, &seat); });
}

}  // namespace hocket::perf
