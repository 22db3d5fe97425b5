// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A call that waits for the end of its group.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/request.h"
#include "comm/work.h"
#include "hocket/hocket.h"

namespace hocket {

struct PendingCall {
  hocketComm_t comm;
  Request request;
  hocketStream_t stream;
  bool with_self;                     // a transfer between a rank and itself
  std::unique_ptr<Work> work;         // null: made of the request
  std::optional<size_t> slices = {};  // that it has made already, if it has begun
};

// Joins each send to oneself with its receive, in order.
Status match_transfers_with_self(std::vector<PendingCall>& calls);

}  // namespace hocket
