// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/coded.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/convert.h"

namespace hocket {
namespace {

// Of what a codec makes short messages: the share that it leaves.
constexpr double kLittle = 0.1;

size_t count_local(const std::vector<Place>& places) {
  return static_cast<size_t>(
      std::count_if(places.begin(), places.end(), [](const Place& p) { return !is_message(p); }));
}

// kept += values - decoded
void add_difference(DataType type, const std::byte* values, const std::byte* decoded, float* kept, size_t count) {
  constexpr size_t kSome = 1024;
  std::array<float, kSome> before, after;
  const size_t element = element_bytes(type);
  for (size_t first = 0; first < count; first += kSome) {
    const size_t some = std::min(kSome, count - first);
    widen(type, values + first * element, before.data(), some);
    widen(type, decoded + first * element, after.data(), some);
    for (size_t i = 0; i < some; ++i) kept[first + i] += before[i] - after[i];
  }
}

// A slice on its way. Chunk places are numbered as the walks are, sources first.
class SliceWay {
 public:
  SliceWay(const CodedSlice& slice, const SliceRoom& room, Hands& hands)
      : slice_(slice), room_(room), hands_(hands), local_sources_(count_local(slice.step->sources)) {}

  Result<size_t> go() {
    const bool keeps = slice_.walks.size() > local_sources_;
    std::byte* const home = keeps ? contiguous(local_sources_) : nullptr;
    const std::byte* values = as_it_lies();
    if (values == nullptr) {
      std::byte* const result = may_begin_at(home) ? home : room_.result;
      HOCKET_TRY(combine_sources(result));
      values = result;
    }
    size_t bytes = 0;
    if (!slice_.reserved.empty()) {
      const Result<size_t> written = write_messages(values);
      HOCKET_TRY(written.status());
      bytes = *written;
      if (!is_forward() && (keeps || slice_.losses)) {
        std::byte* const decoded = slice_.losses ? room_.operand : home != nullptr ? home : room_.result;
        HOCKET_TRY(hands_.decode(slice_.reserved[0].first(bytes), false, decoded));
        if (slice_.losses) HOCKET_TRY(keep_losses(values, decoded));
        values = decoded;
      }
    }
    if (keeps) HOCKET_TRY(store(values));
    return bytes;
  }

 private:
  bool scales(const Place& place) const { return place.first && slice_.scale != nullptr; }
  bool divides() const { return slice_.step->last && slice_.divide != 0; }

  // One message comes, and nothing is done to it.
  bool is_forward() const {
    const std::vector<Place>& sources = slice_.step->sources;
    return sources.size() == 1 && is_message(sources[0]) && !scales(sources[0]) && !divides();
  }

  // The memory of a chunk place, if the slice is one piece there.
  std::byte* contiguous(size_t place) const {
    const Layout::Range piece = slice_.walks[place].piece();
    if (piece.length < slice_.count) return nullptr;
    return slice_.bases[place] + piece.offset * element_bytes(slice_.type);
  }

  // The memory of the only source, if nothing is to be done to it before it is encoded.
  const std::byte* as_it_lies() const {
    const std::vector<Place>& sources = slice_.step->sources;
    if (sources.size() != 1 || is_message(sources[0]) || scales(sources[0]) || divides()) return nullptr;
    return contiguous(0);
  }

  // Whether the result may lie in `home` at once: no source but the first is there, which the result would overwrite.
  bool may_begin_at(const std::byte* home) const {
    const std::vector<Place>& sources = slice_.step->sources;
    size_t local = 0;
    for (size_t i = 0; i < sources.size(); ++i) {
      if (is_message(sources[i])) continue;
      const std::byte* memory = contiguous(local++);
      if (i > 0 && (memory == nullptr || memory == home)) return false;
    }
    return home != nullptr;
  }

  // Calls function(piece, elements of the slice before it) -> Status for the pieces of the slice along a walk.
  template <typename Function>
  Status along(PieceWalk walk, Function function) const {
    for (size_t done = 0; done < slice_.count;) {
      const size_t run = std::min(slice_.count - done, walk.piece().length);
      HOCKET_TRY(function(Layout::Range{walk.piece().offset, run}, done));
      walk.advance(run);
      done += run;
    }
    return {};
  }

  // Calls function(memory, offset into the slice, bytes) -> Status for the pieces of a chunk place.
  template <typename Function>
  Status for_pieces(size_t place, Function function) const {
    const size_t element = element_bytes(slice_.type);
    return along(slice_.walks[place], [&](Layout::Range piece, size_t before) {
      return function(slice_.bases[place] + piece.offset * element, before * element, piece.length * element);
    });
  }

  // As one piece in `memory`, unless it lies there.
  Status gather(size_t place, std::byte* memory) {
    return for_pieces(place, [&](std::byte* piece, size_t offset, size_t bytes) {
      return piece == memory + offset ? Status() : hands_.copy(memory + offset, piece, bytes);
    });
  }

