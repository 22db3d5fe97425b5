// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans whose messages will be encoded by a codec. Encoding changes what the others get, so a rank that sends out a
// result must keep what its message decodes to, and not what it had calculated. Plans over levels encode what goes
// between the groups of the last level only.
#pragma once

#include "plan/builders.h"
#include "plan/plan.h"

namespace hocket {

// The builder's plan; of a coded call, if the options say so.
Plan build(const Builder& builder, const BuildOptions& options);

// Steps that send finished results out of the receive buffer write them there, too; the executor then stores what the
// others will decode. The plan means the same without a codec.
Plan keep_what_is_sent(Plan plan);

// Hierarchical plans send within groups or between them, never both in one step.
Plan leave_plain_within(const Hierarchy& hierarchy, Plan plan);

}  // namespace hocket
