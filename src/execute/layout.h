// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How the chunks of a plan's buffer lie in memory for one call, and the walk over the pieces of a place. Counts are
// elements. Knows no pipe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "plan/plan.h"

namespace hocket {

// Elements [begin, begin + length) of every chunk: what one pass of a call works on.
struct Window {
  size_t begin = 0;
  size_t length = 0;
};

struct Layout {
  std::byte* base = nullptr;
  int32_t chunks = 1;
  // Equal parts: chunk i is elements [i * part, (i + 1) * part) of `total`, cut off at the end.
  size_t total = 0;
  size_t part = 0;
  // Or one count and offset per chunk (v-forms).
  std::vector<size_t> counts;
  std::vector<size_t> offsets;
  // Or scratch: chunk i is as long as chunk i mod n of this layout, and has room for one window.
  const Layout* model = nullptr;
  size_t room = 0;

  struct Range {
    size_t offset = 0;
    size_t length = 0;
  };

  Range chunk(int32_t index) const {
    const auto i = static_cast<size_t>(index);
    if (!counts.empty()) return {offsets[i], counts[i]};
    const size_t begin = std::min(i * part, total);
    return {begin, std::min(part, total - begin)};
  }

  // What of a chunk lies in the window.
  Range piece(int32_t index, Window window) const {
    const Range whole = (model == nullptr) ? chunk(index) : model->chunk(index % model->chunks);
    const size_t skipped = std::min(window.begin, whole.length);
    const size_t length = std::min(window.length, whole.length - skipped);
    return {model == nullptr ? whole.offset + skipped : static_cast<size_t>(index) * room, length};
  }

  size_t longest_chunk() const {
    return counts.empty() ? std::min(part, total) : *std::max_element(counts.begin(), counts.end());
  }
  // In all chunks.
  size_t elements() const { return counts.empty() ? total : std::accumulate(counts.begin(), counts.end(), size_t{0}); }
  // All chunks hold no more.
  size_t most_elements() const { return static_cast<size_t>(chunks) * longest_chunk(); }

  // `total` elements in `chunks` parts whose boundaries are multiples of 64 bytes and of `block` elements, as far as
  // they can be equal. One of the two is a multiple of the other.
  static Layout even(const void* base, int32_t chunks, size_t total, size_t element_bytes, size_t block = 1);
  // `chunks` parts of exactly `part` elements.
  static Layout blocks(const void* base, int32_t chunks, size_t part);
  // One count per chunk; offsets empty: packed.
  static Layout listed(const void* base, std::vector<size_t> counts, std::vector<size_t> offsets);
  // Each chunk in `parts` parts, whose boundaries within it lie as those of even().
  Layout in_parts(int32_t parts, size_t element_bytes, size_t block = 1) const;
  // `chunks` windows of `room` elements at `base`, holding partial results of the chunks of `model`.
  static Layout scratch(std::byte* base, int32_t chunks, size_t room, const Layout& model);
};

inline bool has_message(const Step& step) {
  return std::any_of(step.sources.begin(), step.sources.end(), is_message) ||
         std::any_of(step.destinations.begin(), step.destinations.end(), is_message);
}
// Chunks of this rank's buffer are among the places.
bool uses(const Plan& plan, std::vector<Place> Step::* places, Buffer buffer);
// The step moves no bytes: it sends and awaits signals.
bool is_signal(const Step& step);
inline bool is_one_chunk(const Place& place) {
  return place.regions.size() == 1 && place.regions[0].count == 1 && place.regions[0].block == 1;
}
// Every place of the step is one piece of memory.
bool is_contiguous(const Step& step);
// Of a place that is one chunk.
inline Layout::Range only_range(const Layout& layout, const Place& place, Window window) {
  return layout.piece(place.regions[0].first % layout.chunks, window);
}

// The chunks of a place's regions, one after the other, clipped to a window.
class PieceWalk {
 public:
  PieceWalk(const Layout& layout, const std::vector<Region>& regions, Window window)
      : layout_(&layout), regions_(&regions), window_(window) {
    load();
  }

  bool ended() const { return region_ == regions_->size(); }
  // What is left of the current piece.
  Layout::Range piece() const { return {piece_.offset + taken_, piece_.length - taken_}; }
  // Goes `count` elements on; may pass over pieces.
  void advance(size_t count);

 private:
  void load();  // the current chunk, or the next one that is not empty
  void next_chunk();

  const Layout* layout_;
  const std::vector<Region>* regions_;
  Window window_;
  size_t region_ = 0;
  int32_t block_ = 0;
  int32_t index_ = 0;
  Layout::Range piece_;
  size_t taken_ = 0;
};

// Elements of a place in a window.
size_t extent(const Layout& layout, const std::vector<Region>& regions, Window window);

}  // namespace hocket