  Status combine_sources(std::byte* result) {
    const std::vector<Place>& sources = slice_.step->sources;
    size_t local = 0;
    auto message = slice_.messages.begin();
    for (size_t i = 0; i < sources.size(); ++i) {
      const bool first = i == 0;
      if (is_message(sources[i])) {
        HOCKET_TRY(hands_.decode(*message++, !first, result));
        continue;
      }
      const std::byte* operand = contiguous(local);
      if (first || operand == nullptr) {
        std::byte* const memory = first ? result : room_.operand;
        HOCKET_TRY(gather(local, memory));
        operand = memory;
      }
      ++local;
      const std::array<const std::byte*, 2> both = {result, operand};
      const uint64_t scaled = scales(sources[i]) ? 1 : 0;
      if (!first) HOCKET_TRY(hands_.combine(both, scaled << 1, false, result));
      if (first && scaled != 0) HOCKET_TRY(hands_.combine(std::span(both).first(1), 1, false, result));
    }
    const std::byte* const whole = result;
    return divides() ? hands_.combine({&whole, 1}, 0, true, result) : Status();
  }

  Result<size_t> write_messages(const std::byte* values) {
    const std::span<std::byte> first = slice_.reserved[0];
    size_t bytes;
    if (is_forward()) {
      bytes = slice_.messages[0].size();
      if (bytes > first.size()) return Status(Code::kInternal, "a message that is passed on is too long");
      HOCKET_TRY(hands_.copy(first.data(), slice_.messages[0].data(), bytes));
    } else {
      const Result<size_t> encoded = hands_.encode(values, first);
      HOCKET_TRY(encoded.status());
      bytes = *encoded;
    }
    for (const std::span<std::byte>& other : slice_.reserved.subspan(1)) {
      HOCKET_TRY(hands_.copy(other.data(), first.data(), bytes));
    }
    return bytes;
  }

  Status keep_losses(const std::byte* values, const std::byte* decoded) const {
    const size_t element = element_bytes(slice_.type);
    return along(slice_.losses->elements, [&](Layout::Range piece, size_t before) {
      add_difference(slice_.type, values + before * element, decoded + before * element,
                     slice_.losses->kept + piece.offset, piece.length);
      return Status();
    });
  }

  // The last destination first: what lies in the first one is read until then.
  Status store(const std::byte* values) {
    for (size_t place = slice_.walks.size(); place-- > local_sources_;) {
      HOCKET_TRY(for_pieces(place, [&](std::byte* memory, size_t offset, size_t bytes) {
        return memory == values + offset ? Status() : hands_.copy(memory, values + offset, bytes);
      }));
    }
    return {};
  }

  const CodedSlice& slice_;
  const SliceRoom& room_;
  Hands& hands_;
  const size_t local_sources_;
};

// On memory that we reach.
class OwnHands final : public Hands {
 public:
  explicit OwnHands(const CodedSlice& slice) : slice_(slice) {}

  Status copy(std::byte* to, const std::byte* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }

  Status combine(std::span<const std::byte* const> sources, uint64_t first, bool last, std::byte* result) override {
    hocket::combine({.type = slice_.type,
                     .op = slice_.op,
                     .sources = sources,
                     .destinations = {&result, 1},
                     .count = slice_.count,
                     .scale_first = first == 0 ? nullptr : slice_.scale,
                     .first_mask = first,
                     .divide_last = last ? slice_.divide : 0});
    return {};
  }

  Result<size_t> encode(const std::byte* values, std::span<std::byte> message) override {
    return slice_.codec->encode({slice_.type, values, slice_.count}, slice_.draw, message);
  }

  Status decode(std::span<const std::byte> message, bool reduces, std::byte* values) override {
    const auto op = reduces ? std::optional(slice_.op) : std::nullopt;
    return slice_.codec->decode_reduce(message, op, {slice_.type, values, slice_.count});
  }

 private:
  const CodedSlice& slice_;
};

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

size_t slice_of_blocks(const Codec& codec, DataType type, size_t bytes) {
  const size_t slice = std::min(bytes / element_bytes(type), coded_slice(codec, type, bytes));
  const size_t block = std::max<size_t>(codec.block(), 1);
  return slice < block ? slice : slice / block * block;
}

CallCut coded_cut(const Codec& codec, DataType type, CallCut plain, size_t max_message) {
  const size_t element = element_bytes(type), plain_slice = plain.slice_bytes / element;
  // What a message costs is then shared by more: of top-1 % over TCP a tenth of all time.
  const bool leaves_little = codec.block() == 0 || codec.describe(type).ratio < kLittle;
  const size_t slice_bytes = leaves_little ? std::min(2 * plain.slice_bytes, max_message) : plain.slice_bytes;
  const size_t slice = slice_of_blocks(codec, type, slice_bytes);
  const size_t block = std::max<size_t>(codec.block(), 1);
  const size_t fitting = slice == 0 ? 0 : std::max<size_t>(1, plain.window * slice / plain_slice);
  return {slice_bytes, fitting < block ? fitting : fitting / block * block};
}

Result<size_t> do_slice(const CodedSlice& slice, const SliceRoom& room, Hands& hands) {
  return SliceWay(slice, room, hands).go();
}

void count_traffic(const CodedSlice& slice, size_t bytes) {
  const size_t messages = slice.reserved.size();
  if (slice.traffic == nullptr || messages == 0) return;
  slice.traffic->add(slice.count * element_bytes(slice.type) * messages, bytes * messages);
}

Result<size_t> Coder::run(const CodedSlice& slice) {
  result_.resize(std::max(result_.size(), slice.count * element_bytes(slice.type)));
  operand_.resize(result_.size());
  OwnHands hands(slice);
  const Result<size_t> bytes = do_slice(slice, {result_.data(), operand_.data()}, hands);
  if (bytes.ok()) count_traffic(slice, *bytes);
  return bytes;
}

}  // namespace hocket
