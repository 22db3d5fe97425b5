// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whether this host has devices for RDMA, without any library.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace hocket {

inline bool has_rdma_devices() {
  const char* const root = std::getenv("SYSFS_PATH");  // as libibverbs has it
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::path(root != nullptr ? root : "/sys") / "class/infiniband";
  const std::filesystem::directory_iterator devices(folder, none);
  return devices != std::filesystem::directory_iterator();
}

}  // namespace hocket
