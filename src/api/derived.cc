// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Communicators out of others: split, shrink, grow. Whoever is in the old one holds its key, from which the new one's
// is derived; newcomers bring a unique id.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "api/creation.h"
#include "comm/child.h"
#include "comm/drive.h"
#include "comm/process_flight.h"

namespace hocket {
namespace {

// What every rank of the communicator gives.
template <typename Item>
Result<std::vector<Item>> exchange(Session& session, const Item& own) {
  Communicator& communicator = *session.communicator;
  std::vector<Item> all(static_cast<size_t>(communicator.ranks()));
  Request request;
  request.facts.collective = Collective::kAllGather;
  request.facts.type = DataType::kUint8;
  request.facts.count = sizeof(Item);
  request.facts.own = true;
  request.send = &own;
  request.recv = all.data();
  Operation& operation = communicator.blocking_operation();
  HOCKET_TRY(operation.prepare(std::move(request)));
  HOCKET_TRY(run(communicator, operation));
  return all;
}

struct Member {
  int32_t color;
  int32_t key;
};

// Ranks of the parent that share the color, ordered by key, then by rank.
std::vector<Rank> group_of(const std::vector<Member>& members, int color) {
  std::vector<Rank> group;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].color == color) group.push_back(static_cast<Rank>(rank));
  }
  std::stable_sort(group.begin(), group.end(), [&](Rank a, Rank b) {
    return members[static_cast<size_t>(a)].key < members[static_cast<size_t>(b)].key;
  });
  return group;
}

Created recorded_child(Communicator& parent, const std::vector<Rank>& group, const std::string& purpose,
                       CommunicatorOptions options, EndsWith ends_with) {
  options.flight = process_flight();
  return open_child(parent, group, purpose, std::move(options), ends_with);
}

// How one rank takes part in a growth.
struct Growth {
  int32_t ranks;
  int32_t brings_id;
  hocketUniqueId id;
};

Result<std::string> id_of(const std::vector<Growth>& growths, int ranks) {
  std::string id;
  for (size_t rank = 0; rank < growths.size(); ++rank) {
    const Growth& growth = growths[rank];
    if (growth.ranks != ranks) {
      return Status(Code::kInvalidUsage, fmt::format("nRanks: {} here, {} on rank {}", ranks, growth.ranks, rank));
    }
    if (growth.brings_id == 0) continue;
    if (!id.empty()) return Status(Code::kInvalidUsage, "uniqueId: more than one rank brings one");
    id.assign(growth.id.internal, sizeof growth.id.internal);
  }
  if (id.empty()) {
    return Status(
        Code::kInvalidUsage,
        "uniqueId: NULL on all ranks: one asks hocketCommGetUniqueId, tells the newcomers and brings it here");
  }
  return id;
}

}  // namespace

Created split(Session& session, int color, int key, const CommunicatorOptions& options) {
  Communicator& parent = *session.communicator;
  const uint32_t number = parent.next_child("split");
  const Result<std::vector<Member>> members = exchange(session, Member{color, key});
  if (!members.ok()) return members.status();
  if (color == HOCKET_SPLIT_NOCOLOR) return std::shared_ptr<Communicator>();
  return recorded_child(parent, group_of(*members, color), fmt::format("split {} color {}", number, color), options,
                        EndsWith::kParent);
}

Created shrink(Session& session, const std::set<Rank>& excluded, const CommunicatorOptions& options) {
  Communicator& parent = *session.communicator;
  std::vector<Rank> group;
  for (const Rank rank : parent.mesh().present()) {
    if (!excluded.contains(rank)) group.push_back(rank);
  }
  if (std::find(group.begin(), group.end(), parent.rank()) == group.end()) {
    return Status(Code::kInvalidUsage,
                  fmt::format("{}rank {} is not among the ranks that go on: {}", parent.prefix(), parent.rank(),
                              excluded.contains(parent.rank()) ? "it is excluded" : parent.mesh().status().message()));
  }
  const std::string way = fmt::format("shrink to {}", fmt::join(group, ","));
  return recorded_child(parent, group, fmt::format("{} #{}", way, parent.next_child(way)), options, EndsWith::kMembers);
}

Created grow(Session& session, int ranks, const hocketUniqueId* id, const CommunicatorOptions& options) {
  Communicator& parent = *session.communicator;
  if (ranks <= parent.ranks()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("nRanks: {}, and the communicator has {} already", ranks, parent.ranks()));
  }
  Growth own{ranks, id != nullptr, {}};
  if (id != nullptr) own.id = *id;
  const Result<std::vector<Growth>> growths = exchange(session, own);
  if (!growths.ok()) return growths.status();
  const Result<std::string> agreed = id_of(*growths, ranks);
  if (!agreed.ok()) return agreed.status();
  return create_by_id(*agreed, parent.rank(), ranks, options);
}

}  // namespace hocket
