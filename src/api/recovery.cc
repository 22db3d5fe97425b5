// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The C functions of those who go on after a loss: who is lost, revoke, shrink, grow.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/opening.h"
#include "hocket/hocket.h"

namespace {

using hocket::Code;
using hocket::Communicator;
using hocket::CommunicatorOptions;
using hocket::Created;
using hocket::null_pointer;
using hocket::Rank;
using hocket::Result;
using hocket::Session;
using hocket::Status;
using hocket::with_session;

void revoke(Communicator& communicator) {
  communicator.mesh().fail(Status(
      Code::kRemote, fmt::format("{}rank {} revoked the communicator", communicator.prefix(), communicator.rank())));
}

Status check_exclusion(const int* ranks, int count, int flags) {
  if (flags != HOCKET_SHRINK_DEFAULT && flags != HOCKET_SHRINK_ABORT) {
    return Status(Code::kInvalidArgument, fmt::format("shrinkFlags: {} is neither DEFAULT nor ABORT", flags));
  }
  if (count < 0) return Status(Code::kInvalidArgument, fmt::format("excludeRanksCount: {} is negative", count));
  return count > 0 && ranks == nullptr ? null_pointer("excludeRanksList") : Status();
}

Status check_excluded(const std::set<Rank>& excluded, Rank ranks) {
  for (const Rank rank : excluded) {
    if (rank < 0 || rank >= ranks) {
      return Status(Code::kInvalidArgument, fmt::format("excludeRanksList: there is no rank {} of {}", rank, ranks));
    }
  }
  return {};
}

Created shrink_from(Session& session, const std::set<Rank>& excluded, bool abort, const CommunicatorOptions& options) {
  HOCKET_TRY(check_excluded(excluded, session.communicator->ranks()));
  if (abort) {
    revoke(*session.communicator);
    session.communicator->wait_until_idle();
  }
  return hocket::shrink(session, excluded, options);
}

}  // namespace

hocketResult_t hocketCommGetFailed(hocketComm_t comm, int* ranks, int capacity, int* count) {
  return with_session(comm, [&](Session& session) -> Status {
    if (count == nullptr) return null_pointer("count");
    if (capacity < 0) return Status(Code::kInvalidArgument, fmt::format("capacity: {} is negative", capacity));
    if (capacity > 0 && ranks == nullptr) return null_pointer("ranks");
    const std::vector<Rank> lost = session.communicator->mesh().lost();
    *count = static_cast<int>(lost.size());
    std::copy_n(lost.begin(), std::min<size_t>(lost.size(), static_cast<size_t>(capacity)), ranks);
    return {};
  });
}

hocketResult_t hocketCommRevoke(hocketComm_t comm, int revokeFlags) {
  return with_session(comm, [&](Session& session) -> Status {
    if (revokeFlags != HOCKET_REVOKE_DEFAULT) {
      return Status(Code::kInvalidArgument, fmt::format("revokeFlags: {} is not DEFAULT", revokeFlags));
    }
    revoke(*session.communicator);
    return {};
  });
}

hocketResult_t hocketCommShrink(hocketComm_t comm, int* excludeRanksList, int excludeRanksCount, hocketComm_t* newcomm,
                                hocketConfig_t* config, int shrinkFlags) {
  const auto check = [=] { return check_exclusion(excludeRanksList, excludeRanksCount, shrinkFlags); };
  std::set<Rank> excluded;
  if (check().ok()) excluded.insert(excludeRanksList, excludeRanksList + excludeRanksCount);
  const auto make = [=](Session* parent, const CommunicatorOptions& options) {
    return shrink_from(*parent, excluded, shrinkFlags == HOCKET_SHRINK_ABORT, options);
  };
  return hocket::create(newcomm, config, check, {comm}, make);
}

hocketResult_t hocketCommGetUniqueId(hocketComm_t comm, hocketUniqueId* uniqueId) {
  return with_session(comm, [&](Session& session) -> Status {
    HOCKET_TRY(session.communicator->mesh().status());
    if (uniqueId == nullptr) return null_pointer("uniqueId");
    const Result<std::string> id = hocket::make_unique_id();
    if (!id.ok()) return id.status();
    std::memcpy(uniqueId->internal, id->data(), std::min(id->size(), sizeof uniqueId->internal));
    return {};
  });
}

hocketResult_t hocketCommGrow(hocketComm_t comm, int nRanks, const hocketUniqueId* uniqueId, int rank,
                              hocketComm_t* newcomm, hocketConfig_t* config) {
  const auto check = [&]() -> Status {
    if (comm != nullptr && rank != -1) {
      return Status(Code::kInvalidArgument, fmt::format("rank: {}: a rank of comm keeps its own and passes -1", rank));
    }
    if (comm == nullptr && uniqueId == nullptr) return null_pointer("uniqueId");
    return {};
  };
  std::optional<hocketUniqueId> id;
  if (uniqueId != nullptr) id = *uniqueId;
  const auto make = [=](Session* parent, const CommunicatorOptions& options) -> Created {
    if (parent != nullptr) return hocket::grow(*parent, nRanks, id ? &*id : nullptr, options);
    return hocket::create_by_id(std::string(id->internal, sizeof id->internal), rank, nRanks, options);
  };
  hocket::Origin origin;
  if (comm != nullptr) origin = {comm, true};
  return hocket::create(newcomm, config, check, origin, make);
}
