// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Bytes are events: each send arrives after the latency and a little chance, in order, in one piece or in two.
#include "base/simulated_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {
namespace {

constexpr uint64_t kSendsPerShortOne = 16;
constexpr uint64_t kSendsPerSplitOne = 4;
constexpr uint64_t kArrivalMark = uint64_t{1} << 32;  // tells arrivals from turns in the trace

}  // namespace

void SimulatedEnd::join(const std::shared_ptr<SimulatedEnd>& one, const std::shared_ptr<SimulatedEnd>& other) {
  one->peer_ = other;
  other->peer_ = one;
}

void SimulatedEnd::connect() {
  connected_ = true;
  notify();
}

void SimulatedEnd::fail(Status failure) {
  failure_ = std::move(failure);
  notify();
}

Result<size_t> SimulatedEnd::room_for(size_t bytes) {
  scheduler_.preempt();
  scheduler_.run_events();
  if (peer_has_closed_ && failure_.ok()) {
    failure_ = Status(Code::kRemote, fmt::format("lost the connection to {}: connection reset by peer", peer_name_));
  }
  if (!failure_.ok()) return failure_;
  if (!connected_) return size_t{0};
  const size_t room = std::min(bytes, path_.links->socket_buffer - on_their_way_);
  was_full_ = was_full_ || room < bytes;
  return room;
}

Result<size_t> SimulatedEnd::send(std::span<const std::span<const std::byte>> parts) {
  std::string bytes;
  for (const auto& part : parts) bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  const Result<size_t> room = room_for(bytes.size());
  if (!room.ok() || *room == 0) return room;
  const bool is_short = *room > 1 && scheduler_.random(kSendsPerShortOne) == 0;
  const size_t accepted = is_short ? 1 + scheduler_.random(*room - 1) : *room;
  bytes.resize(accepted);
  deliver(std::move(bytes), {});
  // An edge follows what was not accepted: a sender that stops here must hear of room again.
  if (is_short)
    scheduler_.at(scheduler_.now() + path_.latency(), [end = weak_from_this()] {
      if (const auto alive = end.lock()) alive->notify();
    });
  return accepted;
}

Result<size_t> SimulatedEnd::send_objects(std::span<const std::byte> bytes, Objects objects) {
  const Result<size_t> room = room_for(bytes.size());
  if (!room.ok()) return room;
  if (*room < bytes.size()) return size_t{0};
  deliver(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), std::move(objects));
  return bytes.size();
}

Time SimulatedEnd::arrival_time() {
  const Duration latency = path_.latency();
  const auto chance = static_cast<uint64_t>(latency.count()) / 4 + 1;
  const Time time = scheduler_.now() + latency + Duration(static_cast<int64_t>(scheduler_.random(chance)));
  last_arrival_ = std::max(last_arrival_, time);
  return last_arrival_;
}

void SimulatedEnd::at_peer(Time time, std::function<void(SimulatedEnd&)> function) {
  scheduler_.at(time, [peer = peer_.lock(), path = path_, function = std::move(function)] {
    if (peer != nullptr && !peer->closed_ && !path.is_cut()) function(*peer);
  });
}

void SimulatedEnd::deliver(std::string bytes, Objects objects) {
  on_their_way_ += bytes.size();
  std::string rest;
  if (objects.empty() && bytes.size() > 1 && scheduler_.random(kSendsPerSplitOne) == 0) {
    rest = bytes.substr(1 + scheduler_.random(bytes.size() - 1));
    bytes.resize(bytes.size() - rest.size());
  }
  const auto arrive_later = [this](std::string piece, Objects with) {
    at_peer(arrival_time(),
            [piece = std::move(piece), with = std::move(with)](SimulatedEnd& peer) { peer.on_arrival(piece, with); });
  };
  arrive_later(std::move(bytes), std::move(objects));
  if (!rest.empty()) arrive_later(std::move(rest), {});
}

void SimulatedEnd::on_arrival(const std::string& bytes, Objects objects) {
  scheduler_.trace(kArrivalMark + bytes.size());
  if (!objects.empty()) parcels_.push_back({bytes_read_ + inbox_.size(), std::move(objects)});
  inbox_ += bytes;
  notify();
}

void SimulatedEnd::on_room(size_t bytes) {
  on_their_way_ -= bytes;
  if (!std::exchange(was_full_, false)) return;
  notify();
}

Result<size_t> SimulatedEnd::receive(std::span<std::byte> into) {
  scheduler_.preempt();
  scheduler_.run_events();
  const size_t count = std::min(into.size(), inbox_.size());
  if (count == 0) {
    if (into.empty() || !connected_ || !inbox_.empty()) return failure_.ok() ? Result<size_t>(size_t{0}) : failure_;
    if (peer_has_closed_ && failure_.ok()) {
      failure_ = Status(Code::kRemote, fmt::format("{} closed the connection", peer_name_));
    }
    return failure_.ok() ? Result<size_t>(size_t{0}) : failure_;
  }
  std::memcpy(into.data(), inbox_.data(), count);
  inbox_.erase(0, count);
  bytes_read_ += count;
  while (!parcels_.empty() && parcels_.front().position < bytes_read_) {
    for (auto& object : parcels_.front().objects) taken_.push_back(std::move(object));
    parcels_.pop_front();
  }
  at_peer(scheduler_.now() + path_.latency(), [count](SimulatedEnd& peer) { peer.on_room(count); });
  return count;
}

void SimulatedEnd::close() {
  closed_ = true;
  at_peer(arrival_time(), [](SimulatedEnd& peer) { peer.on_end(); });
}

void SimulatedEnd::on_end() {
  scheduler_.trace(kArrivalMark);
  peer_has_closed_ = true;
  notify();
}

}  // namespace hocket
