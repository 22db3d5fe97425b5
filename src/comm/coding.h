// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A codec as a caller holds it: the codec itself, and what error feedback keeps under the keys of tensors. Prepares
// requests for coded calls. Any thread; calls under keys one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec.h"
#include "codec/feedback.h"
#include "comm/request.h"
#include "prove/coded.h"

namespace hocket {

class Coding {
 public:
  static Result<std::unique_ptr<Coding>> make(std::string_view specification);

  CodecDescription describe(DataType type) const { return codec_->describe(type); }
  bool supports(DataType type) const { return codec_->supports(type); }

  // Makes a checked request a coded one.
  Status attach(Request& request);

  // The same with error feedback. The request then sends what the codec makes of the tensor's values and what was kept,
  // out of memory that stays until the next call under a key. Then run(request), and only if it succeeds is what was
  // lost kept.
  template <typename Run>
  Status with_feedback(std::string_view key, Request& request, Run run) {
    const std::lock_guard lock(mutex_);
    HOCKET_TRY(correct(key, request));
    HOCKET_TRY(run(request));
    feedback_.commit(key);
    return {};
  }

  std::string save() const;
  Status load(std::string_view bytes);
  void reset();
  void reset(std::string_view key);

  // Of the all-reduce of so many ranks, at most kMaxBoundRanks.
  static constexpr Rank kMaxBoundRanks = 256;
  Result<CodingEffect> error_bound(DataType type, Rank ranks) const;

 private:
  Coding(std::shared_ptr<const Codec> codec, std::shared_ptr<const Codec> wire);
  Status correct(std::string_view key, Request& request);
  Status check(const Request& request) const;

  std::shared_ptr<const Codec> codec_;
  std::shared_ptr<const Codec> wire_;  // of what was encoded and decoded already: changes nothing of it
  uint32_t digest_;
  std::atomic<uint64_t> calls_{0};
  mutable std::mutex mutex_;  // guards the rest
  Feedback feedback_;
  std::vector<float> corrected_, decoded_;
  std::vector<std::byte> values_, message_;
};

}  // namespace hocket
