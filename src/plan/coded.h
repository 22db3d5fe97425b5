// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans whose messages will be encoded by a codec. Encoding changes what the others get, so a rank that sends out a
// result must keep what its message decodes to, and not what it had calculated. Plans over levels, and direct
// all-to-alls where there are levels, encode what goes between the groups of the last level only.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/builders.h"
#include "plan/plan.h"

namespace hocket {

// The builder's plan; of a coded call, if the options say so.
Plan build(const Builder& builder, const BuildOptions& options);

// Steps that send finished results out of the receive buffer write them there, too; the executor then stores what the
// others will decode. The plan means the same without a codec.
Plan keep_what_is_sent(Plan plan);

// The group of the last level that each rank is in, by number.
std::vector<int32_t> groups_of(const Hierarchy& hierarchy, Rank ranks);

// Of plans whose steps send within groups or between them, never both.
Plan leave_plain_within(const Hierarchy& hierarchy, Plan plan);

}  // namespace hocket
