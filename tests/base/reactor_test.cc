// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The event loop on the real system, and, where an exact order of events matters, on a poller that the test scripts.
#include "base/reactor.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <new>

namespace hocket {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Runs a function in the loop and waits for it.
void run_in(Reactor& reactor, const std::function<void()>& function) {
  std::atomic<bool> done = false;
  reactor.post([&] {
    function();
    done = true;
    done.notify_all();
  });
  done.wait(false);
}

Time now() { return real_system().clock.now(); }

class ReactorTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(reactor_.start("reactor test").ok()); }

  Reactor reactor_{real_system()};
};

TEST_F(ReactorTest, PostedFunctionsRunInOrderInTheLoop) {
  EXPECT_FALSE(reactor_.in_loop());
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    reactor_.post([&, i] {
      EXPECT_TRUE(reactor_.in_loop());
      order.push_back(i);
    });
  }
  reactor_.stop();
  ASSERT_EQ(order.size(), 100u) << "what was posted before stop() runs";
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  reactor_.post([&] { order.push_back(-1); });
  reactor_.stop();
  EXPECT_EQ(order.size(), 100u);
}

TEST_F(ReactorTest, TimersRunInTheOrderOfTheirTimes) {
  std::vector<int> order;
  std::atomic<bool> done = false;
  const Time begin = now();
  run_in(reactor_, [&] {
    reactor_.at(begin + milliseconds(30), [&] {
      EXPECT_GE(now(), begin + milliseconds(30));
      order.push_back(3);
      done = true;
      done.notify_all();
    });
    reactor_.at(begin + milliseconds(10), [&] { order.push_back(1); });
    const TimerId cancelled = reactor_.at(begin + milliseconds(15), [&] { order.push_back(-1); });
    reactor_.at(begin + milliseconds(10), [&] { order.push_back(2); });
    reactor_.at(begin + milliseconds(12), [this, cancelled] { reactor_.cancel(cancelled); });
    reactor_.cancel(0);
  });
  done.wait(false);
  reactor_.stop();
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST_F(ReactorTest, ATimerMayComeAgainAndAgainUntilItIsCancelled) {
  std::atomic<int> ticks = 0;
  run_in(reactor_, [&] {
    const auto timer = std::make_shared<TimerId>();
    *timer = reactor_.every(milliseconds(1), [&, timer] {
      if (++ticks == 3) reactor_.cancel(*timer);
      ticks.notify_all();
    });
  });
  for (int seen = 0; seen < 3; seen = ticks) ticks.wait(seen);
  std::this_thread::sleep_for(milliseconds(20));
  reactor_.stop();
  EXPECT_EQ(ticks, 3);
}

TEST(ReactorMemory, WhatRunsOutOfItEndsAloneAndIsTold) {
  Reactor reactor(real_system());
  std::atomic<int> exhausted = 0;
  ASSERT_TRUE(reactor
                  .start("memory",
                         [&] {
                           if (++exhausted == 1) throw std::bad_alloc();  // not enough to say so
                           exhausted.notify_all();
                         })
                  .ok());
  int later = 0;
  int ticks = 0;
  run_in(reactor, [&] {
    reactor.post([] { throw std::bad_alloc(); });
    reactor.post([&] { ++later; });
    reactor.every(milliseconds(1), [&] {
      if (++ticks == 1) throw std::bad_alloc();
    });
  });
  for (int seen = 0; seen < 2; seen = exhausted) exhausted.wait(seen);
  run_in(reactor, [&] { EXPECT_EQ(later, 1); });
  for (int seen = 0; seen < 3;) run_in(reactor, [&] { seen = ticks; });
  reactor.stop();
}

TEST_F(ReactorTest, ATimerThatRenewsItselfForThePastLeavesRoomForOthers) {
  std::function<void()> again = [&] { reactor_.at(Time(), again); };
  run_in(reactor_, again);
  std::atomic<int> count = 0;
  for (int i = 0; i < 100; ++i) run_in(reactor_, [&] { ++count; });
  reactor_.stop();
  EXPECT_EQ(count, 100);
}

TEST_F(ReactorTest, WatchesASocketUntilItIsUnwatched) {
  auto listener = real_system().network.listen("unix:");
  ASSERT_TRUE(listener.ok());
  auto client = real_system().network.connect((*listener)->address());
  ASSERT_TRUE(client.ok());
  auto server = (*listener)->accept();
  ASSERT_TRUE(server.ok() && *server != nullptr);
  std::string received;
  std::atomic<bool> ended = false;
  run_in(reactor_, [&] {
    const Status status = reactor_.watch((*server)->handle(), [&] {
      std::array<std::byte, 4> buffer;
      for (;;) {
        auto count = (*server)->receive(buffer);
        if (!count.ok()) {
          reactor_.unwatch((*server)->handle());
          ended = true;
          ended.notify_all();
          return;
        }
        if (*count == 0) return;
        received.append(reinterpret_cast<const char*>(buffer.data()), *count);
      }
    });
    EXPECT_TRUE(status.ok());
  });
  const std::string text = "more than four bytes";
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  ASSERT_TRUE((*client)->send(std::span(&part, 1)).ok());
  client->reset();
  ended.wait(false);
  EXPECT_EQ(received, text);
  run_in(reactor_, [&] { EXPECT_FALSE(reactor_.watch(9999, [] {}).ok()); });
}

TEST_F(ReactorTest, WatchAndTimersAreForTheLoopOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(reactor_.cancel(1), "cancel\\(\\) called outside its loop");
  reactor_.stop();
  reactor_.cancel(1);  // nobody else is there any more
}

TEST_F(ReactorTest, CanBeStoppedFromWithin) {
  std::atomic<bool> after = false;
  run_in(reactor_, [&] {
    reactor_.post([&] { after = true; });
    reactor_.stop();
  });
  reactor_.stop();
  EXPECT_TRUE(after);
}

// A system whose poller reports what the test says.
class ScriptedSystem : public Network, public Poller {
 public:
  // Poller
  Status add(Handle) override { return {}; }
  void remove(Handle) override {}
  std::vector<Handle> wait(Time) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return woken_ || !news_.empty(); });
    woken_ = false;
    return std::exchange(news_, {});
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  Handle wake_handle() const override { return kNoHandle; }
  Handle handle() const override { return kNoHandle; }

  void report(std::vector<Handle> news) {
    const std::lock_guard lock(mutex_);
    news_ = std::move(news);
    changed_.notify_all();
  }

  // Network
  Result<std::unique_ptr<Poller>> make_poller() override {
    struct Borrowed : Poller {
      explicit Borrowed(Poller& poller) : poller_(poller) {}
      Status add(Handle handle) override { return poller_.add(handle); }
      void remove(Handle handle) override { poller_.remove(handle); }
      std::vector<Handle> wait(Time until) override { return poller_.wait(until); }
      void wake() override { poller_.wake(); }
      Handle wake_handle() const override { return poller_.wake_handle(); }
      Handle handle() const override { return poller_.handle(); }
      Poller& poller_;
    };
    return std::unique_ptr<Poller>(std::make_unique<Borrowed>(*this));
  }
  Result<std::unique_ptr<Listener>> listen(const Address&) override { return Status(Code::kInternal, "unused"); }
  Result<std::unique_ptr<Socket>> connect(const Address&) override { return Status(Code::kInternal, "unused"); }
  void wake(Handle) override {}
  void close(Handle) override {}
  Result<std::vector<InterfaceAddress>> interfaces() override { return std::vector<InterfaceAddress>(); }
  std::string host_identity() override { return ""; }

  System system{real_system().clock, real_system().threads, *this, real_system().memory};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::vector<Handle> news_;
};

