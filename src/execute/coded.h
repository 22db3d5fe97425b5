// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One slice of a step whose messages carry a codec's encoding. Knows no pipe: it is given the messages that came and
// the memory of those that go.
//
// A step that only passes a message on sends the bytes as they came. Any other step that sends encodes its result once,
// for all its messages, and its local destinations get what the message decodes to: whoever holds the result, holds the
// same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "codec/codec.h"
#include "codec/traffic.h"
#include "execute/layout.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

namespace hocket {

struct CodedSlice {
  const Step* step = nullptr;
  const Codec* codec = nullptr;
  uint64_t draw = 0;  // for the codec's random choices
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const void* scale = nullptr;  // prologue: a scalar of `type`
  int64_t divide = 0;           // epilogue
  size_t count = 0;             // elements
  // The pieces of every chunk place, sources first, beginning with the slice; and where each place's buffer lies.
  std::span<const PieceWalk> walks;
  std::span<std::byte* const> bases;
  std::span<const std::span<const std::byte>> messages;  // of the message places among the sources
  std::span<const std::span<std::byte>> reserved;        // of those among the destinations
  CodedTraffic* traffic = nullptr;                       // null: nobody counts
};

// Elements that one message of `bytes` surely carries: whole blocks of the codec, if one block fits. 0: not one
// element.
size_t coded_slice(const Codec& codec, DataType type, size_t bytes);

// How a call is cut: the longest message, and the elements of a chunk in one pass.
struct CallCut {
  size_t slice_bytes = 0;
  size_t window = 0;
};

// Of a call that would be cut like `plain` without a codec: no pass has more messages, and a window is whole blocks, if
// one fits. Where little is left of values, messages carry twice as many, if pipes take such messages. No window: no
// message is long enough for one element.
CallCut coded_cut(const Codec& codec, DataType type, CallCut plain, size_t max_message);

// Runs slices; keeps the memory that they pass through.
class Coder {
 public:
  // Bytes of the message that was written, equal in all reserved memories.
  Result<size_t> run(const CodedSlice& slice);

 private:
  Status combine_sources(const CodedSlice& slice, std::byte* result);
  Result<size_t> write_messages(const CodedSlice& slice, const std::byte* values);
  static void store(const CodedSlice& slice, const std::byte* values);

  std::vector<std::byte> result_;
  std::vector<std::byte> operand_;
};

}  // namespace hocket
