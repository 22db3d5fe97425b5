// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/registration.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "base/descriptor.h"
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

bool is_first_refusal_of(std::string_view device) {
  static auto& told = *new std::set<std::string, std::less<>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return told.emplace(device).second;
}

// In the host's memory dma-bufs take nothing. A card that takes none is told of once: it would say the same of each.
ibv_mr* register_dma_buf(const VerbsTable& table, ibv_pd* domain, std::span<const std::byte> bytes, int access,
                         std::string_view device, const BeyondHost& beyond) {
  const auto address = reinterpret_cast<uint64_t>(bytes.data());
  ibv_mr* region = nullptr;
  errno = EOPNOTSUPP;
  if (table.reg_dmabuf_mr != nullptr) {
    region = table.reg_dmabuf_mr(domain, beyond.offset, bytes.size(), address, beyond.dma_buf.get(), access);
  }
  const int error = errno;
  if (region == nullptr && is_first_refusal_of(device))
    log_warn("{} does not register memory of an accelerator ({}): it is copied", device, error_text(error));
  return region;
}

}  // namespace

std::unique_ptr<Registration> Registration::make(const VerbsTable& table, ibv_pd* domain,
                                                 std::span<const std::byte> bytes, int access, std::string_view device,
                                                 const BeyondHost* beyond) {
  if (beyond != nullptr) {
    ibv_mr* const region = register_dma_buf(table, domain, bytes, access, device, *beyond);
    return std::unique_ptr<Registration>(region == nullptr ? nullptr : new Registration(table, region, 0));
  }
  if (!count(bytes.size())) return nullptr;
  ibv_mr* region = table.reg_mr(domain, const_cast<std::byte*>(bytes.data()), bytes.size(), access);
  if (region != nullptr) return std::unique_ptr<Registration>(new Registration(table, region, bytes.size()));
  sum_of_all -= bytes.size();
  log_info("{} does not register {} bytes ({}): they are copied", device, bytes.size(), std::strerror(errno));
  return nullptr;
}

Registration::~Registration() {
  sum_of_all -= counted_;
  table_.dereg_mr(region_);
}

}  // namespace hocket
