// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// When a communicator is created, and its handle: at once, at the end of the group, or, without blocking, on a thread
// of its own.
#pragma once

#include <functional>
#include <optional>

#include "api/creation.h"

namespace hocket {

// Out of which communicator another is made.
struct Origin {
  std::optional<hocketComm_t> parent;
  bool alone = false;   // no other call may be inside the parent meanwhile
  bool leaves = false;  // this rank takes part and gets no communicator
};

struct Wishes {
  CommunicatorOptions options;
  bool blocking = true;
};
// Of a config (NULL: defaults), completed from the settings.
Result<Wishes> wishes_of(const hocketConfig_t* given);

// parent: null if of none.
using Make = std::function<Created(Session* parent, const CommunicatorOptions& options)>;
// The handle is written when the communicator is there; without blocking at once.
hocketResult_t open(hocketComm_t* comm, const hocketConfig_t* config, const Status& check, const Origin& origin,
                    Make make);

// Lets go of the threads that have created without blocking.
void join_creators();

// check() -> Status says what is wrong with the other arguments.
template <typename Check, typename Making>
hocketResult_t create(hocketComm_t* comm, const hocketConfig_t* config, const Check& check, const Origin& origin,
                      const Making& make) noexcept {
  return guarded([&] { return open(comm, config, check(), origin, make); });
}

}  // namespace hocket
