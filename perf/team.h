// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The ranks that one thread drives, their buffers, and what they must agree on between measurements. Every method is
// collective: all teams of a run call the same ones in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/hocket.h"
#include "options.h"
#include "outcome.h"

namespace hocket::perf {

struct FreeBytes {
  bool shared = false;  // from hocketMemAlloc
  void operator()(std::byte* bytes) const;
};
using Bytes = std::unique_ptr<std::byte[], FreeBytes>;

struct Member {
  int rank = 0;
  int ranks = 1;
  hocketComm_t comm = nullptr;    // what is measured
  hocketComm_t talk = nullptr;    // what the team says between measurements, by algorithms that nobody forces
  hocketQueue_t queue = nullptr;  // null: calls block
  Bytes send, receive;

  hocketStream_t stream() const { return queue == nullptr ? nullptr : hocketQueueStream(queue); }
};

class Team {
 public:
  // Takes the communicators over.
  explicit Team(const std::vector<hocketComm_t>& comms);
  ~Team();
  Team(Team&&) noexcept = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  Team& operator=(Team&&) = delete;

  // Comes first.
  Outcome meet(int64_t timeout_ms);
  // Buffers of this size, touched and maybe registered, and queues if asked for.
  Outcome prepare(size_t buffer_bytes, Registration registration, bool with_queue);
  // Leaves the communicators in good order.
  Outcome finish();
  // Ends the run for all ranks.
  void abort();

  std::span<Member> members() { return members_; }
  bool has_rank_zero() const { return members_.front().rank == 0; }
  int ranks() const { return members_.front().ranks; }

  Outcome barrier();
  Outcome wait();  // until all that was queued is done
  Outcome reduce(double& value, Average how);
  Outcome sum(int64_t& value);  // each team's value counts once
  // Every rank's text in rank order; each is cut to kTextBytes.
  static constexpr size_t kTextBytes = 256;
  Outcome gather(const std::string& mine, std::vector<std::string>& all);
  // `mine` stands for each rank of this team; all ranks' values follow each other in rank order.
  Outcome gather(std::span<const double> mine, std::vector<double>& all);

  // Calls `body(member)` for each rank; within a group when there are several, so that they run together.
  template <typename Body>
  Outcome together(std::string_view call, Body body);

 private:
  std::vector<Member> members_;
};

template <typename Body>
Outcome Team::together(std::string_view call, Body body) {
  const bool grouped = members_.size() > 1;
  if (grouped) HOCKET_PERF_TRY(outcome_of(hocketGroupStart(), "hocketGroupStart"));
  Outcome outcome;
  for (Member& member : members_) {
    if (outcome.ok()) outcome = outcome_of(body(member), call, member.comm);
  }
  // The group must end in any case; the first error is the one to report.
  if (grouped) {
    Outcome end = outcome_of(hocketGroupEnd(), call);
    if (outcome.ok()) outcome = end;
  }
  return outcome;
}

}  // namespace hocket::perf
