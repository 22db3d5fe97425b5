// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The four cryptographic tools of the bootstrap. Byte strings are std::string.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hocket {

// Each part enters with its length, so that no two lists of parts give the same digest by accident.
std::string sha256(std::initializer_list<std::string_view> parts);
std::string hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts);
// In a time that does not depend on where the two differ.
bool equal_secrets(std::string_view left, std::string_view right);
// At most 256.
Result<std::string> random_bytes(size_t count);

}  // namespace hocket
