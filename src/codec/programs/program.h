// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Compressors that are more than a codec at the ends of a pipe: short programs over ordinary collectives, each of which
// gives all ranks the sum of their values. A program has no state; what it keeps of a tensor is handed to it. It calls
// the same collectives in the same order on all ranks, whatever the values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/automatic.h"
#include "codec/codec.h"
#include "codec/states.h"

namespace hocket {

// How the messages of a collective are encoded.
struct CodedMessages {
  std::shared_ptr<const Codec> codec;
  uint64_t draw = 0;        // for its random choices
  float* losses = nullptr;  // what is lost of each element that this rank contributes to a sum is added there
};

// What programs are made of: blocking collectives of the ranks that run one together.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // In place.
  virtual Status all_reduce(DataType type, ReduceOp op, void* values, size_t count) = 0;
  // The sum of all ranks' values, in place, with encoded messages.
  virtual Status sum(const CodedMessages& messages, Values values) = 0;
  // Likewise encoded, of float32; counts[i] elements are rank i's. All gather the same bits, who sent them, too.
  virtual Status reduce_scatter(const CodedMessages& messages, const float* from, float* to,
                                const std::vector<size_t>& counts) = 0;
  virtual Status all_gather(const CodedMessages& messages, const float* from, float* to,
                            const std::vector<size_t>& counts) = 0;
  // Messages of any length: to[i] goes to rank i, from[i] comes from it; and to all.
  virtual Status exchange(const std::vector<std::vector<std::byte>>& to, std::vector<std::vector<std::byte>>& from) = 0;
  virtual Status gather(const std::vector<std::byte>& mine, std::vector<std::vector<std::byte>>& all) = 0;
};

struct ProgramCall {
  Collectives& collectives;
  States::Tensor& state;       // `now` is what lengths() says, or empty; `next` is to be filled
  std::vector<float>& values;  // of this rank; become the sum
  uint64_t draw = 0;           // for random choices; equal on all ranks
};

class Program {
 public:
  virtual ~Program() = default;
  virtual CodecDescription describe() const = 0;
  // How far an element of the sum is off at most, in units of the largest magnitude; none: that depends on the values.
  virtual std::optional<double> relative_error(int ranks) const = 0;
  // Makes no sense without what it keeps.
  virtual bool needs_state() const = 0;
  // The lengths of the parts that a rank keeps of a tensor of so many elements.
  virtual std::vector<size_t> lengths(size_t count, const Collectives& collectives) const = 0;
  virtual Status run(const ProgramCall& call) const = 0;
};

// Codecs, of which a call takes one, and the program that calls under a key (without a codec: all calls) are. No
// program: error feedback around the codec.
struct Compression {
  Codecs codecs;
  std::shared_ptr<const Program> program;
  std::string specification;  // complete: gives the very same again
};

// The names of programs.
std::vector<std::string_view> program_names();

// Of a specification as make_codec() takes, of a program, or "auto:error=0.01" (automatic.h); codecs also take
// feedback=residual|both|ef21.
Result<Compression> make_compression(std::string_view specification);

}  // namespace hocket
