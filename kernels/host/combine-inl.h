// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The one loop: combines blocks of all sources in registers and writes each block to all destinations, which is also
// what allows a destination to be a source. Included once per instruction set; knows types and operations only as
// parameters.

#if defined(HOCKET_HOST_COMBINE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_COMBINE_INL
#undef HOCKET_HOST_COMBINE_INL
#else
#define HOCKET_HOST_COMBINE_INL
#endif

#include "kernels/host/lanes-inl.h"
#include "kernels/host/operations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

// Elements [from, to) one by one.
template <DataType type, ReduceOp op>
void combine_elements(const Combine& combine, size_t from, size_t to) {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  using Wide = typename Element::Wide;
  Wide scale{1};
  if (combine.scale_first) {
    Storage storage;
    memcpy(&storage, combine.scale_first, sizeof storage);
    scale = Element::decode(storage);
  }
  const auto load = [&](size_t source, size_t i) {
    Storage storage;
    memcpy(&storage, combine.sources[source] + i * sizeof storage, sizeof storage);
    const Wide wide = Element::decode(storage);
    if ((combine.first_mask >> source & 1) == 0) return wide;
    return Element::decode(Element::encode(element::apply<ReduceOp::kProd>(wide, scale)));
  };
  for (size_t i = from; i < to; ++i) {
    Wide wide = load(0, i);
    for (size_t source = 1; source < combine.sources.size(); ++source) {
      wide = element::apply<op>(wide, load(source, i));
    }
    if (combine.divide_last != 0) wide = Element::divide(wide, combine.divide_last);
    const Storage storage = Element::encode(wide);
    for (std::byte* destination : combine.destinations) {
      memcpy(destination + i * sizeof storage, &storage, sizeof storage);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

template <DataType type, ReduceOp op>
void combine_all(const Combine& combine) {
  combine_elements<type, op>(combine, 0, combine.count);
}

#else

template <DataType type, ReduceOp op>
class Combiner {
  using Lanes = LanesOf<type>;
  using Memory = typename Lanes::Memory;
  using Storage = typename Lanes::Storage;
  using Wide = typename Lanes::Wide;
  using Vector = typename Memory::Vector;

  static constexpr size_t kCount = Lanes::kCount;
  static constexpr size_t kVectorBytes = kCount * sizeof(Storage);
  // As many vectors at a time as leaves registers free for constants and the next operand.
  static constexpr size_t kBlock = std::min<size_t>(4, (HOCKET_MASKS ? 8 : 4) / Lanes::kVectors);

 public:
  explicit HWY_INLINE Combiner(const Combine& combine)
      : combine_(combine), sources_(combine.sources.size()), destinations_(combine.destinations.size()) {
    if (combine.scale_first && combine.first_mask) {
      Storage storage;
      memcpy(&storage, combine.scale_first, sizeof storage);
      scale_ = Lanes::Element::decode(storage);
      scaled_ = combine.first_mask;
    }
  }

  HWY_INLINE void run() {
    const size_t count = combine_.count;
    const size_t done = count < kCount ? 0 : whole_vectors();
    if (done < count) some(done, count - done);
    if (streaming_) hwy::FlushStream();
  }

 private:
  // Below this, aligning the destination costs more than it saves.
  static constexpr size_t kAlignFrom = 16 * kCount;

  const Storage* source(size_t s, size_t i) const { return reinterpret_cast<const Storage*>(combine_.sources[s]) + i; }
  Storage* destination(size_t d, size_t i) const { return reinterpret_cast<Storage*>(combine_.destinations[d]) + i; }

  // How many elements to do first so that a destination is aligned: the first one to be streamed, else the first.
  // Those streamed that are not aligned then as well are written with ordinary stores.
  size_t elements_to_alignment() {
    const auto address = [&](size_t d) { return reinterpret_cast<uintptr_t>(combine_.destinations[d]); };
    const uint64_t wanted = combine_.around_mask & ~uint64_t{0} >> (64 - destinations_);
    const size_t leader = wanted ? hwy::Num0BitsBelowLS1Bit_Nonzero64(wanted) : 0;
    const size_t bytes = -address(leader) % kVectorBytes;
    if (bytes % sizeof(Storage) != 0) return 0;
    for (size_t d = 0; d < destinations_ && wanted; ++d) {
      if ((address(d) + bytes) % kVectorBytes == 0) streaming_ |= wanted & uint64_t{1} << d;
    }
    return bytes / sizeof(Storage);
  }

  // Rounded, as whoever gets the contribution in a message sees it: the ranks' results agree to the last bit.
  HWY_INLINE Wide scaled(Wide wide) const {
    const auto scale = Lanes::set(scale_);
    return Lanes::decode(Lanes::encode(map(wide, [&](auto v) HWY_ATTR { return multiply(v, scale); })));
  }
  HWY_INLINE Wide finished(Wide wide) const {
    return map(wide, [&](auto v) HWY_ATTR { return Lanes::divide(v, combine_.divide_last); });
  }

  // The commonest combines by far. Asking nothing between vectors, they are a third faster than block() in the first
  // level cache.
  bool is_plain_of_two() const { return sources_ == 2 && scaled_ == 0 && combine_.divide_last == 0; }
  bool is_two_into_one() const { return is_plain_of_two() && destinations_ == 1; }
  bool is_two_into_two() const { return is_plain_of_two() && destinations_ == 2 && streaming_ == 0; }
  template <size_t kDestinations, bool kStream>
  HWY_INLINE size_t two_into(size_t i) const {
    const Storage* a = source(0, 0);
    const Storage* b = source(1, 0);
    Storage* to = destination(0, 0);
    Storage* other = destination(kDestinations - 1, 0);
    const size_t count = combine_.count;  // the stores may change it, for all the compiler knows
    const auto one = [&](size_t v) HWY_ATTR {
      const Wide wide = operate<op>(Lanes::decode(Memory::read(a + v)), Lanes::decode(Memory::read(b + v)));
      if constexpr (kStream) {
        Memory::stream(Lanes::encode(wide), to + v);
      } else {
        const Vector result = Lanes::encode(wide);
        Memory::write(result, to + v);
        if constexpr (kDestinations == 2) Memory::write(result, other + v);
      }
    };
    for (; i + kBlock * kCount <= count; i += kBlock * kCount) {
      for (size_t v = i; v < i + kBlock * kCount; v += kCount) one(v);
    }
    for (; i + kCount <= count; i += kCount) one(i);
    return i;
  }

  // How many elements are done then.
  HWY_INLINE size_t whole_vectors() {
    const size_t count = combine_.count;
    size_t i = 0;
    if (count >= kAlignFrom) {
      i = elements_to_alignment();
      if (i > 0) some(0, i);
    }
    if (is_two_into_one()) i = streaming_ ? two_into<1, true>(i) : two_into<1, false>(i);
    if (is_two_into_two()) i = two_into<2, false>(i);
    for (; i + kBlock * kCount <= count; i += kBlock * kCount) block<kBlock>(i);
    for (; i + kCount <= count; i += kCount) block<1>(i);
    return i;
  }

  template <size_t kVectors>
  HWY_INLINE void block(size_t i) const {
    Wide wide[kVectors];
    for (size_t v = 0; v < kVectors; ++v) wide[v] = Lanes::decode(Memory::read(source(0, i) + v * kCount));
    if (scaled_ & 1) {
      for (size_t v = 0; v < kVectors; ++v) wide[v] = scaled(wide[v]);
    }
    for (size_t s = 1; s < sources_; ++s) {
      const Storage* from = source(s, i);
      if (scaled_ >> s & 1) {
        for (size_t v = 0; v < kVectors; ++v) {
          wide[v] = operate<op>(wide[v], scaled(Lanes::decode(Memory::read(from + v * kCount))));
        }
      } else {
        for (size_t v = 0; v < kVectors; ++v) {
          wide[v] = operate<op>(wide[v], Lanes::decode(Memory::read(from + v * kCount)));
        }
      }
    }
    if (combine_.divide_last) {
      for (size_t v = 0; v < kVectors; ++v) wide[v] = finished(wide[v]);
    }
    Vector result[kVectors];
    for (size_t v = 0; v < kVectors; ++v) result[v] = Lanes::encode(wide[v]);
    for (size_t d = 0; d < destinations_; ++d) {
      Storage* to = destination(d, i);
      if (streaming_ >> d & 1) {
        for (size_t v = 0; v < kVectors; ++v) Memory::stream(result[v], to + v * kCount);
      } else {
        for (size_t v = 0; v < kVectors; ++v) Memory::write(result[v], to + v * kCount);
      }
    }
  }

  // Fewer elements than a vector has; touches no others.
#if HOCKET_MASKS
  HWY_INLINE void some(size_t i, size_t count) const {
    Wide wide = load_some(0, i, count);
    for (size_t s = 1; s < sources_; ++s) wide = operate<op>(wide, load_some(s, i, count));
    if (combine_.divide_last) wide = finished(wide);
    const Vector result = Lanes::encode(wide);
    for (size_t d = 0; d < destinations_; ++d) Memory::write_some(result, destination(d, i), count);
  }
  HWY_INLINE Wide load_some(size_t s, size_t i, size_t count) const {
    const Wide wide = Lanes::decode(Memory::read_some(source(s, i), count));
    return scaled_ >> s & 1 ? scaled(wide) : wide;
  }
#else
  void some(size_t i, size_t count) const { combine_elements<type, op>(combine_, i, i + count); }
#endif

  const Combine& combine_;
  const size_t sources_;
  const size_t destinations_;
  typename Lanes::Scalar scale_{1};
  uint64_t scaled_ = 0;     // sources that the prologue meets
  uint64_t streaming_ = 0;  // destinations that are aligned and to be streamed
};

template <DataType type, ReduceOp op>
void combine_all(const Combine& combine) {
  Combiner<type, op>(combine).run();
}

#endif  // vectors

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_COMBINE_INL
