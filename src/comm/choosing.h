// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a communicator's chooser is made of, equal on all ranks: where they lie, and rank 0's tuning.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "choose/tuning.h"
#include "comm/mesh.h"

namespace hocket {

Placement placement(const Mesh& mesh);
// By every rank's first interface, where those of some host have different ones; else none.
std::vector<int32_t> rails_of(const std::vector<std::string_view>& interfaces,
                              const std::vector<std::vector<Rank>>& hosts);
// As long as messages of the mesh's calls are at most; the same on all ranks.
size_t longest_message(const Mesh& mesh, const Placement& placement);
// What is not cut between ranks that do not share memory, by whatever carries the longest, and at most `most`: it may
// lose by shorter messages, and the others cut for themselves. Neighbours show all transports that are worth it: of
// pairs there may be too many.
size_t longest_uncut(Rank ranks, const std::function<const PeerInfo&(Rank)>& peer, size_t most);

// Rank 0's; without one what is built in, with as many cores as rank 0 may use.
Tuning tuning(const Mesh& mesh);

// In place of a tuning: the file does not exist, and whoever measures shall write it.
inline constexpr std::string_view kUncalibrated = "uncalibrated";

// The text of a tuning file of this machine. Empty, with a warning, when it cannot be read, is damaged, or belongs to
// another machine; empty without one for an empty path; kUncalibrated when there is none of that name.
std::string read_tuning_file(const std::string& path);

// False: it cannot be. Nobody ever sees half a file.
bool write_tuning_file(const std::string& path, const std::string& text);

// What rank 0 tells of what it read when the process began: a file that did not exist then may do so by now.
std::string tuning_to_tell(const std::string& read);

}  // namespace hocket
