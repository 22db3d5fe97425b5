// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/registration.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace hocket {
namespace {

std::atomic<size_t> sum_of_all = 0;

size_t most_of_all() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur / 2;
}

// False, and nothing is counted: it would be too much.
bool count(size_t bytes) {
  if (sum_of_all.fetch_add(bytes) + bytes <= most_of_all()) return true;
  sum_of_all -= bytes;
  return false;
}

}  // namespace

std::unique_ptr<Registration> Registration::make(const VerbsTable& table, ibv_pd* domain,
                                                 std::span<const std::byte> bytes, int access,
                                                 std::string_view device) {
  if (!count(bytes.size())) return nullptr;
  ibv_mr* region = table.reg_mr(domain, const_cast<std::byte*>(bytes.data()), bytes.size(), access);
  if (region != nullptr) return std::unique_ptr<Registration>(new Registration(table, region));
  sum_of_all -= bytes.size();
  log_info("{} does not register {} bytes ({}): they are copied", device, bytes.size(), std::strerror(errno));
  return nullptr;
}

Registration::~Registration() {
  sum_of_all -= region_->length;
  table_.dereg_mr(region_);
}

}  // namespace hocket
