// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Messages of the largest elements (kernels/sparse_form.h), as the blocks of a grid make and read them: each block a
// part of the elements, of their places or of the selected ones, in passes that are launches of their own. The same
// elements as the host's, which of equal ones takes the first, in the same form.
#pragma once

#include <algorithm>

#include "kernels/cuda/bytes.h"
#include "kernels/cuda/passes.h"
#include "kernels/cuda/shared.h"
#include "kernels/cuda/steps.h"
#include "kernels/cuda/sums.h"
#include "kernels/select.h"
#include "kernels/sparse_form.h"

namespace hocket::device {

// Digits of a magnitude, from the highest on, that so many magnitudes of the same ones come before.
struct MagnitudeRank {
  uint32_t digits;
  uint64_t left;  // which it is, from 1, from above, of those that begin with the digits
};

// What the threads of a block share.
struct SelectRoom {
  uint32_t seen[kDigitValues];
  Sums sums;
  MagnitudeRank rank;
};

template <DataType type>
class PartSelector {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  static constexpr uint32_t kDigits = digits_of(sizeof(Storage));
  static constexpr uint32_t kDigitBits = kDigits == 3 ? 10 : 4;  // of all but the first
  static constexpr uint32_t kRun = kSelectTile / kBlockThreads;  // what a thread takes of a tile
  static constexpr uint64_t kAll = ~uint64_t{0};

  // From `first` on, before `end`.
  struct Range {
    uint64_t first;
    uint64_t end;
    HOCKET_ELEMENT uint64_t size() const { return end - first; }
  };

  // Selected is what is above the least, and of those that have it so many.
  struct Rule {
    uint32_t least;
    uint64_t ties;
    // Of a tally (SelectScratch::tallies), how many.
    HOCKET_ELEMENT uint64_t selected(uint64_t tally) const {
      const uint64_t equal = tally & 0xffffffffu;
      return (tally >> 32) + (equal < ties ? equal : ties);
    }
  };

  // The message's, and whether anybody may have written it.
  struct Head {
    SparseLayout layout;
    uint64_t selected = 0;
    bool is_right = false;
  };

 public:
  HOCKET_ELEMENT PartSelector(const CodingWork& work, const Team& team, SelectRoom& room, uint64_t part)
      : work_(work),
        team_(team),
        room_(room),
        part_(part),
        parts_(parts_of(work.count)),
        scratch_(*reinterpret_cast<SelectScratch*>(work.scratch)),
        elements_(part_of(work.count)) {
    const SelectArrays arrays(work.count, sizeof(Storage));
    indices_ = reinterpret_cast<uint32_t*>(work.scratch + arrays.indices);
    values_ = reinterpret_cast<Storage*>(work.scratch + arrays.values);
    candidate_indices_ = reinterpret_cast<uint32_t*>(work.scratch + arrays.candidate_indices);
    candidate_values_ = reinterpret_cast<Storage*>(work.scratch + arrays.candidate_values);
    places_ = work.scratch + arrays.places;
  }

  HOCKET_ELEMENT void encode() const {
    const uint32_t sifts = sift_pass(work_.form), tallies = tally_pass(work_.form, sizeof(Storage));
    if (work_.pass < sifts) {
      return work_.pass == static_cast<uint32_t>(RankPass::kClear) ? clear() : count_first_digit();
    }
    if (work_.pass == sifts) return sift();
    if (work_.pass < tallies) return count_digit(work_.pass - sifts);
    switch (static_cast<SelectPass>(work_.pass - tallies)) {
      case SelectPass::kTally:
        return tally();
      case SelectPass::kGather:
        return gather();
      case SelectPass::kMeasure:
        return measure();
      case SelectPass::kWrite:
        return write();
      default:
        return move();
    }
  }

  HOCKET_ELEMENT void decode() const {
    const Head head = read_head();
    if (!head.is_right) return tell_damage(part_ == 0);
    switch (static_cast<ScatterPass>(work_.pass)) {
      case ScatterPass::kStage:
        return stage(head);
      case ScatterPass::kMeasure:
        return measure_places(head);
      default:
        return scatter(head);
    }
  }

 private:
  // This part of so many things, in whole tiles.
  HOCKET_ELEMENT uint64_t part_length(uint64_t count) const {
    const uint64_t one = parts_ * kSelectTile;
    return (count + one - 1) / one * kSelectTile;
  }
  HOCKET_ELEMENT Range part_of(uint64_t count) const {
    const uint64_t length = part_length(count), first = part_ * length, end = first + length;
    return {first < count ? first : count, end < count ? end : count};
  }

