// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who has sent: for receives from anybody.
#pragma once

#include "base/status.h"
#include "comm/communicator.h"

namespace hocket {

// The first peer after `after`, in a circle, whose next transfer is here and that no receive under way will take; -1:
// none. For whoever has the communicator to himself.
Result<Rank> probe(Communicator& communicator, Rank after);

}  // namespace hocket
