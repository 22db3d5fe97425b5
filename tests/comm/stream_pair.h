// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "comm/lasting_stream.h"
#include "tests/transports/pipe_pair.h"

namespace hocket::test {

// Both ends of a stream, with what the mesh does between them.
class StreamPair {
 public:
  // `budget`: of what the dialling side keeps.
  StreamPair(std::shared_ptr<Poller> sender, std::shared_ptr<Poller> receiver,
             std::shared_ptr<Budget> budget = nullptr) {
    SocketPair first = connect_pair(real_system(), "127.0.0.1:0");
    dialling_ = std::make_shared<LastingStream>(
        real_system().threads, std::move(sender), std::move(first.connected), [this] { news_ = true; },
        std::move(budget));
    accepting_ = std::make_shared<LastingStream>(real_system().threads, std::move(receiver), std::move(first.accepted),
                                                 [this] { news_ = true; });
  }
  std::unique_ptr<Socket> dialling() { return dialling_->socket(); }
  std::unique_ptr<Socket> accepting() { return accepting_->socket(); }
  // Nothing is sent any more, either way.
  void cut() {
    dialling_->drop("a test");
    accepting_->drop("a test");
  }
  // Either side has heard that the other has left.
  void end() {
    dialling_->end();
    accepting_->end();
  }

  // What there is to do for those who know both ends.
  void tend() {
    if (!news_) return;
    news_ = false;
    if (!dialling_->loss().empty() || !accepting_->loss().empty()) {
      SocketPair next = connect_pair(real_system(), "127.0.0.1:0");
      dialling_->drop("the other end lost it");
      dialling_->adopt(std::move(next.connected), ++connection_);
      accepting_->adopt(std::move(next.accepted), connection_);
    }
    EXPECT_TRUE(accepting_->hear(dialling_->report()) && dialling_->hear(accepting_->report()));
    // What waits is sent by the ends, which send again and again.
    (void)dialling_->resend();
    (void)accepting_->resend();
  }

 private:
  std::shared_ptr<LastingStream> dialling_, accepting_;
  bool news_ = false;
  uint16_t connection_ = 0;
};

}  // namespace hocket::test
