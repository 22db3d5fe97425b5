// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One operation of MSCCL++'s JSON: what it does, with which chunks and channels.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/mscclpp_file.h"
#include "plan/mscclpp_reader.h"

namespace hocket::mscclpp {

// "i", "o" and "s".
std::optional<Buffer> buffer_of(std::string_view letter);

struct RemoteBuffer {
  Rank gpu = 0;
  Buffer buffer = Buffer::kSend;
};

using Numbers = std::map<std::string, std::vector<int32_t>>;  // by kind of channel

// What the numbers in a thread block's operations stand for.
struct Scope {
  const std::vector<Gpu>* gpus = nullptr;
  Rank gpu = 0;
  const Numbers* channels = nullptr;  // the GPU's, as they are numbered among those of their kind
  const std::vector<RemoteBuffer>* buffers = nullptr;
  Numbers own_channels;  // the thread block's numbers: which of the GPU's they are
  Numbers own_buffers;
};

Result<Operation> parse_operation(const Json& json, const Scope& scope, const std::string& where);

}  // namespace hocket::mscclpp
