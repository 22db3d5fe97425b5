// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/coded.h"

#include <algorithm>

namespace hocket {
namespace {

// Sends nothing but one place of the receive buffer, as it is.
bool sends_result(const Step& step) {
  if (step.sources.size() != 1 || step.last) return false;
  const Place& source = step.sources[0];
  if (is_message(source) || source.buffer != Buffer::kRecv || source.first) return false;
  return !step.destinations.empty() && std::all_of(step.destinations.begin(), step.destinations.end(), is_message);
}

}  // namespace

Plan keep_what_is_sent(Plan plan) {
  for (Lane& lane : plan.lanes) {
    for (Step& step : lane.steps) {
      if (sends_result(step)) step.destinations.push_back(step.sources[0]);
    }
  }
  return plan;
}

}  // namespace hocket
