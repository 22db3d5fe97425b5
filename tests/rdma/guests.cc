// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "guests.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hocket::test {

int guest_number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

uint64_t packets_sent(const std::string& device) {
  uint64_t sum = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
    if (!device.empty() && entry.path().filename() != device) continue;
    uint64_t packets = 0;
    std::ifstream(entry.path() / "ports/1/hw_counters/sent_pkts") >> packets;
    sum += packets;
  }
  return sum;
}

Processes::Settings rank_settings(int ranks, int first, const std::string& transports) {
  Processes::Settings settings;
  settings.environment = {"HOCKET_SIZE=" + std::to_string(ranks), "HOCKET_SECRET=guests",
                          "HOCKET_TRANSPORTS=" + transports, "HOCKET_TIMEOUT=20s",
                          "HOCKET_HOST_ID=guest-" + std::to_string(guest_number("GUEST_ID", 0))};
  settings.launcher = {"sh", "-c", "export HOCKET_RANK=$(({} + " + std::to_string(first) + ")); exec \"$@\"", "sh"};
  settings.unique_id = false;
  return settings;
}

void Rdma::SetUp() {
  std::error_code none;
  if (std::filesystem::directory_iterator("/sys/class/infiniband", none) == std::filesystem::directory_iterator()) {
    GTEST_SKIP() << "this host has no RDMA device";
  }
}

}  // namespace hocket::test
