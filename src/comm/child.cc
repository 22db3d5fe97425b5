// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/child.h"

#include <utility>

#include "comm/service.h"
#include "comm/unique_id.h"

namespace hocket {

Result<std::shared_ptr<Communicator>> open_child(Communicator& parent, const std::vector<Rank>& group,
                                                 const std::string& purpose, CommunicatorOptions options) {
  MeshOptions child;
  child.key = derive_key(parent.options().key, purpose);
  child.id = public_id_of(child.key);
  child.operation_timeout = options.operation_timeout;
  child.context = options.context;
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