  template <typename Function>
  HOCKET_ELEMENT void for_each(Range range, Function function) const {
    team_.each([&](uint32_t thread) {
      for (uint64_t i = range.first + thread; i < range.end; i += kBlockThreads) function(i);
    });
  }

  // Adds what of(i) gives.
  template <typename Of>
  HOCKET_ELEMENT uint64_t sum_over(Range range, Of of) const {
    team_.each([&](uint32_t thread) {
      uint64_t sum = 0;
      for (uint64_t i = range.first + thread; i < range.end; i += kBlockThreads) sum += of(i);
      room_.sums.put(thread, sum);
    });
    room_.sums.finish(team_);
    return room_.sums.all();
  }

  HOCKET_ELEMENT uint64_t sum_before(const uint64_t* of_parts, uint64_t part) const {
    return sum_over({0, part}, [&](uint64_t i) { return of_parts[i]; });
  }

  HOCKET_ELEMENT void keep(uint64_t& where, uint64_t number) const {
    team_.each([&](uint32_t thread) {
      if (thread == 0) where = number;
    });
  }

  // Calls visit(i, sum of what `of` gives before i) in order within each thread, whose tiles begin with the sum
  // `before`; returns the sum.
  template <typename Of, typename Visit>
  HOCKET_ELEMENT uint64_t walk(Range range, uint64_t before, Of of, Visit visit) const {
    for (uint64_t first = range.first; first < range.end; first += kSelectTile) {
      const Range tile = {first, first + kSelectTile < range.end ? first + kSelectTile : range.end};
      team_.each([&](uint32_t thread) {
        uint64_t sum = 0;
        for_run(tile, thread, [&](uint64_t i) { sum += of(i); });
        room_.sums.put(thread, sum);
      });
      room_.sums.finish(team_);
      team_.each([&](uint32_t thread) {
        uint64_t sum = before + room_.sums.before(thread);
        for_run(tile, thread, [&](uint64_t i) {
          visit(i, sum);
          sum += of(i);
        });
      });
      before += room_.sums.all();
    }
    return before;
  }

  template <typename Function>
  HOCKET_ELEMENT void for_run(Range tile, uint32_t thread, Function function) const {
    const uint64_t first = tile.first + thread * kRun;
    for (uint64_t i = first; i < first + kRun && i < tile.end; ++i) function(i);
  }

  HOCKET_ELEMENT Storage* elements() const { return reinterpret_cast<Storage*>(work_.values); }
  HOCKET_ELEMENT static uint32_t magnitude_of_value(Storage value) {
    return magnitude_of(type, static_cast<uint32_t>(bits_of(value)));
  }
  HOCKET_ELEMENT static auto bits_of(Storage storage) {
    if constexpr (sizeof(Storage) == 4) return element::bits_of(storage);
    if constexpr (sizeof(Storage) == 2) return storage;
  }

  // ---- Which elements

  // Digits are numbered from the highest; what is above the first one is 0.
  HOCKET_ELEMENT static uint32_t bits_below(uint32_t digit) { return (kDigits - 1 - digit) * kDigitBits; }
  HOCKET_ELEMENT static uint32_t bits_of_digit(uint32_t digit) {
    return digit == 0 ? magnitude_bits(sizeof(Storage)) - bits_below(0) : kDigitBits;
  }

  HOCKET_ELEMENT void clear() const {
    uint32_t* const all = &scratch_.seen[0][0];
    team_.each([&](uint32_t thread) {
      for (uint64_t i = part_ * kBlockThreads + thread; i < uint64_t{kDigits} * kDigitValues;
           i += parts_ * kBlockThreads) {
        all[i] = 0;
      }
    });
  }

