// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What we write as hwloc's XML, hwloc itself loads, and what it writes then is the same machine.
#include <gtest/gtest.h>
#include <hwloc.h>

#include <filesystem>
#include <memory>

#include "tests/texts.h"
#include "topology/read.h"
#include "topology/text.h"
#include "topology/write.h"

namespace hocket::topology {
namespace {

using std::filesystem::path;

// Empty: hwloc refuses it.
std::string through_hwloc(const std::string& text) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {};
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  const auto size = static_cast<int>(text.size()) + 1;
  if (hwloc_topology_set_xmlbuffer(raw, text.c_str(), size) != 0 || hwloc_topology_load(raw) != 0) return {};
  hwloc_topology_check(raw);  // ends the process where something is wrong
  char* buffer = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(raw, &buffer, &length, 0) != 0) return {};
  std::string result(buffer);
  hwloc_free_xmlbuffer(raw, buffer);
  return result;
}

void expect_loaded(const Topology& topology, const std::string& title) {
  const Result<Writing> writing = write_hwloc(topology);
  ASSERT_TRUE(writing.ok()) << title << ": " << writing.status().message();
  const std::string again = through_hwloc(writing->text);
  ASSERT_FALSE(again.empty()) << title << ": hwloc does not load\n" << writing->text;
  const Result<Reading> ours = read(writing->text);
  const Result<Reading> hwlocs = read(again);
  ASSERT_TRUE(ours.ok()) << title << ": " << ours.status().message();
  ASSERT_TRUE(hwlocs.ok()) << title << ": " << hwlocs.status().message();
  EXPECT_EQ(to_text(hwlocs->topology), to_text(ours->topology)) << title;
}

TEST(HwlocLoads, WhatWeWrite) {
  for (const char* text :
       {"hocket topology 1\ncpu cpu0\n", "hocket topology 1\ngpu a\n",
        "hocket topology 1\ncpu cpu0\ncpu cpu1\ncomplex a\ncomplex b\nlink a - cpu0 cache x1 32 GB/s 0.1 us\n"
        "link b - cpu0 cache x1 32 GB/s 0.1 us\nlink cpu0 - cpu1 socket x1 20 GB/s 0.2 us\n"}) {
    const Result<Reading> reading = read(text);
    ASSERT_TRUE(reading.ok()) << reading.status().message();
    expect_loaded(reading->topology, text);
  }
  const Result<Reading> fixture = read(test::contents(path(FIXTURES) / "two_switches.xml"));
  ASSERT_TRUE(fixture.ok());
  expect_loaded(fixture->topology, "two switches");
}

TEST(HwlocLoads, PublishedMachines) {
  if (!std::filesystem::is_directory(SHARED_TOPOLOGIES)) GTEST_SKIP() << "there is no " << SHARED_TOPOLOGIES;
  int loaded = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SHARED_TOPOLOGIES)) {
    const path file = entry.path();
    if (!entry.is_regular_file()) continue;
    const Result<Reading> reading = read(test::contents(file));
    if (!reading.ok() || !write_hwloc(reading->topology).ok()) continue;  // no topology, or one of several hosts
    expect_loaded(reading->topology, file.string());
    ++loaded;
  }
  EXPECT_GE(loaded, 44);
}

}  // namespace
}  // namespace hocket::topology
