// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/automatic.h"

#include <fmt/format.h>

#include <algorithm>

#include "codec/dense.h"

namespace hocket {
namespace {

bool is_fit(const Codec& codec) {
  const CodecDescription description = codec.describe(DataType::kFloat32);
  const bool keeps_large = description.range >= 0.9 * largest_value(DataType::kFloat32);
  return codec.block() > 0 && description.idempotent && description.encode_speed > 0 && keeps_large;
}

// Each encoding is off by at most a share of what it encodes, errors of earlier ones included.
int32_t encodings_within(double error, const Codec& codec) {
  const double each = codec.describe(DataType::kFloat32).relative_error;
  int32_t most = 0;  // by products, which all ranks' libraries round alike
  for (double grown = 1 + each; grown <= 1 + error && most < kMostEncodings; grown *= 1 + each) ++most;
  return most;
}

}  // namespace

Result<Codecs> make_automatic(Specification& specification) {
  const double error = specification.real("error", 0.01, 0, 0.5);
  HOCKET_TRY(specification.finish());
  Codecs codecs;
  for (const std::string_view name : codec_names()) {
    const Result<std::unique_ptr<const Codec>> codec = make_codec(name);
    HOCKET_TRY(codec.status());
    const int32_t encodings = encodings_within(error, **codec);
    if (!is_fit(**codec) || encodings < kFewestEncodings) continue;
    Result<std::unique_ptr<const Codec>> fitting = make_codec(fmt::format("{}:encodings={}", name, encodings));
    HOCKET_TRY(fitting.status());
    codecs.push_back(std::move(*fitting));
  }
  return codecs;
}

CodecDescription describe_all(const Codecs& codecs, DataType type) {
  CodecDescription all = codecs.front()->describe(type);
  for (const auto& codec : codecs) {
    const CodecDescription one = codec->describe(type);
    all.ratio = std::max(all.ratio, one.ratio);
    all.relative_error = std::max(all.relative_error, one.relative_error);
    all.absolute_error = std::max(all.absolute_error, one.absolute_error);
    all.range = std::min(all.range, one.range);
    all.lossless &= one.lossless;
    all.idempotent &= one.idempotent;
    all.unbiased &= one.unbiased;
  }
  return all;
}

}  // namespace hocket
