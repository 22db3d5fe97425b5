// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All-reduce by halving and doubling: in every round the members pair up and exchange halves of what they still hold,
// until each holds one chunk's result; then the same backwards. Which member ends with which chunk is of no concern.
#pragma once

#include <string_view>

#include "plan/builders.h"

namespace hocket::plan::halving {

// How the members, a power of two, pair up. Whom a member has met after all rounds must be everybody, once.
struct Pairs {
  int32_t (*peer)(int32_t member, int32_t members, int32_t round);
  // Whether the upper half stays with this member, the lower with its peer. All members that the later rounds join,
  // directly or over others, agree about the earlier rounds.
  bool (*upper)(int32_t member, int32_t members, int32_t round);
};

Plan all_reduce(std::string_view name, const BuildOptions& options, const Pairs& pairs);

}  // namespace hocket::plan::halving
