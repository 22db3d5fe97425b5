// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/pending_call.h"

#include <fmt/format.h>

#include <map>

#include "api/place.h"

namespace hocket {

Status match_transfers_with_self(std::vector<PendingCall>& calls) {
  std::map<hocketComm_t, std::vector<size_t>> waiting;  // of equal direction, not yet matched
  std::vector<bool> consumed(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    CallFacts& facts = calls[i].request.facts;
    if (!calls[i].with_self) continue;
    auto& others = waiting[calls[i].comm];
    if (others.empty() || calls[others.front()].request.facts.sending == facts.sending) {
      others.push_back(i);
      continue;
    }
    const size_t other = others.front();
    others.erase(others.begin());
    Request& first = calls[other].request;
    if (first.facts.count != facts.count || first.facts.type != facts.type) {
      return Status(Code::kInvalidUsage,
                    fmt::format("rank {}: {} does not match {}", facts.peer, describe(first.facts), describe(facts)));
    }
    if (facts.sending) {
      first.send = calls[i].request.send;
    } else {
      first.recv = calls[i].request.recv;
    }
    first.facts.sending = true;
    // CUDA memory needs its stream, whichever side brings it.
    if (is_cuda_stream(calls[i].stream)) calls[other].stream = calls[i].stream;
    consumed[i] = true;
  }
  for (const auto& [comm, others] : waiting) {
    if (!others.empty()) {
      return Status(Code::kInvalidUsage,
                    fmt::format("{}: the group lacks its other side", describe(calls[others.front()].request.facts)));
    }
  }
  size_t index = 0;
  std::erase_if(calls, [&](const PendingCall&) { return consumed[index++]; });
  return {};
}

}  // namespace hocket
