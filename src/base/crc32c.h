// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// CRC-32C (Castagnoli): finds every change of up to five bits in a short message and every burst of up to 32, and all
// but one in 2^32 of the rest. By ISA-L, which takes the best instructions of x86-64 and ARM processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hocket {

// `before`: the checksum of the bytes that go before these.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace hocket
