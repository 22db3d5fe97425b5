// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/local_ranks.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hocket::test {
namespace {

// A sender that knows what it can lend, as one whose card reads registered memory.
class KnowingSender final : public Sender {
 public:
  explicit KnowingSender(std::unique_ptr<Sender> sender) : sender_(std::move(sender)) { learn(); }

  std::byte* reserve(size_t bytes) override {
    std::byte* memory = sender_->reserve(bytes);
    learn();
    return memory;
  }
  void commit(size_t bytes, Envelope envelope) override { sender_->commit(bytes, envelope); }
  Ticket send_stable(std::span<const std::byte> bytes, Envelope envelope) override {
    return sender_->send_stable(bytes, envelope);
  }
  Ticket lend(std::span<const std::byte> bytes, Envelope envelope) override { return sender_->lend(bytes, envelope); }
  bool can_lend(std::span<const std::byte> bytes) override { return bytes.size() >= LocalRanks::kLentFrom; }
  bool done(Ticket ticket) override { return sender_->done(ticket); }
  void withdraw() override { sender_->withdraw(); }
  Status progress() override { return sender_->progress(); }
  bool flushed() override { return sender_->flushed(); }

 private:
  void learn() {
    streaming_from = sender_->streaming_from;
    reader_distance = sender_->reader_distance;
    stable_from = sender_->stable_from;
    lent_from = sender_->lent_from;
  }

  const std::unique_ptr<Sender> sender_;
};

}  // namespace

LocalRanks::LocalRanks(Rank ranks, size_t max_message)
    : max_message_(max_message), poller_(std::move(*real_system().network.make_poller())) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    views_.push_back(std::make_unique<View>(*this, rank));
    executions_.push_back(std::make_unique<Execution>(*views_.back()));
  }
}

SendEnd& LocalRanks::View::to(Rank peer, int lane) {
  SendEnd& end = senders_[{peer, lane}];
  end.pipe = all_.pair(self_, peer, lane).sender.get();
  return end;
}

ReceiveEnd& LocalRanks::View::from(Rank peer, int lane) {
  ReceiveEnd& end = receivers_[{peer, lane}];
  end.pipe = all_.pair(peer, self_, lane).receiver.get();
  return end;
}

LocalRanks::Pair& LocalRanks::pair(Rank from, Rank to, int lane) {
  Pair& found = pairs_[{from, to, lane}];
  if (found.sender == nullptr) {
    const Transport& local = *transports().front();
    const auto context = [&](Rank self, Rank peer) {
      std::shared_ptr<Ties>& ties = ties_[{self, peer, lane}];
      if (ties == nullptr) ties = local.make_ties();
      return PipeContext{.system = real_system(),
                         .poller = *poller_,
                         .wake_peer = [] {},
                         .max_message = max_message_,
                         .peer = "a rank of this test",
                         .ties = ties};
    };
    Offer offer;
    found.sender = std::move(*local.open(context(from, to), offer));
    found.receiver = std::move(*local.accept(context(to, from), std::move(offer)));
    found.sender->lent_from = found.receiver->into_from = kLentFrom;
    found.sender = std::make_unique<KnowingSender>(std::move(found.sender));
  }
  return found;
}

bool LocalRanks::run(const std::vector<Call>& calls, uint32_t seed, bool with_fast_path) {
  std::mt19937 random(seed);
  std::vector<size_t> running(calls.size());
  std::iota(running.begin(), running.end(), size_t{0});
  std::shuffle(running.begin(), running.end(), random);
  for (size_t& rank : running) {
    const Call& call = calls[rank];
    FastPath fast_path = with_fast_path ? FastPath(call, *views_[rank]) : FastPath();
    if (fast_path.run(call.send.base, call.recv.base, call.operation, nullptr)) {
      rank = SIZE_MAX;
    } else {
      executions_[rank]->start(call, fast_path.reached());
    }
  }
  std::erase(running, SIZE_MAX);
  while (!running.empty()) {
    bool moved = false;
    std::shuffle(running.begin(), running.end(), random);
    for (size_t& rank : running) {
      const Execution::Progress progress = executions_[rank]->advance();
      if (progress == Execution::Progress::kFailed) return false;
      moved |= progress != Execution::Progress::kIdle;
      if (progress == Execution::Progress::kDone) rank = SIZE_MAX;
    }
    std::erase(running, SIZE_MAX);
    if (!moved) return false;
  }
  return true;
}

}  // namespace hocket::test
