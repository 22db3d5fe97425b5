// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Parts of the table of all ranks, from ranks that send anything in any order: refused, or what is known in the end is
// of all ranks, each in its place. The first two bytes are our rank and the number of ranks; then come frames, each
// with its sender and its length (two bytes).
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/bytes.h"
#include "comm/mesh_exchange.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket;
  if (size < 2) return 0;
  const int32_t ranks = 1 + data[1] % 16;
  const int32_t rank = data[0] % ranks;
  PeerInfo self;
  self.rank = rank;
  TableExchange exchange(rank, ranks, self);
  (void)exchange.start();
  for (size_t at = 2; at + 3 <= size;) {
    const int32_t from = data[at] % ranks;
    const size_t bytes = std::min(static_cast<size_t>(data[at + 1] | data[at + 2] << 8), size - at - 3);
    Reader reader(std::string_view(reinterpret_cast<const char*>(data) + at + 3, bytes));
    if (!exchange.receive(from, reader).ok()) return 0;
    at += 3 + bytes;
  }
  if (!exchange.complete()) return 0;
  const std::vector<PeerInfo> peers = exchange.take_peers();
  for (int32_t peer = 0; peer < ranks; ++peer) {
    if (peers[static_cast<size_t>(peer)].rank != peer) std::abort();
  }
  return 0;
}
