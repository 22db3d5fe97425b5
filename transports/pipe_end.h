// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What transports share among themselves when they open an end of a pipe. Users of pipes need only pipe.h.
#pragma once

#include <string>
#include <string_view>

#include "transports/pipe.h"

namespace hocket {

// Names one end in messages: "shm pipe to rank 3 on node-b".
std::string pipe_name(std::string_view transport, std::string_view direction, const PipeContext& context);

Status check_max_message(const PipeContext& context);

}  // namespace hocket
