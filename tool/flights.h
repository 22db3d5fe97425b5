// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The flight recorders of this host's processes, for the commands that show them. The processes need not answer; the
// kernel lets us look at our own only.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "observe/flight.h"

namespace hocket::tool {

std::optional<FlightCopy> flight_of(int process, size_t calls);
// Of these processes, or of all when none is named.
std::vector<FlightCopy> flights(const std::vector<int>& processes, size_t calls);

}  // namespace hocket::tool
