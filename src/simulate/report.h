// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Outcomes for people.
#pragma once

#include <string>

#include "simulate/simulate.h"

namespace hocket::simulate {

// When it ended, or who waits for whom; a few lines.
std::string summary(const Program& program, const Outcome& outcome);

// The busiest links, at most `rows`, with the bytes that they carried and the share of the time that they were busy.
std::string link_table(const Fabric& fabric, const Outcome& outcome, size_t rows);

}  // namespace hocket::simulate
