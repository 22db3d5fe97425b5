// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The bytes of one-sided access by a peer's service thread.
#pragma once

#include <string>

#include "base/bytes.h"
#include "comm/remote.h"

namespace hocket {

// Longer puts and gets go in pieces of this length.
inline constexpr size_t kMaxRemoteBytes = size_t{32} << 10;

// `id` names the request in its reply.
std::string access_message(uint64_t id, const RemoteRequest& request);
bool read_access(Reader& reader, uint64_t* id, RemoteRequest* request);
std::string access_reply_message(uint64_t id, const RemoteReply& reply);
bool read_access_reply(Reader& reader, uint64_t* id, RemoteReply* reply);

}  // namespace hocket
