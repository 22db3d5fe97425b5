// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls of two ranks on two hosts with two RDMA ports each, whose ways break, fall silent and come back at random
// moments, at one end or at both. The devices are not there (fake_verbs.h), and time passes when the test says so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "comm/binding.h"
#include "execute/execution.h"
#include "plan/builders.h"
#include "plan/lanes.h"
#include "plan/lending.h"
#include "tests/transports/fake_verbs.h"
#include "tests/transports/pipe_pair.h"
#include "transports/lasting_memory.h"
#include "transports/verbs/verbs.h"

namespace hocket::test {
namespace {

constexpr Rank kRanks = 2;
constexpr size_t kMaxMessage = 64 << 10;
constexpr std::chrono::seconds kHung(10);  // without the end of a call

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : static_cast<uint32_t>(std::atoi(given));
}

class StillClock final : public Clock {
 public:
  Time now() override { return time; }
  Time time{std::chrono::hours(1)};
};

struct Shape {
  Collective collective;
  const char* algorithm;
  Rank root;
  bool in_place;
  int32_t lanes;
  size_t count;
  size_t slice_bytes;
  uint32_t operation;

  std::string text() const {
    return fmt::format("{} by {}: root {}, in place {}, {} lanes, {} elements, slices of {} bytes", name(collective),
                       algorithm, root, in_place, lanes, count, slice_bytes);
  }
};

// One rank's part of a call, from and to memory that lasts.
class PartOfCall {
 public:
  PartOfCall(const Shape& shape, Rank rank)
      : shape_(shape), buffers_(2 * shape.count), lasts_(std::as_bytes(std::span(buffers_))) {
    BuildOptions options;
    options.rank = rank;
    options.ranks = kRanks;
    options.root = shape.root;
    options.in_place = shape.in_place;
    plan_ = find_builder(shape.collective, shape.algorithm)->build(options);
    plan_ = over_lanes(plan_, std::min(shape.lanes, most_lanes(plan_)));
    for (size_t i = 0; i < shape.count; ++i) buffers_[i] = value(rank, i);
    Request request;
    request.facts.collective = shape.collective;
    request.facts.type = DataType::kInt32;
    request.facts.count = shape.count;
    request.facts.root = shape.root;
    request.send = buffers_.data();
    request.recv = result();
    call_.plan = &plan_;
    bind_arithmetic(request, kRanks, call_);
    bind_layouts(request, call_);
    call_.slice_bytes = shape.slice_bytes;
    call_.window = 2 * shape.slice_bytes / sizeof(int32_t) / static_cast<size_t>(plan_.message_chunks);
    const bool in_place = is_in_place(request, rank);
    mark_what_stays(plan_, in_place);
    call_.lending = may_lend(plan_, in_place) ? Lending::kAlways : Lending::kWithoutCopies;
    call_.operation = shape.operation;
    scratch_.resize(Execution::scratch_bytes(call_) + 64);
    call_.scratch = scratch_.data();
  }

  const Call& call() const { return call_; }
  std::string text() const { return shape_.text(); }
  bool is_right() {
    for (size_t i = 0; i < shape_.count; ++i) {
      const bool sums = shape_.collective == Collective::kAllReduce;
      if (result()[i] != (sums ? value(0, i) + value(1, i) : value(shape_.root, i))) return false;
    }
    return true;
  }

 private:
  int32_t value(Rank rank, size_t index) const {
    return static_cast<int32_t>(index * 31 + shape_.operation + static_cast<size_t>(rank) * 7919);
  }
  int32_t* result() { return buffers_.data() + (shape_.in_place ? 0 : shape_.count); }

  const Shape shape_;
  std::vector<int32_t> buffers_;  // what is sent, and behind it what comes
  LastingMemory::Hold lasts_;
  Plan plan_;
  std::vector<std::byte> scratch_;
  Call call_;
};

class VerbsRanks : public testing::Test {
 protected:
  VerbsRanks() {
    reset_fake_verbs();
    set_two_fake_ports();
    set_fake_networks_apart();
    for (const Rank rank : {0, 1}) add_transport(kHosts[rank], transports_[rank]);
  }
  ~VerbsRanks() override {
    pairs_.clear();
    EXPECT_EQ(fake_objects(), 0u);
  }

  // Each rank makes all these calls one after the other, and looks at its pipes only while it is in one.
  void make(const std::vector<Shape>& shapes) {
    std::vector<std::unique_ptr<PartOfCall>> parts[kRanks];
    for (const Rank rank : {0, 1}) {
      for (const Shape& shape : shapes) parts[rank].push_back(std::make_unique<PartOfCall>(shape, rank));
      ended_[rank] = 0;
      runs_[rank] = false;
    }
    auto moved = std::chrono::steady_clock::now();
    while (std::min(ended_[0], ended_[1]) < shapes.size()) {
      const size_t before = ended_[0] + ended_[1];
      if (random_() % trouble_ == 0) make_trouble();
      const auto rank = static_cast<Rank>(random_() % kRanks);
      if (ended_[rank] < shapes.size()) go_on(rank, *parts[rank][ended_[rank]]);
      if (HasFatalFailure()) return;
      const auto now = std::chrono::steady_clock::now();
      if (ended_[0] + ended_[1] != before) moved = now;
      ASSERT_LT(now - moved, kHung) << state(0) << state(1);
    }
  }

