// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// "auto:error=0.01" is no codec, but the wish for any that keeps that error. Which one a call takes is chosen with its
// algorithm.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "codec/codec.h"
#include "codec/specification.h"

namespace hocket {

inline constexpr std::string_view kAutomatic = "auto";

// Codecs of which a call takes one.
using Codecs = std::vector<std::shared_ptr<const Codec>>;

// All that keep the error for float32 (narrower types round besides), each as its defaults make it, and allowed as many
// encodings as the error bears, two at least: no sum of any number of ranks is off by more than that share of what
// their largest magnitude could add up to. Their encoding can be repeated, their costs are known, and they leave large
// values finite. Lossless is always among them.
Result<Codecs> make_automatic(Specification& specification);

// What is true of whichever is taken; of one it is its own, but for costs of several.
CodecDescription describe_all(const Codecs& codecs, DataType type);

}  // namespace hocket
