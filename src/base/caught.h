// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The only place where exceptions end: memory that is not there becomes a status.
#pragma once

#include <new>

#include "base/status.h"

namespace hocket {

// Made when the library is loaded: it takes no memory.
const Status& out_of_memory();

// Of exhausted memory `otherwise` makes what the body would return.
template <typename Body, typename Otherwise>
auto caught(const Body& body, const Otherwise& otherwise) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return otherwise(out_of_memory());
  }
}

// Runs what returns a Status.
template <typename Body>
Status tried(const Body& body) noexcept {
  return caught(body, [](const Status& status) { return status; });
}

}  // namespace hocket
