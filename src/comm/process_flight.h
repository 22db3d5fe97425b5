// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include "observe/flight.h"

namespace hocket {

// The flight recorder of this process, made at the first call; a child that fork() makes gets its own. Null when there
// is no memory for it.
FlightRecorder* process_flight();

}  // namespace hocket
