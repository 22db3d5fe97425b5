// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The list of codecs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "codec/codecs.h"
#include "codec/programs/program.h"

namespace hocket {
namespace {

struct Entry {
  std::string_view name;
  codecs::MadeCodec (*make)(Specification&);
};

constexpr auto kCodecs = std::to_array<Entry>({
    {"fp16", codecs::make_cast},
    {"bf16", codecs::make_cast},
    {"fp8", codecs::make_float8},
    {"int8", codecs::make_integer},
    {"int6", codecs::make_integer},
    {"int4", codecs::make_integer},
    {"int3", codecs::make_integer},
    {"int2", codecs::make_integer},
    {"qsgd", codecs::make_qsgd},
    {"terngrad", codecs::make_terngrad},
    {"natural", codecs::make_natural},
    {"sign", codecs::make_sign},
    {"lossless", codecs::make_lossless},
    {"bounded", codecs::make_bounded},
    {"topk", codecs::make_topk},
    {"threshold", codecs::make_threshold},
    {"randomk", codecs::make_randomk},
    {"blocksparse", codecs::make_blocksparse},
});

constexpr auto kNames = [] {
  std::array<std::string_view, kCodecs.size()> names;
  std::transform(kCodecs.begin(), kCodecs.end(), names.begin(), [](const Entry& entry) { return entry.name; });
  return names;
}();

}  // namespace

std::span<const std::string_view> codec_names() { return kNames; }

Result<std::unique_ptr<const Codec>> codecs::make(Specification& specification) {
  const auto* entry = std::find_if(kCodecs.begin(), kCodecs.end(),
                                   [&](const Entry& each) { return each.name == specification.name(); });
  if (entry == kCodecs.end()) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("codec '{}': there is no codec '{}'; there are {}, {}, {}", specification.text(),
                    specification.name(), fmt::join(kNames, ", "), fmt::join(program_names(), ", "), kAutomatic));
  }
  const bool is_told = specification.has("encodings");
  const int64_t most = is_told ? specification.integer("encodings", kFewestEncodings, kFewestEncodings, kMostEncodings)
                               : kFewestEncodings;
  MadeCodec codec = entry->make(specification);
  HOCKET_TRY(specification.finish());
  const bool is_exact = codec->describe(DataType::kFloat32).lossless;
  codec->allow_encodings(is_exact && !is_told ? kMostEncodings : static_cast<int32_t>(most));
  return std::unique_ptr<const Codec>(std::move(codec));
}

Result<std::unique_ptr<const Codec>> make_codec(std::string_view text) {
  Result<Specification> specification = Specification::parse(text);
  HOCKET_TRY(specification.status());
  return codecs::make(*specification);
}

}  // namespace hocket
