// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All-reduces of float32, in place, written by hand for two processes of one machine, with nothing around them.
//
//   flag       one cache line each way: no data, the least that an exchange can take
//   oneshot    copy to shared memory, flag, add (through private buffers)
//   staged     two halves through slots in shared memory, slice by slice (private buffers)
//   socket     the same over one TCP connection of the loopback; short buffers whole
//   direct     buffers in shared memory: each adds one half and writes it to both
//   directown  each adds one half into its own buffer, and copies the other half
//   memcpy     one process copies between two private buffers
//
// As for a collective, a process may touch its buffer before and after each call: in shared memory that takes an
// exchange of flags at the beginning and one at the end (oneshot needs none, with two slots used in turn).
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "loopback.h"

namespace hocket::perf {

inline constexpr size_t kLine = 64;
inline constexpr size_t kPage = 4096;
inline constexpr size_t kMaxRepetitions = 64;
inline constexpr uint64_t kPatience = 100000;  // looks
inline constexpr size_t kShort = 4 << 10;      // elements
inline constexpr size_t kSlice = 8 << 10;      // elements: the slots stay in the caches

struct alignas(kLine) Flag {
  std::atomic<uint64_t> value{0};
};

// What both processes see before the buffers.
struct Shared {
  Flag flags[2];
  Flag given[2];   // slices of the peer's half that a rank has put into its slots,
  Flag summed[2];  // and sums of its own half
  std::atomic<bool> failed{false};
  alignas(kPage) float halves[2][2][kSlice];  // by rank and turn
  float sums[2][2][kSlice];
  alignas(kLine) double seconds[2][kMaxRepetitions];
};

struct Buffers {
  float* own[2];    // shared, one of each rank
  float* slots[4];  // shared: two of each rank
  float* local;     // private
  float* other;     // private
};

class Rank {
 public:
  Rank(int rank, Shared& shared, const Buffers& buffers, const Loopback& loopback)
      : rank_(rank), shared_(shared), buffers_(buffers), loopback_(loopback) {}

  int rank() const { return rank_; }
  Shared& shared() { return shared_; }

  void flag(size_t /*count*/) { meet(); }

  void oneshot(size_t count) {
    const size_t turn = ++turns_ % 2;
    std::memcpy(slot(rank_, turn), buffers_.local, count * sizeof(float));
    meet();
    add(buffers_.local, buffers_.local, slot(1 - rank_, turn), count);
  }

  // Neither asks whether a slot is free: what it waits for came after its peer had emptied the slot before last.
  void staged(size_t count) {
    const Part mine = half(rank_, count), theirs = half(1 - rank_, count);
    const size_t slices = (std::max(mine.count, theirs.count) + kSlice - 1) / kSlice;
    for (size_t i = 0; i <= slices; ++i) {
      if (i < slices) give(slices_ + i, theirs.slice(i));
      if (i > 0) collect(slices_ + i - 1, theirs.slice(i - 1));
      if (i < slices) sum(slices_ + i, mine.slice(i));
    }
    slices_ += slices;
  }

  void socket(size_t count) {
    float* local = buffers_.local;
    if (count <= kShort) {
      exchange(local, buffers_.other, {0, count}, {0, count});
      return add(local, local, buffers_.other, count);
    }
    const Part mine = half(rank_, count), theirs = half(1 - rank_, count);
    exchange(local, buffers_.other, theirs, mine);
    add(local + mine.begin, local + mine.begin, buffers_.other + mine.begin, mine.count);
    exchange(local, local, mine, theirs);
  }

  void direct(size_t count) {
    meet();
    const Part part = half(rank_, count);
    float* mine = buffers_.own[rank_] + part.begin;
    float* theirs = buffers_.own[1 - rank_] + part.begin;
    for (size_t i = 0; i < part.count; ++i) {
      const float sum = mine[i] + theirs[i];
      mine[i] = sum;
      theirs[i] = sum;
    }
    meet();
  }

  void directown(size_t count) {
    meet();
    const Part summed = half(rank_, count), copied = half(1 - rank_, count);
    float* mine = buffers_.own[rank_];
    const float* theirs = buffers_.own[1 - rank_];
    add(mine + summed.begin, mine + summed.begin, theirs + summed.begin, summed.count);
    meet();
    std::memcpy(mine + copied.begin, theirs + copied.begin, copied.count * sizeof(float));
    meet();
  }

  void copy(size_t count) {
    if (rank_ == 0) std::memcpy(buffers_.other, buffers_.local, count * sizeof(float));
  }

  // Both are here.
  void meet() {
    shared_.flags[rank_].value.store(++met_, std::memory_order_release);
    await(shared_.flags[1 - rank_], met_);
  }

 private:
  // Elements.
  struct Part {
    size_t begin;
    size_t count;

    Part slice(size_t number) const {
      const size_t first = std::min(number * kSlice, count);
      return {begin + first, std::min(kSlice, count - first)};
    }
  };

  static Part half(int rank, size_t count) {
    return rank == 0 ? Part{0, count / 2} : Part{count / 2, count - count / 2};
  }

  void exchange(const float* from, float* to, Part out, Part in) {
    if (loopback_.exchange(std::as_bytes(std::span(from + out.begin, out.count)),
                           std::as_writable_bytes(std::span(to + in.begin, in.count))))
      return;
    shared_.failed = true;
    std::_Exit(1);
  }

  void give(uint64_t slice, Part part) {
    std::memcpy(shared_.halves[rank_][slice % 2], buffers_.local + part.begin, part.count * sizeof(float));
    shared_.given[rank_].value.store(slice + 1, std::memory_order_release);
  }

  void sum(uint64_t slice, Part part) {
    await(shared_.given[1 - rank_], slice + 1);
    float* mine = buffers_.local + part.begin;
    float* sums = shared_.sums[rank_][slice % 2];
    add(mine, mine, shared_.halves[1 - rank_][slice % 2], part.count);
    std::memcpy(sums, mine, part.count * sizeof(float));
    shared_.summed[rank_].value.store(slice + 1, std::memory_order_release);
  }

  void collect(uint64_t slice, Part part) {
    await(shared_.summed[1 - rank_], slice + 1);
    std::memcpy(buffers_.local + part.begin, shared_.sums[1 - rank_][slice % 2], part.count * sizeof(float));
  }

  void await(const Flag& flag, uint64_t value) const {
    for (uint64_t looks = 0; flag.value.load(std::memory_order_acquire) < value; ++looks) {
      if (looks < kPatience) continue;
      if (shared_.failed) std::_Exit(1);  // the other one has said why
      sched_yield();
    }
  }

  float* slot(int rank, size_t turn) { return buffers_.slots[2 * static_cast<size_t>(rank) + turn]; }

  static void add(float* to, const float* one, const float* other, size_t count) {
    for (size_t i = 0; i < count; ++i) to[i] = one[i] + other[i];
  }

  const int rank_;
  Shared& shared_;
  const Buffers buffers_;
  const Loopback& loopback_;
  uint64_t met_ = 0;
  size_t turns_ = 0;
  uint64_t slices_ = 0;
};

}  // namespace hocket::perf
