// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/budget.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "transports/page_memory.h"

namespace hocket {
namespace {

// One part of so many of the budget is for pipes that must grow when what is for speed has been taken already.
constexpr size_t kLeftToNeed = 8;

}  // namespace

size_t Budget::share() const { return bytes_ / std::max<size_t>(1, holders_.load(std::memory_order_relaxed)); }

bool Budget::fits(size_t more) const {
  const size_t held = this->held();
  return held <= bytes_ && more <= bytes_ - held;
}

bool Budget::allows(size_t more) const { return more <= bytes_ && fits(more + bytes_ / kLeftToNeed); }

void Budget::show(std::atomic<uint64_t>* held) {
  shown_ = held;
  show();
}

// Whoever writes last looks whether that is still so.
void Budget::show() {
  std::atomic<uint64_t>* const shown = shown_;
  if (shown == nullptr) return;
  size_t held = 0;
  do {
    shown->store(held = held_);
  } while (held != held_);
}

void Budget::add(size_t bytes) {
  held_ += bytes;
  show();
  if (whole_ != nullptr) whole_->add(bytes);
}

void Budget::remove(size_t bytes) {
  held_ -= bytes;
  show();
  if (whole_ != nullptr) whole_->remove(bytes);
}

Holding::~Holding() {
  if (budget_ == nullptr || held_ == 0) return;
  budget_->remove(held_);
  --budget_->holders_;
}

void Holding::grow(size_t more) {
  if (budget_ != nullptr && held_ == 0 && more > 0) ++budget_->holders_;
  held_ += more;
  if (budget_ != nullptr) budget_->add(more);
}

PageHolding::PageHolding(std::shared_ptr<Budget> budget, size_t bytes)
    : holding_(std::move(budget)),
      page_bits_(std::countr_zero(page_bytes())),
      written_((bytes >> page_bits_) / kInWord + 1) {}

void PageHolding::grow(size_t word, uint64_t fresh) {
  written_[word] |= fresh;
  holding_.grow(static_cast<size_t>(std::popcount(fresh)) << page_bits_);
}

}  // namespace hocket
