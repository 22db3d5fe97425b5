// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// MSCCL's XML as it stands in the file, numbers checked; see plan/msccl.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket::msccl {

enum class Action : uint8_t {
  kSend,
  kRecv,
  kRecvCopySend,
  kRecvReduceCopy,
  kRecvReduceSend,
  kRecvReduceCopySend,
  kCopy,
  kReduce,
  kNothing,  // only waits
};

struct Place {
  Buffer buffer = Buffer::kSend;  // input: send, output: recv
  int32_t first = 0;
};

struct Step {
  Action action = Action::kNothing;
  Place source;
  Place target;
  int32_t count = 0;  // chunks
  int32_t await_block = -1;
  int32_t await_step = -1;
  int64_t line = 0;
};

struct Block {
  Rank send = -1;
  Rank recv = -1;
  int32_t channel = 0;
  std::vector<Step> steps;
};

struct Gpu {
  int32_t input_chunks = 0;
  int32_t output_chunks = 0;
  int32_t scratch_chunks = 0;
  std::vector<Block> blocks;
};

struct Algorithm {
  std::string name;
  Collective collective = Collective::kAllReduce;
  bool in_place = false;  // and not otherwise
  std::vector<Gpu> gpus;
};

Result<Algorithm> parse(std::string_view xml);

// As both formats spell it.
std::optional<Collective> collective_of(std::string_view word);
// The letters of an algorithm's name that it may have here.
std::string plain(std::string name);

// What is wrong with an algorithm.
Status refused(std::string_view reason);

bool receives(Action action);
bool sends(Action action);
bool reduces(Action action);
bool writes(Action action);
bool reads(Action action);

std::string_view name(Action action);  // as the file spells it

}  // namespace hocket::msccl
