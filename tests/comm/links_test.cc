// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a link makes of bytes that were damaged on their way.
#include "comm/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "comm/links_heart.h"

namespace hocket {
namespace {

using testing::HasSubstr;

class LinkTest : public testing::Test {
 protected:
  LinkTest() : reactor_(system_), heart_(system_, reactor_, std::chrono::seconds(5)) {
    EXPECT_TRUE(reactor_.start("test").ok());
  }

  template <typename Function>
  void in_loop(const Function& function) {
    std::promise<void> done;
    reactor_.post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }

  struct Pair {
    std::unique_ptr<Socket> ours, theirs;
  };
  Pair connect() {
    auto listener = std::move(*system_.network.listen("127.0.0.1:0"));
    Pair pair;
    pair.ours = std::move(*system_.network.connect(listener->address()));
    while (pair.theirs == nullptr) pair.theirs = std::move(*listener->accept());
    return pair;
  }

  std::unique_ptr<Link> make_link(std::unique_ptr<Socket> socket) {
    return std::make_unique<Link>(Link::Context{system_, reactor_, heart_}, std::move(socket), 1000);
  }

  // What a link puts on the wire for a frame.
  std::string bytes_of(const std::string& frame) {
    Pair pair = connect();
    std::unique_ptr<Link> link;
    in_loop([&] {
      link = make_link(std::move(pair.ours));
      EXPECT_TRUE(link->start([](auto, auto) {}, [](auto, const auto&) {}).ok());
      link->send(frame);
    });
    std::string bytes;
    while (bytes.size() < frame.size() + 16) {
      std::array<std::byte, 1000> part;
      const auto got = pair.theirs->receive(part);
      bytes.append(reinterpret_cast<const char*>(part.data()), got.ok() ? *got : 0);
    }
    in_loop([&] { link.reset(); });
    return bytes;
  }

  // What a link that hears these bytes delivers, or why it ends.
  std::string hear(const std::string& bytes) {
    Pair pair = connect();
    std::promise<std::string> heard;
    std::unique_ptr<Link> link;
    in_loop([&] {
      link = make_link(std::move(pair.ours));
      EXPECT_TRUE(link->start([&](std::string_view frame, auto) { heard.set_value("frame " + std::string(frame)); },
                              [&](Link::End end, const Status& why) {
                                EXPECT_EQ(end, Link::End::kMisbehaved);
                                heard.set_value(why.message());
                              })
                      .ok());
    });
    std::span<const std::byte> left = std::as_bytes(std::span(bytes));
    while (!left.empty()) left = left.subspan(*pair.theirs->send(std::span(&left, 1)));
    std::future<std::string> answer = heard.get_future();
    const bool came = answer.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    in_loop([&] { link.reset(); });
    return came ? answer.get() : "nothing";
  }

  System& system_ = real_system();
  Reactor reactor_;
  Heart heart_;
};

// Both ends of a link, of which one hears frames.
class MovingLinks {
 public:
  MovingLinks(std::unique_ptr<Link> from, std::unique_ptr<Link> to) : from_(std::move(from)), to_(std::move(to)) {
    EXPECT_TRUE(from_->start([](auto, auto) {}, [this](auto, const Status& why) { note(why.message()); }).ok());
    EXPECT_TRUE(to_->start([this](std::string_view frame, auto) { note(frame); }, [](auto, const auto&) {}).ok());
  }
  void outlive_connections() {
    from_->outlive_connections([] {});
    to_->outlive_connections([] {});
  }
  void send(const std::string& frame) { from_->send(frame); }
  void move(std::unique_ptr<Socket> from, std::unique_ptr<Socket> to) {
    EXPECT_TRUE(from_->move_to(std::move(from)).ok());
    EXPECT_TRUE(to_->move_to(std::move(to)).ok());
  }
  // Once it ends with this.
  std::string await(const std::string& last) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return heard_.ends_with(last); });
    return heard_;
  }

 private:
  void note(std::string_view text) {
    const std::lock_guard lock(mutex_);
    heard_ += text;
    news_.notify_all();
  }

  std::unique_ptr<Link> from_, to_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::string heard_;
};

