// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A whole tensor through a codec: what everybody will make of it. Codecs that select see all of it at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codec/codec.h"

namespace hocket {

// decoded := decode(encode(values))
Status through(const Codec& codec, const std::vector<float>& values, uint64_t draw, std::vector<float>& decoded);

// Encoding loses less than there is, so what error feedback keeps stays small. Who rounds at random, or scales what was
// drawn, may lose more; natural (at most a third of each element) does not.
bool contracts(const Codec& codec);

// The codec of messages that carry what was through the codec, and change nothing of it: what was selected stays
// selected.
std::shared_ptr<const Codec> wire_of(const std::shared_ptr<const Codec>& codec);

// The one of what selects: it sends all but zeros.
std::shared_ptr<const Codec> nonzero_codec();

// The same for vectors of which no zero is negative: it loses nothing, so any plan may take it. The vectors that ranks
// bring take about this share of their bytes.
std::shared_ptr<const Codec> sparse_codec(double ratio);

}  // namespace hocket
