// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A communicator of some of the ranks of another. Whoever is in the old one holds its key, from which the new one's is
// derived.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace hocket {

// What ends a child of which not all ranks have come.
enum class EndsWith : uint8_t {
  kParent,   // its ranks come after a call of the parent, which may have failed with it on some of them
  kMembers,  // its ranks come though the parent has failed, unless that has lost one of them
};

// What a rank of the parent, whose key that is, opens the mesh of these ranks with, in this order. All of them name it
// alike by `purpose`.
MeshOptions mesh_of_child(Mesh& parent, const std::string& key, const std::vector<Rank>& group,
                          const std::string& purpose, EndsWith ends_with);

// The same as a communicator, which chooses as its parent does.
Result<std::shared_ptr<Communicator>> open_child(Communicator& parent, const std::vector<Rank>& group,
                                                 const std::string& purpose, CommunicatorOptions options,
                                                 EndsWith ends_with = EndsWith::kParent);

}  // namespace hocket
