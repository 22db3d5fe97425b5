// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Names of types and operations, and the choice of a kernel for each combine.

#include "kernels/kernels.h"

#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "kernels/host/codec_table.h"
#include "kernels/host/table.h"
#include "kernels/streaming.h"

namespace hocket {
namespace {

struct TypeFacts {
  std::string_view name;
  uint16_t bytes;
  bool floating;
};

constexpr std::array<TypeFacts, kElementTypes> kTypes = {{
    {"int8", 1, false},
    {"uint8", 1, false},
    {"int32", 4, false},
    {"uint32", 4, false},
    {"int64", 8, false},
    {"uint64", 8, false},
    {"float16", 2, true},
    {"float32", 4, true},
    {"float64", 8, true},
    {"bfloat16", 2, true},
    {"float8e4m3", 1, true},
    {"float8e5m2", 1, true},
    {"fixed128", 16, false},
    {"fixed320", 40, false},
    {"fixed2176", 272, false},
}};

constexpr std::array<std::string_view, kReduceOps> kOps = {
    "sum", "prod", "max", "min", "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};

const TypeFacts& facts(DataType type) { return kTypes[static_cast<size_t>(type)]; }

// The tables of all instruction sets that this machine can run, best first, and the one in use.
class Tables {
 public:
  static Tables& instance() {
    static Tables tables;
    return tables;
  }

  const host::Table* best() const { return &all_.front(); }
  const std::deque<host::Table>& all() const { return all_; }
  std::span<const std::string_view> names() const { return names_; }

 private:
  Tables() {
    // Highway's bits are ordered, best first. A set that was not compiled comes out as the best of those below it.
    for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) add(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    add_float16_sums();
    for (const host::Table& table : all_) names_.push_back(table.instruction_set);
  }

  void add(int64_t targets) {
    hwy::GetChosenTarget().Update(targets);
    const host::CodecTable codec = host::codec_kernels();
    if (!all_.empty() && all_.back().instruction_set == codec.instruction_set) return;
    host::Table& table = all_.emplace_back();
    table.instruction_set = codec.instruction_set;
    table.codec = &codecs_.emplace_back(codec);
    host::add_integer_kernels(table);
    host::add_float_kernels(table);
    host::add_accumulator_kernels(table);
  }

  // To the best of them: an instruction set that Highway does not tell apart.
  void add_float16_sums() {
    const host::Float16Sums sums = host::find_float16_sums();
    if (sums[0] == nullptr) return;
    host::Table with = all_.front();
    with.instruction_set = "AVX3_FP16";
    with.float16_sums = sums;
    all_.push_front(std::move(with));
  }

  std::deque<host::Table> all_;
  std::deque<host::CodecTable> codecs_;
  std::vector<std::string_view> names_;
};

std::atomic<const host::Table*> current{nullptr};

// Null: this is no sum of two as they are, or the processor does not add float16.
CombineFunction own_float16_sum(const Combine& combine) {
  const bool is_plain = combine.op == ReduceOp::kSum && combine.first_mask == 0 && combine.divide_last == 0;
  if (!is_plain || combine.sources.size() != 2) return nullptr;
  const host::Float16Sums& sums = host::table_in_use().float16_sums;
  const size_t destinations = combine.destinations.size();  // of steps that only wait: none
  return destinations == 0 || destinations > sums.size() ? nullptr : sums[destinations - 1];
}

CombineFunction kernel(DataType type, ReduceOp op) {
  return host::table_in_use().kernels[static_cast<size_t>(type)][static_cast<size_t>(op)];
}

void copy_by_vectors(std::byte* destination, const std::byte* source, size_t bytes, bool around) {
  Combine combine;
  combine.sources = {&source, 1};
  combine.destinations = {&destination, 1};
  combine.count = bytes;
  combine.around_mask = around ? 1 : 0;
  kernel(combine.type, combine.op)(combine);
}

// From here on the C library moves strings, which an EPYC does at half the speed where the two lie differently in their
// lines, and out of a cache that it shares with who wrote them (docs/decisions/0141).
constexpr size_t kStringFrom = 4 << 10;

bool lie_alike(const std::byte* a, const std::byte* b) {
  constexpr uintptr_t kLine = 64;
  return (reinterpret_cast<uintptr_t>(a) - reinterpret_cast<uintptr_t>(b)) % kLine == 0;
}

// `in_shared_cache`: as Combine has it.
void copy_by(Streaming way, std::byte* destination, const std::byte* source, size_t bytes, bool in_shared_cache) {
  if (destination == source || bytes == 0) return;
  if (way == Streaming::kStrings) return move_string(destination, source, bytes);
  if (way == Streaming::kAround) return copy_by_vectors(destination, source, bytes, true);
  if (bytes >= kStringFrom && (in_shared_cache || !lie_alike(destination, source)))
    return copy_by_vectors(destination, source, bytes, false);
  std::memcpy(destination, source, bytes);
}

// One source, unchanged: bytes are bytes.
void copy_plainly(const Combine& combine) {
  const size_t bytes = combine.count * element_bytes(combine.type);
  for (std::byte* destination : combine.destinations) {
    if (destination != combine.sources[0]) std::memcpy(destination, combine.sources[0], bytes);
  }
}

// The same to one destination after the other: each is written as suits it best, and the source, a slice at most, is
// read from the caches again.
void copy_to_all(const Combine& combine) {
  const size_t bytes = combine.count * element_bytes(combine.type);
  for (size_t i = 0; i < combine.destinations.size(); ++i)
    copy_by(way_of(combine, i), combine.destinations[i], combine.sources[0], bytes, combine.in_shared_cache);
}

// What a logical operation makes of one operand: x or x.
void combine_with_itself(const Combine& combine) {
  const std::array<const std::byte*, 2> twice = {combine.sources[0], combine.sources[0]};
  Combine pair = combine;
  pair.sources = twice;
  kernel(combine.type, ReduceOp::kLogicalOr)(pair);
}

constinit thread_local bool is_in_user_function = false;

void call_user(const Combine& combine, const std::byte* in, std::byte* inout, size_t count) {
  const bool before = std::exchange(is_in_user_function, true);
  combine.user(in, inout, count, static_cast<int>(combine.type), combine.user_context);
  is_in_user_function = before;
}

// The caller's function sees one block at a time, in memory of ours that is aligned as promised.
void combine_user(const Combine& combine) {
  constexpr size_t kBlockBytes = 8192;
  alignas(64) std::byte blocks[2][kBlockBytes];
  const size_t element = element_bytes(combine.type);
  const size_t block_count = kBlockBytes / element;
  for (size_t first = 0; first < combine.count; first += block_count) {
    const size_t count = std::min(block_count, combine.count - first);
    std::byte* result = blocks[0];
    std::byte* next = blocks[1];
    std::memcpy(result, combine.sources[0] + first * element, count * element);
    for (const std::byte* source : combine.sources.subspan(1)) {
      std::memcpy(next, source + first * element, count * element);
      call_user(combine, result, next, count);
      std::swap(result, next);
    }
    for (std::byte* destination : combine.destinations) {
      std::memcpy(destination + first * element, result, count * element);
    }
  }
}

}  // namespace

bool in_user_function() { return is_in_user_function; }

const host::Table& host::table_in_use() {
  const Table* table = current.load(std::memory_order_acquire);
  if (table == nullptr) [[unlikely]] {
    table = Tables::instance().best();
    current.store(table, std::memory_order_release);
  }
  return *table;
}

size_t element_bytes(DataType type) { return facts(type).bytes; }
bool is_float(DataType type) { return facts(type).floating; }
std::string_view name(DataType type) { return facts(type).name; }
std::string_view name(ReduceOp op) { return kOps[static_cast<size_t>(op)]; }
bool supports(DataType type, ReduceOp op) { return op <= ReduceOp::kMin || !is_float(type); }

CombineFunction kernel_of(const Combine& combine) {
  const bool is_alone = combine.sources.size() == 1;
  const bool unscaled = combine.scale_first == nullptr || combine.first_mask == 0;
  const bool enters = combine.first_mask != 0 && unscaled;
  if (is_alone && enters && combine.op >= ReduceOp::kLogicalAnd) return combine_with_itself;
  if (is_alone && unscaled && combine.divide_last == 0) return copy_plainly;
  if (combine.user) return combine_user;
  if (combine.type == DataType::kFloat16) {
    if (const CombineFunction own = own_float16_sum(combine); own != nullptr) return own;
  }
  return kernel(combine.type, combine.op);
}

void combine(const Combine& combine) {
  assert(!combine.sources.empty() && !combine.destinations.empty());
  assert(combine.user || supports(combine.type, combine.op));
  const CombineFunction at_once = kernel_of(combine);
  if (at_once == copy_plainly) return copy_to_all(combine);
  if (combine.strings_mask != 0) return combine_and_move(combine);
  at_once(combine);
}

void copy(std::byte* destination, const std::byte* source, size_t bytes, Streaming way) {
  copy_by(way, destination, source, bytes, false);
}

std::string_view instruction_set() { return host::table_in_use().instruction_set; }

std::span<const std::string_view> instruction_sets() { return Tables::instance().names(); }

bool force_instruction_set(std::string_view name) {
  const Tables& tables = Tables::instance();
  if (name.empty()) name = tables.best()->instruction_set;
  for (const host::Table& table : tables.all()) {
    if (table.instruction_set != name) continue;
    current.store(&table, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace hocket
