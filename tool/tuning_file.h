// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The tuning files that commands add to.
#pragma once

#include <string>
#include <string_view>

#include "choose/tuning.h"

namespace hocket::tool {

// What a file of this machine says, to be extended; without one, what is built in, as this machine's.
Tuning tuning_to_extend(const std::string& path);

// Fails if something else is there than a tuning file: that is not written over. Empty: nothing is to be written.
Status check_is_ours(std::string_view option, const std::string& path);

}  // namespace hocket::tool
