// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/codec/local_collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "codec/whole.h"
#include "kernels/convert.h"

namespace hocket {
namespace {

std::vector<float> decoded(const CodedMessages& messages, const float* values, size_t count) {
  std::vector<float> result;
  if (!through(*messages.codec, std::vector<float>(values, values + count), messages.draw, result).ok()) std::abort();
  for (size_t i = 0; messages.losses != nullptr && i < count; ++i) messages.losses[i] += values[i] - result[i];
  return result;
}

template <typename T>
void reduce(ReduceOp op, const std::vector<const void*>& from, std::vector<T>& to) {
  for (size_t i = 0; i < to.size(); ++i) {
    for (size_t rank = 0; rank < from.size(); ++rank) {
      const T value = static_cast<const T*>(from[rank])[i];
      to[i] = rank == 0 ? value : op == ReduceOp::kMax ? std::max(to[i], value) : static_cast<T>(to[i] + value);
    }
  }
}

}  // namespace

class LocalTeam::Member final : public Collectives {
 public:
  Member(LocalTeam& team, int rank) : team_(team), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return team_.ranks_; }

  Status all_reduce(DataType type, ReduceOp op, void* values, size_t count) override {
    if (type == DataType::kFloat32) return combine<float>(op, values, count);
    return type == DataType::kUint32 ? combine<uint32_t>(op, values, count) : combine<uint64_t>(op, values, count);
  }
  Status sum(const CodedMessages& messages, Values values) override {
    std::vector<float> wide(values.count);
    widen(values.type, values.data, wide.data(), values.count);
    std::vector<float> own = decoded(messages, wide.data(), values.count);
    HOCKET_TRY(combine<float>(ReduceOp::kSum, own.data(), values.count));
    std::vector<std::byte> message(messages.codec->max_encoded_bytes(values.count, values.type));
    const size_t bytes = messages.codec->encode({values.type, values.data, values.count}, messages.draw, message);
    team_.sent_bytes_ += bytes * static_cast<size_t>(ranks() - 1);
    narrow(values.type, own.data(), values.data, values.count);
    return {};
  }
  Status reduce_scatter(const CodedMessages& messages, const float* from, float* to,
                        const std::vector<size_t>& counts) override {
    const size_t count = std::accumulate(counts.begin(), counts.end(), size_t{0});
    std::vector<float> own = decoded(messages, from, count);
    HOCKET_TRY(combine<float>(ReduceOp::kSum, own.data(), count));
    std::copy_n(own.begin() + first(counts, rank_), counts[static_cast<size_t>(rank_)], to);
    return {};
  }
  Status all_gather(const CodedMessages& messages, const float* from, float* to,
                    const std::vector<size_t>& counts) override {
    const std::vector<float> own = decoded(messages, from, counts[static_cast<size_t>(rank_)]);
    share(own.data());
    for (int peer = 0; peer < ranks(); ++peer) {
      const auto* part = static_cast<const float*>(team_.buffers_[static_cast<size_t>(peer)]);
      std::copy_n(part, counts[static_cast<size_t>(peer)], to + first(counts, peer));
    }
    team_.barrier_.arrive_and_wait();
    return {};
  }

  Status exchange(const std::vector<std::vector<std::byte>>& to, std::vector<std::vector<std::byte>>& from) override {
    share(&to);
    from.clear();
    for (const void* buffer : team_.buffers_) {
      from.push_back((*static_cast<const std::vector<std::vector<std::byte>>*>(buffer))[static_cast<size_t>(rank_)]);
    }
    for (size_t peer = 0; peer < to.size(); ++peer) {
      if (peer != static_cast<size_t>(rank_)) team_.sent_bytes_ += to[peer].size();
    }
    team_.barrier_.arrive_and_wait();
    return {};
  }
  Status gather(const std::vector<std::byte>& mine, std::vector<std::vector<std::byte>>& all) override {
    share(&mine);
    all.clear();
    for (const void* buffer : team_.buffers_) all.push_back(*static_cast<const std::vector<std::byte>*>(buffer));
    team_.sent_bytes_ += mine.size() * (all.size() - 1);
    team_.barrier_.arrive_and_wait();
    return {};
  }

 private:
  static ptrdiff_t first(const std::vector<size_t>& counts, int rank) {
    return static_cast<ptrdiff_t>(std::accumulate(counts.begin(), counts.begin() + rank, size_t{0}));
  }
  void share(const void* buffer) {
    team_.buffers_[static_cast<size_t>(rank_)] = buffer;
    team_.barrier_.arrive_and_wait();
  }
  template <typename T>
  Status combine(ReduceOp op, void* values, size_t count) {
    share(values);
    std::vector<T> result(count);
    reduce(op, team_.buffers_, result);
    team_.barrier_.arrive_and_wait();
    if (count > 0) std::memcpy(values, result.data(), count * sizeof(T));
    return {};
  }

  LocalTeam& team_;
  int rank_;
};

void LocalTeam::run(const std::function<void(Collectives&)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks_; ++rank) {
    threads.emplace_back([this, rank, &body] {
      Member member(*this, rank);
      body(member);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hocket
