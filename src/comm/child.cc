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

Status doom(const Mesh& parent, const std::vector<Rank>& group, EndsWith ends_with) {
  if (!parent.failed()) return {};
  const std::vector<Rank> present = parent.present();
  const auto is_present = [&](Rank rank) { return std::binary_search(present.begin(), present.end(), rank); };
  if (ends_with == EndsWith::kMembers && std::all_of(group.begin(), group.end(), is_present)) return {};
  const Status failure = parent.status();
  return {failure.code(),
          fmt::format("the communicator of which this one was being made has failed: {}", failure.message())};
}

}  // namespace

Result<std::shared_ptr<Communicator>> open_child(Communicator& parent, const std::vector<Rank>& group,
                                                 const std::string& purpose, CommunicatorOptions options,
                                                 EndsWith ends_with) {
  MeshOptions child;
  child.key = derive_key(parent.options().key, purpose);
  child.id = public_id_of(child.key);
  child.operation_timeout = options.operation_timeout;
  child.context = options.context;
  child.doom = [watched = parent.mesh().watch(), group, ends_with] { return doom(*watched, group, ends_with); };
  for (const Rank rank : group) {
    if (rank == parent.rank()) child.rank = static_cast<Rank>(child.peers.size());
    child.peers.push_back(parent.mesh().peer(rank));
    child.peers.back().rank = static_cast<Rank>(child.peers.size()) - 1;
  }
  Tuning tuning = parent.planner().tuning();
  if (group.size() == static_cast<size_t>(parent.ranks())) tuning.routes = renumbered(std::move(tuning.routes), group);
  child.peers.front().tuning = to_text(tuning);
  options.key = child.key;
  Result<std::shared_ptr<Mesh>> mesh = open_mesh(process_service(), std::move(child));
  if (!mesh.ok()) return mesh.status();
  return std::make_shared<Communicator>(parent.system(), std::move(*mesh), std::move(options));
}

}  // namespace hocket
