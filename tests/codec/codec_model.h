// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the codecs' own files promise, written a second time: slow, one element and one bit after the other. Shares no
// code with src/codec or kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/quantise.h"

namespace hocket::model {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

class CodecModel {
 public:
  virtual ~CodecModel() = default;
  // The message of some values of a type.
  virtual Bytes encode(DataType type, const Bytes& values, uint64_t draw) const = 0;
  // Before they are rounded to the type.
  virtual Floats decode(DataType type, const Bytes& message, size_t count) const = 0;
};

using Made = std::unique_ptr<const CodecModel>;

Made blocks(const Quantiser& quantiser, uint64_t seed);  // the quantiser's signs come from the seed
Made natural(uint64_t seed);
Made sign(size_t block);

Made bounded(double error);
Made lossless();

Made topk(double ratio);
Made threshold(float least);
Made randomk(double ratio, bool unbiased, uint64_t seed);
Made blocksparse(size_t block);

}  // namespace hocket::model