  Shape shape_at_random() {
    using enum Collective;
    static constexpr std::array<std::pair<Collective, const char*>, 6> kAlgorithms = {{{kAllReduce, "one_shot"},
                                                                                       {kAllReduce, "rabenseifner"},
                                                                                       {kAllReduce, "double_tree"},
                                                                                       {kAllReduce, "ring"},
                                                                                       {kBroadcast, "direct"},
                                                                                       {kBroadcast, "chain"}}};
    const auto& [collective, algorithm] = kAlgorithms[random_() % kAlgorithms.size()];
    const size_t count = 1 + random_() % (random_() % 2 == 0 ? 1000 : 200'000);
    return {.collective = collective,
            .algorithm = algorithm,
            .root = static_cast<Rank>(random_() % kRanks),
            .in_place = random_() % 2 == 0,
            .lanes = 1 + static_cast<int32_t>(random_() % 3),
            .count = count,
            .slice_bytes = random_() % 2 == 0 ? kMaxMessage : kMaxMessage / 4,
            .operation = operations_ += 7919};
  }

  std::mt19937 random_{number_from("VERBS_SEED", 20261128)};

 private:
  static constexpr const char* kHosts[] = {"verbs of rank 0", "verbs of rank 1"};

  class View final : public Pipes {
   public:
    View(VerbsRanks& both, Rank self) : both_(both), self_(self) {}
    SendEnd& to(Rank, int lane) override {
      SendEnd& end = senders_[lane];
      end.pipe = both_.pair(self_, lane).sender.get();
      return end;
    }
    ReceiveEnd& from(Rank peer, int lane) override {
      ReceiveEnd& end = receivers_[lane];
      end.pipe = both_.pair(peer, lane).receiver.get();
      return end;
    }

   private:
    VerbsRanks& both_;
    const Rank self_;
    std::map<int, SendEnd> senders_;
    std::map<int, ReceiveEnd> receivers_;
  };

  PipePair& pair(Rank from, int lane) {
    PipePair& found = pairs_[{from, lane}];
    if (found.sender != nullptr) return found;
    for (const size_t port : {size_t{1}, size_t{2}}) set_fake_port_up(port, true);  // a pipe that is new finds them
    return found = make_pair(system_, {"verbs", kHosts[from], "127.0.0.1:0", 0, {}, kHosts[1 - from]}, kMaxMessage);
  }

  void go_on(Rank rank, PartOfCall& part) {
    Execution& execution = executions_[rank];
    if (!runs_[rank]) {
      if (random_() % 16 != 0) return;  // it comes late
      execution.start(part.call());
    }
    runs_[rank] = true;
    if (random_() % 4 == 0) execution.set_waiting(true);
    const Execution::Progress progress = execution.advance();
    ASSERT_NE(progress, Execution::Progress::kFailed) << execution.status().message();
    if (progress == Execution::Progress::kIdle && random_() % 64 == 0) ask(rank);
    if (progress != Execution::Progress::kDone) return;
    ASSERT_TRUE(part.is_right()) << "rank " << rank << ": " << part.text();
    runs_[rank] = false;
    ++ended_[rank];
  }

  // What the mesh does for a call that has waited for long.
  void ask(Rank rank) {
    for (const PipeWait& wait : executions_[rank].awaited_pipes()) {
      const PipePair& asked = pair(rank, wait.lane);
      if (wait.all_sent) asked.sender->note_released(asked.receiver->messages.get());
    }
  }

  void make_trouble() {
    switch (random_() % 32) {
      case 0:
        return break_fake_pairs(random_() % 3);
      case 1:
        return break_fake_senders();
      case 2:
        return silence_fake_pair(random_());
      case 3:
        return set_fake_port_up(1 + random_() % 2, random_() % 3 > 0);
      case 4:
        return hold_fake_acknowledgements(random_() % 3 == 0);
      case 5:
        return fail_fake_call(FakeCall::kPost, static_cast<int>(random_() % 8), EIO);
      case 6:
        clock_.time += std::chrono::milliseconds(random_() % 3000);
        return;
      default:
        clock_.time += std::chrono::milliseconds(random_() % 30);
    }
  }

  std::string state(Rank rank) const {
    std::string text = fmt::format("rank {} has ended {} calls", rank, ended_[rank]);
    for (const PipeWait& wait : executions_[rank].awaited_pipes()) {
      const char* const what = wait.all_sent ? "has sent" : wait.sending ? "sends after" : "receives after";
      text += fmt::format(", {} {} messages on lane {}", what, wait.messages, wait.lane);
    }
    return text + "; ";
  }

  const uint32_t trouble_ = number_from("VERBS_TROUBLE", 16);  // comes once in so many looks
  StillClock clock_;
  System system_{clock_, real_system().threads, real_system().network, real_system().memory};
  VerbsTransport transports_[kRanks]{VerbsTransport(fake_verbs), VerbsTransport(fake_verbs)};
  std::map<std::pair<Rank, int>, PipePair> pairs_;
  View views_[kRanks]{View(*this, 0), View(*this, 1)};
  Execution executions_[kRanks]{Execution(views_[0]), Execution(views_[1])};
  size_t ended_[kRanks]{};
  bool runs_[kRanks]{};
  uint32_t operations_ = 0;
};

TEST_F(VerbsRanks, EndTheirCallsWhateverBreaksWhenever) {
  const uint32_t rounds = number_from("VERBS_ROUNDS", 600);
  testing::internal::CaptureStderr();  // of losses
  for (uint32_t round = 0; round < rounds && !HasFatalFailure(); ++round) {
    std::vector<Shape> shapes;
    while (shapes.size() < 4) shapes.push_back(shape_at_random());
    make(shapes);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(fake_reads(), 0u);
}

}  // namespace
}  // namespace hocket::test
