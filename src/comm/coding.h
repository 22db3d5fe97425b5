// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A codec as a caller holds it: the codec itself, or the program that stands for one, and what is kept under the keys
// of tensors. Prepares requests for coded calls. Any thread; calls under keys and programs one at a time.
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
#include "codec/programs/program.h"
#include "comm/program_calls.h"
#include "comm/request.h"
#include "prove/coded.h"

namespace hocket {

// What a codec does to values of that type, as the proof of a plan takes it.
CodingErrors coding_errors(const Codec& codec, DataType type);

class Coding {
 public:
  static Result<std::unique_ptr<Coding>> make(std::string_view specification);

  CodecDescription describe(DataType type) const;
  bool supports(DataType type) const;

  // Of which a call takes one; none: there is only a program.
  const Codecs& codecs() const { return codecs_; }
  // Of the specification; never 0. Calls without a key have it among their facts.
  uint32_t digest() const { return digest_; }

  // Makes a checked request one whose messages that codec, one of codecs(), encodes. Null: it does not pay.
  Status attach(Request& request, const std::shared_ptr<const Codec>& codec);

  // The same with error feedback: the request of an all-reduce then sends the tensor's values and what was kept, out of
  // memory that stays until the next call under a key. What its encodings lose, of contributions and of sums, is kept
  // where they are made; but codecs that select do so once, of the tensor as a whole. Then run(request), and only if it
  // succeeds is what was lost kept.
  template <typename Run>
  Status with_feedback(std::string_view key, Request& request, Rank ranks, const std::shared_ptr<const Codec>& codec,
                       Run run) {
    const std::lock_guard lock(mutex_);
    const ConstValues result{request.facts.type, static_cast<const std::byte*>(request.recv), request.facts.count};
    HOCKET_TRY(correct(key, request, ranks, codec));
    HOCKET_TRY(run(request));
    feedback_.commit(key, result);
    return {};
  }

  // Whether a call with this key, or NULL, is a program of several collectives.
  bool is_program(const char* key) const { return program_ != nullptr && (codecs_.empty() || key != nullptr); }
  // Such a call: a checked request of an all-reduce.
  Status run_program(const char* key, const Request& request, Rank rank, Rank ranks, ProgramCalls::Run run);

  std::string save() const;
  Status load(std::string_view bytes);
  void reset();
  void reset(std::string_view key);

  // The most of all plans that the coded collective of so many ranks, at most kMaxBoundRanks, may take.
  static constexpr Rank kMaxBoundRanks = 256;
  Result<CodingEffect> error_bound(Collective collective, DataType type, Rank ranks) const;

  const CodedTraffic& traffic() const { return *traffic_; }

 private:
  explicit Coding(Compression compression);
  Status correct(std::string_view key, Request& request, Rank ranks, const std::shared_ptr<const Codec>& codec);
  // Marks the request as one with that digest, and of `codec`, if there is one.
  void mark(Request& request, const std::shared_ptr<const Codec>& codec, uint32_t digest) const;
  Status check(const Request& request) const;
  Result<CodingEffect> program_bound(Collective collective, DataType type, Rank ranks) const;
  Status check_program(const char* key, const Request& request) const;
  // What is kept under the key, or nothing that lasts.
  Result<States::Tensor*> open(const char* key, const Request& request, const std::vector<size_t>& lengths);

  Codecs codecs_;
  std::shared_ptr<const Program> program_;
  std::string specification_;
  uint32_t digest_;
  const std::shared_ptr<CodedTraffic> traffic_ = std::make_shared<CodedTraffic>();  // calls may outlive us
  std::atomic<uint64_t> calls_{0};
  mutable std::mutex mutex_;  // guards the rest
  Feedback feedback_;
  States states_;           // of the program
  States::Tensor passing_;  // of a program's call without a key
  std::vector<float> corrected_, decoded_;
  std::vector<std::byte> values_;
};

}  // namespace hocket
