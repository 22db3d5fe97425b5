// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Transfers that are made again: how far they come by themselves, and that an operation goes on from there.
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/drive.h"
#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

class Transfers : public testing::Test {
 protected:
  Transfers() {
    const std::string id = *make_unique_id(service_);
    meshes_ = join_all(id, 2, [&](int32_t) -> Service& { return service_; });
  }

  static CallArguments transfer(bool sending, uint64_t count) {
    CallArguments arguments;
    arguments.collective = Collective::kSendRecv;
    arguments.type = DataType::kInt32;
    arguments.peer = sending ? 1 : 0;
    arguments.sending = sending;
    arguments.count = count;
    return arguments;
  }

  // An operation of its own, as in a group.
  static Status make(Communicator& communicator, const CallArguments& arguments, int32_t* value,
                     std::optional<size_t> steps = {}) {
    Request request(arguments, arguments.sending ? value : nullptr, arguments.sending ? nullptr : value);
    const std::unique_ptr<Operation> operation = communicator.make_operation(request);
    HOCKET_TRY(operation->prepare(std::move(request)));
    operation->go_on_from(steps);
    return run(communicator, *operation);
  }

  // Those of a kind that is made for the second time may be repeated.
  static void make_twice(Communicator& communicator, const CallArguments& arguments, int32_t value) {
    for (int i = 0; i < 2; ++i) {
      int32_t moved = arguments.sending ? value : 0;
      ASSERT_TRUE(make(communicator, arguments, &moved).ok());
      EXPECT_EQ(moved, value);
    }
  }

  // Rank 0 sends to rank 1.
  void play(const std::function<void(Communicator&)>& sender, const std::function<void(Communicator&)>& receiver) {
    for_each_rank(2, [&](int32_t rank) {
      CommunicatorOptions options;
      options.operation_timeout = std::chrono::seconds(60);
      Communicator communicator(real_system(), meshes_[static_cast<size_t>(rank)], options);
      (rank == 0 ? sender : receiver)(communicator);
    });
  }

  Service service_{real_system(), quick_options()};
  std::vector<MeshPointer> meshes_;
};

TEST_F(Transfers, ThatFindNothingAreGoneOnWithAndCountOnce) {
  std::atomic<bool> is_awaited = false;
  play(
      [&](Communicator& communicator) {
        const CallArguments call = transfer(true, 1);
        make_twice(communicator, call, 7);
        int32_t value = 8;
        ASSERT_TRUE(eventually([&] { return is_awaited.load(); }));
        ASSERT_TRUE(communicator.may_repeat(call, &value, nullptr));
        EXPECT_TRUE(communicator.repeat_transfer(call, &value, nullptr).done);
        EXPECT_EQ(communicator.call_log().pace().calls, 3u);
        EXPECT_TRUE(communicator.idle());
      },
      [&](Communicator& communicator) {
        const CallArguments call = transfer(false, 1);
        make_twice(communicator, call, 7);
        int32_t value = 0;
        const Repeated repeated = communicator.repeat_transfer(call, nullptr, &value);
        EXPECT_FALSE(repeated.done);
        ASSERT_EQ(repeated.slices, 0u);
        is_awaited = true;
        ASSERT_TRUE(make(communicator, call, &value, repeated.slices).ok());
        EXPECT_EQ(value, 8);
        EXPECT_EQ(communicator.call_log().pace().calls, 3u);
        EXPECT_TRUE(communicator.idle());
      });
}

TEST_F(Transfers, OfAnotherKindAreNoRepeats) {
  play(
      [](Communicator& communicator) {
        std::array<int32_t, 2> values{7, 8};
        EXPECT_FALSE(communicator.may_repeat(transfer(true, 1), values.data(), nullptr));
        ASSERT_TRUE(make(communicator, transfer(true, 1), values.data()).ok());
        EXPECT_FALSE(communicator.may_repeat(transfer(true, 1), values.data(), nullptr)) << "made once";
        ASSERT_TRUE(make(communicator, transfer(true, 1), values.data()).ok());
        EXPECT_TRUE(communicator.may_repeat(transfer(true, 1), values.data(), nullptr));
        EXPECT_FALSE(communicator.may_repeat(transfer(true, 2), values.data(), nullptr));
        EXPECT_FALSE(communicator.may_repeat(transfer(true, 1), nullptr, nullptr));
        const Repeated repeated = communicator.repeat_transfer(transfer(true, 2), values.data(), nullptr);
        EXPECT_FALSE(repeated.done || repeated.slices);
        EXPECT_EQ(communicator.call_log().pace().calls, 2u);
      },
      [](Communicator& communicator) { make_twice(communicator, transfer(false, 1), 7); });
}

// A call before it, on another thread, has not ended.
TEST_F(Transfers, WaitForTheirTurn) {
  play(
      [](Communicator& communicator) {
        const CallArguments call = transfer(true, 1);
        make_twice(communicator, call, 7);
        int32_t value = 7;
        Request request(call, &value, nullptr);
        const std::unique_ptr<Operation> other = communicator.make_operation(request);
        ASSERT_TRUE(other->prepare(std::move(request)).ok());
        other->issue();
        const Repeated repeated = communicator.repeat_transfer(call, &value, nullptr);
        EXPECT_FALSE(repeated.done || repeated.slices);
        Work* const works[] = {other.get()};
        Wait wait = communicator.fresh_wait();
        drive(communicator.system(), works, wait);
        ASSERT_TRUE(other->status().ok());
        EXPECT_TRUE(communicator.repeat_transfer(call, &value, nullptr).done);
      },
      [](Communicator& communicator) {
        for (int round = 0; round < 4; ++round) {
          int32_t value = 0;
          ASSERT_TRUE(make(communicator, transfer(false, 1), &value).ok());
          EXPECT_EQ(value, 7);
        }
      });
}

}  // namespace
}  // namespace hocket
