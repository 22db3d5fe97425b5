// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What ranks tell each other before a collective that kernels may make: where each has its buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/mesh.h"
#include "comm/request.h"

namespace hocket {

// Whether the ranks tell each other where their buffers are before this call, of which the windows are known; so do
// those that bring memory of the host. Equal on all ranks.
bool tells_places(const Mesh& mesh, const Request& request);

// What a rank says of a call. Travels as it is.
struct CallPlaces {
  struct Spot {
    uint64_t memory = 0;  // number of the allocation among those that the rank has offered; 0: it needs none
    uint64_t offset = 0;
  };
  uint64_t reached = 0;  // 1: kernels of all ranks reach both
  Spot send;
  Spot recv;
};

// By which all ranks tell each other; `ours` and `all` outlive it, as does the call that it precedes.
Request telling_of(const CallFacts& precedes, const CallPlaces& ours, std::vector<CallPlaces>& all);

}  // namespace hocket
