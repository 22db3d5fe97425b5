// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Combines whose sources are the same place in the memory of all devices, or whose destinations are: the switch between
// the devices reads and combines them, or writes them, behind one address. 16 bytes at a time, at addresses that are
// aligned so; what does not fit is for the kernels of combine.h. The order in which a switch adds floats is its own
// affair.
#pragma once

#include <type_traits>

#include "kernels/cuda/batch.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/pack.h"
#include "kernels/element.h"

namespace hocket::device {

// 16 bytes.
using MulticastPack = Pack<uint32_t, 4>;
static_assert(sizeof(MulticastPack) == kPackBytes);

// What a switch combines as a kernel would. It divides nothing, and rounds the sums of narrow floats itself.
constexpr bool multicast_combines(DataType type, ReduceOp op, bool divides) {
  using enum ReduceOp;
  const bool is_narrow = type == DataType::kFloat16 || type == DataType::kBfloat16;
  switch (type) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat32:
    case DataType::kFloat64:
      return op == kSum && !(is_narrow && divides);
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64:
      return op == kSum || op == kMin || op == kMax || op == kBitAnd || op == kBitOr || op == kBitXor;
    case DataType::kInt8:
    case DataType::kUint8:
      return op == kBitAnd || op == kBitOr || op == kBitXor;
    default:
      return false;
  }
}

// `Switch` has reduce<type, op>(address), which gives a pack, and store(address, pack).
template <DataType type, typename Switch>
class MulticastTask {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  static constexpr int kPack = kPackBytes / sizeof(Storage);
  // Packs that a thread has under way at once, to hide how long the switch takes to answer.
  static constexpr int kAtOnce = 4;

 public:
  HOCKET_ELEMENT MulticastTask(const Batch& batch, std::byte* source, std::byte* destination, const Switch& fabric)
      : batch_(batch), source_(source), destination_(destination), fabric_(fabric) {}

  // `count`: whole packs of elements.
  HOCKET_ELEMENT void run(uint64_t count, Threads threads) const {
    using enum ReduceOp;
    if (!batch_.from_all) return move(count, threads, [this](uint64_t at) { return *plain(source_, at); });
    switch (batch_.op) {
      case kSum:
        return combine<kSum>(count, threads);
      case kMax:
        return combine<kMax>(count, threads);
      case kMin:
        return combine<kMin>(count, threads);
      case kBitAnd:
        return combine<kBitAnd>(count, threads);
      case kBitOr:
        return combine<kBitOr>(count, threads);
      case kBitXor:
        return combine<kBitXor>(count, threads);
      default:
        break;
    }
  }

 private:
  template <ReduceOp op>
  HOCKET_ELEMENT void combine(uint64_t count, Threads threads) const {
    if constexpr (multicast_combines(type, op, false)) {
      move(count, threads, [this](uint64_t at) {
        const MulticastPack pack = fabric_.template reduce<type, op>(source_ + at * kPackBytes);
        if constexpr (multicast_combines(type, op, true) && op == ReduceOp::kSum) return finished(pack);
        return pack;
      });
    }
  }

  // All packs that a thread has under way are read before one is written.
  template <typename Load>
  HOCKET_ELEMENT void move(uint64_t count, Threads threads, Load load) const {
    const uint64_t packs = count / kPack;
    uint64_t p = threads.index;
    for (; p + (kAtOnce - 1) * threads.count < packs; p += kAtOnce * threads.count) {
      MulticastPack loaded[kAtOnce];
      HOCKET_UNROLLED
      for (int i = 0; i < kAtOnce; ++i) loaded[i] = load(p + static_cast<uint64_t>(i) * threads.count);
      HOCKET_UNROLLED
      for (int i = 0; i < kAtOnce; ++i) store(p + static_cast<uint64_t>(i) * threads.count, loaded[i]);
    }
    for (; p < packs; p += threads.count) store(p, load(p));
  }

  HOCKET_ELEMENT MulticastPack finished(MulticastPack pack) const {
    if (batch_.divide_last == 0) return pack;
    Storage elements[kPack];
    memcpy(elements, &pack, sizeof elements);
    const auto quotients = device::finished<Element>(elements, batch_.divide_last);
    memcpy(&pack, &quotients, sizeof pack);
    return pack;
  }

  HOCKET_ELEMENT void store(uint64_t at, const MulticastPack& pack) const {
    if (batch_.to_all) return fabric_.store(destination_ + at * kPackBytes, pack);
    *plain(destination_, at) = pack;
  }

  HOCKET_ELEMENT static MulticastPack* plain(std::byte* address, uint64_t at) {
    return reinterpret_cast<MulticastPack*>(address) + at;
  }

  const Batch& batch_;
  std::byte* source_;
  std::byte* destination_;
  const Switch& fabric_;
};

}  // namespace hocket::device
