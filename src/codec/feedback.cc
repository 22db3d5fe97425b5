// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/feedback.h"

#include <algorithm>

#include "kernels/convert.h"

namespace hocket {

void correct(FeedbackKind kind, std::span<const float> state, std::span<float> values) {
  const float sign = kind == FeedbackKind::kResidual ? 1 : -1;
  for (size_t i = 0; i < state.size(); ++i) values[i] += sign * state[i];
}

void keep(FeedbackKind kind, const std::vector<float>& state, const std::vector<float>& corrected,
          const std::vector<float>& decoded, std::vector<float>& next) {
  if (kind != FeedbackKind::kResidual && state.empty()) {
    next = decoded;
    return;
  }
  next.resize(decoded.size());
  const std::vector<float>& from = kind == FeedbackKind::kResidual ? corrected : state;
  const float sign = kind == FeedbackKind::kResidual ? -1 : 1;
  for (size_t i = 0; i < next.size(); ++i) next[i] = from[i] + sign * decoded[i];
}

Status Feedback::correct(std::string_view key, ConstValues values, std::vector<float>& corrected, float scale) {
  Result<States::Tensor*> tensor = states_.open(key, values.type, values.count, {{values.count}});
  HOCKET_TRY(tensor.status());
  open_ = *tensor;
  corrected.resize(values.count);
  // In parts that stay in the first cache meanwhile.
  constexpr size_t kPart = 2048;
  const std::span<const float> state = open_->now[0];
  for (size_t first = 0; first < values.count; first += kPart) {
    const auto part = std::span(corrected).subspan(first, std::min(kPart, values.count - first));
    widen(values.type, values.data + first * element_bytes(values.type), part.data(), part.size());
    if (scale != 1) {
      for (float& value : part) value *= scale;
    }
    if (!state.empty()) hocket::correct(kind_, state.subspan(first, part.size()), part);
  }
  return {};
}

void Feedback::keep(const std::vector<float>& corrected, const std::vector<float>& decoded) {
  hocket::keep(kind_, open_->now[0], corrected, decoded, open_->next[0]);
}

const std::vector<float>& Feedback::state(std::string_view key) const {
  static const std::vector<float> kNone;
  const States::Tensor* tensor = states_.find(key);
  return tensor == nullptr ? kNone : tensor->now[0];
}

uint64_t Feedback::steps(std::string_view key) const {
  const States::Tensor* tensor = states_.find(key);
  return tensor == nullptr ? 0 : tensor->steps;
}

}  // namespace hocket
