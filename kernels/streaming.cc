// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "kernels/streaming.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOCKET_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HOCKET_SANITIZED
#endif
#endif

namespace hocket {
namespace {

#if defined(__x86_64__)

bool moves_strings_fast() {
  constexpr unsigned kFastShort = 1u << 4;  // FSRM: fast also at a few kilobytes
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kFastShort) != 0;
}

// By the makers' processors that were seen: on AMD's, lines of distant readers are claimed slowly by strings too
// (decision 0060), and where strings are slow, so are those of near ones (5.6 against 2.0 GB/s at 4 KiB, 8.0
// against 2.2 at 64 KiB between distant cores of an EPYC). On an Intel Xeon stores past the caches took half as long
// again as plain ones.
Streaming find_way(bool far) {
  const bool is_amd = __builtin_cpu_is("amd");
  if (is_amd && (far || !moves_strings_fast())) return Streaming::kAround;
  return moves_strings_fast() ? Streaming::kStrings : Streaming::kPlain;
}

#else

Streaming find_way(bool /*far*/) { return Streaming::kPlain; }

#endif

}  // namespace

Streaming streaming_to(bool far) {
  static const std::array<Streaming, 2> kWays = {find_way(false), find_way(true)};
  return kWays[far ? 1 : 0];
}

Streaming way_of(const Combine& combine, size_t destination) {
  if ((combine.strings_mask >> destination & 1) != 0) return Streaming::kStrings;
  return (combine.around_mask >> destination & 1) != 0 ? Streaming::kAround : Streaming::kPlain;
}

// The C library's memcpy uses the instruction too, but not on each processor and for each length where it pays.
// Sanitizers see into memcpy, and not into the instruction.
void move_string(std::byte* destination, const std::byte* source, size_t bytes) {
#if defined(__x86_64__) && !defined(HOCKET_SANITIZED)
  asm volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(bytes) : : "memory");
#else
  std::memcpy(destination, source, bytes);
#endif
}

// Each block is combined in the first-level cache, from where it goes to each destination that is streamed.
void combine_and_move(const Combine& combine) {
  constexpr size_t kBlockBytes = 8192;
  alignas(64) std::byte scratch[kBlockBytes];
  std::array<const std::byte*, 64> sources;
  std::array<std::byte*, 64> kept;
  const size_t element = element_bytes(combine.type);
  const size_t block_count = kBlockBytes / element;
  Combine block = combine;
  block.strings_mask = block.around_mask = 0;
  block.sources = {sources.data(), combine.sources.size()};
  for (size_t first = 0; first < combine.count; first += block_count) {
    block.count = std::min(block_count, combine.count - first);
    const auto at_block = [&](auto* memory) { return memory + first * element; };
    std::ranges::transform(combine.sources, sources.begin(), at_block);
    size_t written = 0;
    for (size_t i = 0; i < combine.destinations.size(); ++i) {
      if (way_of(combine, i) == Streaming::kPlain) kept[written++] = at_block(combine.destinations[i]);
    }
    if (written == 0) kept[written++] = scratch;
    block.destinations = {kept.data(), written};
    hocket::combine(block);
    for (size_t i = 0; i < combine.destinations.size(); ++i) {
      const Streaming way = way_of(combine, i);
      if (way != Streaming::kPlain) copy(at_block(combine.destinations[i]), kept[0], block.count * element, way);
    }
  }
}

}  // namespace hocket
