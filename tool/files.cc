// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace hocket::tool {
namespace {

Status refused(std::string_view option, std::string_view what, const std::string& path) {
  return {Code::kSystem, fmt::format("{}: cannot {} '{}': {}", option, what, path, std::strerror(errno))};
}

}  // namespace

Result<std::string> read_file(std::string_view option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return refused(option, "open", path);
  std::string text;
  std::array<char, 1 << 16> piece{};
  while (file.read(piece.data(), piece.size()) || file.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: '{}' holds more than {} bytes", option, path, kMaxFileBytes));
    }
  }
  return file.bad() ? refused(option, "read", path) : Result<std::string>(std::move(text));
}

Result<topology::Reading> read_topology(std::string_view option, const std::string& path) {
  const Result<std::string> text = read_file(option, path);
  if (!text.ok()) return text.status();
  Result<topology::Reading> reading = topology::read(*text);
  if (reading.ok()) return reading;
  return Status(reading.status().code(), fmt::format("{}: {}", path, reading.status().message()));
}

Status check_is_writable(std::string_view option, const std::string& path) {
  std::error_code none;
  const bool exists = std::filesystem::exists(path, none);
  if (std::filesystem::is_directory(path, none)) {
    errno = EISDIR;
    return refused(option, "write", path);
  }
  const std::filesystem::path folder = std::filesystem::absolute(path, none).parent_path() / ".";
  const bool may = exists ? access(path.c_str(), W_OK) == 0 : access(folder.c_str(), W_OK | X_OK) == 0;
  return may ? Status() : refused(option, "write", path);
}

Status write_file(std::string_view option, const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status() : refused(option, "write", path);
}

}  // namespace hocket::tool
