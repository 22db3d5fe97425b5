// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Saved states of codecs meet arbitrary bytes. What loads is saved as it came in but for the order of its keys, and
// calls under its keys are refused or go on.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "codec/feedback.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket;
  Feedback feedback(Feedback::Kind::kResidual, "sign");
  if (!feedback.load({reinterpret_cast<const char*>(data), size}).ok()) return 0;
  const std::string saved = feedback.save();
  if (!feedback.load(saved).ok() || feedback.save() != saved) std::abort();
  const std::vector<float> values(8, 1.0f);
  std::vector<float> corrected;
  const ConstValues view{DataType::kFloat32, reinterpret_cast<const std::byte*>(values.data()), values.size()};
  if (!feedback.correct("w", view, corrected).ok()) return 0;
  feedback.keep(corrected, values);
  feedback.commit("w", view);
  return 0;
}