  // Of all elements.
  HOCKET_ELEMENT void count_first_digit() const {
    constexpr uint32_t kTileOfBlock = kStep * kWarps;
    count_values(0, [&] {
      for (uint64_t first = elements_.first; first < elements_.end; first += kTileOfBlock) {
        const Quads<type> quads(work_.values, first, elements_.end, kTileOfBlock);
        quads.with_access([&](auto whole) {
          team_.alone([&](uint32_t thread) {
            const auto index = [&](uint32_t q) { return (q * kBlockThreads + thread) * kQuad; };
            StepQuads<type> step;
            HOCKET_UNROLLED
            for (uint32_t q = 0; q < kStepQuads; ++q) step.of[q] = quads.template load<whole()>(index(q));
            HOCKET_UNROLLED
            for (uint32_t i = 0; i < kStepElements; ++i) {
              if (!whole() && index(i / kQuad) + i % kQuad >= quads.count()) continue;
              add_to(room_.seen[magnitude_of_value(step.of[i / kQuad].values[i % kQuad]) >> bits_below(0)], 1);
            }
          });
        });
      }
    });
  }

  // Of the candidates that have the digits before.
  HOCKET_ELEMENT void count_digit(uint32_t digit) const {
    const uint32_t begins = find_rank(digit).digits, below = bits_below(digit), bits = bits_of_digit(digit);
    count_values(digit, [&] {
      for_candidates([&](uint32_t, uint64_t i) {
        const uint32_t digits = magnitude_of_value(candidate_values_[i]) >> below;
        if (digits >> bits == begins) add_to(room_.seen[digits & ((1u << bits) - 1)], 1);
      });
    });
  }

  // What count() counts in the room, for all blocks.
  template <typename Count>
  HOCKET_ELEMENT void count_values(uint32_t digit, Count count) const {
    const Range values = {0, kDigitValues};
    for_each(values, [&](uint64_t i) { room_.seen[i] = 0; });
    count();
    team_.wait();
    for_each(values, [&](uint64_t i) {
      if (room_.seen[i] != 0) add_to(scratch_.seen[digit][i], room_.seen[i]);
    });
  }

  // ---- Candidates

  // What a warp looks through of this part.
  HOCKET_ELEMENT Range sieve_of(uint32_t warp) const {
    const uint64_t length = part_length(work_.count) / kWarps;
    const uint64_t first = elements_.first + warp * length, end = first + length;
    return {first < elements_.end ? first : elements_.end, end < elements_.end ? end : elements_.end};
  }

  // Calls function(thread, where a candidate lies) of all.
  template <typename Function>
  HOCKET_ELEMENT void for_candidates(Function function) const {
    team_.alone([&](uint32_t thread) {
      const uint32_t warp = thread / kLanes, found = scratch_.found[part_][warp];
      const uint64_t first = sieve_of(warp).first;
      for (uint32_t i = thread % kLanes; i < found; i += kLanes) function(thread, first + i);
    });
  }

  // The least magnitude may be this or a greater one.
  HOCKET_ELEMENT uint32_t least_candidate() const {
    if (work_.form.share == 0) return least_magnitude();
    return std::min(find_rank(1).digits << bits_below(0), infinity_of(type));
  }

  // In order, where the elements are that each warp looks through.
  HOCKET_ELEMENT void sift() const {
    const uint32_t least = least_candidate();
    Own<uint32_t> found, masks, numbers;
    Own<LaneSums> sums;
    team_.alone([&](uint32_t thread) { found[thread] = 0; });
    for (uint64_t done = 0; done < part_length(work_.count) / kWarps; done += kStep) {
      team_.alone([&](uint32_t thread) {
        masks[thread] = look_through(thread, done, least);
        numbers[thread] = bits_of_quads(masks[thread]);
      });
      add_up_lanes(team_, numbers, sums);
      team_.alone([&](uint32_t thread) {
        const uint64_t first = sieve_of(thread / kLanes).first;
        write_candidates(first + found[thread], first + done, thread % kLanes, masks[thread], sums[thread]);
        found[thread] += marked_in_step(sums[thread]);
      });
    }
    team_.alone([&](uint32_t thread) {
      if (thread % kLanes == 0) scratch_.found[part_][thread / kLanes] = found[thread];
    });
  }

  // Which of the lane's elements are candidates, four bits for each quad.
  HOCKET_ELEMENT uint32_t look_through(uint32_t thread, uint64_t done, uint32_t least) const {
    const Range own = sieve_of(thread / kLanes);
    if (own.size() <= done) return 0;
    uint32_t mask = 0;
    const Quads<type> quads(work_.values, own.first + done, own.end, kStep);
    quads.with_access([&](auto whole) {
      StepQuads<type> step;
      const auto index = [&](uint32_t q) { return step_index(thread % kLanes, q * kQuad); };
      HOCKET_UNROLLED
      for (uint32_t q = 0; q < kStepQuads; ++q) step.of[q] = quads.template load<whole()>(index(q));
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kStepElements; ++i) {
        const bool is_there = whole() || index(i / kQuad) + i % kQuad < quads.count();
        if (is_there && magnitude_of_value(step.of[i / kQuad].values[i % kQuad]) >= least) mask |= 1u << i;
      }
    });
    return mask;
  }

