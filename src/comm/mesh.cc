// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The ways into a mesh. What they hand out leaves the mesh when its last user lets go of it.
#include "comm/mesh.h"

#include <fmt/format.h>

#include "comm/device_kernels.h"
#include "comm/handshake_crypto.h"
#include "comm/mesh_rank.h"
#include "comm/rendezvous.h"
#include "comm/unique_id.h"

namespace hocket {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(50);       // for a cancellation
constexpr Duration kRootSpeaksFirst = std::chrono::seconds(4);  // it knows who is missing

// The service holds the rank until it leaves, so users hold it through a pointer that makes it leave.
std::shared_ptr<Mesh> handed_out(std::shared_ptr<MeshRank> rank) {
  MeshRank* const raw = rank.get();
  return {raw, [rank = std::move(rank)](Mesh*) { rank->leave(); }};
}

Status check_rank(int32_t rank, int32_t ranks) {
  if (ranks < 1 || ranks > kMaxRanks) {
    return {Code::kInvalidArgument, fmt::format("{} ranks: there must be 1 to {}", ranks, kMaxRanks)};
  }
  if (rank < 0 || rank >= ranks) {
    return {Code::kInvalidArgument, fmt::format("rank {} of {} ranks: it must be 0 to {}", rank, ranks, ranks - 1)};
  }
  return {};
}

Duration operation_timeout(const Service& service, Duration asked) {
  return asked > Duration::zero() ? asked : service.options().operation_timeout;
}

Status wait_for_all(Service& service, MeshRank& mesh, Duration patience, const std::function<bool()>& cancelled) {
  const Time limit = service.system().clock.now() + patience;
  while (!mesh.complete() && !mesh.failed()) {
    if (cancelled && cancelled()) {
      return {Code::kInvalidUsage, fmt::format("rank {} was told to stop joining", mesh.rank())};
    }
    const Time now = service.system().clock.now();
    if (now >= limit) {
      return {Code::kTimeout, fmt::format("rank {} of {} heard from too few others within {:g} s", mesh.rank(),
                                          mesh.ranks(), seconds(patience))};
    }
    (void)mesh.poller().wait(std::min(limit, now + kLook));
  }
  return mesh.complete() ? Status() : mesh.status();
}

}  // namespace

Result<std::shared_ptr<Mesh>> join_mesh(Service& service, const JoinOptions& options) {
  HOCKET_TRY(service.ready());
  HOCKET_TRY(check_rank(options.rank, options.ranks));
  Result<UniqueId> id = decode_unique_id(options.unique_id);
  if (!id.ok()) return id.status();
  Result<std::unique_ptr<Poller>> poller = service.system().network.make_poller();
  if (!poller.ok()) return poller.status();
  const std::string public_id = id->public_id();
  load_kernels_of_slices(options.context);
  const Duration patience = operation_timeout(service, options.operation_timeout);
  const Membership self{
      public_id, id->key, options.rank, options.ranks, patience, options.context, devices_of(options.context)};
  const auto rank = std::make_shared<MeshRank>(service, std::move(*poller), self);
  // Open before the root can tell a peer to dial it.
  HOCKET_TRY(service.open_door(public_id, options.rank, rank));
  std::shared_ptr<Mesh> mesh = handed_out(rank);
  rank->join(*id);
  HOCKET_TRY(wait_for_all(service, *rank, patience + kRootSpeaksFirst, options.cancelled));
  return mesh;
}

Result<std::shared_ptr<Mesh>> open_mesh(Service& service, MeshOptions options) {
  HOCKET_TRY(service.ready());
  const auto ranks = static_cast<int32_t>(options.peers.size());
  HOCKET_TRY(check_rank(options.rank, ranks));
  if (options.id.size() != kKeyBytes || options.key.size() < kKeyBytes) {
    return Status(Code::kInternal, fmt::format("a mesh with an id of {} bytes and a key of {}: both have {}",
                                               options.id.size(), options.key.size(), kKeyBytes));
  }
  for (int32_t rank = 0; rank < ranks; ++rank) options.peers[static_cast<size_t>(rank)].rank = rank;
  Result<std::unique_ptr<Poller>> poller = service.system().network.make_poller();
  if (!poller.ok()) return poller.status();
  load_kernels_of_slices(options.context);
  const Duration patience = operation_timeout(service, options.operation_timeout);
  // What peers know is what was told when they met first.
  const std::string& devices = options.peers[static_cast<size_t>(options.rank)].devices;
  const bool is_it = !devices.empty() && devices == devices_of(options.context);
  const Membership self{options.id, options.key, options.rank, ranks, patience, is_it ? options.context : nullptr,
                        devices};
  const auto rank = std::make_shared<MeshRank>(service, std::move(*poller), self);
  rank->open(std::move(options.peers), std::move(options.doom), std::move(options.is_lost));
  HOCKET_TRY(service.open_door(options.id, options.rank, rank));
  return handed_out(rank);
}

Result<std::string> make_unique_id(Service& service, const Address& address) {
  HOCKET_TRY(service.ready());
  Result<std::string> key = random_bytes(kKeyBytes);
  if (!key.ok()) return key.status();
  UniqueId id;
  id.key = *key;
  id.addresses = service.self().addresses;
  if (!address.empty()) {
    Result<Address> bound = service.listen(address);
    if (!bound.ok()) return bound.status();
    id.addresses = {*bound};
  }
  HOCKET_TRY(open_root(service, id.key));
  return encode_unique_id(id);
}

}  // namespace hocket
