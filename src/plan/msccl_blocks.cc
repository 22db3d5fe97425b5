// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/msccl_blocks.h"

#include <fmt/format.h>

#include <iterator>

namespace hocket::msccl {
namespace {

char letter(Buffer buffer) { return buffer == Buffer::kSend ? 'i' : buffer == Buffer::kRecv ? 'o' : 's'; }

}  // namespace

size_t ThreadBlocks::with_ends(size_t lane, Rank send, Rank recv) {
  size_t sender = kNone;
  size_t receiver = kNone;
  size_t any = kNone;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (blocks_[block].lane != lane) continue;
    any = block;
    if (send != kNobody && blocks_[block].send == send) sender = block;
    if (recv != kNobody && blocks_[block].recv == recv) receiver = block;
  }
  if (send == kNobody && recv == kNobody && any != kNone) return any;
  if (sender != kNone && receiver != kNone) return sender == receiver ? sender : kNone;
  if (sender != kNone) return recv == kNobody || blocks_[sender].recv == kNobody ? taken(sender, send, recv) : kNone;
  if (receiver != kNone)
    return send == kNobody || blocks_[receiver].send == kNobody ? taken(receiver, send, recv) : kNone;
  return taken(open(lane), send, recv);
}

size_t ThreadBlocks::taken(size_t block, Rank send, Rank recv) {
  if (send != kNobody) blocks_[block].send = send;
  if (recv != kNobody) blocks_[block].recv = recv;
  return block;
}

size_t ThreadBlocks::open(size_t lane) {
  blocks_.push_back({kNobody, kNobody, lane, {}});
  return blocks_.size() - 1;
}

ThreadBlocks::Position ThreadBlocks::put(size_t block, const Move& move, std::vector<Position> waits) {
  std::erase_if(waits, [&](const Position& wait) { return wait.block == block; });
  while (waits.size() > 1) {
    append(block, {}, waits.back());
    waits.pop_back();
  }
  append(block, move, waits.empty() ? std::nullopt : std::optional(waits[0]));
  return {block, blocks_[block].steps.size() - 1};
}

void ThreadBlocks::append(size_t block, const Move& move, const std::optional<Position>& awaited) {
  if (awaited.has_value()) blocks_[awaited->block].steps[awaited->step].is_awaited = true;
  blocks_[block].steps.push_back({move, awaited, false});
}

std::string ThreadBlocks::text() const {
  std::string out;
  const auto end = std::back_inserter(out);
  for (size_t number = 0; number < blocks_.size(); ++number) {
    const Block& block = blocks_[number];
    fmt::format_to(end, "    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", number, block.send, block.recv,
                   block.lane);
    for (size_t i = 0; i < block.steps.size(); ++i) {
      const auto& [move, awaited, is_awaited] = block.steps[i];
      const bool moves = move.action != Action::kNothing;
      fmt::format_to(
          end,
          "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" "
          "depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
          i, name(move.action), letter(move.source.buffer), moves ? move.source.first : -1, letter(move.target.buffer),
          moves ? move.target.first : -1, moves ? move.source.count : 0,
          awaited ? static_cast<int64_t>(awaited->block) : -1, awaited ? static_cast<int64_t>(awaited->step) : -1,
          is_awaited ? 1 : 0);
    }
    out += "    </tb>\n";
  }
  return out;
}

}  // namespace hocket::msccl
