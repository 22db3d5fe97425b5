// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/feedback.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bytes.h"
#include "kernels/convert.h"

namespace hocket {
namespace {

constexpr std::string_view kMagic = "hocket feedback 1";
constexpr size_t kMaxName = 256;

Status wrong(std::string why) { return {Code::kInvalidArgument, "error feedback: " + std::move(why)}; }

bool is_kept(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

}  // namespace

const Feedback::Tensor* Feedback::find(std::string_view key) const {
  const auto found = tensors_.find(key);
  return found == tensors_.end() ? nullptr : &found->second;
}

Status Feedback::correct(std::string_view key, ConstValues values, std::vector<float>& corrected) {
  if (key.size() > kMaxKeyBytes) {
    return wrong(fmt::format("a key of {} bytes: at most {} are allowed", key.size(), kMaxKeyBytes));
  }
  if (!is_kept(values.type)) return wrong(fmt::format("no state is kept of {}", name(values.type)));
  const Tensor* known = find(key);
  if (known == nullptr && tensors_.size() == kMaxKeys) return wrong(fmt::format("more than {} keys", kMaxKeys));
  if (known != nullptr && (known->type != values.type || known->state.size() != values.count)) {
    return wrong(fmt::format("key '{}' was used for {} {}, now for {} {}", key, known->state.size(), name(known->type),
                             values.count, name(values.type)));
  }
  Tensor& tensor = tensors_.try_emplace(std::string(key)).first->second;
  tensor.type = values.type;
  tensor.state.resize(values.count);
  corrected.resize(values.count);
  widen(values.type, values.data, corrected.data(), values.count);
  const float sign = kind_ == Kind::kResidual ? 1 : -1;
  for (size_t i = 0; i < values.count; ++i) corrected[i] += sign * tensor.state[i];
  return {};
}

void Feedback::keep(std::string_view key, const std::vector<float>& corrected, const std::vector<float>& decoded) {
  Tensor& tensor = tensors_.find(key)->second;
  tensor.next.resize(tensor.state.size());
  for (size_t i = 0; i < tensor.next.size(); ++i) {
    tensor.next[i] = kind_ == Kind::kResidual ? corrected[i] - decoded[i] : tensor.state[i] + decoded[i];
  }
  // Such values mean that the step will be dropped (loss scaling does); kept, they would spoil all steps to come.
  const bool is_of_use =
      std::all_of(tensor.next.begin(), tensor.next.end(), [](float value) { return std::isfinite(value); });
  if (!is_of_use) tensor.next = tensor.state;
}

void Feedback::commit(std::string_view key) {
  Tensor& tensor = tensors_.find(key)->second;
  std::swap(tensor.state, tensor.next);
  ++tensor.steps;
}

const std::vector<float>& Feedback::state(std::string_view key) const {
  static const std::vector<float> kNone;
  const Tensor* tensor = find(key);
  return tensor == nullptr ? kNone : tensor->state;
}

uint64_t Feedback::steps(std::string_view key) const {
  const Tensor* tensor = find(key);
  return tensor == nullptr ? 0 : tensor->steps;
}

void Feedback::reset(std::string_view key) {
  const auto found = tensors_.find(key);
  if (found != tensors_.end()) tensors_.erase(found);
}

std::string Feedback::save() const {
  Writer out;
  out.text(kMagic);
  out.u8(static_cast<uint8_t>(kind_));
  out.text(codec_);
  out.u32(static_cast<uint32_t>(tensors_.size()));
  for (const auto& [key, tensor] : tensors_) {
    out.text(key);
    out.u8(static_cast<uint8_t>(tensor.type));
    out.u64(tensor.steps);
    out.u64(tensor.state.size());
    out.raw({reinterpret_cast<const char*>(tensor.state.data()), tensor.state.size() * sizeof(float)});
  }
  return out.take();
}

Status Feedback::load(std::string_view bytes) {
  Reader in(bytes);
  if (in.text(kMagic.size()) != kMagic) return wrong("these bytes are no saved state");
  const uint8_t kind = in.u8();
  const std::string codec = in.text(kMaxName);
  if (in.ok() && (kind != static_cast<uint8_t>(kind_) || codec != codec_)) {
    return wrong(fmt::format("the saved state belongs to '{}', kind {}; this is '{}', kind {}", codec, kind, codec_,
                             static_cast<int>(kind_)));
  }
  Tensors loaded;
  const uint32_t tensors = in.u32();
  for (uint32_t i = 0; i < tensors && in.ok(); ++i) {
    const std::string key = in.text(kMaxKeyBytes);
    Tensor tensor;
    const uint8_t type = in.u8();
    tensor.type = static_cast<DataType>(type);
    tensor.steps = in.u64();
    const uint64_t count = in.u64();
    if (type >= kDataTypes || !is_kept(tensor.type) || count > in.left() / sizeof(float)) in.fail();
    if (!in.ok()) break;
    const std::string raw = in.raw(count * sizeof(float));
    tensor.state.resize(count);
    std::memcpy(tensor.state.data(), raw.data(), raw.size());
    loaded.insert_or_assign(key, std::move(tensor));
  }
  if (!in.finished() || loaded.size() != tensors) return wrong("the saved state is damaged or cut");
  tensors_ = std::move(loaded);
  return {};
}

}  // namespace hocket
