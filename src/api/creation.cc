// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/creation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "comm/drive.h"
#include "comm/launch.h"
#include "comm/service.h"
#include "comm/unique_id.h"

namespace hocket {
namespace {

Result<hocketComm_t> open_session(std::shared_ptr<Mesh> mesh, CommunicatorOptions options) {
  auto communicator = std::make_shared<Communicator>(real_system(), std::move(mesh), std::move(options));
  void* handle = sessions().add(std::make_unique<Session>(std::move(communicator)));
  if (handle == nullptr) {
    return Status(Code::kInvalidUsage, fmt::format("more than {} communicators in one process", sessions().kCapacity));
  }
  return static_cast<hocketComm_t>(handle);
}

struct Member {
  int32_t color;
  int32_t key;
};

// What every rank of the parent wants of a split.
Result<std::vector<Member>> exchange(Session& session, Member own) {
  Communicator& communicator = *session.communicator;
  std::vector<Member> members(static_cast<size_t>(communicator.ranks()));
  Request request;
  request.facts.collective = Collective::kAllGather;
  request.facts.type = DataType::kInt32;
  request.facts.count = sizeof(Member) / sizeof(int32_t);
  request.send = &own;
  request.recv = members.data();
  Operation& operation = communicator.blocking_operation();
  HOCKET_TRY(operation.prepare(std::move(request)));
  operation.issue();
  Wait wait = communicator.make_wait();
  Operation* const operations[] = {&operation};
  drive(communicator.system(), operations, wait);
  if (!operation.status().ok()) return operation.status();
  return members;
}

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

}  // namespace

Result<std::string> make_unique_id() { return hocket::make_unique_id(process_service()); }

Result<hocketComm_t> create_by_id(const std::string& unique_id, int rank, int ranks,
                                  const CommunicatorOptions& options) {
  JoinOptions join;
  join.unique_id = unique_id;
  join.rank = rank;
  join.ranks = ranks;
  const Result<UniqueId> decoded = decode_unique_id(unique_id);
  if (!decoded.ok()) return decoded.status();
  Result<std::shared_ptr<Mesh>> mesh = join_mesh(process_service(), join);
  if (!mesh.ok()) return mesh.status();
  CommunicatorOptions complete = options;
  complete.key = decoded->key;
  return open_session(std::move(*mesh), std::move(complete));
}

Result<hocketComm_t> create_from_environment(const CommunicatorOptions& options) {
  const Result<Launch> launch = detect_launch(process_environment());
  if (!launch.ok()) return launch.status();
  if (launch->ranks > 1) set_log_rank(launch->rank);
  const Result<std::string> id = unique_id_from_environment(process_service(), *launch);
  if (!id.ok()) return id.status();
  return create_by_id(*id, launch->rank, launch->ranks, options);
}

Result<hocketComm_t> split(Session& session, int color, int key, const CommunicatorOptions& options) {
  Communicator& parent = *session.communicator;
  const uint32_t number = parent.next_split();
  const Result<std::vector<Member>> members = exchange(session, {color, key});
  if (!members.ok()) return members.status();
  if (color == HOCKET_SPLIT_NOCOLOR) return hocketComm_t{nullptr};
  const std::vector<Rank> group = group_of(*members, color);
  MeshOptions child;
  child.key = derive_key(parent.options().key, fmt::format("split {} color {}", number, color));
  child.id = public_id_of(child.key);
  for (const Rank rank : group) {
    if (rank == parent.rank()) child.rank = static_cast<Rank>(child.peers.size());
    child.peers.push_back(parent.mesh().peer(rank));
    child.peers.back().rank = static_cast<Rank>(child.peers.size()) - 1;
  }
  CommunicatorOptions complete = options;
  complete.key = child.key;
  Result<std::shared_ptr<Mesh>> mesh = open_mesh(process_service(), std::move(child));
  if (!mesh.ok()) return mesh.status();
  return open_session(std::move(*mesh), std::move(complete));
}

Result<CommunicatorOptions> options_from(const hocketConfig_t* config) {
  const Result<Settings>& all = settings();
  if (!all.ok()) return all.status();
  CommunicatorOptions options;
  options.operation_timeout = all->operation_timeout;
  options.spin = all->spin;
  Result<Forced> forced = Forced::parse(all->algorithm);
  if (!forced.ok()) return forced.status();
  options.forced = std::move(*forced);
  if (config == nullptr) return options;
  if (config->size < sizeof(size_t) || config->size > size_t{1} << 16) {
    return Status(Code::kInvalidArgument,
                  fmt::format("config: size is {}: initialise it with HOCKET_CONFIG_INITIALIZER", config->size));
  }
  const auto has = [&](size_t end) { return config->size >= end; };
  if (has(offsetof(hocketConfig_t, commName) + sizeof(config->commName)) && config->commName != nullptr) {
    options.name = config->commName;
  }
  if (has(sizeof(hocketConfig_t)) && config->operationTimeoutMs != 0) {
    if (config->operationTimeoutMs < 0) {
      return Status(Code::kInvalidArgument,
                    fmt::format("config: operationTimeoutMs: {} is negative", config->operationTimeoutMs));
    }
    options.operation_timeout = std::chrono::milliseconds(config->operationTimeoutMs);
  }
  return options;
}

}  // namespace hocket
