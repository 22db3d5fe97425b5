// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/pipe_memory.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "transports/of_process.h"

namespace hocket {
namespace {

struct Range {
  enum class State : uint8_t { kNotWanted, kWanted, kBeingMade, kTried };
  PipeMemory::Bytes bytes;
  size_t reasons = 0;
  State state = State::kNotWanted;
  std::unique_ptr<PipeMemory::Made> made{};
};
using Ranges = std::map<const std::byte*, Range>;  // by where they begin

class Table {
 public:
  void begin(PipeMemory::Bytes bytes) {
    const std::lock_guard lock(mutex_);
    ++ranges_.try_emplace(bytes.data(), Range{bytes}).first->second.reasons;
  }

  // What was made goes when the lock is free again: others may need it to come to what that waits for.
  void end(PipeMemory::Bytes bytes) {
    Ranges::node_type gone;  // destroyed after the lock
    std::unique_lock lock(mutex_);
    const auto found = ranges_.find(bytes.data());
    if (found == ranges_.end()) return;  // the parent's, in a forked child
    Range& range = found->second;
    if (--range.reasons > 0) return;
    made_.wait(lock, [&] { return range.state != Range::State::kBeingMade; });
    gone = ranges_.extract(found);
  }

  const PipeMemory::Made* find(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    const auto next = ranges_.upper_bound(bytes.data());
    if (next == ranges_.begin()) return nullptr;
    Range& range = std::prev(next)->second;
    if (bytes.data() + bytes.size() > range.bytes.data() + range.bytes.size()) return nullptr;
    if (range.state == Range::State::kNotWanted) {
      range.state = Range::State::kWanted;
      has_wanted_ = true;
    }
    return range.made.get();
  }

  // One that nothing is made of yet; null: there is none. It stays until end_making().
  Range* begin_making() {
    if (!has_wanted_) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto wanted =
        std::ranges::find_if(ranges_, [](const auto& each) { return each.second.state == Range::State::kWanted; });
    has_wanted_ = wanted != ranges_.end();
    if (!has_wanted_) return nullptr;
    wanted->second.state = Range::State::kBeingMade;
    return &wanted->second;
  }

  void end_making(Range& range, std::unique_ptr<PipeMemory::Made> made) {
    const std::lock_guard lock(mutex_);
    range.made = std::move(made);
    range.state = Range::State::kTried;
    made_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable made_;
  Ranges ranges_;                        // guarded by mutex_
  std::atomic<bool> has_wanted_{false};  // most calls find that there is none
};

Table& table() {
  static auto& tables = *new OfProcess<std::unique_ptr<Table>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (tables.get() == nullptr) tables.get() = std::make_unique<Table>();
  return *tables.get();
}

// Whoever ends the range waits for it, also where making it fails by an exception.
struct Making {
  Table& table;
  Range& range;
  std::unique_ptr<PipeMemory::Made> made{};
  ~Making() { table.end_making(range, std::move(made)); }
};

}  // namespace

PipeMemory::PipeMemory(Bytes range) : range_(range) { table().begin(range_); }

PipeMemory::~PipeMemory() { table().end(range_); }

const PipeMemory::Made* PipeMemory::find(std::span<const std::byte> bytes) { return table().find(bytes); }

void PipeMemory::make_wanted(const Maker& make) {
  Table& its = table();
  for (Range* range = its.begin_making(); range != nullptr; range = its.begin_making()) {
    Making making{its, *range};
    making.made = make(range->bytes);
  }
}

}  // namespace hocket
