// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One function per launcher, each of which either does not recognise its variables, fills a Launch, or says what is
// wrong with them. The traps are commented where they are.
#include "comm/launch.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "comm/launch_kubernetes.h"
#include "comm/launch_variables.h"

namespace hocket {
namespace {

// Below the range from which Linux takes its ephemeral ports.
constexpr uint32_t kFirstDerivedPort = 21000;
constexpr uint32_t kDerivedPorts = 10000;

uint32_t text_hash(std::string_view text) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

void derive_ports(Launch& launch) {
  launch.port = static_cast<uint16_t>(kFirstDerivedPort + text_hash(launch.job) % kDerivedPorts);
  launch.ports = kCandidatePorts;
}

std::string parent_job() { return fmt::format("parent {}", getppid()); }

// HOCKET_ADDRESS and MASTER_ADDR serve every launcher; HOCKET_ADDRESS means exactly that port.
void meet_at(Launch& launch, Variables& variables) {
  if (variables.has("HOCKET_ADDRESS")) {
    const std::string& address = variables.text("HOCKET_ADDRESS");
    if (!split_address(address, &launch.host, &launch.port)) {
      variables.note(fmt::format("HOCKET_ADDRESS='{}' is not host:port", address));
    }
    launch.ports = 1;
    launch.exact = true;
    return;
  }
  const std::optional<uint16_t> port = variables.port("MASTER_PORT");
  if (variables.has("MASTER_ADDR") && port) meet_beside(launch, variables.text("MASTER_ADDR"), *port);
}

std::optional<Launch> from_hocket(Variables& v) {
  if (!v.has("HOCKET_RANK") && !v.has("HOCKET_SIZE")) return {};
  if (!v.has("HOCKET_RANK")) v.note("HOCKET_SIZE is set but HOCKET_RANK is not");
  if (!v.has("HOCKET_SIZE")) v.note("HOCKET_RANK is set but HOCKET_SIZE is not");
  Launch launch{"hocket", v.rank("HOCKET_RANK"), v.rank("HOCKET_SIZE"), v.rank("HOCKET_LOCAL_RANK"),
                v.rank("HOCKET_LOCAL_SIZE")};
  launch.job = v.has("HOCKET_ADDRESS") ? v.text("HOCKET_ADDRESS") : parent_job();
  return launch;
}

// RANK without LOCAL_RANK may be the number of a node (Kubeflow, DLC): see launch_kubernetes.h.
std::optional<Launch> from_torchrun(Variables& v) {
  if (!v.has("RANK") || !v.has("WORLD_SIZE") || !v.has("LOCAL_RANK")) return {};
  Launch launch{"torchrun", v.rank("RANK"), v.rank("WORLD_SIZE"), v.rank("LOCAL_RANK"), v.rank("LOCAL_WORLD_SIZE")};
  launch.job =
      fmt::format("torch {} {} {}", v.text("TORCHELASTIC_RUN_ID"), v.text("MASTER_ADDR"), v.text("MASTER_PORT"));
  return launch;
}

std::optional<Launch> from_horovod(Variables& v) {
  if (!v.has("HOROVOD_RANK") || !v.has("HOROVOD_SIZE")) return {};
  Launch launch{"horovod", v.rank("HOROVOD_RANK"), v.rank("HOROVOD_SIZE"), v.rank("HOROVOD_LOCAL_RANK"),
                v.rank("HOROVOD_LOCAL_SIZE")};
  launch.job = fmt::format("horovod {} {} {}", v.text("HOROVOD_GLOO_RENDEZVOUS_ADDR"),
                           v.text("HOROVOD_GLOO_RENDEZVOUS_PORT"), v.text("HOROVOD_SECRET_KEY"));
  return launch;
}

// Inside a Slurm allocation these beat SLURM_*, which then describe mpirun's own daemons.
std::optional<Launch> from_open_mpi(Variables& v) {
  if (!v.has("OMPI_COMM_WORLD_RANK") || !v.has("OMPI_COMM_WORLD_SIZE")) return {};
  Launch launch{"open mpi", v.rank("OMPI_COMM_WORLD_RANK"), v.rank("OMPI_COMM_WORLD_SIZE"),
                v.rank("OMPI_COMM_WORLD_LOCAL_RANK"), v.rank("OMPI_COMM_WORLD_LOCAL_SIZE")};
  launch.job = v.has("PMIX_NAMESPACE") ? "pmix " + v.text("PMIX_NAMESPACE") : parent_job();
  return launch;
}

// A job step; the batch script itself and an interactive step have SLURM_PROCID too, but no peers to wait for.
bool in_slurm_step(Variables& v) {
  constexpr int64_t kFirstReservedStep = 0xfffffff0;
  const char* step = v.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID";
  return v.has(step) && v.has("SLURM_PROCID") && v.has("SLURM_STEP_NUM_TASKS") && v.number(step) < kFirstReservedStep;
}

Launch slurm_step(Variables& v, std::string launcher) {
  Launch launch{std::move(launcher), v.rank("SLURM_PROCID"), v.rank("SLURM_STEP_NUM_TASKS"), v.rank("SLURM_LOCALID")};
  launch.local_ranks = slurm_tasks_of_node(v.text("SLURM_STEP_TASKS_PER_NODE"), v.rank("SLURM_NODEID", 0));
  launch.host = first_slurm_host(v.text("SLURM_STEP_NODELIST"));
  const std::string& job = v.has("SLURM_JOB_ID") ? v.text("SLURM_JOB_ID") : v.text("SLURM_JOBID");
  const std::string& step = v.has("SLURM_STEP_ID") ? v.text("SLURM_STEP_ID") : v.text("SLURM_STEPID");
  launch.job = fmt::format("slurm {}.{}", job, step);
  derive_ports(launch);
  return launch;
}

std::optional<Launch> from_pmi(Variables& v) {
  if (!v.has("PMI_RANK") || !v.has("PMI_SIZE")) return {};
  const int32_t ranks = v.rank("PMI_SIZE");
  if (v.has("MPI_LOCALRANKID")) {  // hydra: SLURM_* would describe its daemons
    Launch launch{"pmi", v.rank("PMI_RANK"), ranks, v.rank("MPI_LOCALRANKID"), v.rank("MPI_LOCALNRANKS")};
    launch.job = v.has("PMI_JOBID") ? "pmi " + v.text("PMI_JOBID") : parent_job();
    return launch;
  }
  if (in_slurm_step(v) && v.rank("SLURM_STEP_NUM_TASKS") == ranks) {  // srun --mpi=pmi2
    Launch launch = slurm_step(v, "pmi");
    launch.rank = v.rank("PMI_RANK");
    return launch;
  }
  Launch launch{"pmi", v.rank("PMI_RANK"), ranks};
  launch.job = v.has("PMI_JOBID") ? "pmi " + v.text("PMI_JOBID") : parent_job();
  return launch;
}

// PMIx tells no size in the environment; Slurm does (srun --mpi=pmix), and so does prterun where it plays Open MPI.
std::optional<Launch> from_pmix(Variables& v) {
  if (!v.has("PMIX_RANK")) return {};
  if (!in_slurm_step(v)) {
    v.note(
        "PMIX_RANK is set, but no variable tells how many ranks there are: start them with prterun --personality "
        "ompi, or set HOCKET_RANK and HOCKET_SIZE");
    return {};
  }
  Launch launch = slurm_step(v, "pmix");
  launch.rank = v.rank("PMIX_RANK");
  return launch;
}

std::optional<Launch> from_slurm(Variables& v) {
  if (!in_slurm_step(v)) return {};
  return slurm_step(v, "slurm");
}

Status check(const Launch& launch) {
  if (launch.ranks < 1 || launch.rank < 0 || launch.rank >= launch.ranks) {
    return {Code::kInvalidUsage,
            fmt::format("the environment ({}) says rank {} of {}", launch.launcher, launch.rank, launch.ranks)};
  }
  return {};
}

// What one kind of launcher says. `names`: the variables that say it.
struct Source {
  const char* names;
  std::optional<Launch> (*detect)(Variables&);
  bool of_processes;  // not of pods or nodes, each of which may run several
};

constexpr Source kSources[] = {{"HOCKET_RANK and HOCKET_SIZE", from_hocket, true},
                               {"RANK, WORLD_SIZE and LOCAL_RANK", from_torchrun, true},
                               {"HOROVOD_RANK and HOROVOD_SIZE", from_horovod, true},
                               {"OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE", from_open_mpi, true},
                               {"PMI_RANK and PMI_SIZE", from_pmi, true},
                               {"PMIX_RANK", from_pmix, true},
                               {"SLURM_PROCID and SLURM_STEP_NUM_TASKS", from_slurm, true},
                               {"TF_CONFIG", from_tf_config, false},
                               {"PET_NODE_RANK and PET_NNODES", from_trainer, false},
                               {"JAX_PROCESS_ID and JAX_NUM_PROCESSES", from_jax, false},
                               {"RANK and WORLD_SIZE", from_rank_alone, false}};

// Launchers nest (torchrun under srun, mpirun in a pod), and then the inner one counts. What somebody wrote by hand
// does not start anything, so it cannot be the inner one.
bool is_by_hand(const Launch& launch, const Variables& variables) {
  return launch.launcher == "hocket" || (launch.launcher == "torchrun" && !variables.has("TORCHELASTIC_RUN_ID"));
}

Status compare(const Source& chosen, const Launch& launch, const Source& other, const Environment& environment) {
  Variables variables(environment);
  const std::optional<Launch> found = other.detect(variables);
  if (!found || !variables.status().ok() || found->ranks == 1) return {};  // one rank: a shell that a launcher opened
  if (found->rank == launch.rank && found->ranks == launch.ranks) return {};
  return {Code::kInvalidUsage,
          fmt::format("the environment contradicts itself: {} say rank {} of {}, but {} say rank {} of {}; unset one",
                      chosen.names, launch.rank, launch.ranks, other.names, found->rank, found->ranks)};
}

}  // namespace

Result<Launch> detect_launch(const Environment& environment) {
  Variables variables(environment);
  const Source* chosen = nullptr;
  Launch launch{"single process"};
  for (const Source& source : kSources) {
    if (chosen != nullptr) {
      if (source.of_processes && is_by_hand(launch, variables)) {
        HOCKET_TRY(compare(*chosen, launch, source, environment));
      }
      continue;
    }
    std::optional<Launch> found = source.detect(variables);
    HOCKET_TRY(variables.status());
    if (!found) continue;
    chosen = &source;
    launch = std::move(*found);
    meet_at(launch, variables);
    HOCKET_TRY(variables.status());
  }
  if (chosen == nullptr) launch.local_rank = 0, launch.local_ranks = 1;
  HOCKET_TRY(check(launch));
  return launch;
}

}  // namespace hocket
