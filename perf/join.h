// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How the ranks of a run find each other: started by --ranks, by a launcher (mpirun, srun, torchrun), or alone; with
// one rank or several in each process.
#pragma once

#include <vector>

#include "collective.h"
#include "hocket/hocket.h"
#include "options.h"
#include "outcome.h"
#include "processes.h"

namespace hocket::perf {

// This process among those of the run, and what its threads need to create their ranks.
struct Joined {
  int process = 0;
  int processes = 1;
  hocketUniqueId id{};
  hocketComm_t only = nullptr;  // the launcher's communicator, where it is all that is needed
};

// `seat` is null when this process was not started by --ranks.
Outcome join(const Collective& collective, const Options& options, const Seat* seat, Joined& joined);

// The communicators of `count` consecutive ranks, created by this thread.
Outcome create_ranks(const Collective& collective, const Options& options, const Joined& joined, int first, int count,
                     std::vector<hocketComm_t>& comms);

}  // namespace hocket::perf
