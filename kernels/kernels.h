// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Element operations on host memory: combine many sources into many destinations, reading each source and writing each
// destination once. 8- and 16-bit floats accumulate in float32 within one combine. Knows bytes and types, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hocket {

// The values are those of hocketDataType_t.
enum class DataType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
  // Of no caller: what exact sums are made of (accumulators.h).
  kFixed128 = 12,
  kFixed320 = 13,
  kFixed2176 = 14,
};
inline constexpr int kDataTypes = 12;     // of callers
inline constexpr int kElementTypes = 15;  // in all

// What combine does between two elements. Sum, prod, max, min have the values of hocketRedOp_t; average is a sum with
// an epilogue, pre-multiplied sum a sum with a prologue.
enum class ReduceOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kBitAnd,
  kBitOr,
  kBitXor,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,  // integers only
};
inline constexpr int kReduceOps = 10;

size_t element_bytes(DataType type);
bool is_float(DataType type);
std::string_view name(DataType type);
std::string_view name(ReduceOp op);
bool supports(DataType type, ReduceOp op);

// A caller's own operation on `count` elements: inout[i] = in[i] (op) inout[i]; `in` is the earlier operand. Both are
// aligned to 64 bytes. Called by the thread that drives the collective.
using UserFunction = void (*)(const void* in, void* inout, size_t count, int datatype, void* context);
// This thread is within one.
bool in_user_function();

// How destinations are written that another core reads next. Their lines lie in that core's cache, from where a plain
// store claims them first; between distant cores that takes longer than all else (docs/decisions/0060).
enum class Streaming : uint8_t {
  kPlain,
  kStrings,  // by the instruction that moves strings, out of the first-level cache: on some processors it claims lines
             // without fetching them
  kAround,   // past the caches, by non-temporal stores
};
// What is best on this processor, from a few KiB on, where the core that reads next is far from this one, or near.
Streaming streaming_to(bool far);

// One combine: destinations[j][i] = epilogue(prologue(sources[0][i]) op prologue(sources[1][i]) op ...), left to right.
// A destination may be the same memory as a source, but may not overlap one in any other way. Any alignment.
struct Combine {
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  std::span<const std::byte* const> sources;  // at least one
  std::span<std::byte* const> destinations;   // at least one
  size_t count = 0;                           // elements
  const void* scale_first = nullptr;          // prologue: multiply by this scalar of `type`, rounding to `type` ...
  uint64_t first_mask = 0;                    // ... the sources whose bit is set; no scalar, logical: make them 0 or 1
  int64_t divide_last = 0;                    // epilogue: divide by this (0: none); integers truncate toward zero
  uint64_t strings_mask = 0;                  // destinations that are written by Streaming::kStrings ...
  uint64_t around_mask = 0;                   // ... and by kAround
  bool in_shared_cache = false;               // the sources: another core that shares one with this has written them
  UserFunction user = nullptr;                // replaces `op`; no prologue or epilogue
  void* user_context = nullptr;

  void write(size_t destination, Streaming way) {
    if (way == Streaming::kStrings) strings_mask |= uint64_t{1} << destination;
    if (way == Streaming::kAround) around_mask |= uint64_t{1} << destination;
  }
};

void combine(const Combine& combine);

// What combine() does, by the instruction set in use now, looked up once for many that differ only in what lies where
// and how much of it; nothing is streamed.
using CombineFunction = void (*)(const Combine&);
CombineFunction kernel_of(const Combine& combine);

// Copy with one source: type-free, in bytes.
void copy(std::byte* destination, const std::byte* source, size_t bytes, Streaming way);

// The instruction set in use ("AVX3_FP16", "AVX3_DL", "AVX3", "AVX2", "SSE4", "SCALAR", ...).
std::string_view instruction_set();

// For tests: those that this machine can run, best first, and a way to force one (an empty name: the best again). False
// when the machine has none of that name. Not while another thread combines.
std::span<const std::string_view> instruction_sets();
bool force_instruction_set(std::string_view name);

}  // namespace hocket