  // From `to` on; the step begins with the first-th element. Few are candidates, so that they are loaded again.
  HOCKET_ELEMENT void write_candidates(uint64_t to, uint64_t first, uint32_t lane, uint32_t mask,
                                       const LaneSums& sums) const {
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      const uint32_t bit = lowest_bit(left);
      const uint64_t place = to + marked_before(mask, bit, sums), index = first + step_index(lane, bit);
      candidate_indices_[place] = static_cast<uint32_t>(index);
      candidate_values_[place] = elements()[index];
    }
  }

  // ---- The least magnitude

  // The first digits of the least magnitude, which were counted.
  HOCKET_ELEMENT MagnitudeRank find_rank(uint32_t digits) const {
    MagnitudeRank rank = {0, share_of(work_.form.share, work_.count)};
    for (uint32_t digit = 0; digit < digits; ++digit) rank = with_digit(rank, digit);
    return rank;
  }

  HOCKET_ELEMENT MagnitudeRank with_digit(const MagnitudeRank& rank, uint32_t digit) const {
    constexpr uint32_t kEach = kDigitValues / kBlockThreads;
    const uint32_t* const seen = scratch_.seen[digit];
    const auto value_of = [](uint32_t thread, uint32_t i) { return kDigitValues - 1 - (thread * kEach + i); };
    team_.each([&](uint32_t thread) {
      uint64_t sum = 0;
      for (uint32_t i = 0; i < kEach; ++i) sum += seen[value_of(thread, i)];
      room_.sums.put(thread, sum);
    });
    room_.sums.finish(team_);
    team_.each([&](uint32_t thread) {
      uint64_t above = room_.sums.before(thread);
      for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t value = value_of(thread, i);
        if (above < rank.left && rank.left <= above + seen[value]) {
          room_.rank = {rank.digits << bits_of_digit(digit) | value, rank.left - above};
        }
        above += seen[value];
      }
    });
    return room_.rank;
  }

  // As the host: where nothing finite is among the largest, all that is not finite is selected.
  HOCKET_ELEMENT Rule find_rule() const {
    if (work_.form.share == 0) return {least_magnitude(), kAll};
    const MagnitudeRank rank = find_rank(kDigits);
    if (rank.digits >= infinity_of(type)) return {infinity_of(type), kAll};
    return {rank.digits, rank.left};
  }

  // Of the form's least, rounded up into the type.
  HOCKET_ELEMENT uint32_t least_magnitude() const {
    const Storage rounded = Element::encode(work_.form.least);
    return static_cast<uint32_t>(bits_of(rounded)) + (Element::decode(rounded) < work_.form.least ? 1 : 0);
  }

  HOCKET_ELEMENT Rule rule() const { return {scratch_.least, scratch_.ties}; }

  HOCKET_ELEMENT uint64_t tally_of(uint64_t candidate, uint32_t least) const {
    const uint32_t own = magnitude_of_value(candidate_values_[candidate]);
    return own > least ? uint64_t{1} << 32 : own == least ? 1 : 0;
  }

  // Puts what each lane has of the candidates.
  HOCKET_ELEMENT void add_up_tallies(const Rule& rule) const {
    Own<uint64_t> sums{};
    for_candidates([&](uint32_t thread, uint64_t i) { sums[thread] += tally_of(i, rule.least); });
    team_.each([&](uint32_t thread) { room_.sums.put(thread, sums[thread]); });
    room_.sums.finish(team_);
  }

  HOCKET_ELEMENT void tally() const {
    const Rule rule = find_rule();
    team_.each([&](uint32_t thread) {
      if (part_ != 0 || thread != 0) return;
      scratch_.least = rule.least;
      scratch_.ties = rule.ties;
    });
    add_up_tallies(rule);
    keep(scratch_.tallies[part_], room_.sums.all());
  }

  HOCKET_ELEMENT void gather() const {
    const Rule rule = this->rule();
    const uint64_t before = sum_before(scratch_.tallies, part_);
    add_up_tallies(rule);
    Own<uint64_t> tallies;  // of what comes before what each warp looks at next
    team_.each([&](uint32_t thread) { tallies[thread] = before + room_.sums.before(thread / kLanes * kLanes); });
    for (uint32_t done = 0; done < most_found(); done += kLanes) gather_step(rule, done, tallies);
  }

  HOCKET_ELEMENT uint32_t most_found() const {
    uint32_t most = 0;
    for (const uint32_t found : scratch_.found[part_]) most = std::max(most, found);
    return most;
  }

  // One candidate of each lane.
  HOCKET_ELEMENT void gather_step(const Rule& rule, uint32_t done, Own<uint64_t>& tallies) const {
    constexpr uint32_t kShift = 16;  // of those above the least
    const auto wide = [](uint32_t tally) { return uint64_t{tally >> kShift} << 32 | (tally & ((1u << kShift) - 1)); };
    Own<uint32_t> own;
    team_.alone([&](uint32_t thread) {
      own[thread] = 0;
      if (!has_candidate(thread, done)) return;
      const uint64_t tally = tally_of(candidate_at(thread, done), rule.least);
      own[thread] = static_cast<uint32_t>(tally >> 32) << kShift | static_cast<uint32_t>(tally);
    });
    Own<LaneSums> sums;
    add_up_lanes(team_, own, sums);
    team_.alone([&](uint32_t thread) {
      const uint64_t before = tallies[thread] + wide(sums[thread].before), place = rule.selected(before);
      tallies[thread] += wide(sums[thread].all);
      if (rule.selected(before + wide(own[thread])) == place) return;
      indices_[place] = candidate_indices_[candidate_at(thread, done)];
      values_[place] = candidate_values_[candidate_at(thread, done)];
    });
  }

  HOCKET_ELEMENT uint64_t candidate_at(uint32_t thread, uint32_t done) const {
    return sieve_of(thread / kLanes).first + done + thread % kLanes;
  }
  HOCKET_ELEMENT bool has_candidate(uint32_t thread, uint32_t done) const {
    return done + thread % kLanes < scratch_.found[part_][thread / kLanes];
  }

  // ---- Their message

  // Numbers of the selected elements that lie in this part of all.
  HOCKET_ELEMENT Range selected_here() const {
    const uint64_t before = sum_before(scratch_.tallies, part_);
    return {rule().selected(before), rule().selected(before + scratch_.tallies[part_])};
  }
  HOCKET_ELEMENT uint64_t selected() const { return rule().selected(sum_before(scratch_.tallies, parts_)); }

  HOCKET_ELEMENT int64_t index_before(uint64_t number) const {
    return number == 0 ? -1 : static_cast<int64_t>(indices_[number - 1]);
  }
  HOCKET_ELEMENT uint64_t gaps_to(uint64_t number) const {
    return gaps_between(index_before(number), indices_[number]);
  }

  HOCKET_ELEMENT void measure() const {
    const Range own = part_of(selected());
    keep(scratch_.gaps[part_], sum_over(own, [&](uint64_t i) { return gaps_to(i); }));
  }

  HOCKET_ELEMENT SparseLayout layout(uint64_t selected) const {
    return shortest_layout(work_.count, selected, sum_before(scratch_.gaps, parts_), sizeof(Storage));
  }

  HOCKET_ELEMENT void write() const {
    const uint64_t selected = this->selected();
    switch (layout(selected).form) {
      case SparseForm::kAll:
        return write_all();
      case SparseForm::kBitmap:
        return write_bitmap();
      case SparseForm::kIndices:
        return;  // they are the places
      case SparseForm::kGaps:
        return write_gaps(part_of(selected));
    }
  }

  HOCKET_ELEMENT void write_all() const {
    auto* const all = reinterpret_cast<Storage*>(places_);
    for_each(elements_, [&](uint64_t i) { all[i] = Storage{}; });
    for_each(selected_here(), [&](uint64_t i) { all[indices_[i]] = values_[i]; });
  }

  HOCKET_ELEMENT void write_bitmap() const {
    auto* const words = reinterpret_cast<uint32_t*>(places_);
    for_each({(elements_.first + 31) / 32, (elements_.end + 31) / 32}, [&](uint64_t i) { words[i] = 0; });
    for_each(selected_here(), [&](uint64_t i) { set_bits(words[indices_[i] / 32], 1u << indices_[i] % 32); });
  }

  HOCKET_ELEMENT void write_gaps(Range own) const {
    auto* const gaps = reinterpret_cast<uint16_t*>(places_);
    walk(
        own, sum_before(scratch_.gaps, part_), [&](uint64_t i) { return gaps_to(i); },
        [&](uint64_t i, uint64_t before) {
          const uint64_t long_ones = gaps_to(i) - 1;
          for (uint64_t j = 0; j < long_ones; ++j) gaps[before + j] = static_cast<uint16_t>(kLongGap);
          const auto way = static_cast<uint64_t>(static_cast<int64_t>(indices_[i]) - index_before(i));
          gaps[before + long_ones] = static_cast<uint16_t>(way - long_ones * kLongGap);
        });
  }

  // Out of the device's memory, which takes single bytes better than the host's.
  HOCKET_ELEMENT void move() const {
    const uint64_t selected = this->selected();
    const SparseLayout layout = this->layout(selected);
    const bool by_index = layout.form == SparseForm::kIndices;
    const std::byte* const places = by_index ? reinterpret_cast<const std::byte*>(indices_) : places_;
    const Range own_places = part_of(layout.place_bytes), own_values = part_of(layout.value_bytes);
    std::byte* const body = work_.message + kSparseHead;
    team_.each([&](uint32_t thread) {
      copy_bytes(body + own_places.first, places + own_places.first, own_places.size(), thread);
      copy_bytes(body + layout.place_bytes + own_values.first,
                 reinterpret_cast<const std::byte*>(values_) + own_values.first, own_values.size(), thread);
      if (part_ != 0 || thread != 0) return;
      const auto number = static_cast<uint32_t>(selected);
      work_.message[0] = static_cast<std::byte>(layout.form);
      memcpy(work_.message + 1, &number, sizeof number);
      work_.state->bytes = kSparseHead + layout.bytes();
    });
  }

  // ---- Reading it

  HOCKET_ELEMENT void tell_damage(bool is_damaged) const {
    if (is_damaged) work_.state->damaged = 1;
  }

  // Longer than a message needs to be none is, and scratch memory has no room for it.
  HOCKET_ELEMENT Head read_head() const {
    Head head;
    if (work_.state->bytes < kSparseHead) return head;
    const uint64_t body = work_.state->bytes - kSparseHead, most = work_.count * sizeof(Storage);
    uint32_t selected;
    memcpy(&selected, work_.message + 1, sizeof selected);
    head.selected = selected;
    head.layout.form = static_cast<SparseForm>(work_.message[0]);
    const bool all = head.layout.form == SparseForm::kAll;
    head.layout.value_bytes = all ? 0 : head.selected * sizeof(Storage);
    if (head.selected > work_.count || body > most || body < head.layout.value_bytes) return head;
    head.layout.place_bytes = body - head.layout.value_bytes;
    head.is_right = fits(head);
    return head;
  }

  HOCKET_ELEMENT bool fits(const Head& head) const {
    switch (head.layout.form) {
      case SparseForm::kAll:
        return head.layout.place_bytes == work_.count * sizeof(Storage);
      case SparseForm::kBitmap:
        return head.layout.place_bytes == (work_.count + 7) / 8;
      case SparseForm::kIndices:
        return head.layout.place_bytes == head.selected * sizeof(uint32_t);
      case SparseForm::kGaps:
        return head.layout.place_bytes % sizeof(uint16_t) == 0;
      default:
        return false;
    }
  }

  // To where places and values are aligned. What is not selected is zero.
  HOCKET_ELEMENT void stage(const Head& head) const {
    const Range own_places = part_of(head.layout.place_bytes), own_values = part_of(head.layout.value_bytes);
    const std::byte* const body = work_.message + kSparseHead;
    team_.each([&](uint32_t thread) {
      copy_bytes(places_ + own_places.first, body + own_places.first, own_places.size(), thread);
      copy_bytes(reinterpret_cast<std::byte*>(values_) + own_values.first,
                 body + head.layout.place_bytes + own_values.first, own_values.size(), thread);
    });
    if (work_.adds || head.layout.form == SparseForm::kAll) return;
    for_each(elements_, [&](uint64_t i) { elements()[i] = Storage{}; });
  }

  HOCKET_ELEMENT uint32_t gap(uint64_t index) const { return reinterpret_cast<const uint16_t*>(places_)[index]; }
  HOCKET_ELEMENT uint32_t bits_in(uint64_t byte) const {
    uint32_t bits = static_cast<uint32_t>(places_[byte]), count = 0;
    for (; bits != 0; bits &= bits - 1) ++count;
    return count;
  }

  HOCKET_ELEMENT void measure_places(const Head& head) const {
    if (head.layout.form == SparseForm::kBitmap) {
      const Range own = part_of(head.layout.place_bytes);
      keep(scratch_.tallies[part_], sum_over(own, [&](uint64_t i) { return bits_in(i); }));
    }
    if (head.layout.form == SparseForm::kGaps) {
      const Range own = part_of(head.layout.place_bytes / sizeof(uint16_t));
      keep(scratch_.tallies[part_], sum_over(own, [&](uint64_t i) { return uint64_t{gap(i) == kLongGap ? 0U : 1U}; }));
      keep(scratch_.gaps[part_], sum_over(own, [&](uint64_t i) { return gap(i); }));
    }
  }

  HOCKET_ELEMENT void scatter(const Head& head) const {
    switch (head.layout.form) {
      case SparseForm::kAll:
        return for_each(elements_, [&](uint64_t i) { put(i, reinterpret_cast<const Storage*>(places_)[i]); });
      case SparseForm::kBitmap:
        return scatter_bitmap(head);
      case SparseForm::kIndices:
        return scatter_indices(head);
      case SparseForm::kGaps:
        return scatter_gaps(head);
    }
  }

  HOCKET_ELEMENT void put(uint64_t index, Storage value) const {
    Storage& element = elements()[index];
    element = work_.adds ? Element::encode(Element::decode(element) + Element::decode(value)) : value;
  }

  // The value of that number, if there is such an element and such a number.
  HOCKET_ELEMENT void put_selected(const Head& head, uint64_t number, uint64_t index, bool rises) const {
    const bool is_right = rises && number < head.selected && index < work_.count;
    tell_damage(!is_right);
    if (is_right) put(index, values_[number]);
  }

  HOCKET_ELEMENT void check_number(const Head& head) const {
    const uint64_t number = sum_before(scratch_.tallies, parts_);
    tell_damage(part_ == 0 && number != head.selected);
  }

  HOCKET_ELEMENT void scatter_indices(const Head& head) const {
    const auto* const indices = reinterpret_cast<const uint32_t*>(places_);
    for_each(part_of(head.selected),
             [&](uint64_t i) { put_selected(head, i, indices[i], i == 0 || indices[i - 1] < indices[i]); });
  }

  HOCKET_ELEMENT void scatter_bitmap(const Head& head) const {
    check_number(head);
    walk(
        part_of(head.layout.place_bytes), sum_before(scratch_.tallies, part_), [&](uint64_t i) { return bits_in(i); },
        [&](uint64_t i, uint64_t before) {
          for (uint32_t bit = 0; bit < 8; ++bit) {
            if ((static_cast<uint32_t>(places_[i]) >> bit & 1) != 0) put_selected(head, before++, i * 8 + bit, true);
          }
        });
  }

  HOCKET_ELEMENT void scatter_gaps(const Head& head) const {
    // A part has fewer gaps than 2^24.
    constexpr uint32_t kNumberBits = 24;
    check_number(head);
    const uint64_t gaps = head.layout.place_bytes / sizeof(uint16_t);
    tell_damage(part_ == 0 && gaps > 0 && gap(gaps - 1) == kLongGap);
    const uint64_t numbers = sum_before(scratch_.tallies, part_), way = sum_before(scratch_.gaps, part_);
    const auto of = [&](uint64_t i) { return uint64_t{gap(i)} << kNumberBits | (gap(i) == kLongGap ? 0 : 1); };
    walk(part_of(gaps), 0, of, [&](uint64_t i, uint64_t before) {
      if (gap(i) == kLongGap) return;
      const uint64_t number = numbers + (before & ((uint64_t{1} << kNumberBits) - 1));
      const bool rises = gap(i) != 0 || (i > 0 && gap(i - 1) == kLongGap);
      put_selected(head, number, way + (before >> kNumberBits) + gap(i) - 1, rises);
    });
  }

  const CodingWork& work_;
  const Team& team_;
  SelectRoom& room_;
  const uint64_t part_;
  const uint64_t parts_;
  SelectScratch& scratch_;
  const Range elements_;
  uint32_t* indices_;
  Storage* values_;
  uint32_t* candidate_indices_;
  Storage* candidate_values_;
  std::byte* places_;
};

}  // namespace hocket::device
