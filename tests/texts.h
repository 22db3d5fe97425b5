// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Texts that tests read and spoil.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace hocket::test {

inline std::string contents(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// With the first `old` exchanged, which must be there.
inline std::string replaced(std::string text, const std::string& old, const std::string& by) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), by);
}

}  // namespace hocket::test
