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
namespace {

constexpr size_t kPageBytes = 4096;

size_t in_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

PageMemory::PageMemory(size_t bytes)
    : bytes_(static_cast<std::byte*>(::operator new(in_pages(bytes), std::align_val_t{kPageBytes})), bytes) {}

PageMemory::~PageMemory() { ::operator delete(bytes_.data(), std::align_val_t{kPageBytes}); }

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
