// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/api/grid.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <tuple>

namespace hocket::test {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr size_t kAlignment = 64;
constexpr size_t kMaxFaults = 20;  // of one rank
constexpr auto kUntouched = std::byte{0xA5};

// The numbers of a type and operation, made once for all ranks.
class Library {
 public:
  Library(int ranks, uint64_t seed) : ranks_(ranks), seed_(seed) {}

  const Numbers& of(hocketDataType_t type, int operation) {
    const std::lock_guard lock(mutex_);
    auto& numbers = numbers_[{type, operation}];
    if (numbers == nullptr) numbers = std::make_unique<Numbers>(type, operation, ranks_, seed_);
    return *numbers;
  }

 private:
  const int ranks_;
  const uint64_t seed_;
  std::mutex mutex_;
  std::map<std::pair<hocketDataType_t, int>, std::unique_ptr<Numbers>> numbers_;
};

// Memory with guards around it, and what it must be after the call.
class Arena {
 public:
  // `shift` elements off alignment.
  void reset(size_t elements, size_t element_bytes, size_t shift) {
    element_bytes_ = element_bytes;
    const size_t before = kGuardBytes + shift * element_bytes;
    const size_t bytes = before + elements * element_bytes + kGuardBytes;
    if (memory_.size() < bytes + kAlignment) memory_.resize(bytes + kAlignment);
    begin_ = memory_.data();
    begin_ += (kAlignment - reinterpret_cast<uintptr_t>(begin_) % kAlignment) % kAlignment;
    user_ = begin_ + before;
    bytes_ = bytes;
    std::memset(begin_, static_cast<int>(kUntouched), bytes);
  }

  std::byte* begin() const { return begin_; }
  size_t bytes() const { return bytes_; }
  bool holds(const void* address) const { return begin_ <= address && address < begin_ + bytes_; }

  std::byte* at(size_t element) { return user_ + element * element_bytes_; }
  void write(size_t base, const Stretch& stretch) { copy(stretch, user_ + (base + stretch.at) * element_bytes_); }
  // What is there now must be there after the call, but for what is expected otherwise.
  void keep() { expected_.assign(begin_, begin_ + bytes_); }
  void expect(size_t base, const Stretch& stretch) {
    copy(stretch, expected_.data() + (user_ - begin_) + (base + stretch.at) * element_bytes_);
  }

  std::string difference() const {
    if (std::memcmp(begin_, expected_.data(), bytes_) == 0) return {};
    const auto [is, should] = std::mismatch(begin_, begin_ + bytes_, expected_.begin());
    std::ostringstream text;
    const std::ptrdiff_t byte = is - user_;
    const auto size = static_cast<std::ptrdiff_t>(element_bytes_);
    text << "byte " << byte << " (element " << (byte < 0 ? (byte - size + 1) / size : byte / size) << ") is 0x"
         << std::hex << std::to_integer<int>(*is) << ", not 0x" << std::to_integer<int>(*should);
    return text.str();
  }

 private:
  void copy(const Stretch& stretch, std::byte* to) const {
    if (stretch.table == nullptr) return;
    size_t phase = stretch.phase % kPeriod;
    for (size_t done = 0; done < stretch.count;) {
      const size_t run = std::min(stretch.count - done, kPeriod - phase);
      std::memcpy(to + done * element_bytes_, stretch.table->data() + phase * element_bytes_, run * element_bytes_);
      done += run;
      phase = 0;
    }
  }

  std::vector<std::byte> memory_;
  std::vector<std::byte> expected_;
  std::byte* begin_ = nullptr;
  std::byte* user_ = nullptr;
  size_t bytes_ = 0;
  size_t element_bytes_ = 1;
};

// One rank's walk through the cases.
class Walker {
 public:
  Walker(const Cell& cell, const Member& member, Library& library, Ground* ground)
      : cell_(cell), member_(member), library_(library), ground_(ground) {}

  // Empty: as it should be.
  std::string run(const Case& one) {
    const Numbers& numbers = library_.of(one.type, one.operation);
    const Share share = share_of(one, numbers, member_.rank, member_.ranks);
    const Buffers buffers = lay_out(one, share);
    const hocketResult_t result = ground_ == nullptr
                                      ? issue(one, share, buffers, handle_of(one, numbers), member_, nullptr)
                                      : issue_on_ground(one, share, buffers, handle_of(one, numbers));
    const bool possible = is_possible(cell_, one, member_.ranks);
    const hocketResult_t wanted = possible ? hocketSuccess : hocketInvalidUsage;
    if (result != wanted) {
      const std::string text = result == hocketSuccess ? "" : std::string(": ") + hocketGetLastError(member_.comm);
      return "result " + std::to_string(result) + ", not " + std::to_string(wanted) + text;
    }
    if (!possible) {
      ++refused_;
      return {};
    }
    ++calls_;
    std::string fault = arenas_[1].difference();
    if (!fault.empty()) return "receive buffer: " + fault;
    fault = arenas_[0].difference();
    return fault.empty() ? fault : "send buffer: " + fault;
  }

  size_t calls() const { return calls_; }
  size_t refused() const { return refused_; }

