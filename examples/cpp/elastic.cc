// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Training that loses a rank and gets it back: a linear model, gradients compressed to a tenth with error feedback, and
// an optimiser with momentum. The program starts its own workers (elastic [WORKERS]); one of them kills itself, the
// others go on without it, and a new process takes its place with what it had saved.
//
// What it takes: a snapshot of the step before (who noticed the loss late may be a step ahead), compression errors
// saved like any other state, and one word after each step that tells all ranks alike whether a newcomer is at the
// door.
#include <hocket/hocket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr size_t kFeatures = 512;
constexpr int kSamples = 64;  // of a worker, in a step
constexpr int kSteps = 400;
constexpr int kLossStep = 100;  // in which a worker dies ...
constexpr int kVictim = 1;      // ... namely this one
constexpr int kReturnStep = 160;
constexpr float kRate = 0.02f, kMomentum = 0.8f;

void check(hocketResult_t result, hocketComm_t comm = nullptr) {
  if (result == hocketSuccess) return;
  std::fprintf(stderr, "worker %d: %s\n", static_cast<int>(getpid()), hocketGetLastError(comm));
  std::_Exit(1);
}

// Files appear whole or not at all.
void write_file(const fs::path& path, const std::string& bytes) {
  const fs::path fresh = path.string() + "." + std::to_string(getpid());
  std::ofstream(fresh, std::ios::binary) << bytes;
  fs::rename(fresh, path);
}

