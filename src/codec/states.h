// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is kept of tensors from call to call, under their keys: some vectors of float32 each. A call opens its key,
// fills `next` and commits once the collective has succeeded; without commit() it has not happened, and can be
// repeated. Calls no codec. Not for more than one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/codec.h"

namespace hocket {

class States {
 public:
  static constexpr size_t kMaxKeys = 1 << 20;
  static constexpr size_t kMaxKeyBytes = 4096;
  static constexpr size_t kMaxParts = 4;

  struct Tensor {
    DataType type = DataType::kFloat32;
    uint64_t count = 0;
    uint64_t steps = 0;                                   // calls committed
    std::vector<std::vector<float>> now = {}, next = {};  // of the last call that was committed, and of the one at hand
  };

  // `owner` says in saved states to whom they belong.
  explicit States(std::string owner) : owner_(std::move(owner)) {}

  // Begins a call. The first one under a key sets its type and count; another type or count later is an error, and so
  // are types other than float32, float16 and bfloat16. Each part of `now` has its length, or is empty: none yet.
  Result<Tensor*> open(std::string_view key, DataType type, size_t count, std::span<const size_t> lengths);
  // `next` becomes `now`, unless something in it or in the call's result is not finite. Whoever scales losses takes no
  // such step, so what was sent in it is still owed, and all ranks, which have the same result, see that.
  void commit(std::string_view key, ConstValues result);

  // Null: nothing is kept under the key.
  const Tensor* find(std::string_view key) const;
  void reset() { tensors_.clear(); }
  void reset(std::string_view key);

  // All that was committed, for a checkpoint; after load() all goes on as if nothing had happened. A failed load
  // changes nothing.
  std::string save() const;
  Status load(std::string_view bytes);

 private:
  std::string owner_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace hocket
