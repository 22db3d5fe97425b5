// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/programs/sparse_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "codec/sparse_message.h"
#include "codec/whole.h"
#include "kernels/select.h"

namespace hocket {
namespace {

using Bytes = std::vector<std::byte>;

// Equal parts.
class Chunks {
 public:
  Chunks(uint64_t count, int parts)
      : count_(count),
        each_((count + static_cast<uint64_t>(parts) - 1) / static_cast<uint64_t>(parts)),
        parts_(parts) {}
  int parts() const { return parts_; }
  uint64_t first(int chunk) const { return std::min(count_, each_ * static_cast<uint64_t>(chunk)); }
  size_t size(int chunk) const { return static_cast<size_t>(first(chunk + 1) - first(chunk)); }

 private:
  uint64_t count_, each_;
  int parts_;
};

// One for each owner.
Chunks by_rank(uint64_t count, int ranks) { return {count, ranks}; }
// Of what goes to all as a whole: few heads, and as little memory at a time.
Chunks by_length(uint64_t count, int ranks) {
  constexpr uint64_t kLong = 1 << 16;
  return {count, static_cast<int>(std::clamp<uint64_t>(count / kLong, 1, static_cast<uint64_t>(ranks)))};
}

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
std::vector<Bytes> messages_of(const SparseVector& vector, const Chunks& chunks) {
  std::vector<Bytes> messages;
  size_t at = 0;
  for (int chunk = 0; chunk < chunks.parts(); ++chunk) {
    select::Selection selection;
    for (; at < vector.places.size() && vector.places[at] < chunks.first(chunk + 1); ++at) {
      selection.indices.push_back(static_cast<uint32_t>(vector.places[at] - chunks.first(chunk)));
      selection.bits.push_back(vector.bits[at]);
    }
    messages.push_back(message_of(vector.type, chunks.size(chunk), selection));
  }
  return messages;
}

// Of all messages together, whatever their form.
uint64_t most_bytes(const SparseVector& vector, const Chunks& chunks) {
  const uint64_t each = sizeof(uint32_t) + element_bytes(vector.type);
  return static_cast<uint64_t>(chunks.parts()) * (sizeof(uint32_t) + kSparseHead) + vector.places.size() * each;
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

// The most bytes that any rank has. Vectors of different lengths, or shapes, are an error, told to all.
Result<uint64_t> agree(Collectives& collectives, uint64_t bytes, const SparseVector& mine) {
  std::array<uint64_t, 5> most = {bytes, mine.count, ~mine.count, mine.columns, ~mine.columns};
  HOCKET_TRY(collectives.all_reduce(DataType::kUint64, ReduceOp::kMax, most.data(), most.size()));
  if (most[1] == ~most[2] && most[3] == ~most[4]) return most[0];
  return Status(Code::kInvalidUsage,
                fmt::format("the ranks' sparse tensors differ: from {} to {} elements, in {} to {} columns", ~most[2],
                            most[1], ~most[4], most[3]));
}

class Summation {
 public:
  Summation(Collectives& collectives, DataType type, const Chunks& chunks, const SparseSink& sink)
      : collectives_(collectives), type_(type), chunks_(chunks), sink_(sink) {}

  // Everybody has all messages of all ranks.
  Status at_once(const std::vector<Bytes>& all) {
    std::vector<std::vector<Bytes>> of_ranks(all.size());
    for (size_t rank = 0; rank < all.size(); ++rank) HOCKET_TRY(parted(all[rank], chunks_.parts(), of_ranks[rank]));
    for (int chunk = 0; chunk < chunks_.parts(); ++chunk) {
      std::vector<Bytes> messages;
      for (std::vector<Bytes>& of_rank : of_ranks) messages.push_back(std::move(of_rank[static_cast<size_t>(chunk)]));
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
    for (int chunk = 0; chunk < chunks_.parts(); ++chunk) {
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

// With its zeros, none of which is negative.
Bytes dense(const SparseVector& vector) {
  const size_t element = element_bytes(vector.type);
  Bytes values(std::max<size_t>(vector.count, 1) * element);
  for (size_t i = 0; i < vector.places.size(); ++i) {
    if (magnitude_of(vector.type, vector.bits[i]) == 0) continue;
    std::memcpy(values.data() + vector.places[i] * element, &vector.bits[i], element);
  }
  return values;
}

Status sum_by_plan(Collectives& collectives, const SparseVector& mine, double ratio, const SparseSink& sink) {
  Bytes memory = dense(mine);
  const Values values{mine.type, memory.data(), static_cast<size_t>(mine.count)};
  HOCKET_TRY(collectives.sum({sparse_codec(ratio)}, values));
  sink(0, values);
  return {};
}

}  // namespace

Status sum_sparse(Collectives& collectives, const SparseVector& mine, const SparseSink& sink) {
  const int ranks = collectives.ranks();
  const Chunks few = by_length(mine.count, ranks), owners = by_rank(mine.count, ranks);
  const Result<uint64_t> most = agree(collectives, most_bytes(mine, few), mine);
  HOCKET_TRY(most.status());
  // Sent to all at once, of which a dense sum would send nearly twice the vector.
  const uint64_t at_once = *most * static_cast<uint64_t>(ranks);
  const uint64_t whole = mine.count * element_bytes(mine.type);
  if (at_once >= kFewSparseBytes || at_once > whole)
    return Summation(collectives, mine.type, owners, sink).by_owners(messages_of(mine, owners));
  if (whole <= kShortSparseBytes)
    return sum_by_plan(collectives, mine, static_cast<double>(*most) / static_cast<double>(whole), sink);
  std::vector<Bytes> all;
  HOCKET_TRY(collectives.gather(joined(messages_of(mine, few)), all));
  return Summation(collectives, mine.type, few, sink).at_once(all);
}

Status gather_sparse(Collectives& collectives, const SparseVector& mine, std::vector<SparseVector>& all) {
  const Chunks chunks = by_length(mine.count, collectives.ranks());
  HOCKET_TRY(agree(collectives, 0, mine).status());
  std::vector<Bytes> gathered;
  HOCKET_TRY(collectives.gather(joined(messages_of(mine, chunks)), gathered));
  Bytes memory(memory_bytes(chunks, mine.type));
  all.clear();
  for (const Bytes& bytes : gathered) {
    std::vector<Bytes> messages;
    HOCKET_TRY(parted(bytes, chunks.parts(), messages));
    SparseVector& vector = all.emplace_back(SparseVector{mine.type, mine.count, {}, {}});
    for (int chunk = 0; chunk < chunks.parts(); ++chunk) {
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
