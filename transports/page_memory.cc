// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/page_memory.h"

#include <new>

namespace hocket {
namespace {

constexpr std::align_val_t kPage{4096};

}  // namespace

PageMemory::PageMemory(size_t bytes) : bytes_(static_cast<std::byte*>(::operator new(bytes, kPage)), bytes) {}

PageMemory::~PageMemory() { ::operator delete(bytes_.data(), kPage); }

}  // namespace hocket
