// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/programs/sparse_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "codec/sparse_message.h"

namespace hocket {
namespace {

using Bytes = std::vector<std::byte>;

// Equal parts, one for each rank.
class Chunks {
 public:
  Chunks(uint64_t count, int ranks)
      : count_(count), each_((count + static_cast<uint64_t>(ranks) - 1) / static_cast<uint64_t>(ranks)) {}
  uint64_t first(int chunk) const { return std::min(count_, each_ * static_cast<uint64_t>(chunk)); }
  size_t size(int chunk) const { return static_cast<size_t>(first(chunk + 1) - first(chunk)); }

 private:
  uint64_t count_, each_;
};

// Of the longest chunk, and not none: there is an address also where there are no elements.
size_t memory_bytes(const Chunks& chunks, DataType type) {
  return std::max<size_t>(chunks.size(0), 1) * element_bytes(type);
}

Bytes message_of(DataType type, size_t count, const select::Selection& selection) {
  Bytes message(sparse::max_bytes(count, type));
  message.resize(sparse::encode(type, count, selection, message.data()));
  return message;
}

select::Selection nonzeros(ConstValues values) { return select::at_least(values, 0x1p-149f); }

// One message for each chunk.
std::vector<Bytes> messages_of(const SparseVector& vector, const Chunks& chunks, int ranks) {
  std::vector<Bytes> messages;
  size_t at = 0;
  for (int chunk = 0; chunk < ranks; ++chunk) {
    select::Selection selection;
    for (; at < vector.places.size() && vector.places[at] < chunks.first(chunk + 1); ++at) {
      selection.indices.push_back(static_cast<uint32_t>(vector.places[at] - chunks.first(chunk)));
      selection.bits.push_back(vector.bits[at]);
    }
    messages.push_back(message_of(vector.type, chunks.size(chunk), selection));
  }
  return messages;
}

// All messages of a rank as one, and back.
Bytes joined(const std::vector<Bytes>& messages) {
  Writer out;
  for (const Bytes& message : messages) out.text({reinterpret_cast<const char*>(message.data()), message.size()});
  const std::string text = out.take();
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

Status parted(const Bytes& bytes, int parts, std::vector<Bytes>& messages) {
  Reader in(bytes);
  for (int part = 0; part < parts && in.ok(); ++part) {
    const std::string text = in.text(bytes.size());
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    messages.emplace_back(begin, begin + text.size());
  }
  return in.finished() ? Status() : Status(Code::kInternal, "the messages of a sparse vector are damaged");
}

// The most bytes that any rank has. Vectors of different lengths are an error, told to all.
Result<uint64_t> agree(Collectives& collectives, uint64_t bytes, uint64_t count) {
  std::array<uint64_t, 3> most = {bytes, count, ~count};
  HOCKET_TRY(collectives.all_reduce(DataType::kUint64, ReduceOp::kMax, most.data(), most.size()));
  if (most[1] == ~most[2]) return most[0];
  return Status(Code::kInvalidUsage,
                fmt::format("the ranks' sparse tensors differ: from {} to {} elements", ~most[2], most[1]));
}

class Summation {
 public:
  Summation(Collectives& collectives, const SparseVector& mine, const SparseSink& sink)
      : collectives_(collectives), type_(mine.type), chunks_(mine.count, collectives.ranks()), sink_(sink) {}

  // Everybody has all messages of all ranks.
  Status at_once(const std::vector<Bytes>& all) {
    std::vector<std::vector<Bytes>> by_rank(all.size());
    for (size_t rank = 0; rank < all.size(); ++rank) HOCKET_TRY(parted(all[rank], collectives_.ranks(), by_rank[rank]));
    for (int chunk = 0; chunk < collectives_.ranks(); ++chunk) {
      std::vector<Bytes> messages;
      for (std::vector<Bytes>& of_rank : by_rank) messages.push_back(std::move(of_rank[static_cast<size_t>(chunk)]));
      HOCKET_TRY(add_up(chunk, messages));
      sink_(chunks_.first(chunk), sum(chunk));
    }
    return {};
  }

  // Owners add, and tell all.
  Status by_owners(const std::vector<Bytes>& messages) {
    std::vector<Bytes> received, sums;
    HOCKET_TRY(collectives_.exchange(messages, received));
    const int own = collectives_.rank();
    HOCKET_TRY(add_up(own, received));
    const Values mine = sum(own);
    HOCKET_TRY(collectives_.gather(message_of(type_, mine.count, nonzeros({mine.type, mine.data, mine.count})), sums));
    for (int chunk = 0; chunk < collectives_.ranks(); ++chunk) {
      HOCKET_TRY(add_up(chunk, {&sums[static_cast<size_t>(chunk)], 1}));
      sink_(chunks_.first(chunk), sum(chunk));
    }
    return {};
  }

 private:
  Values sum(int chunk) { return {type_, memory_.data(), chunks_.size(chunk)}; }

  Status add_up(int chunk, std::span<const Bytes> messages) {
    memory_.resize(memory_bytes(chunks_, type_));
    bool first = true;
    for (const Bytes& message : messages) {
      HOCKET_TRY(sparse::decode(message, !first, sum(chunk)));
      first = false;
    }
    return {};
  }

  Collectives& collectives_;
  DataType type_;
  Chunks chunks_;
  const SparseSink& sink_;
  Bytes memory_;
};

}  // namespace

Status sum_sparse(Collectives& collectives, const SparseVector& mine, const SparseSink& sink) {
  const int ranks = collectives.ranks();
  const std::vector<Bytes> messages = messages_of(mine, Chunks(mine.count, ranks), ranks);
  uint64_t bytes = 0;
  for (const Bytes& message : messages) bytes += sizeof(uint32_t) + message.size();  // joined
  const Result<uint64_t> most = agree(collectives, bytes, mine.count);
  HOCKET_TRY(most.status());
  Summation summation(collectives, mine, sink);
  // Sent to all at once, of which a dense sum would send at most twice the vector.
  const uint64_t at_once = *most * static_cast<uint64_t>(ranks);
  const uint64_t dense = 2 * mine.count * element_bytes(mine.type);
  if (at_once >= kFewSparseBytes || at_once > dense) return summation.by_owners(messages);
  std::vector<Bytes> all;
  HOCKET_TRY(collectives.gather(joined(messages), all));
  return summation.at_once(all);
}

Status gather_sparse(Collectives& collectives, const SparseVector& mine, std::vector<SparseVector>& all) {
  const int parts = collectives.ranks();
  const Chunks chunks(mine.count, parts);
  HOCKET_TRY(agree(collectives, 0, mine.count).status());
  std::vector<Bytes> gathered;
  HOCKET_TRY(collectives.gather(joined(messages_of(mine, chunks, parts)), gathered));
  Bytes memory(memory_bytes(chunks, mine.type));
  all.clear();
  for (const Bytes& bytes : gathered) {
    std::vector<Bytes> messages;
    HOCKET_TRY(parted(bytes, parts, messages));
    SparseVector& vector = all.emplace_back(SparseVector{mine.type, mine.count, {}, {}});
    for (int chunk = 0; chunk < parts; ++chunk) {
      const Values values{mine.type, memory.data(), chunks.size(chunk)};
      HOCKET_TRY(sparse::decode(messages[static_cast<size_t>(chunk)], false, values));
      append_nonzeros(chunks.first(chunk), {values.type, values.data, values.count}, vector);
    }
  }
  return {};
}

void append_nonzeros(uint64_t first, ConstValues values, SparseVector& to) {
  const select::Selection found = nonzeros(values);
  for (const uint32_t index : found.indices) to.places.push_back(first + index);
  to.bits.insert(to.bits.end(), found.bits.begin(), found.bits.end());
}

}  // namespace hocket
