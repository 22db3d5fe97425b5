// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/caches.h"

#include <algorithm>
#include <cstdint>

namespace hocket {
namespace {

// Then what is overwritten lies in the caches, where writing past them takes longer.
bool overwrites_what_it_sends(const Call& call) {
  if (call.send.base != call.recv.base) return false;
  return std::ranges::any_of(call.plan->lanes, [](const Lane& lane) {
    return std::ranges::any_of(lane.steps, [](const Step& step) {
      return std::ranges::any_of(step.destinations, is_message) && !std::ranges::all_of(step.sources, is_message) &&
             !step.stays;
    });
  });
}

}  // namespace

bool fills_caches(const Call& call) {
  const size_t element = element_bytes(call.type);
  const size_t sent = call.send.elements() * element, received = call.recv.elements() * element;
  if (sent + received < call.cache_bytes) return false;  // most calls: no plan is walked
  const bool is_part =
      reinterpret_cast<uintptr_t>(call.send.base) - reinterpret_cast<uintptr_t>(call.recv.base) < received;
  const bool reads_more = !is_part && uses(*call.plan, &Step::sources, Buffer::kSend);  // a broadcast's root does
  return received + (reads_more ? sent : 0) >= call.cache_bytes && !overwrites_what_it_sends(call);
}

}  // namespace hocket
