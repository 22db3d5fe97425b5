// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans whose messages will be encoded by a lossy codec. Encoding changes what the others get, so a rank that sends out
// a result must keep what its message decodes to, and not what it had calculated.
#pragma once

#include "plan/plan.h"

namespace hocket {

// Steps that send finished results out of the receive buffer write them there, too; the executor then stores what the
// others will decode. The plan means the same without a codec.
Plan keep_what_is_sent(Plan plan);

}  // namespace hocket
