// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "comm/binding.h"
#include "comm/extents.h"

namespace hocket {
namespace {

// What is wrong, if anything.
using Fault = std::optional<std::string>;

// No buffer is longer than this, so that sums of offsets and lengths cannot overflow.
constexpr size_t kMaxBytes = size_t{1} << 62;

bool has_type(const CallFacts& facts) { return static_cast<int>(facts.type) < hocketNumTypes; }

Status wrong(const Communicator& communicator, const Request& request, const std::string& why) {
  const CallFacts& facts = request.facts;
  return Status(Code::kInvalidArgument,
                fmt::format("{}rank {}: {}: {}", communicator.prefix(), communicator.rank(),
                            has_type(facts) ? describe(facts) : std::string(name(facts.collective)), why));
}

Fault check_buffer(const char* name, const void* buffer, Extent extent, size_t element) {
  if (extent.is_empty()) return {};
  if (buffer == nullptr) return fmt::format("{} is NULL", name);
  if (reinterpret_cast<uintptr_t>(buffer) % element != 0) {
    return fmt::format("{} ({}) is not aligned to its element of {} bytes", name, buffer, element);
  }
  return {};
}

// The ranges of `apart` do not overlap each other.
bool any_overlap(const std::vector<AddressRange>& ranges, std::vector<AddressRange> apart) {
  std::sort(apart.begin(), apart.end(), [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  return std::any_of(ranges.begin(), ranges.end(), [&](const AddressRange& range) {
    const auto first = std::upper_bound(apart.begin(), apart.end(), range.begin,
                                        [](uintptr_t at, const AddressRange& other) { return at < other.end; });
    return first != apart.end() && first->begin < range.end;
  });
}

Fault check_overlap(const Request& request, Rank rank, Extent send, Extent recv, size_t element) {
  if (send.is_empty() || recv.is_empty()) return {};
  const bool may_be_in_place = !(request.facts.v_form && request.facts.collective == Collective::kAllToAll);
  if (may_be_in_place && is_in_place(request, rank)) return {};
  const auto a = reinterpret_cast<uintptr_t>(request.send);
  const auto b = reinterpret_cast<uintptr_t>(request.recv);
  const bool may_overlap = a < b + recv.elements * element && b < a + send.elements * element;
  if (may_overlap && any_overlap(ranges_of(request.send, send, request.send_counts, request.send_offsets, element),
                                 ranges_of(request.recv, recv, request.recv_counts, request.recv_offsets, element))) {
    return "sendbuff and recvbuff overlap, but not in the way that this call allows in place";
  }
  return {};
}

// Parts of a receive buffer would overwrite each other.
Fault check_parts(const std::vector<size_t>& counts, const std::vector<size_t>& offsets, const char* whose = "ranks") {
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  size_t last = SIZE_MAX;
  for (const size_t i : order) {
    if (counts[i] == 0) continue;
    if (last != SIZE_MAX && offsets[last] + counts[last] > offsets[i]) {
      return fmt::format("the parts of {} {} and {} overlap in recvbuff", whose, last, i);
    }
    last = i;
  }
  return {};
}

Fault check_reduction(const CallFacts& facts, const Reduction& reduction) {
  const bool scan = facts.collective == Collective::kScan || facts.collective == Collective::kExScan;
  if (scan && reduction.average) return "op: avg is not defined for scans";
  if (reduction.scaled && reduction.scalar_type != facts.type) {
    return fmt::format("op: its scalar is {}, the call's datatype is {}", name(reduction.scalar_type),
                       name(facts.type));
  }
  if (reduction.user == nullptr && !supports(facts.type, reduction.op)) {
    return fmt::format("op: {} is not defined for {}", op_name(facts.op), name(facts.type));
  }
  return {};
}

Status resolve_reduction(const Communicator& communicator, Request& request) {
  const int handle = request.facts.op;
  if (handle >= 0 && handle < hocketNumOps) {
    Reduction& reduction = request.reduction;
    reduction.handle = handle;
    reduction.average = handle == hocketAvg;
    // The arithmetic ones have equal values on both sides; the logical ones follow avg, which is a sum.
    if (handle < hocketAvg) reduction.op = static_cast<ReduceOp>(handle);
    if (handle > hocketAvg) reduction.op = static_cast<ReduceOp>(handle - 1);
    return {};
  }
  Result<Reduction> created = communicator.reductions().find(handle);
  if (!created.ok()) return created.status();
  request.reduction = *created;
  return {};
}

Status check_request(const Communicator& communicator, const Request& request) {
  const CallFacts& facts = request.facts;
  const Rank ranks = communicator.ranks();
  if (!has_type(facts)) return wrong(communicator, request, "datatype: there is no such type");
  const auto in_ranks = [&](Rank rank) { return rank >= 0 && rank < ranks; };
  if (is_rooted(facts.collective) && !in_ranks(facts.root)) {
    return wrong(communicator, request, fmt::format("root: {} is not among {} ranks", facts.root, ranks));
  }
  if (is_transfer(facts) && !in_ranks(facts.peer)) {
    return wrong(communicator, request, fmt::format("peer: {} is not among {} ranks", facts.peer, ranks));
  }
  const size_t element = element_bytes(facts.type);
  size_t bytes = 0;
  if (__builtin_mul_overflow(facts.count, element * static_cast<size_t>(ranks), &bytes) || bytes > kMaxBytes) {
    return wrong(communicator, request,
                 fmt::format("count: {} elements for {} ranks are more than 2^62 bytes", facts.count, ranks));
  }
  const Extent send = send_extent(request, communicator.rank(), ranks);
  const Extent recv = recv_extent(request, communicator.rank(), ranks);
  Fault fault;
  if (is_reducing(facts.collective)) fault = check_reduction(facts, request.reduction);
  if (!fault) fault = check_buffer("sendbuff", request.send, send, element);
  if (!fault) fault = check_buffer("recvbuff", request.recv, recv, element);
  if (!fault && !request.recv_counts.empty()) fault = check_parts(request.recv_counts, request.recv_offsets);
  if (!fault) fault = check_overlap(request, communicator.rank(), send, recv, element);
  return fault ? wrong(communicator, request, *fault) : Status();
}

}  // namespace

// No order changes what built-in operations make of integers.
Reproducibility reproducibility_of(const Request& request, Reproducibility wanted) {
  const Reduction& reduction = request.reduction;
  if (!is_reducing(request.facts.collective) || !has_type(request.facts)) return Reproducibility::kFast;
  if (reduction.user == nullptr && !is_float(request.facts.type)) return Reproducibility::kFast;
  const bool sums = reduction.user == nullptr && reduction.op == ReduceOp::kSum;
  return wanted == Reproducibility::kExact && !sums ? Reproducibility::kOrdered : wanted;
}

Status complete_request(const Communicator& communicator, Request& request) {
  if (is_reducing(request.facts.collective)) HOCKET_TRY(resolve_reduction(communicator, request));
  request.facts.reproducibility = reproducibility_of(request, communicator.options().reproducibility);
  return check_request(communicator, request);
}

Status fault_of(const Communicator& communicator, const Request& request, const Status& fault) {
  return fault.ok() ? fault : wrong(communicator, request, fault.message());
}

Status copy_counts(const char* name, const size_t* counts, const size_t* displacements, Rank ranks,
                   std::vector<size_t>& counts_out, std::vector<size_t>& offsets_out) {
  if (counts == nullptr) return Status(Code::kInvalidArgument, fmt::format("{} is NULL", name));
  const auto size = static_cast<size_t>(ranks);
  counts_out.assign(counts, counts + size);
  offsets_out.resize(size);
  size_t next = 0;
  for (size_t i = 0; i < size; ++i) {
    offsets_out[i] = displacements != nullptr ? displacements[i] : next;
    if (counts[i] > kMaxBytes / 8 || offsets_out[i] > kMaxBytes / 8) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}[{}]: {} elements at {} are more than 2^59", name, i, counts[i], offsets_out[i]));
    }
    next += counts[i];
  }
  return {};
}

Status check_count(const char* name, size_t count) {
  if (count <= kMaxBytes / 8) return {};
  return Status(Code::kInvalidArgument, fmt::format("{}: {} elements are more than 2^59", name, count));
}

Status check_own_count(const char* list, const std::vector<size_t>& counts, Rank rank, const char* other,
                       size_t count) {
  const size_t listed = counts[static_cast<size_t>(rank)];
  if (listed == count) return {};
  return Status(Code::kInvalidArgument, fmt::format("{}[{}] is {}, but {} is {}", list, rank, listed, other, count));
}

Status check_apart(const void* send, const std::vector<size_t>& send_counts, const std::vector<size_t>& send_offsets,
                   const void* recv, const std::vector<size_t>& recv_counts, const std::vector<size_t>& recv_offsets,
                   DataType type) {
  if (const Fault fault = check_parts(recv_counts, recv_offsets, "neighbors"); fault) {
    return Status(Code::kInvalidArgument, *fault);
  }
  const size_t element = element_bytes(type);
  if (!any_overlap(ranges_of(send, {}, send_counts, send_offsets, element),
                   ranges_of(recv, {}, recv_counts, recv_offsets, element))) {
    return {};
  }
  return Status(Code::kInvalidArgument, "sendbuff and recvbuff overlap");
}

}  // namespace hocket
