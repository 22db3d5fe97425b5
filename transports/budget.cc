// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/budget.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hocket {

size_t Budget::share() const { return bytes_ / std::max<size_t>(1, holders_.load(std::memory_order_relaxed)); }

bool Budget::allows(size_t more) const {
  const size_t held = this->held();
  return held <= bytes_ && more <= bytes_ - held && (whole_ == nullptr || whole_->allows(more));
}

void Budget::tell(std::function<void(size_t)> told) {
  const std::lock_guard lock(mutex_);
  told_ = std::move(told);
  if (told_) told_(held());
}

void Budget::add(size_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ += bytes;
  if (told_) told_(held());
  if (whole_ != nullptr) whole_->add(bytes);
}

void Budget::remove(size_t bytes) {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  if (told_) told_(held());
  if (whole_ != nullptr) whole_->remove(bytes);
}

Holding::Holding(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {
  if (budget_ != nullptr) ++budget_->holders_;
}

Holding::~Holding() {
  if (budget_ == nullptr) return;
  budget_->remove(held_);
  --budget_->holders_;
}

void Holding::grow(size_t more) {
  held_ += more;
  if (budget_ != nullptr) budget_->add(more);
}

PageHolding::PageHolding(std::shared_ptr<Budget> budget, size_t bytes)
    : holding_(std::move(budget)), written_((bytes + kPage * kInWord - 1) / (kPage * kInWord)) {}

void PageHolding::grow(size_t word, uint64_t fresh) {
  written_[word] |= fresh;
  holding_.grow(static_cast<size_t>(std::popcount(fresh)) * kPage);
}

}  // namespace hocket