 private:
  hocketResult_t issue_on_ground(const Case& one, const Share& share, const Buffers& here, hocketRedOp_t op) {
    std::array<std::byte*, 2> there{};
    for (int i = 0; i < 2; ++i) {
      const Arena& arena = arenas_[static_cast<size_t>(i)];
      there[static_cast<size_t>(i)] = static_cast<std::byte*>(ground_->bring(i, arena.begin(), arena.bytes()));
    }
    const auto moved = [&](const void* address) -> void* {
      for (size_t i = 0; i < 2; ++i) {
        if (arenas_[i].holds(address)) return there[i] + (static_cast<const std::byte*>(address) - arenas_[i].begin());
      }
      return nullptr;
    };
    const Buffers buffers{moved(here.send), moved(here.recv)};
    const hocketResult_t result = issue(one, share, buffers, op, member_, ground_->stream());
    for (int i = 0; i < 2; ++i) {
      const Arena& arena = arenas_[static_cast<size_t>(i)];
      ground_->fetch(i, arena.begin(), arena.bytes());
    }
    return result;
  }

  bool in_place(const Case& one, const Share& share) const {
    if (one.place == Place::kApart || (one.place == Place::kMixed && member_.rank % 2 == 0)) return false;
    // Only a root has both buffers of a gather or scatter.
    switch (one.function) {
      case Function::kGather:
      case Function::kGatherV:
        return share.receives;
      case Function::kScatter:
      case Function::kScatterV:
        return share.sends;
      default:
        return true;
    }
  }

  Buffers lay_out(const Case& one, const Share& share) {
    Arena& send = arenas_[0];
    Arena& recv = arenas_[1];
    const size_t bytes = bytes_of(one.type);
    if (in_place(one, share)) {
      const size_t span = std::max(share.send_in_recv + share.send_span, share.recv_in_send + share.recv_span);
      recv.reset(span, bytes, one.shift);
      for (const Stretch& stretch : share.sent) recv.write(share.send_in_recv, stretch);
      recv.keep();
      for (const Stretch& stretch : share.received) recv.expect(share.recv_in_send, stretch);
      send.reset(0, bytes, 0);
      send.keep();
      return {recv.at(share.send_in_recv), recv.at(share.recv_in_send)};
    }
    send.reset(share.send_span, bytes, one.shift);
    for (const Stretch& stretch : share.sent) send.write(0, stretch);
    send.keep();
    recv.reset(share.recv_span, bytes, one.shift * 2 + 1);
    recv.keep();
    for (const Stretch& stretch : share.received) recv.expect(0, stretch);
    const bool no_send = one.absent && (!share.sends || share.send_span == 0);
    const bool no_recv = one.absent && (!share.receives || share.recv_span == 0);
    return {no_send ? nullptr : send.at(0), no_recv ? nullptr : recv.at(0)};
  }

  hocketRedOp_t handle_of(const Case& one, const Numbers& numbers) {
    if (one.operation < hocketNumOps) return static_cast<hocketRedOp_t>(one.operation);
    // A user's operation serves every type.
    const auto key = std::pair(one.operation, one.operation == kPreMulSum ? one.type : hocketInt8);
    const auto [entry, is_new] = handles_.try_emplace(key, hocketSum);
    if (is_new && one.operation == kPreMulSum) {
      Table scalar = numbers.scalars[static_cast<size_t>(member_.rank)];
      hocketRedOpCreatePreMulSum(&entry->second, scalar.data(), one.type, hocketScalarHostImmediate, member_.comm);
    } else if (is_new) {
      const bool commutative = one.operation == kUserCommutative;
      hocketRedOpCreate(&entry->second, commutative ? user_commutative : user_ordered, nullptr, commutative,
                        member_.comm);
    }
    return entry->second;
  }

  const Cell& cell_;
  const Member& member_;
  Library& library_;
  Ground* const ground_;         // null: the host's memory
  std::array<Arena, 2> arenas_;  // send, receive; in place only the second
  std::map<std::pair<int, hocketDataType_t>, hocketRedOp_t> handles_;
  size_t calls_ = 0;
  size_t refused_ = 0;
};

}  // namespace

namespace {

Tally walk(const Member& member, const Cell& cell, const std::vector<Case>& cases, Library& library,
           Ground* ground = nullptr) {
  Walker walker(cell, member, library, ground);
  Tally tally;
  for (const Case& one : cases) {
    const std::string fault = walker.run(one);
    if (fault.empty()) continue;
    tally.faults.push_back(one.name() + " by " + cell.algorithm_of(one.function) + " on " +
                           std::to_string(member.ranks) + " ranks over " + cell.transport + ": rank " +
                           std::to_string(member.rank) + ": " + fault);
    hocketResult_t state = hocketSuccess;
    hocketCommGetAsyncError(member.comm, &state);
    if (state != hocketSuccess || tally.faults.size() >= kMaxFaults) break;
  }
  tally.calls = walker.calls();
  tally.refused = walker.refused();
  return tally;
}

}  // namespace

Tally run_cases_on(const Member& member, const Cell& cell, const std::vector<Case>& cases, uint64_t seed,
                   Ground* ground) {
  Library library(member.ranks, seed);
  return walk(member, cell, cases, library, ground);
}

Tally run_cases(const Cell& cell, int ranks, const std::vector<Case>& cases, uint64_t seed) {
  Library library(ranks, seed);
  Tally sum;
  std::mutex mutex;
  const auto body = [&](Member& member) {
    const Tally tally = walk(member, cell, cases, library);
    const std::lock_guard lock(mutex);
    sum.calls += tally.calls;
    sum.refused += tally.refused;
    sum.faults.insert(sum.faults.end(), tally.faults.begin(), tally.faults.end());
  };
  run_threads(ranks, body, config_with_timeout(60000));
  return sum;
}

}  // namespace hocket::test
