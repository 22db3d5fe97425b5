// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which optional dependencies this build found, and what became of each. Written by CMake when it configures.
#pragma once

#include <span>

#include "hocket/hocket.h"

namespace hocket {

std::span<const hocketBuildInfo_t> build_info();

}  // namespace hocket
