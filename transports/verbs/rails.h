// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How the pipes of a process share the ports of its host: each goes to the port that has the least to carry for its
// speed, and away from one that has broken; after a rest such a port is tried again. What is lost is told once. A
// port's speed is what it claims, until pipes measure that it does much less of it than another one.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.h"
#include "transports/verbs/port.h"

namespace hocket {

class VerbsRails {
 public:
  // A port that broke is tried again after this rest, and after twice the last one if it broke again.
  static constexpr Duration kRest = std::chrono::seconds(1);
  static constexpr Duration kLongestRest = std::chrono::seconds(64);

  // Ports are compared by how long they took for so many bytes, until that is so old.
  static constexpr size_t kMeasured = 8 << 20;
  static constexpr Duration kRemembered = std::chrono::seconds(10);
  // Of its claim, and of what the best port does of its own: who does more than that is as good.
  static constexpr double kMuchLess = 2.0 / 3;

  // The ports must outlive it.
  VerbsRails(const VerbsTable& table, std::span<const VerbsPort> ports);

  const VerbsPort& port(size_t index) const { return ports_[index]; }
  size_t size() const { return ports_.size(); }

  // The port that is best for one pipe more, which it counts from now on, if it is not that one. Nothing: all are
  // broken.
  std::optional<size_t> take(Time now, std::optional<size_t> except = {});
  // The best of those by which `peer` can be reached, the nearest to it in address first, also where that one rests:
  // the peer tries it, and who answered by another would let each side's trial fail while the other side's port rests.
  // Nothing: no port has a GID that fits. Where the nearest is down, kAny takes what is up, or else one that is down;
  // kNearest takes nothing, as another one may be in a network that the peer does not reach.
  enum class Choice : uint8_t { kAny, kNearest };
  std::optional<size_t> take_for(Fabric fabric, const VerbsGid& peer, Choice choice, Time now);
  // A port that is better for a pipe than the one it has (or than none), which it counts from now on.
  std::optional<size_t> take_better(std::optional<size_t> than, Time now);
  // A pipe does not go by it any more.
  void leave(size_t index);

  // The device says so, now.
  bool is_up(size_t index) const;
  void report_broken(size_t index, std::string_view pipe, std::string_view why, Time now);
  // Something went or came by it: its rest is over.
  void report_working(size_t index);
  // A pipe that kept the port's device busy saw it take so many bytes.
  void report_speed(size_t index, size_t bytes, Time begin, Time end);

 private:
  struct Use {
    size_t pipes = 0;
    bool lost = false;
    Duration rest{};
    Time rests_until{};
    // What is measured at present: the times of pipes that send at once count once.
    size_t bytes = 0;
    Duration time{};
    Time until{};
    // What was measured; 0: nothing.
    double gigabits = 0;
  };

  bool rests(size_t index, Time now) const { return now < uses_[index].rests_until; }
  bool usable(size_t index, Time now) const { return !rests(index, now) && is_up(index); }
  // Of a port that so many pipes share.
  double load(size_t index, size_t pipes, Time now) const { return static_cast<double>(pipes) / speed(index, now); }
  double speed(size_t index, Time now) const;
  // Measured, of what it claims; 0: not known.
  double share_of_claim(size_t index, Time now) const;
  std::optional<size_t> lightest(Time now, std::optional<size_t> except = {}) const;
  double sum_of_gigabits() const;

  const VerbsTable& table_;
  const std::span<const VerbsPort> ports_;
  mutable std::mutex mutex_;
  std::vector<Use> uses_;
};

}  // namespace hocket
