// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// After step k a rank knows itself and the 2^(k+1) - 1 ranks before it.
#include "comm/mesh_exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/mesh_wire.h"

namespace hocket {

std::vector<int32_t> ranks_ahead(int32_t rank, int32_t ranks) {
  std::vector<int32_t> ahead;
  for (int64_t distance = 1; distance < ranks; distance *= 2) {
    ahead.push_back(static_cast<int32_t>((rank + distance) % ranks));
  }
  return ahead;
}

std::vector<int32_t> ranks_behind(int32_t rank, int32_t ranks) {
  std::vector<int32_t> behind;
  for (const int32_t distance : ranks_ahead(0, ranks)) behind.push_back((rank + ranks - distance) % ranks);
  return behind;
}

TableExchange::TableExchange(int32_t rank, int32_t ranks, PeerInfo self)
    : rank_(rank), ranks_(ranks), peers_(static_cast<size_t>(ranks)) {
  peers_[static_cast<size_t>(rank)] = std::move(self);
}

int32_t TableExchange::count_of(int step) const { return std::min(1 << step, ranks_ - (1 << step)); }

std::string TableExchange::frame_of(int step) const {
  Writer writer;
  writer.u8(static_cast<uint8_t>(MessageType::kTable));
  writer.u8(static_cast<uint8_t>(step));
  for (int32_t distance = 0; distance < count_of(step); ++distance) {
    write_peer(writer, peers_[static_cast<size_t>(before(distance))]);
  }
  return writer.take();
}

std::vector<TableExchange::Outgoing> TableExchange::start() {
  started_ = true;
  return advance();
}

std::vector<TableExchange::Outgoing> TableExchange::advance() {
  std::vector<Outgoing> outgoing;
  if (!started_) return outgoing;
  for (;;) {
    const bool last_is_sent = (int64_t{1} << sent_) >= ranks_;
    if (sent_ == received_ && !last_is_sent) {
      outgoing.push_back({static_cast<int32_t>((rank_ + (int64_t{1} << sent_)) % ranks_), frame_of(sent_)});
      ++sent_;
    }
    const auto next = early_.find(received_);
    if (next == early_.end() || received_ == sent_) return outgoing;
    for (PeerInfo& info : next->second) peers_[static_cast<size_t>(info.rank)] = std::move(info);
    known_ += static_cast<int32_t>(next->second.size());
    early_.erase(next);
    ++received_;
  }
}

Result<std::vector<TableExchange::Outgoing>> TableExchange::receive(int32_t from, Reader& reader) {
  const int step = reader.u8();
  const bool exists = step < 31 && (1 << step) < ranks_;
  if (!exists || from != before(1 << step) || step < received_ || early_.contains(step)) {
    return Status(Code::kInternal, fmt::format("rank {} sent step {} of the table to rank {}", from, step, rank_));
  }
  std::vector<PeerInfo> infos(static_cast<size_t>(count_of(step)));
  for (int32_t i = 0; i < count_of(step); ++i) {
    PeerInfo& info = infos[static_cast<size_t>(i)];
    if (!read_peer(reader, &info) || info.rank != before((1 << step) + i)) {
      return Status(Code::kInternal, fmt::format("rank {} sent a malformed step {} of the table", from, step));
    }
  }
  early_.emplace(step, std::move(infos));
  return advance();
}

}  // namespace hocket
