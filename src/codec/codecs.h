// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One function per family of codecs: makes the codec that the specification's name and options describe. What is wrong
// with the options stays in the specification.
#pragma once

#include <memory>

#include "codec/codec.h"
#include "codec/specification.h"

namespace hocket::codecs {

using MadeCodec = std::unique_ptr<Codec>;

// By the specification's name; all options are to be known.
Result<std::unique_ptr<const Codec>> make(Specification& specification);

MadeCodec make_cast(Specification& specification);         // fp16, bf16
MadeCodec make_integer(Specification& specification);      // int8, int6, int4, int3, int2
MadeCodec make_float8(Specification& specification);       // fp8
MadeCodec make_qsgd(Specification& specification);         // qsgd
MadeCodec make_terngrad(Specification& specification);     // terngrad
MadeCodec make_natural(Specification& specification);      // natural
MadeCodec make_sign(Specification& specification);         // sign
MadeCodec make_lossless(Specification& specification);     // lossless
MadeCodec make_bounded(Specification& specification);      // bounded
MadeCodec make_topk(Specification& specification);         // topk
MadeCodec make_threshold(Specification& specification);    // threshold
MadeCodec make_randomk(Specification& specification);      // randomk
MadeCodec make_blocksparse(Specification& specification);  // blocksparse

}  // namespace hocket::codecs
