// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How messages flow, whatever they hold: the room that pipes need, whether they need any, and how long the longest
// chain of messages is.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "prove/network.h"

namespace hocket::proving {

// All lanes end, if pipes hold whatever is sent, and everything that is sent is received. The rest is for such
// networks.
Status check_ends(const Network& network);

// The least number of messages per pipe with which all lanes end. Fails when that is more than `declared`.
Result<int32_t> least_depth(const Network& network, int32_t declared);

// Whether all lanes end when a message passes only while sender and receiver are both at its step.
bool works_rendezvous(const Network& network);

// Messages of the longest chain in which each is sent after the one before has been received.
int32_t count_rounds(const Network& network);

}  // namespace hocket::proving