// What was sent has not been read when the ends move: they do so within one turn of the loop that would read it.
TEST_F(LinkTest, GoesOnOverAnotherConnection) {
  Pair first = connect();
  std::optional<MovingLinks> links;
  in_loop([&] {
    links.emplace(make_link(std::move(first.ours)), make_link(std::move(first.theirs)));
    links->outlive_connections();
  });
  std::string expected;
  for (char name = 'a'; name < 'h'; ++name) {
    const std::string more = std::string(300, name) + '.';
    Pair next = connect();
    in_loop([&] {
      links->send("<" + more);
      links->send(more);
      links->move(std::move(next.ours), std::move(next.theirs));
      links->send(more + ">");
    });
    expected += "<" + more + more + more + ">";
    EXPECT_EQ(links->await(more + ">"), expected);
  }
  in_loop([&] { links.reset(); });
}

TEST_F(LinkTest, EndsWhereWhatWasLostIsNotKept) {
  Pair first = connect();
  Pair next = connect();
  std::optional<MovingLinks> links;
  in_loop([&] {
    links.emplace(make_link(std::move(first.ours)), make_link(std::move(first.theirs)));
    links->send("lost");
    links->move(std::move(next.ours), std::move(next.theirs));
  });
  EXPECT_THAT(links->await("any more"), HasSubstr("lacks what is not kept any more"));
  in_loop([&] { links.reset(); });
}

TEST_F(LinkTest, DeliversWhatArrivesWhole) { EXPECT_EQ(hear(bytes_of("hello")), "frame hello"); }

// What announces a frame, unharmed.
std::string header(uint32_t length, uint32_t handles) {
  const auto sum = [](const std::string& bytes) { return crc32c(std::as_bytes(std::span(bytes))); };
  Writer fields;
  for (const uint32_t field : {length, handles, sum({})}) fields.u32(field);
  const std::string bytes = fields.take();
  Writer own;
  own.u32(sum(bytes));
  return bytes + own.take();
}

// Before any of it has come.
TEST_F(LinkTest, EndsWithAFrameThatIsTooLong) {
  EXPECT_THAT(hear(header(1001, 0)), HasSubstr("a frame of 1001 bytes and 0 handles; the limits are 1000 and 16"));
  EXPECT_THAT(hear(header(0, 17)), HasSubstr("a frame of 0 bytes and 17 handles; the limits are 1000 and 16"));
}

// It beats, and so it lives.
TEST_F(LinkTest, EndsWhereThePeerDoesNotRead) {
  Pair pair = connect();
  std::unique_ptr<Link> link;
  std::string why;
  in_loop([&] {
    link = make_link(std::move(pair.ours));
    EXPECT_TRUE(link->start([](auto, auto) {}, [&](auto, const Status& status) { why = status.message(); }).ok());
  });
  const std::string beat = header(0, 0);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(beat));
  bool has_ended = false;
  constexpr int kMost = 1000;  // times 100 kB: far more than a system takes
  for (int i = 0; i < kMost && !has_ended; ++i) {
    in_loop([&] {
      for (int frame = 0; frame < 100; ++frame) link->send(std::string(1000, 'x'));
      has_ended = !why.empty();
    });
    (void)pair.theirs->send(std::span(&bytes, 1));
  }
  EXPECT_THAT(why, HasSubstr("does not read"));
  in_loop([&] { link.reset(); });
}

TEST_F(LinkTest, EndsWithAnyBitFlipped) {
  const std::string whole = bytes_of("hello");
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_THAT(hear(damaged), HasSubstr("damaged on its way")) << "bit " << bit;
  }
}

}  // namespace
}  // namespace hocket
