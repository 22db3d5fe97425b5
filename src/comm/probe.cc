// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/probe.h"

namespace hocket {
namespace {

// Only who drives a receive uses its pipe, and nobody issues one meanwhile.
bool is_receiving(Communicator& communicator, Rank peer) {
  CallFacts facts;
  facts.collective = Collective::kSendRecv;
  facts.peer = peer;
  const Order& order = communicator.order(facts);
  return order.ended.load(std::memory_order_acquire) != order.issued.load();
}

}  // namespace

Result<Rank> probe(Communicator& communicator, Rank after) {
  const Rank ranks = communicator.ranks();
  for (Rank i = 1; i <= ranks; ++i) {
    const Rank peer = (after + i) % ranks;
    if (peer == communicator.rank() || is_receiving(communicator, peer)) continue;
    Receiver* pipe = communicator.mesh().receiver(PipeClass::kPointToPoint, peer, 0);
    if (pipe == nullptr) continue;
    HOCKET_TRY(pipe->progress());
    if (pipe->peek() != nullptr) return peer;
  }
  return -1;
}

}  // namespace hocket
