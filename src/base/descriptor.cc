// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Descriptors and the words for failed system calls.
#include "base/descriptor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <system_error>

namespace hocket {

Descriptor::~Descriptor() {
  // Never repeated on EINTR: Linux has freed the number by then, and another thread may hold it already.
  if (number_ >= 0) ::close(number_);
}

std::string error_text(int error) {
  std::string text = std::generic_category().message(error);
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

namespace {

bool other_side_is_at_fault(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status system_failure(std::string_view what, int error) {
  return {other_side_is_at_fault(error) ? Code::kRemote : Code::kSystem,
          fmt::format("{}: {}", what, error_text(error))};
}

}  // namespace hocket
