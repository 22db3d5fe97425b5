// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which rank am I, of how many, and where do we meet? The answer from the variables that launchers set: a pure function
// of the environment. Knows no socket except in unique_id_from_environment, which turns the answer into a unique id.
#pragma once

#include <cstdint>
#include <string>

#include "base/settings.h"
#include "base/status.h"

namespace hocket {

class Service;

struct Launch {
  // "hocket", "torchrun", "horovod", "open mpi", "pmi", "pmix", "slurm", "tf_config", "trainer", "jax", "env", "single
  // process"
  std::string launcher{};
  int32_t rank = 0;
  int32_t ranks = 1;
  int32_t local_rank = -1;  // -1: the launcher does not say
  int32_t local_ranks = -1;
  std::string host{};  // where rank 0 lives: a name or a numeric address; empty: the launcher does not say
  uint16_t port = 0;   // the first port to try there
  uint16_t ports = 0;  // how many consecutive ports to try
  bool exact = false;  // the user chose host and port
  std::string job{};   // equal on all ranks of a job, different between jobs that run at the same time; may be empty

  bool one_host() const { return ranks == 1 || local_ranks == ranks; }
};

// Order: HOCKET_* > torchrun > Horovod > Open MPI > PMI (MPICH, Intel MPI) > PMIx > Slurm > TFJob > TrainJob > RANK
// alone > single process. Fails when the variables of the launcher that was found contradict each other, or what was
// written by hand (HOCKET_*, RANK without torchrun) contradicts a launcher.
Result<Launch> detect_launch(const Environment& environment);

// The same unique id on all ranks without any exchange; rank 0 hosts the root, so call this on every rank, once per
// communicator and in the same order. The key comes from HOCKET_SECRET where that is set; otherwise from the identity
// of the job, which keeps jobs apart but is no secret from other users of the machines.
Result<std::string> unique_id_from_environment(Service& service, const Launch& launch);

// Exposed for tests: how Slurm abbreviates lists. Empty and -1 when the text makes no sense.
std::string first_slurm_host(const std::string& node_list);                    // "gpu[03-05,9],x" -> "gpu03"
int32_t slurm_tasks_of_node(const std::string& tasks_per_node, int32_t node);  // "2(x2),1", 2 -> 1

}  // namespace hocket
