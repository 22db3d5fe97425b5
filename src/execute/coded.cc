// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/coded.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hocket {
namespace {

// Of what a codec makes short messages: the share that it leaves.
constexpr double kLittle = 0.1;

// Calls function(memory, offset into the slice, bytes) for the pieces of a place.
template <typename Function>
void for_pieces(PieceWalk walk, std::byte* base, size_t count, size_t element, Function function) {
  for (size_t done = 0; done < count;) {
    const size_t run = std::min(count - done, walk.piece().length);
    function(base + walk.piece().offset * element, done * element, run * element);
    walk.advance(run);
    done += run;
  }
}

bool scales(const CodedSlice& slice, const Place& place) { return place.first && slice.scale != nullptr; }
bool divides(const CodedSlice& slice) { return slice.step->last && slice.divide != 0; }

// One message comes, and nothing is done to it.
bool is_forward(const CodedSlice& slice) {
  const std::vector<Place>& sources = slice.step->sources;
  return sources.size() == 1 && is_message(sources[0]) && !scales(slice, sources[0]) && !divides(slice);
}

// result := prologue(sources[0]) [op prologue(sources[1])], then the epilogue.
void combine_whole(const CodedSlice& slice, std::span<const std::byte* const> sources, uint64_t first, bool last,
                   std::byte* result) {
  combine({.type = slice.type,
           .op = slice.op,
           .sources = sources,
           .destinations = {&result, 1},
           .count = slice.count,
           .scale_first = first == 0 ? nullptr : slice.scale,
           .first_mask = first,
           .divide_last = last ? slice.divide : 0});
}

size_t count_local(const std::vector<Place>& places) {
  return static_cast<size_t>(
      std::count_if(places.begin(), places.end(), [](const Place& p) { return !is_message(p); }));
}

// The memory of a chunk place, if the slice is one piece there.
std::byte* contiguous(const CodedSlice& slice, size_t place) {
  const Layout::Range piece = slice.walks[place].piece();
  if (piece.length < slice.count) return nullptr;
  return slice.bases[place] + piece.offset * element_bytes(slice.type);
}

// The same as one piece in `memory`, unless it lies there.
const std::byte* gather(const CodedSlice& slice, size_t place, std::byte* memory) {
  for_pieces(slice.walks[place], slice.bases[place], slice.count, element_bytes(slice.type),
             [&](std::byte* piece, size_t offset, size_t bytes) {
               if (piece != memory + offset) std::memcpy(memory + offset, piece, bytes);
             });
  return memory;
}

// The memory of the only source, if nothing is to be done to it before it is encoded.
const std::byte* as_it_lies(const CodedSlice& slice) {
  const std::vector<Place>& sources = slice.step->sources;
  if (sources.size() != 1 || is_message(sources[0]) || scales(slice, sources[0]) || divides(slice)) return nullptr;
  return contiguous(slice, 0);
}

// Whether the result may lie in `home` at once: no source but the first is there, which the result would overwrite.
bool may_begin_at_home(const CodedSlice& slice, const std::byte* home) {
  const std::vector<Place>& sources = slice.step->sources;
  size_t local = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (is_message(sources[i])) continue;
    const std::byte* memory = contiguous(slice, local++);
    if (i > 0 && (memory == nullptr || memory == home)) return false;
  }
  return home != nullptr;
}

}  // namespace

size_t coded_slice(const Codec& codec, DataType type, size_t bytes) {
  const auto fits = [&](size_t count) { return codec.max_encoded_bytes(count, type) <= bytes; };
  const size_t block = std::max<size_t>(codec.block(), 1);
  const size_t unit = fits(block) ? block : 1;
  size_t least = 0, most = bytes * 32 / unit + 1;  // units: no codec has less than a quarter of a bit for an element
  while (most - least > 1) {
    const size_t middle = least + (most - least) / 2;
    (fits(middle * unit) ? least : most) = middle;
  }
  return least * unit;
}

