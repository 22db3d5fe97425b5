// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Error feedback: what a lossy codec left behind of a tensor is kept under the tensor's key and comes with the tensor's
// next values, so that nothing is lost for good. Knows codecs by name only, and no collective.
//
// One call on a tensor: correct() gives the values to encode in place of the caller's; keep() hears what they decode
// to; commit() makes that the state, once the collective has succeeded (states.h). Two kinds:
//   residual   x + e is encoded; e becomes what of it was lost
//   ef21       x - g is encoded; g, the estimate of x that all ranks can form, becomes g + what was decoded
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec.h"
#include "codec/states.h"

namespace hocket {

enum class FeedbackKind : uint8_t { kResidual = 0, kEf21 = 1 };

// The two halves of a call on one state: what to encode, and what the state becomes once that has been decoded. An
// empty state is zero.
void correct(FeedbackKind kind, std::span<const float> state, std::span<float> values);
void keep(FeedbackKind kind, const std::vector<float>& state, const std::vector<float>& corrected,
          const std::vector<float>& decoded, std::vector<float>& next);

class Feedback {
 public:
  using Kind = FeedbackKind;

  // `codec` is the specification that the state belongs to.
  Feedback(Kind kind, const std::string& codec) : kind_(kind), states_(kind == Kind::kEf21 ? "ef21 " + codec : codec) {}

  // Begins a call: corrected[i] is what to encode in place of scale * values[i].
  Status correct(std::string_view key, ConstValues values, std::vector<float>& corrected, float scale = 1);
  // `decoded` is what all will make of the encoded `corrected`, element by element.
  void keep(const std::vector<float>& corrected, const std::vector<float>& decoded);
  // What will be kept of each element, until commit(): to add what is lost on the way.
  std::vector<float>& kept() { return open_->next[0]; }
  void commit(std::string_view key, ConstValues result) { states_.commit(key, result); }

  // The state under a key (residual: e; ef21: g); empty: none yet.
  const std::vector<float>& state(std::string_view key) const;
  // Calls committed under a key.
  uint64_t steps(std::string_view key) const;

  void reset() { states_.reset(); }
  void reset(std::string_view key) { states_.reset(key); }
  std::string save() const { return states_.save(); }
  Status load(std::string_view bytes) { return states_.load(bytes); }

 private:
  Kind kind_;
  States states_;
  States::Tensor* open_ = nullptr;  // of the call at hand
};

}  // namespace hocket
