// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The two ways to find out about the machine, and what they share. Every file is read below `root`, which is empty
// except in tests.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/machine.h"

namespace hocket::topology {

// Those of the main thread.
CpuList allowed_cpus();

// `allowed` limits what is listed. What the files do not tell stays empty; cores are then the cpus.
Machine discover_sysfs(const CpuList& allowed, const std::string& root = "");

// Nothing when the library was built without hwloc or hwloc fails.
std::optional<Machine> discover_hwloc(const CpuList& allowed);

// Processor name and memory, and the limits of the process' control groups.
void add_system_facts(Machine& machine, const std::string& root = "");

// The first `limit` bytes; empty when it cannot be read.
std::string read_file(const std::string& path, size_t limit = 65536);
// Text like "0-3,8"; what is not a number ends it.
CpuList parse_cpus(std::string_view text);
CpuList common(const CpuList& a, const CpuList& b);
void sort_caches(Machine& machine);

}  // namespace hocket::topology
