// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Runs plans on symbols and compares what every rank ends with to what the collective promises.
#pragma once

#include "base/status.h"
#include "prove/contract.h"
#include "prove/network.h"
#include "prove/prove.h"

namespace hocket::proving {

// For networks that end and do not race, where the order of lanes tells nothing. Fills the proof's longest_message,
// share_sent, in_rank_order and same_association.
Status interpret(const Network& network, const Contract& contract, const ProveOptions& options, Proof* proof);

// For a barrier: every rank ends only after it has heard, maybe over others, from all.
Status check_barrier(const Network& network);

}  // namespace hocket::proving
