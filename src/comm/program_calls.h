// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The collectives that programs (codec/programs/) are made of, as requests that are run one after the other.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "codec/programs/program.h"
#include "codec/traffic.h"
#include "comm/request.h"

namespace hocket {

// Of what is equal on all ranks that make the same program; never 0.
uint32_t digest_of(std::string_view text);

class ProgramCalls final : public Collectives {
 public:
  // Checks a request and runs it to its end.
  using Run = std::function<Status(Request&&)>;

  // All calls have `coding` among their facts: those of different programs, which may look alike, do not match.
  ProgramCalls(Rank rank, Rank ranks, uint32_t coding, std::shared_ptr<CodedTraffic> traffic, Run run)
      : rank_(rank), ranks_(ranks), coding_(coding), traffic_(std::move(traffic)), run_(std::move(run)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  Status all_reduce(DataType type, ReduceOp op, void* values, size_t count) override;
  Status sum(const CodedMessages& messages, Values values) override;
  Status reduce_scatter(const CodedMessages& messages, const float* from, float* to,
                        const std::vector<size_t>& counts) override;
  Status all_gather(const CodedMessages& messages, const float* from, float* to,
                    const std::vector<size_t>& counts) override;
  Status exchange(const std::vector<std::vector<std::byte>>& to, std::vector<std::vector<std::byte>>& from) override;
  Status gather(const std::vector<std::byte>& mine, std::vector<std::vector<std::byte>>& all) override;

  // What an all-reduce of so many bytes sends from each rank: the least, two shots.
  size_t sent_bytes(size_t bytes) const;

 private:
  Request request_of(Collective collective, DataType type, size_t count, const void* send, void* recv) const;
  Status run_coded(Request&& request, const CodedMessages& messages);

  Rank rank_, ranks_;
  uint32_t coding_;
  std::shared_ptr<CodedTraffic> traffic_;
  Run run_;
};

}  // namespace hocket
