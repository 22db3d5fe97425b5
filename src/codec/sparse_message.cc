// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/sparse_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/element.h"

namespace hocket::sparse {
namespace {

using Form = SparseForm;

Status damaged(std::string why) { return {Code::kInternal, std::move(why)}; }

// u16s that the gaps take.
size_t count_gaps(std::span<const uint32_t> indices) {
  size_t gaps = 0;
  int64_t last = -1;
  for (uint32_t index : indices) {
    gaps += gaps_between(last, index);
    last = index;
  }
  return gaps;
}

// What one value needs in each type: its element, from element.h.
template <DataType type>
struct Typed {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;

  static Storage load(const std::byte* from) {
    Storage storage;
    std::memcpy(&storage, from, sizeof storage);
    return storage;
  }
  static void put(const std::byte* from, std::byte* to, bool add) {
    Storage storage = load(from);
    if (add) storage = Element::encode(Element::decode(load(to)) + Element::decode(storage));
    std::memcpy(to, &storage, sizeof storage);
  }
  static void write(uint32_t bits, float scale, std::byte* out) {
    auto storage = load(reinterpret_cast<const std::byte*>(&bits));
    if (scale != 1) storage = Element::encode(Element::decode(storage) * scale);
    std::memcpy(out, &storage, sizeof storage);
  }
};

// Calls function(Typed<type>()).
template <typename Function>
auto with_type(DataType type, Function function) {
  if (type == DataType::kFloat16) return function(Typed<DataType::kFloat16>());
  if (type == DataType::kBfloat16) return function(Typed<DataType::kBfloat16>());
  return function(Typed<DataType::kFloat32>());
}

std::byte* write_u16(uint32_t value, std::byte* out) {
  const auto narrow = static_cast<uint16_t>(value);
  std::memcpy(out, &narrow, sizeof narrow);
  return out + sizeof narrow;
}

std::byte* write_head(Form form, size_t selected, std::byte* out) {
  const auto number = static_cast<uint32_t>(selected);
  out[0] = static_cast<std::byte>(form);
  std::memcpy(out + 1, &number, sizeof number);
  return out + kSparseHead;
}

std::byte* write_places(Form form, size_t count, std::span<const uint32_t> indices, std::byte* out) {
  if (form == Form::kBitmap) {
    std::memset(out, 0, (count + 7) / 8);
    for (uint32_t index : indices) out[index / 8] |= static_cast<std::byte>(1 << (index % 8));
    return out + (count + 7) / 8;
  }
  if (form == Form::kIndices) {
    return std::copy_n(reinterpret_cast<const std::byte*>(indices.data()), indices.size_bytes(), out);
  }
  int64_t last = -1;
  for (uint32_t index : indices) {
    // At most kLongGap - 1 is left for the gap that selects.
    int64_t gap = int64_t{index} - last;
    for (; gap > kLongGap - 1; gap -= kLongGap) out = write_u16(kLongGap, out);
    out = write_u16(static_cast<uint32_t>(gap), out);
    last = index;
  }
  return out;
}

// Selected elements one after the other, from any form's places. next() gives -1 when the places are wrong.
class Places {
 public:
  Places(Form form, std::span<const std::byte> bytes, size_t count) : form_(form), bytes_(bytes), count_(count) {}

  int64_t next() {
    switch (form_) {
      case Form::kBitmap:
        return next_bit();
      case Form::kIndices:
        return next_index();
      default:
        return next_gap();
    }
  }
  // Nothing is left that next() would give.
  bool ended() {
    if (form_ != Form::kBitmap) return at_ == bytes_.size();
    return word_ == 0 && std::ranges::all_of(bytes_.subspan(at_), [](std::byte byte) { return byte == std::byte{0}; });
  }

 private:
  int64_t next_bit() {
    while (word_ == 0) {
      if (at_ == bytes_.size()) return -1;
      const size_t some = std::min<size_t>(8, bytes_.size() - at_);
      std::memcpy(&word_, bytes_.data() + at_, some);
      base_ = 8 * at_;
      at_ += some;
    }
    const size_t index = base_ + static_cast<size_t>(std::countr_zero(word_));
    word_ &= word_ - 1;
    return accept(index);
  }
  int64_t next_index() {
    if (bytes_.size() - at_ < 4) return -1;
    uint32_t index;
    std::memcpy(&index, bytes_.data() + at_, sizeof index);
    at_ += 4;
    return accept(index);
  }
  int64_t next_gap() {
    uint64_t index = static_cast<uint64_t>(last_);
    while (bytes_.size() - at_ >= 2) {
      uint16_t gap;
      std::memcpy(&gap, bytes_.data() + at_, sizeof gap);
      at_ += 2;
      index += gap;
      if (gap != kLongGap) return accept(index);
    }
    return -1;
  }
  int64_t accept(uint64_t index) {
    if (index >= count_ || static_cast<int64_t>(index) <= last_) return -1;
    return last_ = static_cast<int64_t>(index);
  }

