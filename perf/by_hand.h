// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All-reduces of float32, in place, written by hand for two processes of one machine, with nothing around them. And
// what other collectives cannot do without: bytes that go one way, and both ways.
//
//   flag       one cache line each way: no data, the least that an exchange can take
//   oneshot    copy to shared memory, flag, add (through private buffers)
//   staged     two halves through slots in shared memory, slice by slice (private buffers)
//   socket     the same over one TCP connection of the loopback, half by half; short buffers whole
//   pieces     the same piece by piece
//   direct     buffers in shared memory: each adds one half and writes it to both
//   directown  each adds one half into its own buffer, and copies the other half
//   memcpy     one process copies between two private buffers
//   sent       a broadcast: through slots in shared memory, slice by slice; short buffers whole, with their number
//   swapped    an all-gather: the same both ways, half a buffer each
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
inline constexpr size_t kPiece = 128 << 10;    // elements: what the kernel takes for them stays in the caches
inline constexpr size_t kCells = 32;
inline constexpr size_t kCellElements = 30;

struct alignas(kLine) Flag {
  std::atomic<uint64_t> value{0};
};

// A short message, which has come when its number is there.
struct alignas(2 * kLine) Cell {
  std::atomic<uint64_t> number{0};
  float data[kCellElements];
};

// What both processes see before the buffers.
struct Shared {
  Flag flags[2];
  Flag given[2];   // slices of the peer's half that a rank has put into its slots,
  Flag summed[2];  // and sums of its own half
  Flag taken[2];   // slices of its peer that a rank has copied
  Flag cells_taken;
  Cell cells[kCells];
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
    leave_no_slice();
  }

  void socket(size_t count) {
    float* local = buffers_.local;
    if (count <= kShort) {
      exchange(local, buffers_.other, {0, count}, {0, count});
      return add(local, local, buffers_.other, count);
    }
    reduce_and_gather(half(rank_, count), half(1 - rank_, count));
  }

  void pieces(size_t count) {
    const Part mine = half(rank_, count), theirs = half(1 - rank_, count);
    const size_t number = (std::max(mine.count, theirs.count) + kPiece - 1) / kPiece;
    for (size_t i = 0; i < number; ++i) reduce_and_gather(mine.part(i, kPiece), theirs.part(i, kPiece));
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

  void sent(size_t count) {
    if (count <= kCellElements) return rank_ == 0 ? send_cell(count) : take_cell(count);
    const Part all{0, count};
    const size_t slices = (count + kSlice - 1) / kSlice;
    for (size_t i = 0; i < slices; ++i, ++slices_)
      rank_ == 0 ? lend(slices_, all.slice(i)) : take(slices_, all.slice(i));
    leave_no_slice();
  }

  void swapped(size_t count) {
    const Part mine = half(rank_, count), theirs = half(1 - rank_, count);
    const size_t slices = (std::max(mine.count, theirs.count) + kSlice - 1) / kSlice;
    for (size_t i = 0; i < slices; ++i, ++slices_) {
      lend(slices_, mine.slice(i));
      take(slices_, theirs.slice(i));
    }
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

    Part slice(size_t number) const { return part(number, kSlice); }
    Part part(size_t number, size_t longest) const {
      const size_t first = std::min(number * longest, count);
      return {begin + first, std::min(longest, count - first)};
    }
  };

  static Part half(int rank, size_t count) {
    return rank == 0 ? Part{0, count / 2} : Part{count / 2, count - count / 2};
  }

  void reduce_and_gather(Part mine, Part theirs) {
    float* local = buffers_.local;
    exchange(local, buffers_.other, theirs, mine);
    add(local + mine.begin, local + mine.begin, buffers_.other + mine.begin, mine.count);
    exchange(local, local, mine, theirs);
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

  // One of two slots, when the slice before last has been copied out of it.
  void lend(uint64_t slice, Part part) {
    if (slice > 1) await(shared_.taken[1 - rank_], slice - 1);
    give(slice, part);
  }

  void take(uint64_t slice, Part part) {
    await(shared_.given[1 - rank_], slice + 1);
    std::memcpy(buffers_.local + part.begin, shared_.halves[1 - rank_][slice % 2], part.count * sizeof(float));
    shared_.taken[rank_].value.store(slice + 1, std::memory_order_release);
  }

  // Who comes next need not know who gave what before.
  void leave_no_slice() { shared_.taken[rank_].value.store(slices_, std::memory_order_release); }

  // Who takes says so once in half a round of the cells.
  void send_cell(size_t count) {
    const uint64_t number = ++celled_;
    if (number % (kCells / 2) == 1 && number > kCells) await(shared_.cells_taken, number - 1 - kCells / 2);
    Cell& cell = shared_.cells[number % kCells];
    std::memcpy(cell.data, buffers_.local, count * sizeof(float));
    cell.number.store(number, std::memory_order_release);
  }

  void take_cell(size_t count) {
    const uint64_t number = ++celled_;
    Cell& cell = shared_.cells[number % kCells];
    await(cell.number, number);
    std::memcpy(buffers_.local, cell.data, count * sizeof(float));
    if (number % (kCells / 2) == 0) shared_.cells_taken.value.store(number, std::memory_order_release);
  }

  void await(const Flag& flag, uint64_t value) const { await(flag.value, value); }

  void await(const std::atomic<uint64_t>& flag, uint64_t value) const {
    for (uint64_t looks = 0; flag.load(std::memory_order_acquire) < value; ++looks) {
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
  uint64_t celled_ = 0;
};

}  // namespace hocket::perf
