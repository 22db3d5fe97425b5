// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A whole perf program: main() without its name.
#pragma once

#include "collective.h"

namespace hocket::perf {

int run_program(const Collective& collective, int argc, const char* const* argv);

}  // namespace hocket::perf