  Form form_;
  std::span<const std::byte> bytes_;
  size_t count_;
  size_t at_ = 0;
  uint64_t word_ = 0;
  size_t base_ = 0;
  int64_t last_ = -1;
};

Status decode_all(std::span<const std::byte> body, bool add, Values values) {
  if (body.size() != values.count * element_bytes(values.type)) {
    return damaged(fmt::format("{} bytes for all of {} elements", body.size(), values.count));
  }
  const std::array<const std::byte*, 2> sources = {values.data, body.data()};
  const auto used = std::span(sources).subspan(add ? 0 : 1);
  combine({.type = values.type, .sources = used, .destinations = {&values.data, 1}, .count = values.count});
  return {};
}

template <typename Type>
Status decode_places(Type, Places places, const std::byte* from, size_t selected, bool add, Values values) {
  constexpr size_t kBytes = sizeof(typename Type::Storage);
  if (!add) std::fill_n(values.data, values.count * kBytes, std::byte{0});
  for (size_t i = 0; i < selected; ++i) {
    const int64_t index = places.next();
    if (index < 0) return damaged(fmt::format("the place of selected element {} is wrong or missing", i));
    Type::put(from + i * kBytes, values.data + static_cast<size_t>(index) * kBytes, add);
  }
  if (!places.ended()) return damaged(fmt::format("there are more places than {} selected elements", selected));
  return {};
}

}  // namespace

size_t encode(DataType type, size_t count, const select::Selection& selection, std::byte* out, float scale) {
  const size_t element = element_bytes(type);
  const std::span<const uint32_t> indices = selection.indices;
  const SparseLayout layout = shortest_layout(count, indices.size(), count_gaps(indices), element);
  out = write_head(layout.form, indices.size(), out);
  const bool all = layout.form == Form::kAll;
  if (all) std::fill_n(out, count * element, std::byte{0});
  if (!all) out = write_places(layout.form, count, indices, out);
  with_type(type, [&](auto typed) {
    for (size_t i = 0; i < indices.size(); ++i) {
      typed.write(selection.bits[i], scale, out + (all ? indices[i] : i) * element);
    }
  });
  return kSparseHead + layout.bytes();
}

size_t encode_all(ConstValues values, std::byte* out) {
  const size_t bytes = values.count * element_bytes(values.type);
  std::copy_n(values.data, bytes, write_head(Form::kAll, values.count, out));
  return kSparseHead + bytes;
}

Status decode(std::span<const std::byte> message, bool add, Values values) {
  if (message.size() < kSparseHead) return damaged(fmt::format("{} bytes are no head", message.size()));
  const auto form = std::to_integer<uint8_t>(message[0]);
  uint32_t selected;
  std::memcpy(&selected, message.data() + 1, sizeof selected);
  if (form > 3) return damaged(fmt::format("form {} does not exist", form));
  if (selected > values.count) return damaged(fmt::format("{} of {} elements", selected, values.count));
  const std::span<const std::byte> body = message.subspan(kSparseHead);
  if (static_cast<Form>(form) == Form::kAll) return decode_all(body, add, values);
  const size_t value_bytes = selected * element_bytes(values.type);
  if (body.size() < value_bytes) return damaged(fmt::format("{} bytes for {} elements", body.size(), selected));
  const std::span<const std::byte> places = body.first(body.size() - value_bytes);
  const bool bitmap = static_cast<Form>(form) == Form::kBitmap;
  if (bitmap && places.size() != (values.count + 7) / 8) {
    return damaged(fmt::format("a bitmap of {} bytes for {} elements", places.size(), values.count));
  }
  const std::byte* from = body.data() + places.size();
  return with_type(values.type, [&](auto type) {
    return decode_places(type, Places(static_cast<Form>(form), places, values.count), from, selected, add, values);
  });
}

}  // namespace hocket::sparse
