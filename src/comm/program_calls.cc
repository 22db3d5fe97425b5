// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/program_calls.h"

#include <numeric>
#include <utility>

namespace hocket {
namespace {

Request request_of(Collective collective, DataType type, size_t count, const void* send, void* recv) {
  CallFacts facts;
  facts.collective = collective;
  facts.type = type;
  facts.count = count;
  return {facts, send, recv};
}

std::vector<size_t> offsets_of(const std::vector<size_t>& counts) {
  std::vector<size_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), size_t{0});
  return offsets;
}

}  // namespace

size_t ProgramCalls::sent_bytes(size_t bytes) const {
  const auto ranks = static_cast<size_t>(ranks_);
  return 2 * (bytes * (ranks - 1) / ranks);
}

Status ProgramCalls::all_reduce(DataType type, ReduceOp op, void* values, size_t count) {
  Request request = request_of(Collective::kAllReduce, type, count, values, values);
  request.facts.op = static_cast<int32_t>(op);
  traffic_->add(0, sent_bytes(count * element_bytes(type)));
  return run_(std::move(request));
}

Status ProgramCalls::sum(const std::shared_ptr<const Codec>& codec, float* values, size_t count) {
  return run_coded(request_of(Collective::kAllReduce, DataType::kFloat32, count, values, values), codec);
}

Status ProgramCalls::reduce_scatter(const std::shared_ptr<const Codec>& codec, const float* from, float* to,
                                    const std::vector<size_t>& counts) {
  Request request = request_of(Collective::kReduceScatter, DataType::kFloat32, 0, from, to);
  request.facts.v_form = true;
  request.send_counts = counts;
  request.send_offsets = offsets_of(counts);
  request.recv_counts = {counts[static_cast<size_t>(rank_)]};
  request.recv_offsets = {0};
  note_parts(counts, request.facts);
  return run_coded(std::move(request), codec);
}

Status ProgramCalls::all_gather(const std::shared_ptr<const Codec>& codec, const float* from, float* to,
                                const std::vector<size_t>& counts) {
  Request request = request_of(Collective::kAllGather, DataType::kFloat32, 0, from, to);
  request.facts.v_form = true;
  request.send_counts = {counts[static_cast<size_t>(rank_)]};
  request.send_offsets = {0};
  request.recv_counts = counts;
  request.recv_offsets = offsets_of(counts);
  note_parts(counts, request.facts);
  return run_coded(std::move(request), codec);
}

Status ProgramCalls::run_coded(Request&& request, const std::shared_ptr<const Codec>& codec) {
  request.codec = codec;
  request.facts.coding = coding_;
  request.traffic = traffic_;
  return run_(std::move(request));
}

}  // namespace hocket
