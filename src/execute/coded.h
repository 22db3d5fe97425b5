// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One slice of a step whose messages carry a codec's encoding. Knows no pipe: it is given the messages that came and
// the memory of those that go.
//
// A step that only passes a message on sends the bytes as they came. Any other step that sends encodes its result once,
// for all its messages, and its local destinations get what the message decodes to: whoever holds the result, holds the
// same bits. What an encoding loses can be kept (error feedback): it belongs to the elements of the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/system.h"
#include "codec/codec.h"
#include "codec/traffic.h"
#include "execute/layout.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

namespace hocket {

// Of a tensor: what encodings lose of its elements is added there, in float32.
struct Losses {
  float* kept = nullptr;
  PieceWalk elements;  // of the tensor that a slice has
};

struct CodedSlice {
  const Step* step = nullptr;
  const Codec* codec = nullptr;  // null: messages carry the values
  uint64_t draw = 0;             // for the codec's random choices
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const void* scale = nullptr;  // prologue: a scalar of `type`
  int64_t divide = 0;           // epilogue
  size_t count = 0;             // elements
  // The pieces of every chunk place, sources first, beginning with the slice; and where each place's buffer lies.
  std::span<const PieceWalk> walks;
  std::span<std::byte* const> bases;
  std::span<const std::span<const std::byte>> messages;  // of the message places among the sources
  std::span<const std::span<std::byte>> reserved;  // of those among the destinations, or none: they are not written
  bool landed = false;                             // the only message lies where a destination wants it
  CodedTraffic* traffic = nullptr;                 // null: nobody counts
  std::optional<Losses> losses = {};               // nothing: they are not kept
};

// Elements that one message of `bytes` surely carries: whole blocks of the codec, if one block fits. 0: not one
// element.
size_t coded_slice(const Codec& codec, DataType type, size_t bytes);
// ... and which take no more than that as they are: whole blocks, where one fits.
size_t slice_of_blocks(const Codec& codec, DataType type, size_t bytes);

// How a call is cut: the longest message, and the elements of a chunk in one pass.
struct CallCut {
  size_t slice_bytes = 0;
  size_t window = 0;
};

// Of a call that would be cut like `plain` without a codec: no pass has more messages, and a window is whole blocks, if
// one fits. Where little is left of values, messages carry up to twice as many, as far as pipes take such messages. No
// window: no message is long enough for one element.
CallCut coded_cut(const Codec& codec, DataType type, CallCut plain, size_t max_message);

struct Call;

// Runs slices on memory that the calling thread does not reach, beside it.
class SliceRunner {
 public:
  virtual ~SliceRunner() = default;
  // Has at hand what memory the call may need. Before the call lies on a stream: who gives it may wait for streams.
  virtual Status prepare(const Call&) { return {}; }
  // Memory for a call's scratch chunks that it reaches; kept until it is asked again.
  virtual Result<std::byte*> scratch(size_t bytes) = 0;
  // Begins the slice at hand of a lane, or looks whether it has ended: then the bytes of its message. It stays the same
  // slice until then.
  virtual Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) = 0;
  // Returns when nothing that has begun uses any memory any more.
  virtual void stop() = 0;
  // How long whoever asks may sleep before he looks again.
  virtual Duration next_nap() { return Duration::max(); }
};

// What a slice needs done, by whoever reaches its memory.
class Hands {
 public:
  virtual ~Hands() = default;
  virtual Status copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // result := prologue(sources[0]) [op prologue(sources[1])], then, if it is the last, the epilogue. The sources that
  // the prologue meets have their bit set in `first`.
  virtual Status combine(std::span<const std::byte* const> sources, uint64_t first, bool last, std::byte* result) = 0;
  // Bytes of the message of the slice's values.
  virtual Result<size_t> encode(const std::byte* values, std::span<std::byte> message) = 0;
  // values := the message's, or what was there with these.
  virtual Status decode(std::span<const std::byte> message, bool reduces, std::byte* values) = 0;
};

// Memory for a slice's elements on their way.
struct SliceRoom {
  std::byte* result = nullptr;
  std::byte* operand = nullptr;
};

// Has a slice done. Bytes of the message that is written, equal in all reserved memories.
Result<size_t> do_slice(const CodedSlice& slice, const SliceRoom& room, Hands& hands);
// Counts what it sends, once it is known how much.
void count_traffic(const CodedSlice& slice, size_t bytes);

// Runs slices on memory of ours; keeps the memory that they pass through.
class Coder {
 public:
  // As do_slice().
  Result<size_t> run(const CodedSlice& slice);

 private:
  std::vector<std::byte> result_;
  std::vector<std::byte> operand_;
};

}  // namespace hocket
