// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows: telling the peers of our parts, and mapping theirs. Only where all ranks are on one host and reach each
// other through memory; elsewhere nothing is told, for every rank knows that it would be in vain.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caught.h"
#include "comm/device_windows.h"
#include "comm/mesh_rank.h"
#include "comm/shared_heap.h"
#include "comm/signals.h"
#include "kernels/cuda/low_latency_work.h"

namespace hocket {
namespace {

constexpr Duration kSentLook = std::chrono::milliseconds(1);

}  // namespace

uint32_t MeshRank::open_window(std::span<std::byte> memory, std::shared_ptr<const Segment> segment, size_t offset,
                               WindowPurpose purpose) {
  const std::shared_ptr<const Segment> keeps = segment;
  if (!all_by_memory()) segment = nullptr;
  std::unique_ptr<LastingMemory::Hold> lasts;
  if (purpose == WindowPurpose::kData) lasts = std::make_unique<LastingMemory::Hold>(memory);
  const uint32_t number = windows_.open(memory, segment, purpose, nullptr, std::move(lasts));
  windows_.keep(number, keeps);
  const size_t segment_bytes = segment == nullptr ? 0 : segment->bytes().size();
  tell_of_window({number, memory.size(), segment_bytes, offset}, std::move(segment));
  return number;
}

uint32_t MeshRank::open_window(std::span<std::byte> memory, std::shared_ptr<DevicePart> device,
                               std::shared_ptr<const BeyondHost> beyond, WindowPurpose purpose) {
  if (!all_by_memory()) device = nullptr;
  std::unique_ptr<LastingMemory::Hold> lasts;
  if (beyond != nullptr) lasts = std::make_unique<LastingMemory::Hold>(memory, std::move(beyond));
  const uint32_t number = windows_.open(memory, nullptr, purpose, device, std::move(lasts), false);
  WindowOffer offer{.number = number, .bytes = memory.size()};
  if (device != nullptr) {
    offer.segment_bytes = device->offer.bytes;
    offer.offset = device->offset;
    offer.device = device->offer;
  }
  tell_of_window(std::move(offer), device == nullptr ? nullptr : device->segment);
  return number;
}

// What is reached through sockets alone, by the user's wish, is not reached through memory either.
bool MeshRank::all_by_memory() const {
  return std::all_of(transports_.begin(), transports_.end(), [](const Transport* transport) {
    return transport != nullptr && transport->carrier() != Transport::Carrier::kSocket;
  });
}

void MeshRank::tell_of_window(WindowOffer offer, std::shared_ptr<const Segment> segment) {
  if (!all_share_memory()) return windows_.give_up(offer.number);
  service_.reactor().post([self = shared_from_this(), offer = std::move(offer), segment = std::move(segment)] {
    self->offer_window(offer, segment);
  });
}

Status MeshRank::take_back(std::span<std::byte> pages) {
  process_heap().close(pages);  // what is registered from now on does not count on it
  const Status others = tried([&] { return fail_others_with(pages), Status(); });
  if (!others.ok()) service_.fail_all_without_memory();
  return tried([&] { return process_heap().take_back(pages); });
}

void MeshRank::fail_others_with(std::span<std::byte> pages) {
  for (const std::shared_ptr<Door>& door : service_.all_doors()) {
    const auto other = std::dynamic_pointer_cast<MeshRank>(door);
    if (other == nullptr || other.get() == this || !other->windows_.holds(pages)) continue;
    other->abort(taken_back(other->rank_));
  }
}

Status taken_back(int32_t rank) {
  return {Code::kRemote,
          fmt::format("rank {}: another communicator has failed while its peers wrote into memory that is a "
                      "window of this one, too",
                      rank)};
}

// Equal on all ranks.
bool MeshRank::all_share_memory() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const PeerInfo& peer) { return peer.host_identity == peers_[0].host_identity; });
}

void MeshRank::offer_window(const WindowOffer& offer, const std::shared_ptr<const Segment>& segment) {
  if (said_farewell_) return;
  for (int32_t peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    links_.send(peer, window_message(offer),
                segment == nullptr ? std::vector<Handle>{} : std::vector<Handle>{segment->handle()});
  }
  keep_until_sent(segment);
}

// The caller may free the memory meanwhile, and with it the handle.
void MeshRank::keep_until_sent(const std::shared_ptr<const Segment>& segment) {
  if (segment == nullptr || closed_ || links_.flushed()) return;
  service_.reactor().at(service_.system().clock.now() + kSentLook,
                        [self = shared_from_this(), segment] { self->keep_until_sent(segment); });
}

// Memory of the host is mapped here, that of a device by the thread that first uses it.
Result<WindowPart> MeshRank::part_of(const WindowOffer& offer, std::vector<Handle>& handles) {
  WindowPart part;
  part.bytes = offer.bytes;
  if (offer.device) {
    Descriptor descriptor(handles.empty() ? kNoHandle : std::exchange(handles, {}).front());
    part.device = std::make_shared<DevicePart>(*offer.device, offer.offset, std::move(descriptor));
  } else if (!handles.empty()) {
    Result<std::unique_ptr<Segment>> segment =
        service_.system().memory.map(std::exchange(handles, {}).front(), offer.segment_bytes);
    HOCKET_TRY(segment.status());
    part.begin = (*segment)->bytes().data() + offer.offset;
    part.segment = std::move(*segment);
  }
  return part;
}

void MeshRank::on_window(int32_t peer, Reader& reader, std::vector<Handle>& handles) {
  WindowOffer offer;
  bool makes_sense = read_window(reader, &offer) && handles.size() == offer.handles();
  if (offer.number == WindowTable::kSignals) {
    makes_sense &= offer.bytes == SignalBoard::bytes(ranks_) && offer.offset % SignalBoard::kLine == 0 && !offer.device;
  }
  if (offer.number == WindowTable::kInboxes) {
    const size_t bytes = device::inbox_bytes(static_cast<uint32_t>(ranks_));
    makes_sense &= offer.bytes == bytes && (!offer.device || offer.device->bytes - offer.offset >= bytes);
  }
  if (!makes_sense) return on_misbehaviour(peer, "its part of a window cannot be");
  Result<WindowPart> part = part_of(offer, handles);
  if (!part.ok()) {
    return fail(Status(part.status().code(), fmt::format("rank {} cannot map window {} of {}: {}", rank_, offer.number,
                                                         describe(peer), part.status().message())));
  }
  if (!windows_.put(peer, offer.number, std::move(*part)))
    return on_misbehaviour(peer, fmt::format("it told of window {}, which cannot be", offer.number));
}

}  // namespace hocket
