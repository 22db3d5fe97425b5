// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The stand-in's switch: objects that stand for memory of several devices. An object is a file which all processes that
// use it map; it says whose memory is bound, and each process maps that when a kernel first uses the object.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/cuda/multicast.h"
#include "tests/cuda/fake_state.h"

namespace hocket::fake {

// What a kernel reaches behind an address of an object.
class FakeSwitch {
 public:
  // Nothing, where the device has not mapped so many bytes there, or some device's memory is not bound.
  static FakeSwitch find(const cuda::OpaqueContext& context, const std::byte* address, size_t bytes);
  bool reaches() const { return !places_.empty(); }

  // A kernel's address, which is that of the first device's memory; of the others it is as far behind their begin.
  std::byte* address() const { return places_.front(); }

  // From the last device to the first: what order a switch has, nobody has promised.
  template <DataType type, ReduceOp op>
  device::MulticastPack reduce(const std::byte* address) const {
    using Element = element::Of<type>;
    constexpr size_t kCount = device::kPackBytes / sizeof(typename Element::Storage);
    using Elements = device::Pack<typename Element::Storage, kCount>;
    typename Element::Wide sums[kCount] = {};
    for (size_t i = places_.size(); i-- > 0;) {
      const auto& elements = *reinterpret_cast<const Elements*>(at(i, address));
      for (size_t e = 0; e < kCount; ++e) {
        const auto value = Element::decode(elements.values[e]);
        sums[e] = i + 1 == places_.size() ? value : element::apply<op>(sums[e], value);
      }
    }
    Elements result;
    for (size_t e = 0; e < kCount; ++e) result.values[e] = Element::encode(sums[e]);
    device::MulticastPack pack;
    std::memcpy(&pack, &result, sizeof pack);
    return pack;
  }

  void store(std::byte* address, const device::MulticastPack& pack) const {
    for (size_t i = 0; i < places_.size(); ++i) std::memcpy(at(i, address), &pack, sizeof pack);
  }

 private:
  std::byte* at(size_t device, const std::byte* address) const { return places_[device] + (address - places_.front()); }

  std::vector<std::byte*> places_;  // of each device, as we reach it
};

}  // namespace hocket::fake
