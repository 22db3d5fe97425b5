// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The combine of kernels.h as the threads of a grid do it, 16 bytes at a time. Written once for device and host, so
// that what the host's tests run is what the device runs: the same element operations in the same order give the same
// bits.
#pragma once

#include <type_traits>

#include "kernels/cuda/batch.h"
#include "kernels/cuda/pack.h"
#include "kernels/element.h"

#ifdef __CUDACC__
#define HOCKET_CALLED __host__ __device__ __noinline__
#else
#define HOCKET_CALLED
#endif

namespace hocket::device {

// Of integers. Called, not inlined: a division is long, and what a call leaves of registers is too little for a pack's
// elements one by one.
template <typename Element, int kCount>
HOCKET_CALLED Pack<typename Element::Storage, kCount> quotients(Pack<typename Element::Storage, kCount> pack,
                                                                int64_t divisor) {
  for (auto& value : pack.values) value = Element::divide(value, divisor);
  return pack;
}

// The epilogue, and how the results lie in memory.
template <typename Element, int kCount>
HOCKET_ELEMENT Pack<typename Element::Storage, kCount> finished(const typename Element::Wide (&wide)[kCount],
                                                                int64_t divide_last) {
  constexpr bool is_integer = std::is_integral_v<typename Element::Wide>;
  Pack<typename Element::Storage, kCount> pack;
  HOCKET_UNROLLED
  for (int i = 0; i < kCount; ++i) {
    const bool divides = !is_integer && divide_last != 0;
    pack.values[i] = Element::encode(divides ? Element::divide(wide[i], divide_last) : wide[i]);
  }
  if constexpr (is_integer) {
    if (divide_last != 0) return quotients<Element>(pack, divide_last);
  }
  return pack;
}

// Of four bytes each, which wrap.
HOCKET_ELEMENT uint32_t sums_of_bytes(uint32_t a, uint32_t b) {
  constexpr uint32_t kHighest = 0x80808080u;
  return ((a & ~kHighest) + (b & ~kHighest)) ^ ((a ^ b) & kHighest);
}

template <DataType type, ReduceOp op>
class TaskCombiner {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  using Wide = typename Element::Wide;
  static constexpr int kPack = kPackBytes / sizeof(Storage);
  static constexpr bool kAddsBytes = op == ReduceOp::kSum && std::is_integral_v<Wide> && sizeof(Storage) == 1;
  static constexpr int kAhead = 2;  // sources that are loaded before the first of them is used

 public:
  HOCKET_ELEMENT TaskCombiner(const Batch& batch, const Task& task, std::byte* const* addresses)
      : batch_(batch), task_(task), addresses_(addresses) {
    if (op < ReduceOp::kLogicalAnd && batch.scaled) {
      Storage storage;
      memcpy(&storage, batch.scale, sizeof storage);
      scale_ = Element::decode(storage);
    }
  }

  HOCKET_ELEMENT void run(Threads threads) const {
    const uint64_t head = elements_before_packs();
    const uint64_t packs = (task_.count - head) / kPack;
    const uint64_t packed = packs * kPack;
    for (uint64_t p = threads.index; p < packs; p += threads.count) combine_at<kPack>(head + p * kPack);
    for (uint64_t i = threads.index; i < task_.count - packed; i += threads.count) {
      combine_at<1>(i < head ? i : i + packed);
    }
  }

 private:
  // Where all addresses are aligned alike: from there on packs can be used. All elements: they never are.
  HOCKET_ELEMENT uint64_t elements_before_packs() const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(addresses_[0]) % kPackBytes;
    bool alike = offset % sizeof(Storage) == 0;
    for (int a = 1; a < task_.sources + task_.destinations; ++a) {
      alike = alike && reinterpret_cast<uintptr_t>(addresses_[a]) % kPackBytes == offset;
    }
    const uint64_t before = (kPackBytes - offset) % kPackBytes / sizeof(Storage);
    return alike && before < task_.count ? before : task_.count;
  }

  // All sources are read before one destination is written.
  template <int kCount>
  HOCKET_ELEMENT void combine_at(uint64_t index) const {
    if constexpr (kAddsBytes && kCount == kPack) {
      if (!batch_.scaled) return add_bytes_at(index);
    }
    Wide wide[kCount] = {};
    for (int first = 0; first < task_.sources; first += kAhead) {
      Pack<Storage, kCount> packs[kAhead];
      HOCKET_UNROLLED
      for (int i = 0; i < kAhead; ++i) {
        if (first + i < task_.sources) packs[i] = *pack_at<kCount>(first + i, index);
      }
      HOCKET_UNROLLED
      for (int i = 0; i < kAhead; ++i) {
        if (first + i < task_.sources) take(packs[i], first + i, wide);
      }
    }
    store(index, finished<Element>(wide, batch_.divide_last));
  }

