// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/layout.h"

#include <algorithm>
#include <utility>

namespace hocket {
namespace {

std::byte* writable(const void* base) { return const_cast<std::byte*>(static_cast<const std::byte*>(base)); }

constexpr size_t kBoundaryBytes = 64;

// The length of all but the last of `parts` parts.
size_t even_part(size_t total, int32_t parts, size_t element_bytes, size_t block) {
  const auto count = static_cast<size_t>(parts);
  const size_t grain = std::max(kBoundaryBytes / element_bytes, block);
  return parts == 1 ? total : (total / count + (total % count != 0) + grain - 1) / grain * grain;
}

}  // namespace

Layout Layout::even(const void* base, int32_t chunks, size_t total, size_t element_bytes, size_t block) {
  Layout layout;
  layout.base = writable(base);
  layout.chunks = chunks;
  layout.total = total;
  layout.part = even_part(total, chunks, element_bytes, block);
  return layout;
}

Layout Layout::blocks(const void* base, int32_t chunks, size_t part) {
  Layout layout;
  layout.base = writable(base);
  layout.chunks = chunks;
  layout.part = part;
  layout.total = part * static_cast<size_t>(chunks);
  return layout;
}

Layout Layout::listed(const void* base, std::vector<size_t> counts, std::vector<size_t> offsets) {
  Layout layout;
  layout.base = writable(base);
  layout.chunks = static_cast<int32_t>(counts.size());
  if (offsets.empty()) {
    size_t next = 0;
    for (const size_t count : counts) {
      offsets.push_back(next);
      next += count;
    }
  }
  layout.counts = std::move(counts);
  layout.offsets = std::move(offsets);
  return layout;
}

Layout Layout::in_parts(int32_t parts, size_t element_bytes, size_t block) const {
  Layout layout = *this;
  layout.chunks = chunks * parts;
  layout.counts.clear();
  layout.offsets.clear();
  for (int32_t whole = 0; whole < chunks; ++whole) {
    const Range range = chunk(whole);
    const size_t length = even_part(range.length, parts, element_bytes, block);
    for (int32_t i = 0; i < parts; ++i) {
      const size_t begin = std::min(static_cast<size_t>(i) * length, range.length);
      layout.offsets.push_back(range.offset + begin);
      layout.counts.push_back(std::min(length, range.length - begin));
    }
  }
  return layout;
}

Layout Layout::scratch(std::byte* base, int32_t chunks, size_t room, const Layout& model) {
  Layout layout;
  layout.base = base;
  layout.chunks = chunks;
  layout.room = room;
  layout.model = &model;
  return layout;
}

bool uses(const Plan& plan, std::vector<Place> Step::* places, Buffer buffer) {
  const auto is_there = [&](const Place& place) { return place.kind == Place::Kind::kChunk && place.buffer == buffer; };
  return std::ranges::any_of(plan.lanes, [&](const Lane& lane) {
    return std::ranges::any_of(lane.steps,
                               [&](const Step& step) { return std::ranges::any_of(step.*places, is_there); });
  });
}

bool is_contiguous(const Step& step) {
  const auto contiguous = [](const Place& place) { return is_message(place) || is_one_chunk(place); };
  return std::all_of(step.sources.begin(), step.sources.end(), contiguous) &&
         std::all_of(step.destinations.begin(), step.destinations.end(), contiguous);
}

bool is_signal(const Step& step) {
  return std::all_of(step.sources.begin(), step.sources.end(), is_message) &&
         std::all_of(step.destinations.begin(), step.destinations.end(), is_message);
}

void PieceWalk::next_chunk() {
  const Region& region = (*regions_)[region_];
  taken_ = 0;
  if (++index_ < region.block) return;
  index_ = 0;
  if (++block_ < region.count) return;
  block_ = 0;
  ++region_;
}

void PieceWalk::load() {
  while (!ended()) {
    const Region& region = (*regions_)[region_];
    if (region.count == 0) {
      ++region_;
      continue;
    }
    const int64_t chunk = (int64_t{region.first} + int64_t{block_} * region.stride + index_) % layout_->chunks;
    piece_ = layout_->piece(static_cast<int32_t>(chunk < 0 ? chunk + layout_->chunks : chunk), window_);
    if (piece_.length > 0) return;
    next_chunk();
  }
  piece_ = {};
}

void PieceWalk::advance(size_t count) {
  while (count > 0) {
    const size_t step = std::min(count, piece_.length - taken_);
    taken_ += step;
    count -= step;
    if (taken_ < piece_.length) return;
    next_chunk();
    load();
  }
}

size_t extent(const Layout& layout, const std::vector<Region>& regions, Window window) {
  size_t sum = 0;
  for (PieceWalk walk(layout, regions, window); !walk.ended(); walk.advance(walk.piece().length)) {
    sum += walk.piece().length;
  }
  return sum;
}

}  // namespace hocket
