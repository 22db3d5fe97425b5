// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/links_history.h"

#include <algorithm>

#include "base/bytes.h"

namespace hocket {

void LinkHistory::note_sent(std::string_view bytes) {
  sent_ += bytes.size();
  if (!keeps_) return;
  kept_ += bytes;
  if (kept_.size() > 2 * kKept) kept_.erase(0, kept_.size() - kKept);
}

std::string LinkHistory::move() {
  moving_ = true;
  greeting_.clear();
  Writer writer;
  writer.u64(received_);
  return writer.take();
}

bool LinkHistory::read_greeting(std::string_view& bytes, std::string* missing) {
  const size_t taken = std::min(bytes.size(), sizeof(uint64_t) - greeting_.size());
  greeting_ += bytes.substr(0, taken);
  bytes.remove_prefix(taken);
  if (greeting_.size() < sizeof(uint64_t)) return true;
  const uint64_t has = Reader(greeting_).u64();
  if (has > sent_ || sent_ - has > kept_.size()) return false;
  *missing = kept_.substr(kept_.size() - (sent_ - has));
  kept_.resize(kept_.size() - missing->size());
  sent_ = has;
  moving_ = false;
  return true;
}

}  // namespace hocket
