// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One function per launcher, each of which either does not recognise its variables, fills a Launch, or says what is
// wrong with them. The traps are commented where they are.
#include "comm/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

namespace hocket {
namespace {

// Candidate ports: next to MASTER_PORT, where the launcher's own store listens; below the range from which Linux takes
// its ephemeral ports otherwise.
constexpr uint16_t kCandidatePorts = 8;
constexpr uint32_t kFirstDerivedPort = 21000;
constexpr uint32_t kDerivedPorts = 10000;

// Reads numbers from the environment and remembers the first that makes no sense.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const { return !text(name).empty(); }

  const std::string& text(std::string_view name) const {
    static const std::string kEmpty;
    const auto found = environment_.find(name);
    return found == environment_.end() ? kEmpty : found->second;
  }

  int64_t number(std::string_view name, int64_t otherwise = -1) {
    const std::string& value = text(name);
    if (value.empty()) return otherwise;
    int64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error == std::errc() && end == value.data() + value.size() && parsed >= 0 && parsed <= UINT32_MAX)
      return parsed;
    note(fmt::format("the environment says {}='{}', which is no number in range", name, value));
    return otherwise;
  }

  int32_t rank(std::string_view name, int32_t otherwise = -1) {
    const int64_t value = number(name, otherwise);
    if (value <= INT32_MAX) return static_cast<int32_t>(value);
    note(fmt::format("the environment says {}={}, which is too large", name, value));
    return otherwise;
  }

  void note(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  Status status() const { return problem_.empty() ? Status() : Status(Code::kInvalidUsage, problem_); }

 private:
  const Environment& environment_;
  std::string problem_;
};

uint32_t text_hash(std::string_view text) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

void derive_ports(Launch& launch) {
  launch.port = static_cast<uint16_t>(kFirstDerivedPort + text_hash(launch.job) % kDerivedPorts);
  launch.ports = kCandidatePorts;
}

// "host:port", "[ipv6]:port".
bool split_address(const std::string& address, std::string* host, uint16_t* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  std::string_view digits(address);
  digits.remove_prefix(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *port);
  if (error != std::errc() || end != digits.data() + digits.size() || *port == 0) return false;
  *host = address.substr(0, colon);
  if (host->front() == '[' && host->back() == ']') *host = host->substr(1, host->size() - 2);
  return true;
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
  const int64_t port = variables.number("MASTER_PORT", 0);
  if (port > UINT16_MAX) variables.note(fmt::format("MASTER_PORT={} is no port", port));
  if (!variables.has("MASTER_ADDR") || port <= 0 || port > UINT16_MAX) return;
  launch.host = variables.text("MASTER_ADDR");
  // The launcher's own store listens on MASTER_PORT itself.
  const bool near_end = port + kCandidatePorts > UINT16_MAX;
  launch.port = static_cast<uint16_t>(near_end ? port - kCandidatePorts : port + 1);
  launch.ports = kCandidatePorts;
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

// RANK without LOCAL_RANK may be the number of a node (Kubeflow, DLC): see from_rank_alone.
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

// PMIx tells no size in the environment; Slurm does (srun --mpi=pmix).
std::optional<Launch> from_pmix(Variables& v) {
  if (!v.has("PMIX_RANK")) return {};
  if (!in_slurm_step(v)) {
    v.note("PMIX_RANK is set, but no variable tells how many ranks there are: set HOCKET_RANK and HOCKET_SIZE");
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

// torch.distributed's "env://": one process per pod, so the pod's number is its rank. Last, because every launcher that
// starts several processes in such a pod sets its own variables too.
std::optional<Launch> from_rank_alone(Variables& v) {
  if (!v.has("RANK") || !v.has("WORLD_SIZE") || !v.has("MASTER_ADDR") || !v.has("MASTER_PORT")) return {};
  Launch launch{"env", v.rank("RANK"), v.rank("WORLD_SIZE")};
  launch.job =
      fmt::format("torch {} {} {}", v.text("TORCHELASTIC_RUN_ID"), v.text("MASTER_ADDR"), v.text("MASTER_PORT"));
  return launch;
}

Status check(const Launch& launch) {
  if (launch.ranks < 1 || launch.rank < 0 || launch.rank >= launch.ranks) {
    return {Code::kInvalidUsage,
            fmt::format("the environment ({}) says rank {} of {}", launch.launcher, launch.rank, launch.ranks)};
  }
  return {};
}

}  // namespace

Result<Launch> detect_launch(const Environment& environment) {
  Variables variables(environment);
  using Detector = std::optional<Launch> (*)(Variables&);
  static constexpr Detector kDetectors[] = {from_hocket, from_torchrun, from_horovod, from_open_mpi,
                                            from_pmi,    from_pmix,     from_slurm,   from_rank_alone};
  Launch launch{"single process"};
  for (const Detector detect : kDetectors) {
    std::optional<Launch> found = detect(variables);
    HOCKET_TRY(variables.status());
    if (!found) continue;
    launch = std::move(*found);
    meet_at(launch, variables);
    HOCKET_TRY(variables.status());
    break;
  }
  if (launch.launcher == "single process") launch.local_rank = 0, launch.local_ranks = 1;
  HOCKET_TRY(check(launch));
  return launch;
}

}  // namespace hocket
