// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What was found for the questions that were asked last: a few places, each for one question at a time. What is not
// there any more is found again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace hocket {

template <typename Key, typename Value, size_t kPlaces>
class Recent {
 public:
  // Null: it is not there. Equal keys have equal hashes.
  const Value* find(const Key& key, size_t hash) const {
    const std::optional<Entry>& entry = entries_[place(hash)];
    return entry.has_value() && entry->first == key ? &entry->second : nullptr;
  }

  const Value& keep(const Key& key, size_t hash, Value value) {
    return entries_[place(hash)].emplace(key, std::move(value)).second;
  }

  void clear() { entries_ = {}; }

 private:
  using Entry = std::pair<Key, Value>;

  // Sizes of calls differ in any of their bits.
  static size_t place(size_t hash) {
    constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
    return static_cast<size_t>((uint64_t{hash} * kGolden) >> 32) % kPlaces;
  }

  std::array<std::optional<Entry>, kPlaces> entries_;
};

}  // namespace hocket
