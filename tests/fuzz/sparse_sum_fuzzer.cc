// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums and gathered sparse vectors of a rank that all others send arbitrary bytes. What is accepted is whole: a sum has
// all chunks, one after the other, and a vector's places rise and lie in it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "codec/programs/sparse_sum.h"

namespace {

using namespace hocket;

using Bytes = std::vector<std::byte>;

constexpr uint16_t kMaxCount = 4200;
constexpr int kMaxRanks = 5;

struct Head {
  uint8_t ranks;
  uint8_t type;
  uint16_t count;
  uint8_t step;  // between the places that we have
  uint8_t is_gathered;
};

// Of us, rank 0. The others' messages are lengths of two bytes and so many bytes of the input.
class Strangers final : public Collectives {
 public:
  Strangers(int ranks, std::span<const uint8_t> input) : ranks_(ranks), input_(input) {}
  int rank() const override { return 0; }
  int ranks() const override { return ranks_; }
  Status all_reduce(DataType, ReduceOp, void*, size_t) override { return {}; }
  Status exchange(const std::vector<Bytes>& to, std::vector<Bytes>& from) override { return all_of(to[0], from); }
  Status gather(const Bytes& mine, std::vector<Bytes>& all) override { return all_of(mine, all); }
  Status sum(const CodedMessages& messages, Values values) override {
    for (int rank = 1; rank < ranks_; ++rank) HOCKET_TRY(messages.codec->decode_reduce(next(), ReduceOp::kSum, values));
    return {};
  }
  // No sum of sparse vectors asks for the rest.
  Status reduce_scatter(const CodedMessages&, const float*, float*, const std::vector<size_t>&) override {
    std::abort();
  }
  Status all_gather(const CodedMessages&, const float*, float*, const std::vector<size_t>&) override { std::abort(); }

 private:
  Status all_of(const Bytes& mine, std::vector<Bytes>& all) {
    all = {mine};
    while (all.size() < static_cast<size_t>(ranks_)) all.push_back(next());
    return {};
  }
  Bytes next() {
    uint16_t length = 0;
    if (input_.size() < sizeof length) return {};
    std::memcpy(&length, input_.data(), sizeof length);
    input_ = input_.subspan(sizeof length);
    const auto message = std::as_bytes(input_.first(std::min<size_t>(length, input_.size())));
    input_ = input_.subspan(message.size());
    return {message.begin(), message.end()};
  }

  int ranks_;
  std::span<const uint8_t> input_;
};

void sum(Strangers& strangers, const SparseVector& mine) {
  uint64_t seen = 0;
  const Status status = sum_sparse(strangers, mine, [&](uint64_t first, Values chunk) {
    if (first != seen) std::abort();
    seen += chunk.count;
  });
  if (status.ok() && seen != mine.count) std::abort();
}

void gather(Strangers& strangers, const SparseVector& mine) {
  std::vector<SparseVector> all;
  if (!gather_sparse(strangers, mine, all).ok()) return;
  if (all.size() != static_cast<size_t>(strangers.ranks()) || all[0].places != mine.places) std::abort();
  for (const SparseVector& vector : all) {
    if (vector.places.size() != vector.bits.size()) std::abort();
    const bool rises = std::ranges::adjacent_find(vector.places, std::greater_equal()) == vector.places.end();
    if (!rises || (!vector.places.empty() && vector.places.back() >= mine.count)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Head head;
  if (size < sizeof head) return 0;
  std::memcpy(&head, data, sizeof head);
  constexpr std::array<DataType, 3> kTypes = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
  SparseVector mine{.type = kTypes[head.type % kTypes.size()], .count = uint64_t{head.count} % kMaxCount};
  for (uint64_t place = 0; place < mine.count; place += uint64_t{head.step} + 1) {
    mine.places.push_back(place);
    mine.bits.push_back(1);
  }
  Strangers strangers(1 + head.ranks % kMaxRanks, {data + sizeof head, size - sizeof head});
  head.is_gathered % 2 != 0 ? gather(strangers, mine) : sum(strangers, mine);
  return 0;
}
