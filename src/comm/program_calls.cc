// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/program_calls.h"

#include <numeric>
#include <utility>

#include "kernels/random.h"

namespace hocket {
namespace {

std::vector<size_t> offsets_of(const std::vector<size_t>& counts) {
  std::vector<size_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), size_t{0});
  return offsets;
}

// Messages one after the other, and the other way round.
struct Joined {
  explicit Joined(const std::vector<std::vector<std::byte>>& messages) {
    for (const std::vector<std::byte>& message : messages) {
      sizes.push_back(message.size());
      bytes.insert(bytes.end(), message.begin(), message.end());
    }
  }
  std::vector<size_t> sizes;
  std::vector<std::byte> bytes;
};

struct Parted {
  explicit Parted(const std::vector<uint64_t>& sizes_in)
      : sizes(sizes_in), bytes(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0})) {}
  std::vector<std::vector<std::byte>> parts() const {
    std::vector<std::vector<std::byte>> messages;
    auto at = bytes.begin();
    for (const uint64_t size : sizes) {
      messages.emplace_back(at, at + static_cast<ptrdiff_t>(size));
      at += static_cast<ptrdiff_t>(size);
    }
    return messages;
  }
  std::vector<uint64_t> sizes;
  std::vector<std::byte> bytes;
};

}  // namespace

uint32_t digest_of(std::string_view text) {
  uint64_t hash = 1;
  for (const char letter : text) hash = mix(hash ^ static_cast<unsigned char>(letter));
  return static_cast<uint32_t>(hash) | 1;
}

size_t ProgramCalls::sent_bytes(size_t bytes) const {
  const auto ranks = static_cast<size_t>(ranks_);
  return 2 * (bytes * (ranks - 1) / ranks);
}

Request ProgramCalls::request_of(Collective collective, DataType type, size_t count, const void* send,
                                 void* recv) const {
  CallFacts facts;
  facts.collective = collective;
  facts.type = type;
  facts.count = count;
  facts.coding = coding_;
  return {facts, send, recv};
}

Status ProgramCalls::all_reduce(DataType type, ReduceOp op, void* values, size_t count) {
  Request request = request_of(Collective::kAllReduce, type, count, values, values);
  request.facts.op = static_cast<int32_t>(op);
  traffic_->add(0, sent_bytes(count * element_bytes(type)));
  return run_(std::move(request));
}

Status ProgramCalls::sum(const CodedMessages& messages, Values values) {
  return run_coded(request_of(Collective::kAllReduce, values.type, values.count, values.data, values.data), messages);
}

Status ProgramCalls::reduce_scatter(const CodedMessages& messages, const float* from, float* to,
                                    const std::vector<size_t>& counts) {
  Request request = request_of(Collective::kReduceScatter, DataType::kFloat32, 0, from, to);
  request.facts.v_form = true;
  request.send_counts = counts;
  request.send_offsets = offsets_of(counts);
  request.recv_counts = {counts[static_cast<size_t>(rank_)]};
  request.recv_offsets = {0};
  note_parts(counts, request.facts);
  return run_coded(std::move(request), messages);
}

Status ProgramCalls::all_gather(const CodedMessages& messages, const float* from, float* to,
                                const std::vector<size_t>& counts) {
  Request request = request_of(Collective::kAllGather, DataType::kFloat32, 0, from, to);
  request.facts.v_form = true;
  request.send_counts = {counts[static_cast<size_t>(rank_)]};
  request.send_offsets = {0};
  request.recv_counts = counts;
  request.recv_offsets = offsets_of(counts);
  note_parts(counts, request.facts);
  return run_coded(std::move(request), messages);
}

Status ProgramCalls::exchange(const std::vector<std::vector<std::byte>>& to,
                              std::vector<std::vector<std::byte>>& from) {
  const Joined sent(to);
  std::vector<uint64_t> theirs(to.size());
  HOCKET_TRY(run_(request_of(Collective::kAllToAll, DataType::kUint64, 1, sent.sizes.data(), theirs.data())));
  Parted received(theirs);
  Request request = request_of(Collective::kAllToAll, DataType::kUint8, 0, sent.bytes.data(), received.bytes.data());
  request.facts.v_form = true;
  request.send_counts = sent.sizes;
  request.send_offsets = offsets_of(sent.sizes);
  request.recv_counts = theirs;
  request.recv_offsets = offsets_of(theirs);
  HOCKET_TRY(run_(std::move(request)));
  from = received.parts();
  return {};
}

Status ProgramCalls::gather(const std::vector<std::byte>& mine, std::vector<std::vector<std::byte>>& all) {
  std::vector<uint64_t> sizes(static_cast<size_t>(ranks_));
  const uint64_t size = mine.size();
  HOCKET_TRY(run_(request_of(Collective::kAllGather, DataType::kUint64, 1, &size, sizes.data())));
  Parted received(sizes);
  Request request = request_of(Collective::kAllGather, DataType::kUint8, 0, mine.data(), received.bytes.data());
  request.facts.v_form = true;
  request.send_counts = {mine.size()};
  request.send_offsets = {0};
  request.recv_counts = sizes;
  request.recv_offsets = offsets_of(sizes);
  note_parts(sizes, request.facts);
  HOCKET_TRY(run_(std::move(request)));
  all = received.parts();
  return {};
}

Status ProgramCalls::run_coded(Request&& request, const CodedMessages& messages) {
  request.codec = messages.codec;
  request.draw = messages.draw;
  request.losses = messages.losses;
  request.facts.encodes = true;
  request.traffic = traffic_;
  return run_(std::move(request));
}

}  // namespace hocket
