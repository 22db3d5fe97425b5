// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "kernels/streaming.h"

#include <algorithm>
#include <array>
#include <atomic>
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

// Below this, plain stores are as fast.
constexpr size_t kStreamFrom = 4096;

#if defined(__x86_64__)

bool moves_strings_fast() {
  constexpr unsigned kFastShort = 1u << 4;  // FSRM: fast also at a few kilobytes
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kFastShort) != 0;
}

// Where strings are slow it is up to the maker: between distant cores of an AMD EPYC stores past the caches took a
// third of the time of plain ones (5.6 against 2.0 GB/s at 4 KiB, 8.0 against 2.2 at 64 KiB), on an Intel Xeon half as
// long again.
Streaming best_way() {
  if (moves_strings_fast()) return Streaming::kStrings;
  return __builtin_cpu_is("amd") ? Streaming::kAround : Streaming::kPlain;
}

#else

Streaming best_way() { return Streaming::kPlain; }

#endif

std::atomic<Streaming>& way_in_use() {
  static std::atomic<Streaming> way{best_way()};
  return way;
}

}  // namespace

Streaming streaming() { return way_in_use().load(std::memory_order_relaxed); }
void force_streaming(std::optional<Streaming> way) { way_in_use().store(way.value_or(best_way())); }

Streaming way_of_streaming(size_t bytes) { return bytes >= kStreamFrom ? streaming() : Streaming::kPlain; }

// The C library's memcpy uses the instruction too, but not on each processor and for each length where it pays.
// Sanitizers see into memcpy, and not into the instruction.
void move_string(std::byte* destination, const std::byte* source, size_t bytes) {
#if defined(__x86_64__) && !defined(HOCKET_SANITIZED)
  asm volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(bytes) : : "memory");
#else
  std::memcpy(destination, source, bytes);
#endif
}

// Each block is combined in the first-level cache, from where it moves to the destinations that are streamed.
void combine_and_move(const Combine& combine) {
  constexpr size_t kBlockBytes = 8192;
  alignas(64) std::byte scratch[kBlockBytes];
  std::array<const std::byte*, 64> sources;
  std::array<std::byte*, 64> kept;
  const size_t element = element_bytes(combine.type);
  const size_t block_count = kBlockBytes / element;
  Combine block = combine;
  block.streaming_mask = 0;
  block.sources = {sources.data(), combine.sources.size()};
  for (size_t first = 0; first < combine.count; first += block_count) {
    block.count = std::min(block_count, combine.count - first);
    const auto at_block = [&](auto* memory) { return memory + first * element; };
    std::ranges::transform(combine.sources, sources.begin(), at_block);
    size_t written = 0;
    for (size_t i = 0; i < combine.destinations.size(); ++i) {
      if ((combine.streaming_mask >> i & 1) == 0) kept[written++] = at_block(combine.destinations[i]);
    }
    if (written == 0) kept[written++] = scratch;
    block.destinations = {kept.data(), written};
    hocket::combine(block);
    for (size_t i = 0; i < combine.destinations.size(); ++i) {
      if ((combine.streaming_mask >> i & 1) == 0) continue;
      move_string(at_block(combine.destinations[i]), kept[0], block.count * element);
    }
  }
}

}  // namespace hocket
