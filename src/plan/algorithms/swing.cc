// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Swing (D. De Sensi et al., "Swing: Short-cutting Rings for Higher Bandwidth Allreduce"): halving and doubling where
// round s pairs ranks that are 1, 1, 3, 5, 11, ... = |(1 - (-2)^(s + 1)) / 3| apart, even ones to one side, odd ones to
// the other, and the side changes in every round: shorter ways than powers of two where ranks stand in a ring or torus.
//
// Done as it stands, it counts contributions twice unless the number of ranks is a power of two (6, 10 and 12 for
// example): other numbers fold to one before.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/halving.h"
#include "plan/write.h"

namespace hocket::plan::swing {
namespace {

int64_t distance(int32_t round) {
  const int64_t power = int64_t{1} << (round + 1);
  return (1 - (round % 2 == 0 ? -power : power)) / 3;
}

int32_t peer(int32_t member, int32_t members, int32_t round) {
  return wrapped(member % 2 == 0 ? member + distance(round) : member - distance(round), members);
}

// The rounds behind this one join the even members that agree in their round + 2 lowest bits, and the odd ones that are
// the next round's distance away from these: what parts a member from its peer is the highest of these bits, of the
// even member that is joined with it. In the last round it is being even.
bool upper(int32_t member, int32_t members, int32_t round) {
  if (members >> (round + 1) == 1) return member % 2 != 0;
  const int32_t even = member % 2 == 0 ? member : peer(member, members, round + 1);
  return (even >> (round + 1) & 1) != 0;
}

}  // namespace

Plan all_reduce(const BuildOptions& options) {
  return halving::all_reduce("swing", options, {.peer = peer, .upper = upper});
}

}  // namespace hocket::plan::swing