CallCut coded_cut(const Codec& codec, DataType type, CallCut plain, size_t max_message) {
  const size_t element = element_bytes(type), plain_slice = plain.slice_bytes / element;
  // What a message costs is then shared by more: of top-1 % over TCP a tenth of all time.
  const bool leaves_little = codec.block() == 0 || codec.describe(type).ratio < kLittle;
  const size_t slice_bytes = leaves_little ? std::min(2 * plain.slice_bytes, max_message) : plain.slice_bytes;
  const size_t slice = std::min(slice_bytes / element, coded_slice(codec, type, slice_bytes));
  const size_t block = std::max<size_t>(codec.block(), 1);
  const size_t fitting = slice == 0 ? 0 : std::max<size_t>(1, plain.window * slice / plain_slice);
  return {slice_bytes, fitting < block ? fitting : fitting / block * block};
}

Status Coder::combine_sources(const CodedSlice& slice, std::byte* result) {
  const std::vector<Place>& sources = slice.step->sources;
  size_t local = 0;
  auto message = slice.messages.begin();
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool first = i == 0;
    if (is_message(sources[i])) {
      const auto op = first ? std::nullopt : std::optional(slice.op);
      HOCKET_TRY(slice.codec->decode_reduce(*message++, op, {slice.type, result, slice.count}));
      continue;
    }
    const std::byte* operand = contiguous(slice, local);
    if (first || operand == nullptr) operand = gather(slice, local, first ? result : operand_.data());
    ++local;
    const std::array<const std::byte*, 2> both = {result, operand};
    const uint64_t scaled = scales(slice, sources[i]) ? 1 : 0;
    if (!first) combine_whole(slice, both, scaled << 1, false, result);
    if (first && scaled != 0) combine_whole(slice, std::span(both).first(1), 1, false, result);
  }
  const std::byte* whole = result;
  if (divides(slice)) combine_whole(slice, {&whole, 1}, 0, true, result);
  return {};
}

Result<size_t> Coder::write_messages(const CodedSlice& slice, const std::byte* values) {
  const std::span<std::byte> first = slice.reserved[0];
  size_t bytes;
  if (is_forward(slice)) {
    bytes = slice.messages[0].size();
    if (bytes > first.size()) return Status(Code::kInternal, "a message that is passed on is too long");
    std::memcpy(first.data(), slice.messages[0].data(), bytes);
  } else {
    bytes = slice.codec->encode({slice.type, values, slice.count}, slice.draw, first);
  }
  for (const std::span<std::byte>& other : slice.reserved.subspan(1)) std::memcpy(other.data(), first.data(), bytes);
  if (slice.traffic != nullptr) {
    const size_t messages = slice.reserved.size();
    slice.traffic->add(slice.count * element_bytes(slice.type) * messages, bytes * messages);
  }
  return bytes;
}

void Coder::store(const CodedSlice& slice, const std::byte* values) {
  const size_t element = element_bytes(slice.type);
  size_t place_number = slice.walks.size();
  for (auto place = slice.step->destinations.rbegin(); place != slice.step->destinations.rend(); ++place) {
    if (is_message(*place)) continue;
    --place_number;
    for_pieces(slice.walks[place_number], slice.bases[place_number], slice.count, element,
               [&](std::byte* memory, size_t offset, size_t size) {
                 if (memory != values + offset) std::memcpy(memory, values + offset, size);
               });
  }
}

Result<size_t> Coder::run(const CodedSlice& slice) {
  result_.resize(std::max(result_.size(), slice.count * element_bytes(slice.type)));
  operand_.resize(result_.size());
  const size_t local_sources = count_local(slice.step->sources);
  const bool keeps = slice.walks.size() > local_sources;
  std::byte* home = keeps ? contiguous(slice, local_sources) : nullptr;
  std::byte* result = may_begin_at_home(slice, home) ? home : result_.data();
  const std::byte* values = as_it_lies(slice);
  if (values == nullptr) {
    HOCKET_TRY(combine_sources(slice, result));
    values = result;
  }
  size_t bytes = 0;
  if (!slice.reserved.empty()) {
    const Result<size_t> written = write_messages(slice, values);
    HOCKET_TRY(written.status());
    bytes = *written;
    if (keeps && !is_forward(slice)) {
      result = home != nullptr ? home : result_.data();
      HOCKET_TRY(
          slice.codec->decode_reduce(slice.reserved[0].first(bytes), std::nullopt, {slice.type, result, slice.count}));
      values = result;
    }
  }
  if (keeps) store(slice, values);
  return bytes;
}

}  // namespace hocket
