// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/child.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/service.h"
#include "comm/unique_id.h"

namespace hocket {
namespace {

bool contains(const std::vector<Rank>& ranks, Rank rank) {
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

// What has ended the parent ends the child of this group, in which this rank is `self`.
View doom(const Mesh& parent, const std::vector<Rank>& group, Rank self, EndsWith ends_with) {
  View end;
  if (!parent.failed()) return end;
  const std::vector<Rank> present = parent.present();
  const auto is_present = [&](Rank rank) { return contains(present, rank); };
  if (ends_with == EndsWith::kMembers && std::all_of(group.begin(), group.end(), is_present)) return end;
  const Status failure = parent.status();
  end.join(self, Status(failure.code(), fmt::format("the communicator of which this one was being made has failed: {}",
                                                    failure.message())));
  const std::vector<Rank> lost = parent.lost();
  for (size_t rank = 0; rank < group.size(); ++rank) {
    if (contains(lost, group[rank])) end.join(static_cast<Rank>(rank), {Absence::kUnreachable, {}, {self}});
  }
  return end;
}

}  // namespace

MeshOptions mesh_of_child(Mesh& parent, const std::string& key, const std::vector<Rank>& group,
                          const std::string& purpose, EndsWith ends_with) {
  MeshOptions child;
  child.key = derive_key(key, purpose);
  child.id = public_id_of(child.key);
  for (const Rank rank : group) {
    if (rank == parent.rank()) child.rank = static_cast<Rank>(child.peers.size());
    child.peers.push_back(parent.peer(rank));
    child.peers.back().rank = static_cast<Rank>(child.peers.size()) - 1;
  }
  child.doom = [watched = parent.watch(), group, self = child.rank, ends_with] {
    return doom(*watched, group, self, ends_with);
  };
  child.is_lost = [glance = parent.glance(), group](Rank rank) {
    const std::shared_ptr<const Mesh> there = glance.lock();
    return there != nullptr && contains(there->lost(), group[static_cast<size_t>(rank)]);
  };
  return child;
}

Result<std::shared_ptr<Communicator>> open_child(Communicator& parent, const std::vector<Rank>& group,
                                                 const std::string& purpose, CommunicatorOptions options,
                                                 EndsWith ends_with) {
  MeshOptions child = mesh_of_child(parent.mesh(), parent.options().key, group, purpose, ends_with);
  child.operation_timeout = options.operation_timeout;
  child.context = options.context;
  Tuning tuning = parent.planner().tuning();
  if (group.size() == static_cast<size_t>(parent.ranks())) tuning.routes = renumbered(std::move(tuning.routes), group);
  child.peers.front().tuning = to_text(tuning);
  options.key = child.key;
  Result<std::shared_ptr<Mesh>> mesh = open_mesh(process_service(), std::move(child));
  if (!mesh.ok()) return mesh.status();
  return std::make_shared<Communicator>(parent.system(), std::move(*mesh), std::move(options));
}

}  // namespace hocket
