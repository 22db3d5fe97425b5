// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a communicator's chooser is made of, equal on all ranks: where they lie, and rank 0's tuning.
#pragma once

#include <string>

#include "choose/tuning.h"
#include "comm/mesh.h"

namespace hocket {

Placement placement(const Mesh& mesh);

// Rank 0's; without one what is built in, with as many cores as rank 0 may use.
Tuning tuning(const Mesh& mesh);

// The text of a tuning file of this machine. Empty, with a warning, when there is none, when it is damaged, or when it
// belongs to another machine; empty without one for an empty path.
std::string read_tuning_file(const std::string& path);

}  // namespace hocket
