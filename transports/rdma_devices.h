// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whether this host has devices for RDMA, without any library.
#pragma once

#include <filesystem>
#include <system_error>

namespace hocket {

inline bool has_rdma_devices() {
  std::error_code none;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
  return devices != std::filesystem::directory_iterator();
}

}  // namespace hocket