// Waits a minute for a file that is not there yet.
std::string read_file(const fs::path& path) {
  for (int waits = 0; !fs::exists(path); ++waits) {
    if (waits == 12000) std::fprintf(stderr, "nobody writes %s\n", path.c_str()), std::_Exit(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

hocketUniqueId id_in(const fs::path& path) {
  hocketUniqueId id{};
  const std::string bytes = read_file(path);
  std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof id.internal), id.internal);
  return id;
}

// All that a step changes.
struct State {
  int step = 0;
  std::vector<float> weights = std::vector<float>(kFeatures);
  std::vector<float> momentum = std::vector<float>(kFeatures);
  std::string errors;  // what compression has kept back so far
};

// The model that generated the samples.
float truth(size_t feature) { return static_cast<float>(feature % 17) / 17.0f - 0.5f; }

class Worker {
 public:
  Worker(fs::path folder, int slot) : folder_(std::move(folder)), slot_(slot), gradient_(kFeatures) {
    check(hocketCodecCreate(&codec_, "topk:ratio=0.1"));
    state_.errors = saved_errors();
  }
  ~Worker() {
    check(hocketCodecDestroy(codec_));
    check(hocketCommDestroy(comm_));
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(int workers) { check(hocketCommInitRank(&comm_, workers, id_in(folder_ / "id"), slot_)); }

  // A newcomer: knocks, waits for an invitation, and gets from the others all but its own compression errors.
  void enter(int workers) {
    write_file(folder_ / "knock", "");
    const hocketUniqueId id = id_in(folder_ / "invitation");
    check(hocketCommGrow(nullptr, workers, &id, workers - 1, &comm_, nullptr));
    restore(folder_ / ("errors." + std::to_string(slot_)));
    share_state();
  }

  void train(bool dies) {
    while (state_.step < kSteps) {
      if (dies && state_.step == kLossStep) std::raise(SIGKILL);
      if (step() != hocketSuccess || look_at_door() != hocketSuccess) recover();
    }
  }

  void report() {
    double error = 0;
    for (size_t i = 0; i < kFeatures; ++i) error = std::max<double>(error, std::abs(state_.weights[i] - truth(i)));
    const bool alike = is_alike(state_.weights) && is_alike(state_.momentum);
    int rank = 0, ranks = 0;
    check(hocketCommUserRank(comm_, &rank));
    check(hocketCommCount(comm_, &ranks));
    if (rank != 0) return;
    std::printf("step %d with %d ranks: off by at most %.4f, %s on all ranks; sent %.0f %% of the gradients' bytes\n",
                state_.step, ranks, error, alike ? "the same" : "NOT the same", 100 * share_sent());
  }

 private:
  void compute_gradient() {
    std::mt19937 random(static_cast<unsigned>(state_.step * 1000 + slot_));
    std::normal_distribution<float> normal(0, 1);
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    std::vector<float> sample(kFeatures);
    for (int i = 0; i < kSamples; ++i) {
      float off = 0;
      for (size_t j = 0; j < kFeatures; ++j) {
        sample[j] = normal(random);
        off += sample[j] * (state_.weights[j] - truth(j));
      }
      for (size_t j = 0; j < kFeatures; ++j) gradient_[j] += off * sample[j] / kSamples;
    }
  }

  hocketResult_t step() {
    compute_gradient();
    const hocketResult_t result = hocketAllReduceCompressed(gradient_.data(), gradient_.data(), kFeatures,
                                                            hocketFloat32, hocketAvg, codec_, "model", comm_, nullptr);
    if (result != hocketSuccess) return result;
    before_ = state_;
    for (size_t i = 0; i < kFeatures; ++i) {
      state_.momentum[i] = kMomentum * state_.momentum[i] + gradient_[i];
      state_.weights[i] -= kRate * state_.momentum[i];
    }
    ++state_.step;
    state_.errors = saved_errors();
    write_file(folder_ / ("errors." + std::to_string(slot_)), state_.errors);
    return result;
  }

  // Rank 0 looks, and all do what it saw.
  hocketResult_t look_at_door() {
    int somebody = state_.step >= kReturnStep && fs::exists(folder_ / "knock") ? 1 : 0;
    const hocketResult_t result = hocketBcast(&somebody, 1, hocketInt32, 0, comm_, nullptr);
    if (result == hocketSuccess && somebody != 0) grow();
    return result;
  }

  void grow() {
    int rank = 0, ranks = 0;
    check(hocketCommUserRank(comm_, &rank));
    check(hocketCommCount(comm_, &ranks));
    hocketUniqueId id{};
    if (rank == 0) {
      check(hocketCommGetUniqueId(comm_, &id), comm_);
      fs::remove(folder_ / "knock");
      write_file(folder_ / "invitation", std::string(id.internal, sizeof id.internal));
    }
    hocketComm_t grown = nullptr;
    check(hocketCommGrow(comm_, ranks + 1, rank == 0 ? &id : nullptr, -1, &grown, nullptr), comm_);
    check(hocketCommDestroy(comm_));
    comm_ = grown;
    share_state();
    if (rank == 0) std::printf("step %d: worker %d is back\n", state_.step, kVictim);
  }

  // Goes on without the lost, from the latest step that all survivors have made: nobody is more than one ahead.
  void recover() {
    hocketComm_t shrunk = nullptr;
    check(hocketCommShrink(comm_, nullptr, 0, &shrunk, nullptr, HOCKET_SHRINK_ABORT));
    hocketCommDestroy(comm_);  // its failure is known
    comm_ = shrunk;
    int common = state_.step;
    check(hocketAllReduce(&common, &common, 1, hocketInt32, hocketMin, comm_, nullptr), comm_);
    if (common < state_.step) {
      state_ = before_;
      check(hocketCodecLoadState(codec_, state_.errors.data(), state_.errors.size()));
    }
    int rank = 0, ranks = 0;
    check(hocketCommUserRank(comm_, &rank));
    check(hocketCommCount(comm_, &ranks));
    if (rank == 0) std::printf("step %d: going on with %d ranks\n", state_.step, ranks);
  }

  // Rank 0's weights, momentum and step are everybody's.
  void share_state() {
    check(hocketBcast(&state_.step, 1, hocketInt32, 0, comm_, nullptr), comm_);
    check(hocketBcast(state_.weights.data(), kFeatures, hocketFloat32, 0, comm_, nullptr), comm_);
    check(hocketBcast(state_.momentum.data(), kFeatures, hocketFloat32, 0, comm_, nullptr), comm_);
  }

  bool is_alike(const std::vector<float>& values) {
    std::vector<float> least(values.size()), most(values.size());
    check(hocketAllReduce(values.data(), least.data(), values.size(), hocketFloat32, hocketMin, comm_, nullptr), comm_);
    check(hocketAllReduce(values.data(), most.data(), values.size(), hocketFloat32, hocketMax, comm_, nullptr), comm_);
    return least == most;
  }

  // Of what would have been sent without the codec.
  double share_sent() const {
    hocketCodecDescription_t sent{};
    sent.size = sizeof sent;
    check(hocketCodecDescribe(codec_, hocketFloat32, &sent));
    if (sent.valueBytes == 0) return 1;  // nothing went through it
    return static_cast<double>(sent.messageBytes) / static_cast<double>(sent.valueBytes);
  }

  std::string saved_errors() const {
    size_t bytes = 0;
    check(hocketCodecSaveState(codec_, nullptr, &bytes));
    std::string errors(bytes, '\0');
    check(hocketCodecSaveState(codec_, errors.data(), &bytes));
    return errors;
  }

  void restore(const fs::path& path) {
    state_.errors = read_file(path);
    check(hocketCodecLoadState(codec_, state_.errors.data(), state_.errors.size()));
  }

  const fs::path folder_;
  const int slot_;  // whose share of the samples it has, whatever its rank
  hocketCodec_t codec_ = nullptr;
  hocketComm_t comm_ = nullptr;
  State state_, before_;
  std::vector<float> gradient_;
};

pid_t run(const char* program, const fs::path& folder, int slot, int workers, const char* how) {
  const pid_t child = fork();
  if (child != 0) return child;
  execl(program, program, how, folder.c_str(), std::to_string(slot).c_str(), std::to_string(workers).c_str(), nullptr);
  std::_Exit(127);
}

// Starts the workers, and another one for each that dies.
int supervise(const char* program, int workers) {
  char name[] = "/tmp/hocket-elastic-XXXXXX";
  if (mkdtemp(name) == nullptr) return 1;
  const fs::path folder = name;
  hocketUniqueId id{};
  check(hocketGetUniqueId(&id));
  write_file(folder / "id", std::string(id.internal, sizeof id.internal));
  setenv("HOCKET_COMPRESSION", "always", 0);  // so short messages within one host would not be worth it
  for (int slot = 0; slot < workers; ++slot) run(program, folder, slot, workers, "first");
  int failures = 0;
  int status = 0;
  while (wait(&status) > 0) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      run(program, folder, kVictim, workers, "again");
    } else if (status != 0) {
      ++failures;
    }
  }
  fs::remove_all(folder);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return supervise("/proc/self/exe", argc > 1 ? std::max(2, std::atoi(argv[1])) : 4);
  const bool first = std::string(argv[1]) == "first";
  const int slot = std::atoi(argv[3]), workers = std::atoi(argv[4]);
  Worker worker(argv[2], slot);
  first ? worker.start(workers) : worker.enter(workers);
  worker.train(first && slot == kVictim);
  worker.report();
}
