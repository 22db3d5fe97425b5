// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device memory that is no window: telling the peers of ours, and mapping theirs, which happens beside all calls.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "comm/device_kernels.h"
#include "comm/driver_thread.h"
#include "comm/mesh_rank.h"
#include "cuda/stream.h"
#include "plan/plan.h"

namespace hocket {
namespace {

using Mapped = Result<std::shared_ptr<const cuda::MappedMemory>>;

Mapped map_in(cuda::Context context, const cuda::MemoryOffer& offer, const Descriptor& descriptor) {
  const cuda::Driver* const driver = cuda::driver();
  if (context == nullptr || driver == nullptr) return Status(Code::kInvalidUsage, "this rank uses no device");
  const cuda::Entered entered(*driver, context);
  return cuda::MappedMemory::map(*driver, offer, descriptor);
}

}  // namespace

// Equal on all ranks, for all know the same of each.
bool MeshRank::all_reach_devices() const {
  const auto reach = [&](const PeerInfo& from, const PeerInfo& to) {
    const Transport* const transport = transport_between(from, to);
    return transport != nullptr && transport->carrier() != Transport::Carrier::kSocket &&
           cuda::reaches(from.devices, to.devices);
  };
  if (ranks_ < 2 || std::cmp_greater(ranks_, kMaxSources) || !all_share_memory()) return false;
  return std::ranges::all_of(peers_, [&](const PeerInfo& from) {
    return !from.devices.empty() &&
           std::ranges::all_of(peers_, [&](const PeerInfo& to) { return from.rank == to.rank || reach(from, to); });
  });
}

std::shared_ptr<OfferedMemory> MeshRank::offer_memory(const cuda::Driver& driver, const void* address) {
  const Result<cuda::Allocation> found = cuda::find_allocation(driver, address);
  if (!found.ok() || refused_.contains(found->number)) return nullptr;
  if (auto known = peer_memory_.find(found->number); known != nullptr) return known;
  for (const auto& gone : peer_memory_.take_surplus(driver)) {
    service_.reactor().post([self = shared_from_this(), message = withdrawal_message(gone->number())] {
      for (int32_t peer = 0; peer < self->ranks_; ++peer) {
        if (peer != self->rank_) self->links_.send(peer, message);
      }
    });
  }
  Result<cuda::SharedAllocation> shared = cuda::share(driver, address);
  if (!shared.ok()) {
    if (refused_.size() >= PeerMemory::kMostOffered) refused_.clear();
    refused_.insert(found->number);
    log_info("rank {}: device memory at {} cannot be shared, so calls on it are staged: {}", rank_, fmt::ptr(address),
             shared.status().message());
    return nullptr;
  }
  std::shared_ptr<OfferedMemory> offered = peer_memory_.add(std::move(*shared));
  if (offered == nullptr) return nullptr;
  service_.reactor().post([self = shared_from_this(), offered] { self->tell_of_device_memory(*offered); });
  return offered;
}

void MeshRank::tell_of_device_memory(const OfferedMemory& offered) {
  if (said_farewell_) return;
  std::vector<Handle> handles;
  if (offered.descriptor() != nullptr) handles.push_back(offered.descriptor()->handle());
  for (int32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_) links_.send(peer, memory_message({offered.number(), offered.offer()}), handles);
  }
  keep_until_sent(offered.descriptor());
}

void MeshRank::on_memory(int32_t peer, Reader& reader, std::vector<Handle>& handles) {
  MemoryMessage message;
  const bool makes_sense = read_memory_message(reader, &message) && handles.size() == message.handles() &&
                           peer_memory_.expect(peer, message.number);
  if (!makes_sense) return on_misbehaviour(peer, "the memory that it offered cannot be");
  const auto descriptor =
      std::make_shared<Descriptor>(handles.empty() ? kNoHandle : std::exchange(handles, {}).front());
  const auto map = [self = shared_from_this(), peer, message, descriptor]() mutable {
    Mapped mapped = map_in(self->context_, message.offer, *descriptor);
    if (!mapped.ok()) {
      log_warn("rank {} cannot map device memory of {}, so calls on it are staged: {}", self->rank_,
               self->describe(peer), mapped.status().message());
    }
    self->answer_memory(peer, message, mapped.ok() ? std::move(*mapped) : nullptr);
    self->service_.reactor().post([self = std::exchange(self, nullptr)] {});  // is destroyed there, if it is
  };
  if (!post_to_driver_thread(service_.system(), map)) answer_memory(peer, message, nullptr);
}

void MeshRank::answer_memory(int32_t peer, const MemoryMessage& message,
                             std::shared_ptr<const cuda::MappedMemory> mapped) {
  const bool is_mapped = mapped != nullptr;
  if (is_mapped) peer_memory_.put(peer, message.number, std::move(mapped), message.offer.bytes);
  service_.reactor().post([self = shared_from_this(), peer, number = message.number, is_mapped] {
    if (!self->said_farewell_) self->links_.send(peer, memory_answer(number, is_mapped));
  });
}

void MeshRank::on_memory_answer(int32_t peer, Reader& reader) {
  uint32_t number = 0;
  bool is_mapped = false;
  if (!read_memory_answer(reader, &number, &is_mapped) || !peer_memory_.answer(peer, number, is_mapped))
    on_misbehaviour(peer, "it answered for memory that it was not told of");
}

// Its owner uses it no more. Closing may wait for the device.
void MeshRank::on_withdrawal(int32_t peer, Reader& reader) {
  const uint32_t number = reader.u32();
  if (!reader.finished()) return on_misbehaviour(peer, "the memory that it took back was malformed");
  const auto let_go = [self = shared_from_this(), peer, number]() mutable {
    self->peer_memory_.take_out(peer, number);
    self->service_.reactor().post([self = std::exchange(self, nullptr)] {});
  };
  // Without that thread nothing was mapped.
  if (!post_to_driver_thread(service_.system(), let_go)) peer_memory_.take_out(peer, number);
}

void MeshRank::let_go_of_memory() {
  if (!reaches_devices_) return;  // nor does it take memory
  auto all = std::make_shared<std::vector<PeerMemory::Mapped>>(peer_memory_.take_all());
  if (!all->empty()) (void)post_to_driver_thread(service_.system(), [all] { all->clear(); });
}

}  // namespace hocket
