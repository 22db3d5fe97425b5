// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "team.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>

#include "hocket/hocket.h"
#include "plan/builders.h"

namespace hocket::tool {
namespace {

constexpr int64_t kBytesTimed = int64_t{16} << 20;  // in all calls of one size together
constexpr int64_t kLeastCalls = 4;
constexpr int64_t kMostCalls = 400;
constexpr int kWarmUp = 3;
constexpr useconds_t kLook = 200;  // microseconds

// What the processes share.
struct Board {
  std::atomic<bool> has_id{false};
  hocketUniqueId id{};
  std::array<std::array<double, kMaxTeamSizes>, kMaxTeamRanks> microseconds{};
};

bool is_whole(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
         collective == Collective::kReduce;
}

bool is_blockwise(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllToAll;
}

// One rank: its communicator and its buffers.
class Member {
 public:
  Member(const TeamWork& work, int32_t rank, Board& board) : work_(work), rank_(rank), board_(board) {
    const int64_t most = *std::max_element(work.bytes.begin(), work.bytes.end());
    const int64_t blocks = is_blockwise(work.collective) ? work.ranks : 1;
    send_.resize(static_cast<size_t>(most * blocks) / sizeof(float) + 1, 1.0F);
    recv_.resize(send_.size(), 0.0F);
  }

  bool run() {
    if (!join()) return false;
    for (size_t i = 0; i < work_.bytes.size(); ++i) {
      if (!time_size(i)) return complain();
    }
    return hocketCommDestroy(comm_) == hocketSuccess || complain();
  }

 private:
  bool join() {
    if (rank_ == 0) {
      if (hocketGetUniqueId(&board_.id) != hocketSuccess) return complain();
      board_.has_id.store(true, std::memory_order_release);
    }
    while (!board_.has_id.load(std::memory_order_acquire)) usleep(kLook);
    return hocketCommInitRank(&comm_, work_.ranks, board_.id, rank_) == hocketSuccess || complain();
  }

  bool time_size(size_t index) {
    const int64_t bytes = work_.bytes[index];
    const int64_t calls = std::clamp(kBytesTimed / std::max<int64_t>(bytes, 1), kLeastCalls, kMostCalls);
    const size_t count = static_cast<size_t>(bytes) / sizeof(float);
    for (int i = 0; i < kWarmUp; ++i) {
      if (!call(count)) return false;
    }
    if (hocketBarrier(comm_, nullptr) != hocketSuccess) return false;
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i) {
      if (!call(count)) return false;
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    board_.microseconds[static_cast<size_t>(rank_)][index] = took.count() / static_cast<double>(calls);
    return true;
  }

  bool call(size_t count) {
    const float* send = send_.data();
    float* recv = recv_.data();
    switch (work_.collective) {
      case Collective::kAllReduce:
        return hocketAllReduce(send, recv, count, hocketFloat32, hocketSum, comm_, nullptr) == hocketSuccess;
      case Collective::kBroadcast:
        return hocketBroadcast(send, recv, count, hocketFloat32, 0, comm_, nullptr) == hocketSuccess;
      case Collective::kReduce:
        return hocketReduce(send, recv, count, hocketFloat32, hocketSum, 0, comm_, nullptr) == hocketSuccess;
      case Collective::kAllGather:
        return hocketAllGather(send, recv, count, hocketFloat32, comm_, nullptr) == hocketSuccess;
      case Collective::kReduceScatter:
        return hocketReduceScatter(send, recv, count, hocketFloat32, hocketSum, comm_, nullptr) == hocketSuccess;
      default:
        return hocketAllToAll(send, recv, count, hocketFloat32, comm_, nullptr) == hocketSuccess;
    }
  }

  bool complain() const {
    fmt::print(stderr, "{}\n", hocketGetLastError(comm_));
    return false;
  }

  const TeamWork& work_;
  int32_t rank_;
  Board& board_;
  hocketComm_t comm_ = nullptr;
  std::vector<float> send_;
  std::vector<float> recv_;
};

[[noreturn]] void be_rank(const TeamWork& work, int32_t rank, Board& board) {
  const std::string algorithm = fmt::format("{}={}", name(work.collective), work.algorithm);
  setenv("HOCKET_ALGORITHM", algorithm.c_str(), 1);
  setenv("HOCKET_OPERATION_TIMEOUT", "60s", 1);
  if (!work.transports.empty()) setenv("HOCKET_TRANSPORTS", work.transports.c_str(), 1);
  _exit(Member(work, rank, board).run() ? EXIT_SUCCESS : EXIT_FAILURE);
}

// Waits for all, so that none is left behind.
Status wait_for(const std::vector<pid_t>& processes, const TeamWork& work) {
  bool all_well = true;
  for (const pid_t process : processes) {
    int status = 0;
    all_well &= waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
  }
  if (all_well) return {};
  return {Code::kRemote, fmt::format("{} by {} of {} ranks failed", name(work.collective), work.algorithm, work.ranks)};
}

}  // namespace

bool can_time(Collective collective) { return is_whole(collective) || is_blockwise(collective); }

Result<std::vector<double>> time_calls(const TeamWork& work) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status(Code::kSystem, "no memory to share with the ranks");
  auto* board = new (memory) Board;
  std::vector<pid_t> processes;
  for (int32_t rank = 0; rank < work.ranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) be_rank(work, rank, *board);
    if (process > 0) processes.push_back(process);
  }
  const Status status = wait_for(processes, work);
  std::vector<double> slowest(work.bytes.size(), 0);
  for (size_t rank = 0; rank < static_cast<size_t>(work.ranks); ++rank) {
    for (size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], board->microseconds[rank][i]);
  }
  munmap(memory, sizeof(Board));
  if (!status.ok()) return status;
  if (processes.size() != static_cast<size_t>(work.ranks)) return Status(Code::kSystem, "a rank could not be started");
  return slowest;
}

}  // namespace hocket::tool
