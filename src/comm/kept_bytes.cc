// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/kept_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace hocket {
namespace {

// Null: there is no memory.
std::byte* map(size_t bytes) {
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
}

}  // namespace

KeptBytes::~KeptBytes() {
  if (pages_ != nullptr) ::munmap(pages_, size_);
}

// Every stream needs a first ring. Longer ones are as long as they would be if all that there are now had as much.
bool KeptBytes::grow(uint64_t begin, uint64_t end) {
  const size_t size = std::max(2 * size_, kFirst);
  const bool may_be = size == kFirst || (size <= kMost && size <= held_.share() && held_.fits(size - size_));
  if (!may_be) return false;
  std::byte* const pages = map(size);
  if (pages == nullptr && pages_ == nullptr) throw std::bad_alloc();
  if (pages == nullptr) return false;
  for (uint64_t number = begin; number < end;) {
    const size_t here = std::min({size_ - number % size_, size - number % size, static_cast<size_t>(end - number)});
    std::memcpy(pages + number % size, pages_ + number % size_, here);
    number += here;
  }
  if (pages_ != nullptr) ::munmap(pages_, size_);
  pages_ = pages;
  held_.grow(size - size_);
  size_ = size;
  return true;
}

}  // namespace hocket
