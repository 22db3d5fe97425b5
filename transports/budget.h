// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How much memory the pipes of one rank of a communicator should hold, and how much they do. Buffers are made for the
// longest messages and hold memory only as far as messages have come into them, so they grow when calls are first large
// (docs/decisions/0147). What a pipe needs to work it takes in any case; what only makes it faster it takes where that
// leaves an eighth of the budget. Memory that two processes share counts for the one that writes there first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace hocket {

// Any thread; takes no lock, as a child that fork() made may end it.
class Budget {
 public:
  // `whole`: that of which this is a part; what is held of this is held of that, too.
  explicit Budget(size_t bytes, std::shared_ptr<Budget> whole = nullptr) : bytes_(bytes), whole_(std::move(whole)) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  size_t bytes() const { return bytes_; }
  size_t held() const { return held_.load(std::memory_order_relaxed); }
  // What each of those that hold some of it may have of it, if it is dealt out evenly.
  size_t share() const;
  // Whether it is kept with so many more held; so many more for nothing but speed, which leave an eighth for need.
  bool fits(size_t more) const;
  bool allows(size_t more) const;
  // What is held is written there now and whenever it changes; null: nowhere any more.
  void show(std::atomic<uint64_t>* held);

 private:
  friend class Holding;
  void add(size_t bytes);
  void remove(size_t bytes);
  void show();

  const size_t bytes_;
  const std::shared_ptr<Budget> whole_;
  std::atomic<size_t> held_ = 0;
  std::atomic<size_t> holders_ = 0;
  std::atomic<std::atomic<uint64_t>*> shown_ = nullptr;
};

// What one buffer holds of a budget, until it ends. One thread at a time.
class Holding {
 public:
  // Null: nobody counts, and all is allowed.
  explicit Holding(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  ~Holding();
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  // As Budget::fits, Budget::allows.
  bool fits(size_t more) const { return budget_ == nullptr || budget_->fits(more); }
  bool allows(size_t more) const { return budget_ == nullptr || budget_->allows(more); }
  // As Budget::share.
  size_t share() const { return budget_ == nullptr ? SIZE_MAX : budget_->share(); }
  void grow(size_t more);
  void grow_to(size_t bytes) {
    if (bytes > held_) grow(bytes - held_);
  }
  size_t held() const { return held_; }

 private:
  const std::shared_ptr<Budget> budget_;
  size_t held_ = 0;
};

// The same of memory that is touched page by page.
class PageHolding {
 public:
  PageHolding(std::shared_ptr<Budget> budget, size_t bytes);

  // So many bytes are written, `offset` from the memory's beginning.
  void write(size_t offset, size_t bytes) {
    for_fresh(offset, bytes, [&](size_t word, uint64_t fresh) { grow(word, fresh); });
  }
  // Whether they may be, for nothing but speed: where some were not written before, if the budget allows them.
  bool allows(size_t offset, size_t bytes) const {
    bool has_fresh = false;
    for_fresh(offset, bytes, [&](size_t, uint64_t) { has_fresh = true; });
    return !has_fresh || holding_.allows(bytes);
  }
  const Holding& holding() const { return holding_; }

 private:
  static constexpr size_t kInWord = 64;

  // Of these bytes the pages that were not written before, word by word.
  template <typename Body>
  void for_fresh(size_t offset, size_t bytes, Body body) const {
    if (bytes == 0) return;
    const size_t last = (offset + bytes - 1) >> page_bits_;
    for (size_t page = offset >> page_bits_; page <= last; page = (page / kInWord + 1) * kInWord) {
      const size_t word = page / kInWord;
      const uint64_t from = ~uint64_t{0} << page % kInWord;
      const uint64_t to = last / kInWord > word ? ~uint64_t{0} : ~uint64_t{0} >> (kInWord - 1 - last % kInWord);
      if (const uint64_t fresh = from & to & ~written_[word]; fresh != 0) [[unlikely]]
        body(word, fresh);
    }
  }
  void grow(size_t word, uint64_t fresh);

  Holding holding_;
  const int page_bits_;
  std::vector<uint64_t> written_;  // pages, a bit each
};

}  // namespace hocket
