// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "join.h"

#include <utility>

namespace hocket::perf {
namespace {

hocketConfig_t config_of(const Collective& collective, const Options& options) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.commName = collective.program.data();
  config.operationTimeoutMs = options.timeout_ms();
  return config;
}

Outcome join_seat(const Seat& seat, Joined& joined) {
  joined.process = seat.process();
  joined.processes = seat.processes();
  if (seat.process() != 0) return seat.receive(joined.id);
  HOCKET_PERF_TRY(outcome_of(hocketGetUniqueId(&joined.id), "hocketGetUniqueId"));
  return seat.publish(joined.id);
}

// Several ranks in each process: the launcher's communicator has one, and carries the unique id of the real one.
Outcome share_id(hocketComm_t comm, Joined& joined) {
  if (joined.process == 0) HOCKET_PERF_TRY(outcome_of(hocketGetUniqueId(&joined.id), "hocketGetUniqueId"));
  return outcome_of(hocketBcast(joined.id.internal, sizeof(joined.id.internal), hocketChar, 0, comm, nullptr),
                    "hocketBcast of the unique id", comm);
}

Outcome join_launcher(const Collective& collective, const Options& options, Joined& joined) {
  hocketConfig_t config = config_of(collective, options);
  const bool is_measured = options.threads * options.ranks_per_thread == 1;
  if (!is_measured) config.algorithm = "";
  hocketComm_t comm = nullptr;
  HOCKET_PERF_TRY(outcome_of(hocketCommInitFromEnvironment(&comm, &config), "hocketCommInitFromEnvironment"));
  hocketCommUserRank(comm, &joined.process);
  hocketCommCount(comm, &joined.processes);
  if (is_measured) {
    joined.only = comm;
    return {};
  }
  Outcome shared = share_id(comm, joined);
  Outcome left = outcome_of(hocketCommDestroy(comm), "hocketCommDestroy");
  return shared.ok() ? left : shared;
}

}  // namespace

Outcome join(const Collective& collective, const Options& options, const Seat* seat, Joined& joined) {
  return seat != nullptr ? join_seat(*seat, joined) : join_launcher(collective, options, joined);
}

Outcome create_ranks(const Collective& collective, const Options& options, const Joined& joined, int first, int count,
                     std::vector<hocketComm_t>& comms) {
  if (joined.only != nullptr) {
    comms = {joined.only};
    return {};
  }
  hocketConfig_t config = config_of(collective, options);
  const int ranks = joined.processes * options.threads * options.ranks_per_thread;
  std::vector<hocketComm_t> created(static_cast<size_t>(count), nullptr);
  HOCKET_PERF_TRY(outcome_of(hocketGroupStart(), "hocketGroupStart"));
  hocketResult_t result = hocketSuccess;
  for (int i = 0; i < count && result == hocketSuccess; ++i) {
    result = hocketCommInitRankConfig(&created[static_cast<size_t>(i)], ranks, joined.id, first + i, &config);
  }
  Outcome begun = outcome_of(result, "hocketCommInitRankConfig");
  Outcome ended = outcome_of(hocketGroupEnd(), "hocketCommInitRankConfig");
  if (!begun.ok() || !ended.ok()) return begun.ok() ? ended : begun;
  comms = std::move(created);
  return {};
}

}  // namespace hocket::perf
