// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/rails.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/log.h"

namespace hocket {
namespace {

// How many leading bits two addresses share.
int nearness(const VerbsGid& ours, const VerbsGid& theirs) {
  for (size_t i = 0; i < ours.raw.size(); ++i) {
    const auto differing = static_cast<uint8_t>(ours.raw[i] ^ theirs.raw[i]);
    if (differing != 0) return static_cast<int>(i * 8) + std::countl_zero(differing);
  }
  return static_cast<int>(ours.raw.size() * 8);
}

}  // namespace

VerbsRails::VerbsRails(const VerbsTable& table, std::span<const VerbsPort> ports)
    : table_(table), ports_(ports), uses_(ports.size()) {}

bool VerbsRails::is_up(size_t index) const {
  ibv_port_attr attributes{};
  return table_.query_port(ports_[index].context, ports_[index].number, &attributes) == 0 &&
         attributes.state == IBV_PORT_ACTIVE;
}

std::optional<size_t> VerbsRails::lightest(Time now, std::optional<size_t> except) const {
  std::optional<size_t> best;
  for (size_t i = 0; i < ports_.size(); ++i) {
    if (i == except || !usable(i, now)) continue;
    if (!best || load(i, uses_[i].pipes + 1, now) < load(*best, uses_[*best].pipes + 1, now)) best = i;
  }
  return best;
}

std::optional<size_t> VerbsRails::take(Time now, std::optional<size_t> except) {
  const std::lock_guard lock(mutex_);
  const std::optional<size_t> best = lightest(now, except);
  if (best) ++uses_[*best].pipes;
  return best;
}

std::optional<size_t> VerbsRails::take_for(Fabric fabric, const VerbsGid& peer, Choice choice, Time now) {
  const std::lock_guard lock(mutex_);
  using Merit = std::tuple<bool, int, bool, double>;
  std::optional<size_t> best;
  Merit merit_of_best;
  int nearest = 0;
  for (size_t i = 0; i < ports_.size(); ++i) {
    const auto gid = ports_[i].fabric == fabric ? choose_gid(ports_[i].gids, peer) : std::nullopt;
    if (!gid) continue;
    const Merit merit{is_up(i), nearness(gid->gid, peer), !rests(i, now), -load(i, uses_[i].pipes + 1, now)};
    nearest = std::max(nearest, std::get<1>(merit));
    if (!best || merit > merit_of_best) std::tie(best, merit_of_best) = std::tuple(std::optional(i), merit);
  }
  if (best && choice == Choice::kNearest && std::get<1>(merit_of_best) < nearest) return {};
  if (best) ++uses_[*best].pipes;
  return best;
}

std::optional<size_t> VerbsRails::take_better(std::optional<size_t> than, Time now) {
  const std::lock_guard lock(mutex_);
  const std::optional<size_t> best = lightest(now);
  if (!best || best == than) return {};
  if (than && load(*best, uses_[*best].pipes + 1, now) >= load(*than, uses_[*than].pipes, now)) return {};
  ++uses_[*best].pipes;
  return best;
}

void VerbsRails::leave(size_t index) {
  const std::lock_guard lock(mutex_);
  --uses_[index].pipes;
}

void VerbsRails::report_broken(size_t index, std::string_view pipe, std::string_view why, Time now) {
  const std::lock_guard lock(mutex_);
  Use& use = uses_[index];
  if (rests(index, now)) return;  // another pipe has told it
  use.rest = std::clamp(2 * use.rest, kRest, kLongestRest);
  use.rests_until = now + use.rest;
  if (std::exchange(use.lost, true)) return;
  log_warn("{}: {} carries nothing now ({}): {:g} of the {:g} Gbit/s of this host's RDMA ports are lost", pipe,
           ports_[index].name, why, ports_[index].gigabits, sum_of_gigabits());
}

void VerbsRails::report_working(size_t index) {
  const std::lock_guard lock(mutex_);
  Use& use = uses_[index];
  use.rest = {};
  use.rests_until = {};
  if (std::exchange(use.lost, false)) log_warn("{} carries again", ports_[index].name);
}

void VerbsRails::report_speed(size_t index, size_t bytes, Time begin, Time end) {
  const std::lock_guard lock(mutex_);
  Use& use = uses_[index];
  if (end - use.until > kRemembered) {
    use.bytes = 0;
    use.time = {};
    use.gigabits = 0;
  }
  use.bytes += bytes;
  use.time += std::max(Duration(), end - std::max(begin, use.until));
  use.until = std::max(use.until, end);
  if (use.bytes < kMeasured || use.time == Duration()) return;
  const double measured = 8 * static_cast<double>(use.bytes) / static_cast<double>(use.time.count());
  use.gigabits = use.gigabits == 0 ? measured : (use.gigabits + measured) / 2;
  use.bytes = 0;
  use.time = {};
}

double VerbsRails::share_of_claim(size_t index, Time now) const {
  const Use& use = uses_[index];
  return now - use.until > kRemembered ? 0 : use.gigabits / ports_[index].gigabits;
}

double VerbsRails::speed(size_t index, Time now) const {
  double best = 0;
  for (size_t i = 0; i < ports_.size(); ++i) best = std::max(best, share_of_claim(i, now));
  const double own = share_of_claim(index, now);
  const bool is_slow = own > 0 && own < kMuchLess * best;
  return ports_[index].gigabits * (is_slow ? own / best : 1);
}

double VerbsRails::sum_of_gigabits() const {
  double sum = 0;
  for (const VerbsPort& port : ports_) sum += port.gigabits;
  return sum;
}

}  // namespace hocket
