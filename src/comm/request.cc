// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/request.h"

#include <fmt/format.h>

#include <utility>

#include "plan/builders.h"

namespace hocket {

bool follow_from_arguments(CallFacts facts) {
  facts.send_spot = facts.recv_spot = {};
  facts.reproducibility = {};
  return facts == CallFacts{static_cast<const CallArguments&>(facts)};
}

void note_parts(const std::vector<size_t>& counts, CallFacts& facts) {
  uint64_t hash = 1;
  facts.total = 0;
  for (const size_t count : counts) {
    hash = (hash ^ count) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    facts.total += count;
  }
  facts.parts = static_cast<uint32_t>(hash) | 1;
}

std::string op_name(int32_t handle) {
  constexpr const char* kNames[] = {"sum",    "prod",    "max",         "min",        "avg",        "bit_and",
                                    "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};
  if (handle >= 0 && static_cast<size_t>(handle) < std::size(kNames)) return kNames[handle];
  return fmt::format("created op {}", handle);
}

std::string describe(const CallFacts& facts) {
  if (is_transfer(facts)) {
    return fmt::format("{}(count {}, {}, {} rank {})", facts.sending ? "send" : "recv", facts.count, name(facts.type),
                       facts.sending ? "to" : "from", facts.peer);
  }
  if (facts.collective == Collective::kBarrier) return "barrier()";
  std::string text = fmt::format("{}{}(", name(facts.collective), facts.v_form ? "_v" : "");
  if (!facts.v_form) text += fmt::format("count {}, ", facts.count);
  if (facts.parts != 0) text += fmt::format("{} in all, counts #{:08x}, ", facts.total, facts.parts);
  text += name(facts.type);
  if (is_reducing(facts.collective)) text += fmt::format(", {}", op_name(facts.op));
  if (is_rooted(facts.collective)) text += fmt::format(", root {}", facts.root);
  if (facts.reproducibility == Reproducibility::kOrdered) text += ", ordered";
  if (is_exact(facts)) text += ", exact";
  if (facts.coding != 0) {
    text += fmt::format(", codec #{:08x}{}", facts.coding, facts.encodes ? "" : " not used");
  }
  for (const auto& [buffer, spot] : {std::pair{"sendbuff", facts.send_spot}, {"recvbuff", facts.recv_spot}}) {
    if (spot.window != 0) text += fmt::format(", {} at {} of window {}", buffer, spot.offset, spot.window);
  }
  return text + ")";
}

}  // namespace hocket