TEST(ReactorBatchTest, UnwatchCoversNewsThatHasComeAlready) {
  ScriptedSystem scripted;
  Reactor reactor(scripted.system);
  ASSERT_TRUE(reactor.start("batch").ok());
  std::atomic<int> done = 0;
  std::vector<int> called;
  run_in(reactor, [&] {
    (void)reactor.watch(1, [&] {
      called.push_back(1);
      reactor.unwatch(1);  // itself
      reactor.unwatch(2);  // later in this batch
      reactor.unwatch(3);
      (void)reactor.watch(3, [&] { called.push_back(33); });  // another object with the number of the third
    });
    (void)reactor.watch(2, [&] { called.push_back(2); });
    (void)reactor.watch(3, [&] { called.push_back(3); });
    (void)reactor.watch(4, [&] {
      called.push_back(4);
      ++done;
      done.notify_all();
    });
  });
  scripted.report({1, 2, 3, 4});
  done.wait(0);
  EXPECT_EQ(called, (std::vector{1, 4}));
  scripted.report({3, 4});  // by now this is news of the new object
  done.wait(1);
  EXPECT_EQ(called, (std::vector{1, 4, 33, 4}));
}

// As after a time in which the process did not run: what is due judges by what has come.
TEST(ReactorBatchTest, NewsThatHasComeIsHeardBeforeWhatIsDue) {
  ScriptedSystem scripted;
  Reactor reactor(scripted.system);
  ASSERT_TRUE(reactor.start("batch").ok());
  std::atomic<bool> done = false;
  std::vector<std::string> order;
  run_in(reactor, [&] {
    (void)reactor.watch(6, [&] { order.emplace_back("news"); });
    reactor.at(now(), [&] {
      order.emplace_back("due");
      done = true;
      done.notify_all();
    });
    scripted.report({6});
  });
  done.wait(false);
  EXPECT_EQ(order, (std::vector<std::string>{"news", "due"}));
}

TEST(ReactorBatchTest, NewsOfAWatchThatBeganBeforeTheWaitIsNotLost) {
  ScriptedSystem scripted;
  Reactor reactor(scripted.system);
  ASSERT_TRUE(reactor.start("batch").ok());
  std::atomic<bool> called = false;
  scripted.report({5});  // comes with the wait that follows the posted watch, or before it
  run_in(reactor, [&] {
    (void)reactor.watch(5, [&] {
      called = true;
      called.notify_all();
    });
    scripted.report({5});
  });
  called.wait(false);
}

}  // namespace
}  // namespace hocket
