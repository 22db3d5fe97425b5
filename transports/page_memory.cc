// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/page_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace hocket {
PageMemory::PageMemory(size_t bytes) {
  if (bytes == 0) return;
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  bytes_ = {static_cast<std::byte*>(pages), bytes};
}

PageMemory::~PageMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// The last step is one for all who look: there is no moment at which the pages are not there.
Status make_own(std::span<std::byte> pages) {
  void* own = ::mmap(nullptr, pages.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own != MAP_FAILED) {
    std::memcpy(own, pages.data(), pages.size());
    if (::mremap(own, pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_FIXED, pages.data()) != MAP_FAILED) return {};
  }
  const int error = errno;
  if (own != MAP_FAILED) ::munmap(own, pages.size());
  return {Code::kSystem,
          fmt::format("{} bytes cannot be taken back from others: {}", pages.size(), std::strerror(error))};
}

}  // namespace hocket
