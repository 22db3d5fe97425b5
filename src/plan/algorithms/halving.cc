// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/algorithms/halving.h"

#include <bit>

#include "plan/algorithms/fold.h"
#include "plan/write.h"

namespace hocket::plan::halving {
namespace {

class Part {
 public:
  Part(Lane& lane, const BuildOptions& options, const Pairs& pairs, int32_t base)
      : lane_(lane), fold_(options), pairs_(pairs), base_(base) {}

  void build() {
    const int32_t all = fold_.members();
    if (!fold_.is_member()) {
      add(lane_, {to(fold_.partner())}, {first(send(base_, all))});
      add(lane_, {recv(base_, all)}, {from(fold_.partner())});
      return;
    }
    if (fold_.paired()) add(lane_, {recv(base_, all)}, {first(send(base_, all)), from(fold_.partner())});
    halve();
    gather();
    if (fold_.paired()) add(lane_, {to(fold_.partner())}, {recv(base_, all)});
  }

 private:
  int32_t rounds() const { return static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(fold_.members()))) - 1; }
  Rank peer(int32_t round) const { return fold_.rank_of(pairs_.peer(fold_.member(), fold_.members(), round)); }
  bool upper(int32_t round) const { return pairs_.upper(fold_.member(), fold_.members(), round); }

  void halve() {
    start_ = base_;
    for (int32_t round = 0; round < rounds(); ++round) {
      const int32_t half = fold_.members() >> (round + 1);
      const int32_t given = upper(round) ? start_ : start_ + half;
      start_ = upper(round) ? start_ + half : start_;
      const bool fresh = round == 0 && !fold_.paired();
      const auto own = [&](int32_t chunk) { return fresh ? first(send(chunk, half)) : recv(chunk, half); };
      add(lane_, {to(peer(round))}, {own(given)});
      Places sources = upper(round) ? Places{from(peer(round)), own(start_)} : Places{own(start_), from(peer(round))};
      add(lane_, {recv(start_, half)}, std::move(sources)).last = half == 1;
    }
  }

  void gather() {
    for (int32_t round = rounds(); round-- > 0;) {
      const int32_t held = fold_.members() >> (round + 1);
      const int32_t other = upper(round) ? start_ - held : start_ + held;
      add(lane_, {to(peer(round))}, {recv(start_, held)});
      add(lane_, {recv(other, held)}, {from(peer(round))});
      start_ = std::min(start_, other);
    }
  }

  Lane& lane_;
  const Fold fold_;
  const Pairs& pairs_;
  const int32_t base_;
  int32_t start_ = 0;  // first of the chunks that are ours by now
};

}  // namespace

Plan all_reduce(std::string_view name, const BuildOptions& options, const Pairs& pairs) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, name, options);
  const Fold fold(options);
  Plan plan = begin(Collective::kAllReduce, name, options, options.lanes, options.lanes * fold.members());
  plan.message_chunks = fold.pairs() > 0 ? fold.members() : fold.members() / 2;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Part(plan.lanes[static_cast<size_t>(part)], options, pairs, part * fold.members()).build();
  }
  return plan;
}

}  // namespace hocket::plan::halving
