// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "team.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "member.h"
#include "plan/builders.h"

namespace hocket::tool {
namespace {

constexpr useconds_t kLook = 200;

// What the processes of a team share.
struct Board {
  std::atomic<bool> has_id{false};
  std::atomic<bool> no_id = false;  // there will be none
  hocketUniqueId id{};
  Notes notes;
};

bool complain() {
  fmt::print(stderr, "{}\n", hocketGetLastError(nullptr));
  return false;
}

bool join(int32_t ranks, int32_t rank, Board& board, hocketComm_t& together) {
  if (rank == 0) {
    const bool has_id = hocketGetUniqueId(&board.id) == hocketSuccess;
    (has_id ? board.has_id : board.no_id).store(true, std::memory_order_release);
    if (!has_id) return complain();
  }
  while (!board.has_id.load(std::memory_order_acquire)) {
    if (board.no_id.load()) return false;  // rank 0 tells why
    usleep(kLook);
  }
  return hocketCommInitRank(&together, ranks, board.id, rank) == hocketSuccess || complain();
}

[[noreturn]] void be_rank(const TeamWork& work, int32_t rank, Board& board) {
  setenv("HOCKET_OPERATION_TIMEOUT", "60s", 1);
  if (!work.transports.empty()) setenv("HOCKET_TRANSPORTS", work.transports.c_str(), 1);
  hocketComm_t together = nullptr;
  const bool well = join(work.ranks, rank, board, together) && Member(work, rank, together, board.notes).run();
  const bool parted = together == nullptr || hocketCommDestroy(together) == hocketSuccess || complain();
  _exit(well && parted ? EXIT_SUCCESS : EXIT_FAILURE);
}

Status failure(const TeamWork& work) {
  return {Code::kRemote, fmt::format("timing {} of {} ranks failed", name(work.collective), work.ranks)};
}

// Waits for all, so that none is left behind.
Status wait_for(const std::vector<pid_t>& processes, const TeamWork& work) {
  bool all_well = true;
  for (const pid_t process : processes) {
    int status = 0;
    all_well &= waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
  }
  if (all_well) return {};
  return failure(work);
}

std::vector<Timing> timings(const Notes& notes) { return {notes.timings, notes.timings + notes.count}; }

}  // namespace

bool can_time(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return true;
    default:
      return false;
  }
}

Result<std::vector<Timing>> time_calls(const TeamWork& work) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status(Code::kSystem, "no memory to share with the ranks");
  const auto unmap = [](Board* board) { munmap(board, sizeof(Board)); };
  const std::unique_ptr<Board, decltype(unmap)> board(new (memory) Board, unmap);
  std::vector<pid_t> processes;
  for (int32_t rank = 0; rank < work.ranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) be_rank(work, rank, *board);
    if (process > 0) processes.push_back(process);
  }
  HOCKET_TRY(wait_for(processes, work));
  if (processes.size() != static_cast<size_t>(work.ranks)) return Status(Code::kSystem, "a rank could not be started");
  return timings(board->notes);
}

Result<std::vector<Timing>> time_calls(const TeamWork& work, int32_t rank, hocketComm_t together) {
  const auto notes = std::make_unique<Notes>();
  if (!Member(work, rank, together, *notes).run()) return failure(work);
  return timings(*notes);
}

}  // namespace hocket::tool
