// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-sided access: what a rank may do to a peer's part of a window. Done by itself where it reaches that memory, by
// the peer's service thread elsewhere: with the same instructions, so that both may happen at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/kernels.h"

namespace hocket {

struct RemoteRequest {
  // kDoor: lets the device of the card in `data` reach a window; without a card, no device of that peer any more.
  enum class Kind : uint8_t { kPut, kGet, kFetch, kCompareSwap, kSignal, kDoor };
  Kind kind = Kind::kPut;
  uint32_t window = 0;
  uint64_t offset = 0;  // in the peer's part, in bytes
  uint64_t bytes = 0;
  uint64_t extent = 0;               // of the whole access, from here on, if this is a piece of it
  DataType type = DataType::kUint8;  // of the atomic ones: integers of 4 or 8 bytes
  ReduceOp op = ReduceOp::kSum;
  uint64_t operand = 0;
  uint64_t compare = 0;
  int32_t signal = -1;  // raised when the put is done; kSignal: this one
  std::string data{};   // of a put; the card
};

struct RemoteReply {
  enum class Outcome : uint8_t { kDone, kNotYet, kNoWindow, kOutside, kMisaligned };
  Outcome outcome = Outcome::kDone;
  uint64_t limit = 0;  // kOutside, and of a door: bytes of the part
  std::string data;  // of a get; of an atomic one 8 bytes, what was there before; of a door, what the device must know
};

// What a peer answers; written by the service thread before it is there.
struct RemoteAnswer {
  std::atomic<bool> there = false;
  RemoteReply reply;
};

// Types and operations that atomic access knows: sum, min, max, and, or, xor of integers of 4 or 8 bytes.
bool is_atomic(DataType type);
bool is_atomic(ReduceOp op);

// Whether it can be done to this part.
RemoteReply check_access(const RemoteRequest& request, std::span<const std::byte> part);
// kFetch and kCompareSwap, checked: what was there before.
uint64_t update(const RemoteRequest& request, std::byte* at);

}  // namespace hocket
