// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/mscclpp_clocks.h"

#include <algorithm>

namespace hocket::mscclpp {

Clocks::Clocks(const Algorithm& algorithm, size_t blocks) : algorithm_(algorithm), clocks_(blocks, Clock(blocks, 0)) {
  for (size_t block = 0; block < blocks; ++block) clocks_[block][block] = 1;
  size_t next = 0;
  for (const Gpu& gpu : algorithm.gpus) {
    auto& first = first_.emplace_back();
    const int32_t input = algorithm.in_place ? 0 : gpu.input_chunks;
    first = {next, next + static_cast<size_t>(input), next + static_cast<size_t>(input + gpu.output_chunks)};
    next = first[2] + static_cast<size_t>(gpu.scratch_chunks);
  }
  cells_.resize(next);
}

size_t Clocks::cell(const Span& span, int32_t chunk) const {
  const auto gpu = static_cast<size_t>(span.gpu);
  int32_t number = span.run.first + chunk;
  const bool is_block = span.run.buffer == Buffer::kSend && algorithm_.collective == Collective::kAllGather;
  if (algorithm_.in_place && is_block) number += span.gpu * algorithm_.gpus[gpu].input_chunks;
  return first_[gpu][static_cast<size_t>(span.run.buffer)] + static_cast<size_t>(number);
}

void Clocks::join(size_t block, const Clock& other) {
  for (size_t i = 0; i < other.size(); ++i) clocks_[block][i] = std::max(clocks_[block][i], other[i]);
}

bool Clocks::has_packets(const Span& span) const {
  for (int32_t chunk = 0; chunk < span.run.count; ++chunk) {
    if (cells_[cell(span, chunk)].packet == nullptr) return false;
  }
  return true;
}

void Clocks::take_packets(size_t block, const Span& span) {
  for (int32_t chunk = 0; chunk < span.run.count; ++chunk) {
    const std::shared_ptr<const Clock> packet = cells_[cell(span, chunk)].packet;
    if (packet != nullptr) join(block, *packet);
  }
}

std::optional<size_t> Clocks::read(size_t block, const Span& span) {
  for (int32_t chunk = 0; chunk < span.run.count; ++chunk) {
    Cell& touched = cells_[cell(span, chunk)];
    if (touched.written.has_value() && !has_seen(block, *touched.written)) return touched.written->block;
    std::erase_if(touched.read, [&](const Touch& touch) { return touch.block == block; });
    touched.read.push_back({block, clocks_[block][block]});
  }
  return std::nullopt;
}

std::optional<size_t> Clocks::write(size_t block, const Span& span) {
  const auto packet = span.packets ? std::make_shared<const Clock>(clocks_[block]) : nullptr;
  for (int32_t chunk = 0; chunk < span.run.count; ++chunk) {
    Cell& touched = cells_[cell(span, chunk)];
    if (touched.written.has_value() && !has_seen(block, *touched.written)) return touched.written->block;
    for (const Touch& touch : touched.read) {
      if (!has_seen(block, touch)) return touch.block;
    }
    touched = {.written = Touch{block, clocks_[block][block]}, .read = {}, .packet = packet};
  }
  return std::nullopt;
}

}  // namespace hocket::mscclpp
