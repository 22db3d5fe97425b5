// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows: telling the peers of our parts, and mapping theirs. Only where all ranks are on one host and reach each
// other through memory; elsewhere nothing is told, for every rank knows that it would be in vain.
#include <fmt/format.h>

#include <algorithm>

#include "comm/mesh_rank.h"
#include "comm/shared_heap.h"
#include "comm/signals.h"

namespace hocket {
namespace {

constexpr Duration kSentLook = std::chrono::milliseconds(1);

}  // namespace

uint32_t MeshRank::open_window(std::span<std::byte> memory, std::shared_ptr<const Segment> segment, size_t offset,
                               WindowPurpose purpose) {
  // What is reached through sockets alone, by the user's wish, is not reached through memory either.
  const bool by_memory = std::all_of(transports_.begin(), transports_.end(), [](const Transport* transport) {
    return transport != nullptr && transport->carrier() != Transport::Carrier::kSocket;
  });
  if (!by_memory) segment = nullptr;
  const uint32_t number = windows_.open(memory, segment, purpose);
  if (!all_share_memory()) {
    windows_.give_up(number);
    return number;
  }
  const size_t segment_bytes = segment == nullptr ? 0 : segment->bytes().size();
  service_.reactor().post([self = shared_from_this(), offer = WindowOffer{number, memory.size(), segment_bytes, offset},
                           segment = std::move(segment)] { self->offer_window(offer, segment); });
  return number;
}

Status MeshRank::take_back(std::span<std::byte> pages) {
  for (const std::shared_ptr<Door>& door : service_.all_doors()) {
    const auto other = std::dynamic_pointer_cast<MeshRank>(door);
    if (other == nullptr || other.get() == this || !other->windows_.holds(pages)) continue;
    other->abort(Status(Code::kRemote,
                        fmt::format("rank {}: another communicator has failed while its peers wrote into memory that "
                                    "is a window of this one, too: {}",
                                    other->rank_, status().message())));
  }
  return process_heap().take_back(pages);
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

void MeshRank::on_window(int32_t peer, Reader& reader, std::vector<Handle>& handles) {
  WindowOffer offer;
  bool makes_sense = read_window(reader, &offer) && handles.size() == (offer.segment_bytes == 0 ? 0U : 1U);
  if (offer.number == WindowTable::kSignals) {
    makes_sense &= offer.bytes == SignalBoard::bytes(ranks_) && offer.offset % SignalBoard::kLine == 0;
  }
  if (!makes_sense) return on_misbehaviour(peer, "its part of a window cannot be");
  WindowPart part;
  part.bytes = offer.bytes;
  if (!handles.empty()) {
    Result<std::unique_ptr<Segment>> segment =
        service_.system().memory.map(std::exchange(handles, {}).front(), offer.segment_bytes);
    if (!segment.ok()) {
      return fail(
          Status(segment.status().code(), fmt::format("rank {} cannot map window {} of {}: {}", rank_, offer.number,
                                                      describe(peer), segment.status().message())));
    }
    part.begin = (*segment)->bytes().data() + offer.offset;
    part.segment = std::move(*segment);
  }
  if (!windows_.put(peer, offer.number, std::move(part)))
    return on_misbehaviour(peer, fmt::format("it told of window {}, which cannot be", offer.number));
}

}  // namespace hocket
