// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How communicators come to be: by unique id, from a launcher's environment, by splitting.
#pragma once

#include <memory>
#include <string>

#include "api/session.h"
#include "base/status.h"
#include "hocket/hocket.h"

namespace hocket {

Result<std::string> make_unique_id();
// Blocks until all ranks have come; returns the new handle.
Result<hocketComm_t> create_by_id(const std::string& unique_id, int rank, int ranks,
                                  const CommunicatorOptions& options);
Result<hocketComm_t> create_from_environment(const CommunicatorOptions& options);
// Collective; NULL for HOCKET_SPLIT_NOCOLOR.
Result<hocketComm_t> split(Session& session, int color, int key, const CommunicatorOptions& options);

// The options of a config (NULL: defaults), completed from the settings.
Result<CommunicatorOptions> options_from(const hocketConfig_t* config);

}  // namespace hocket
