// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calibration at first use: what messages cost here, measured in a fraction of a second by the first communicator whose
// rank 0 was given the name of a tuning file that is still to be written.
#pragma once

#include "comm/communicator.h"

namespace hocket {

// Before the communicator's first call, on all ranks: measures, if rank 0 wishes it; all choose by what was found, and
// rank 0 writes its file. One that cannot be written is a warning. Where several hosts have several ranks, those of
// rank 0's host measure first, then one of each host, so that what each way costs can be told apart.
Status calibrate_if_wished(Communicator& communicator);

}  // namespace hocket
