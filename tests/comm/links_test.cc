// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a link makes of bytes that were damaged on their way.
#include "comm/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

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
    std::string answer = heard.get_future().get();
    in_loop([&] { link.reset(); });
    return answer;
  }

  System& system_ = real_system();
  Reactor reactor_;
  Heart heart_;
};

TEST_F(LinkTest, DeliversWhatArrivesWhole) { EXPECT_EQ(hear(bytes_of("hello")), "frame hello"); }

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
