// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Error feedback: what a lossy codec left behind of a tensor is kept under the tensor's key and comes with the tensor's
// next values, so that nothing is lost for good. Knows codecs by name only, and no collective.
//
// One call on a tensor: correct() gives the values to encode in place of the caller's; keep() hears what they decode
// to; commit() makes that the state, once the collective has succeeded. Without commit() the call has not happened, and
// can be repeated. Two kinds:
//   residual   x + e is encoded; e becomes what of it was lost
//   ef21       x - g is encoded; g, the estimate of x that all ranks can form, becomes g + what was decoded
// Not for more than one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec.h"

namespace hocket {

class Feedback {
 public:
  enum class Kind : uint8_t { kResidual = 0, kEf21 = 1 };
  static constexpr size_t kMaxKeys = 1 << 20;
  static constexpr size_t kMaxKeyBytes = 4096;

  // `codec` is the specification that the state belongs to.
  Feedback(Kind kind, std::string codec) : kind_(kind), codec_(std::move(codec)) {}

  // Begins a call: corrected[i] is what to encode. The first call under a key sets its type and count; another type or
  // count later is an error. float32, float16 or bfloat16.
  Status correct(std::string_view key, ConstValues values, std::vector<float>& corrected);
  // `decoded` is what all will make of the encoded `corrected`, element by element.
  void keep(std::string_view key, const std::vector<float>& corrected, const std::vector<float>& decoded);
  void commit(std::string_view key);

  // The state under a key (residual: e; ef21: g); empty: none yet.
  const std::vector<float>& state(std::string_view key) const;
  // Calls committed under a key.
  uint64_t steps(std::string_view key) const;

  void reset() { tensors_.clear(); }
  void reset(std::string_view key);

  // All committed states, for a checkpoint; after load() all goes on as if nothing had happened. A failed load changes
  // nothing.
  std::string save() const;
  Status load(std::string_view bytes);

 private:
  struct Tensor {
    DataType type = DataType::kFloat32;
    std::vector<float> state;
    std::vector<float> next;  // of the call at hand
    uint64_t steps = 0;
  };
  using Tensors = std::map<std::string, Tensor, std::less<>>;

  const Tensor* find(std::string_view key) const;

  Kind kind_;
  std::string codec_;
  Tensors tensors_;
};

}  // namespace hocket
