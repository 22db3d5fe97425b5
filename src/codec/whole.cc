// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/whole.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket {
namespace {

// No magnitude of any type is smaller, but zero.
constexpr std::string_view kNonzero = "threshold:least=1e-45";

// Elements that are encoded at once: whole blocks of every codec, and as a whole, as far as indices reach, what selects
// among all.
size_t step_of(const Codec& codec, size_t count) {
  constexpr size_t kStep = size_t{1} << 16, kMost = size_t{1} << 31;
  return codec.block() == 0 ? std::clamp<size_t>(count, 1, kMost) : kStep;
}

}  // namespace

Status through(const Codec& codec, const std::vector<float>& values, uint64_t draw, std::vector<float>& decoded) {
  const size_t count = values.size(), step = step_of(codec, count);
  decoded.resize(count);
  std::vector<std::byte> message(codec.max_encoded_bytes(std::min(step, count), DataType::kFloat32));
  for (size_t first = 0; first < count; first += step) {
    const size_t some = std::min(step, count - first);
    const auto* from = reinterpret_cast<const std::byte*>(values.data() + first);
    const size_t bytes = codec.encode({DataType::kFloat32, from, some}, draw + first, message);
    auto* to = reinterpret_cast<std::byte*>(decoded.data() + first);
    HOCKET_TRY(codec.decode_reduce(std::span(message).first(bytes), std::nullopt, {DataType::kFloat32, to, some}));
  }
  return {};
}

bool contracts(const Codec& codec) {
  const CodecDescription description = codec.describe(DataType::kFloat32);
  return !description.unbiased || description.idempotent;
}

std::shared_ptr<const Codec> nonzero_codec() { return std::move(*make_codec(kNonzero)); }

std::shared_ptr<const Codec> wire_of(const std::shared_ptr<const Codec>& codec) {
  if (codec->block() != 0) return codec;
  return std::move(*make_codec(fmt::format("{},encodings={}", kNonzero, codec->encodings())));
}

}  // namespace hocket
