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

// These ranks of the parent, in this order. All of them name it alike by `purpose`. It chooses as its parent does.
Result<std::shared_ptr<Communicator>> open_child(Communicator& parent, const std::vector<Rank>& group,
                                                 const std::string& purpose, CommunicatorOptions options);

}  // namespace hocket
