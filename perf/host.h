// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the perf tools ask this host about itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hocket::perf {

std::string host_name();       // without its domain
std::string processor_name();  // of the first core
size_t memory_bytes();         // installed; 0: unknown
int64_t resident_bytes();      // of this process

// "1.50 MB", as nccl-tests writes amounts.
std::string amount_text(int64_t bytes);

}  // namespace hocket::perf
