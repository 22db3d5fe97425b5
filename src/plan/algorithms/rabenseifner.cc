// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rabenseifner: reduce-scatter by recursive halving of the data, then all-gather by doubling it. Groups grow from
// neighbours, so that operands stay in rank order; which member ends with which chunk is of no concern.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/fold.h"
#include "plan/write.h"

namespace hocket::plan::rabenseifner {
namespace {

class Part {
 public:
  Part(Lane& lane, const BuildOptions& options, int32_t base) : lane_(lane), fold_(options), base_(base) {}

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
  Rank peer(int32_t bit) const { return fold_.rank_of(fold_.member() ^ bit); }
  bool upper(int32_t bit) const { return (fold_.member() & bit) != 0; }

  void halve() {
    start_ = base_;
    for (int32_t bit = 1; bit < fold_.members(); bit *= 2) {
      const int32_t half = fold_.members() / (2 * bit);
      const int32_t given = upper(bit) ? start_ : start_ + half;
      start_ = upper(bit) ? start_ + half : start_;
      const bool fresh = bit == 1 && !fold_.paired();
      const auto own = [&](int32_t chunk) { return fresh ? first(send(chunk, half)) : recv(chunk, half); };
      add(lane_, {to(peer(bit))}, {own(given)});
      Places sources = upper(bit) ? Places{from(peer(bit)), own(start_)} : Places{own(start_), from(peer(bit))};
      add(lane_, {recv(start_, half)}, std::move(sources)).last = half == 1;
    }
  }

  void gather() {
    for (int32_t bit = fold_.members() / 2; bit >= 1; bit /= 2) {
      const int32_t held = fold_.members() / (2 * bit);
      const int32_t other = upper(bit) ? start_ - held : start_ + held;
      add(lane_, {to(peer(bit))}, {recv(start_, held)});
      add(lane_, {recv(other, held)}, {from(peer(bit))});
      start_ = std::min(start_, other);
    }
  }

  Lane& lane_;
  const Fold fold_;
  const int32_t base_;
  int32_t start_ = 0;  // first of the chunks that are ours by now
};

}  // namespace

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "rabenseifner", options);
  const Fold fold(options);
  Plan plan = begin(Collective::kAllReduce, "rabenseifner", options, options.lanes, options.lanes * fold.members());
  plan.message_chunks = fold.pairs() > 0 ? fold.members() : fold.members() / 2;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Part(plan.lanes[static_cast<size_t>(part)], options, part * fold.members()).build();
  }
  return plan;
}

}  // namespace hocket::plan::rabenseifner
