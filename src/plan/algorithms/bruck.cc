// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Bruck: a chunk that must travel distance d goes digit by digit of d in base k, lowest first, together with all others
// that share this way: (k - 1) * ceil(log_k n) messages per rank instead of n - 1, those of a digit at the same time;
// but each chunk is sent several times. Scratch chunk d is the one that has distance d to go in all. k is 2, or the
// radix.
//
// The all-gather needs no scratch: after some digits a rank has the chunks of as many ranks from itself on, and fetches
// the following ones from k - 1 ranks at once.
#include <algorithm>

#include "plan/algorithms/algorithms.h"
#include "plan/regions.h"
#include "plan/write.h"

namespace hocket::plan::bruck {
namespace {

constexpr int32_t kBinary = 2;

// Scratch chunks whose number has this digit at the place of `unit`, below `ranks`.
Place with_digit(int64_t unit, int32_t digit, int32_t radix, Rank ranks) {
  Place place = scratch(0);
  place.regions.clear();
  const int64_t start = unit * digit;
  const int64_t period = unit * radix;
  const auto whole = static_cast<int32_t>(ranks >= start + unit ? (ranks - start - unit) / period + 1 : 0);
  const int64_t rest = ranks - (start + whole * period);
  if (whole > 0) {
    place.regions.push_back({.first = static_cast<int32_t>(start),
                             .count = whole,
                             .stride = static_cast<int32_t>(whole > 1 ? period : 0),
                             .block = static_cast<int32_t>(unit)});
  }
  if (rest > 0) {
    place.regions.push_back({.first = static_cast<int32_t>(start + whole * period),
                             .count = 1,
                             .stride = 0,
                             .block = static_cast<int32_t>(rest)});
  }
  return place;
}

Place strided(Buffer buffer, int32_t first, int32_t count, int32_t stride) {
  Place place = chunks(buffer, first);
  place.regions[0].count = count;
  place.regions[0].stride = stride;
  return place;
}

// How many of 1 .. ranks - 1 are `first`, first + radix, ...
int32_t count_from(int32_t first, int32_t radix, Rank ranks) {
  return first < ranks ? (ranks - 1 - first) / radix + 1 : 0;
}

// The lowest digit goes straight from the send buffer; chunks that have none wait in scratch for the others.
void first_digit(Lane& lane, const BuildOptions& options, int32_t radix) {
  const int32_t digits = std::min(radix, options.ranks);
  for (int32_t digit = 1; digit < digits; ++digit) {
    add(lane, {to(shifted(options, digit))},
        {strided(Buffer::kSend, shifted(options, digit), count_from(digit, radix, options.ranks), radix)});
  }
  for (int32_t digit = 1; digit < digits; ++digit) {
    add(lane, {strided(Buffer::kScratch, digit, count_from(digit, radix, options.ranks), radix)},
        {from(shifted(options, -digit))});
  }
  if (const int32_t others = count_from(radix, radix, options.ranks); others > 0) {
    add(lane, {strided(Buffer::kScratch, radix, others, radix)},
        {strided(Buffer::kSend, shifted(options, radix), others, radix)});
  }
}

void other_digits(Lane& lane, const BuildOptions& options, int32_t radix) {
  for (int64_t unit = radix; unit < options.ranks; unit *= radix) {
    for (int32_t digit = 1; digit < radix && digit * unit < options.ranks; ++digit)
      add(lane, {to(shifted(options, digit * unit))}, {with_digit(unit, digit, radix, options.ranks)});
    for (int32_t digit = 1; digit < radix && digit * unit < options.ranks; ++digit)
      add(lane, {with_digit(unit, digit, radix, options.ranks)}, {from(shifted(options, -digit * unit))});
  }
}

int32_t longest_message(Rank ranks, int32_t radix) {
  int64_t longest = 1;
  for (int64_t unit = 1; unit < ranks; unit *= radix)
    longest = std::max(longest, chunk_count(with_digit(unit, 1, radix, ranks).regions));
  return static_cast<int32_t>(longest);
}

Plan all_to_all(std::string_view name, const BuildOptions& options, int32_t radix) {
  Plan plan = begin(Collective::kAllToAll, name, options, 1, options.ranks);
  Lane& lane = plan.lanes[0];
  add(lane, {recv(options.rank)}, {send(options.rank)});
  if (options.ranks == 1) return plan;
  plan.scratch_chunks = options.ranks;
  plan.message_chunks = longest_message(options.ranks, radix);
  first_digit(lane, options, radix);
  other_digits(lane, options, radix);
  add(lane, {strided(Buffer::kRecv, shifted(options, -1), options.ranks - 1, options.ranks - 1)},
      {scratch(1, options.ranks - 1)});
  return plan;
}

}  // namespace

bool fits_radix(const BuildOptions& options) { return fits_one_lane(options) && options.radix >= 2; }

Plan all_to_all_binary(const BuildOptions& options) { return all_to_all("bruck", options, kBinary); }
Plan all_to_all(const BuildOptions& options) { return all_to_all("kbruck", options, options.radix); }

Plan all_gather(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllGather, "kbruck", options);
  Plan plan = begin(Collective::kAllGather, "kbruck", options);
  plan.recv_chunks = options.ranks;
  const Slab results{Buffer::kRecv, 0, options.ranks};
  Lane& lane = plan.lanes[0];
  add(lane, {recv(options.rank)}, {send(0)});
  for (int64_t unit = 1; unit < options.ranks; unit *= options.radix) {
    const auto block = [&](int64_t start) { return static_cast<int32_t>(std::min(unit, options.ranks - start)); };
    plan.message_chunks = std::max(plan.message_chunks, block(unit));
    for (int64_t start = unit; start < unit * options.radix && start < options.ranks; start += unit)
      add(lane, {to(shifted(options, -start))}, {results.at(options.rank, block(start))});
    for (int64_t start = unit; start < unit * options.radix && start < options.ranks; start += unit) {
      add(lane, {results.at(shifted(options, start), block(start))}, {from(shifted(options, start))});
    }
  }
  return plan;
}

}  // namespace hocket::plan::bruck