  // A pack in words: its bytes one by one take more registers than a thread has.
  HOCKET_ELEMENT void add_bytes_at(uint64_t index) const {
    using Words = Pack<uint32_t, kPackBytes / sizeof(uint32_t)>;
    Words sums = {};
    for (int first = 0; first < task_.sources; first += kAhead) {
      Words words[kAhead] = {};
      HOCKET_UNROLLED
      for (int i = 0; i < kAhead; ++i) {
        if (first + i < task_.sources) words[i] = *reinterpret_cast<const Words*>(pack_at<kPack>(first + i, index));
      }
      HOCKET_UNROLLED
      for (const Words& each : words) {
        HOCKET_UNROLLED
        for (uint32_t w = 0; w < kPackBytes / sizeof(uint32_t); ++w) {
          sums.values[w] = sums_of_bytes(sums.values[w], each.values[w]);
        }
      }
    }
    Pack<Storage, kPack> result;
    memcpy(&result, &sums, sizeof result);
    store(index, batch_.divide_last == 0 ? result : quotients<Element>(result, batch_.divide_last));
  }

  template <int kCount>
  HOCKET_ELEMENT void store(uint64_t index, const Pack<Storage, kCount>& result) const {
    for (int to = task_.sources; to < task_.sources + task_.destinations; ++to) {
      if constexpr (kCount == kPack) {
        store_at_once(pack_at<kCount>(to, index), result);
      } else {
        *pack_at<kCount>(to, index) = result;
      }
    }
  }

  template <int kCount>
  HOCKET_ELEMENT Pack<Storage, kCount>* pack_at(int address, uint64_t index) const {
    return reinterpret_cast<Pack<Storage, kCount>*>(reinterpret_cast<Storage*>(addresses_[address]) + index);
  }

  template <int kCount>
  HOCKET_ELEMENT void take(const Pack<Storage, kCount>& pack, int source, Wide (&wide)[kCount]) const {
    const bool enters = batch_.scaled && (task_.first_mask >> source & 1) != 0;
    HOCKET_UNROLLED
    for (int i = 0; i < kCount; ++i) {
      Wide next = Element::decode(pack.values[i]);
      if (enters) next = entered(next);
      wide[i] = source == 0 ? next : element::apply<op>(wide[i], next);
    }
  }

  // Rounded, as whoever gets the contribution in a message sees it.
  HOCKET_ELEMENT Wide entered(Wide wide) const {
    if constexpr (op >= ReduceOp::kLogicalAnd) return element::apply<ReduceOp::kLogicalOr>(wide, wide);
    return Element::decode(Element::encode(element::apply<ReduceOp::kProd>(wide, scale_)));
  }

  const Batch& batch_;
  const Task& task_;
  std::byte* const* addresses_;
  Wide scale_{1};
};

HOCKET_ELEMENT bool may_begin(const Batch& batch) { return batch.word == nullptr || *batch.word == batch.when; }

// One of a task's addresses.
HOCKET_ELEMENT std::byte* address_of(const Batch& batch, const Task& task, uint32_t index) {
  const uint32_t at = task.address + index;
  return batch.late == nullptr ? batch.address[at] : batch.late[at];
}

// `addresses`: those of the task.
template <DataType type>
HOCKET_ELEMENT void combine_task(const Batch& batch, const Task& task, std::byte* const* addresses, Threads threads) {
  using enum ReduceOp;
  switch (batch.op) {
    case kSum:
      return TaskCombiner<type, kSum>(batch, task, addresses).run(threads);
    case kProd:
      return TaskCombiner<type, kProd>(batch, task, addresses).run(threads);
    case kMax:
      return TaskCombiner<type, kMax>(batch, task, addresses).run(threads);
    case kMin:
      return TaskCombiner<type, kMin>(batch, task, addresses).run(threads);
    default:
      break;
  }
  if constexpr (std::is_integral_v<typename element::Of<type>::Wide>) {
    switch (batch.op) {
      case kBitAnd:
        return TaskCombiner<type, kBitAnd>(batch, task, addresses).run(threads);
      case kBitOr:
        return TaskCombiner<type, kBitOr>(batch, task, addresses).run(threads);
      case kBitXor:
        return TaskCombiner<type, kBitXor>(batch, task, addresses).run(threads);
      case kLogicalAnd:
        return TaskCombiner<type, kLogicalAnd>(batch, task, addresses).run(threads);
      case kLogicalOr:
        return TaskCombiner<type, kLogicalOr>(batch, task, addresses).run(threads);
      case kLogicalXor:
        return TaskCombiner<type, kLogicalXor>(batch, task, addresses).run(threads);
      default:
        break;
    }
  }
}

}  // namespace hocket::device
