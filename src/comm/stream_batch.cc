// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/stream_batch.h"

#include <fmt/format.h>

#include <list>
#include <mutex>
#include <new>
#include <utility>

#include "base/caught.h"
#include "comm/communicator.h"
#include "comm/device_runner.h"
#include "comm/held_streams.h"
#include "comm/peer_call.h"
#include "comm/pipe_runner.h"
#include "comm/window_kernels.h"

namespace hocket {

// What the engine drives: work of a batch, once the stream has come to it.
class StreamWork final : public Work {
 public:
  StreamWork(std::shared_ptr<StreamBatch> batch, Work& inner)
      : Work(inner.communicator()), batch_(std::move(batch)), inner_(inner) {}

  void issue(bool /*blocks*/) override { inner_.issue(); }

  bool advance() override {
    if (ended_ || (!batch_->arrived_ && !communicator_.mesh().failed())) return false;
    const bool moved = inner_.advance();
    note_end();
    return moved;
  }

  bool ended() const override { return ended_; }

  bool examine(Time now) override {
    if (!ended_ && batch_->arrived_) {
      inner_.examine(now);
      note_end();
    }
    const bool on_device = !batch_->arrived_ || !batch_->kernels_.empty() || !batch_->low_latency_.empty();
    if (!ended_ && on_device && now - examined_ > kPatience) {
      examined_ = now;
      const Status state = batch_->device_state();
      if (!state.ok()) communicator_.mesh().fail(told(state));
    }
    return ended_;
  }

  void set_waiting(bool waiting) override {
    if (!ended_) inner_.set_waiting(waiting);
  }
  Duration next_nap() override { return ended_ ? Duration::max() : inner_.next_nap(); }

 private:
  // A device that has failed never comes to its work.
  static constexpr Duration kPatience = std::chrono::milliseconds(100);

  Status told(const Status& state) const {
    return Status(state.code(), fmt::format("{}rank {}: the device failed before it had done a call: {}",
                                            communicator_.prefix(), communicator_.rank(), state.message()));
  }

  void note_end() {
    if (!inner_.ended()) return;
    status_ = inner_.status();
    ended_ = true;
    batch_->one_ended();
  }

  const std::shared_ptr<StreamBatch> batch_;
  Work& inner_;
  Time examined_{};
  bool ended_ = false;
};

namespace {

// Batches that streams have still to pass.
struct Passing {
  std::mutex mutex;
  std::vector<std::pair<cuda::Event, std::shared_ptr<StreamBatch>>> batches;  // guarded by mutex
  std::list<std::shared_ptr<StreamBatch>> for_ever;                           // nobody can say when; guarded by mutex
};

// Never destroyed: streams may still run when the process ends.
Passing& passing() {
  static auto& list = *new Passing;
  return list;
}

// Batches of which no graph is left. The driver says so where it must not be called, so they are let go of later; its
// locks may be held then, so this mutex is held around none of its functions.
struct Dropped {
  std::mutex mutex;
  std::list<std::shared_ptr<StreamBatch>> batches;  // guarded by mutex
};

Dropped& dropped() {
  static auto& list = *new Dropped;
  return list;
}

std::list<std::shared_ptr<StreamBatch>> take_dropped() {
  const std::lock_guard lock(dropped().mutex);
  return std::exchange(dropped().batches, {});
}

// Lets go of batches that their streams have passed, or will never come to.
void forget_passed(const cuda::Driver& driver) {
  const std::list<std::shared_ptr<StreamBatch>> without_graph = take_dropped();
  std::vector<std::shared_ptr<StreamBatch>> passed;
  const std::lock_guard lock(passing().mutex);
  std::erase_if(passing().batches, [&](auto& one) {
    if (driver.event_query(one.first) == cuda::kNotReady) return false;
    passed.push_back(std::move(one.second));
    return true;
  });
}

}  // namespace

Result<std::shared_ptr<StreamBatch>> StreamBatch::make(const cuda::Stream& stream, Engine& engine) {
  const cuda::Entered entered(stream.driver(), stream.context());
  forget_passed(stream.driver());
  Result<cuda::MemoryBlock> block = cuda::pinned_pool(stream.driver()).take(sizeof(uint32_t));
  if (!block.ok()) return block.status();
  return std::shared_ptr<StreamBatch>(new StreamBatch(stream, engine, std::move(*block)));
}

StreamBatch::StreamBatch(const cuda::Stream& stream, Engine& engine, cuda::MemoryBlock block)
    : stream_(stream), engine_(engine), block_(std::move(block)), word_(*new(block_.memory()) std::atomic<uint32_t>) {
  static_assert(sizeof word_ == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
}

StreamBatch::~StreamBatch() { end_holding(); }

Result<std::unique_ptr<Work>> StreamBatch::stage(Request& request, Communicator& communicator) {
  const cuda::Entered entered(stream_.driver(), stream_.context());
  std::unique_ptr<Work> work;
  HOCKET_TRY(find_kernels(request, communicator));
  if (request.runner != nullptr) {
    request.lendable = false;
    return work;
  }
  if (tells_places(communicator.mesh(), request)) {
    Result<PeerCall::Made> made = PeerCall::make(stream_, engine_, communicator, request);
    HOCKET_TRY(made.status());
    if (made->call != nullptr) {
      kernels_.push_back(std::move(made->kernels));
      work = std::move(made->call);
      return work;
    }
  }
  Result<std::shared_ptr<SliceRunner>> pipes = pipe_runner(stream_, request, communicator.rank(), communicator.ranks());
  HOCKET_TRY(pipes.status());
  if (*pipes != nullptr) {
    request.runner = std::move(*pipes);
    return work;
  }
  Result<Staging> staging = Staging::make(stream_, request, communicator.rank(), communicator.ranks());
  HOCKET_TRY(staging.status());
  stagings_.push_back(std::move(*staging));
  return work;
}

// What does the work where the buffers are, if kernels can.
Status StreamBatch::find_kernels(Request& request, Communicator& communicator) {
  const Rank rank = communicator.rank();
  const Rank ranks = communicator.ranks();
  Result<std::shared_ptr<SliceRunner>> runner = device_runner(stream_, request, rank, ranks);
  HOCKET_TRY(runner.status());
  request.runner = std::move(*runner);
  if (request.runner != nullptr) return {};
  HOCKET_TRY(communicator.find_windows(request));
  if (!request.facts.on_device) return {};
  HOCKET_TRY(check_buffers(stream_, request, rank, ranks));
  request.facts.low_latency = fits_low_latency(communicator.mesh().windows(), request);
  if (request.facts.low_latency) {
    auto call = LowLatencyCall::make(stream_, communicator, request);
    HOCKET_TRY(call.status());
    low_latency_.push_back(*call);
    request.runner = std::move(*call);
    return {};
  }
  auto kernels = window_kernels(stream_, engine_, communicator, request);
  HOCKET_TRY(kernels.status());
  kernels_.push_back(*kernels);
  request.runner = std::move(*kernels);
  return {};
}

void StreamBatch::add(const std::shared_ptr<Communicator>& communicator, std::unique_ptr<Work> work) {
  if (is_captured()) communicator->share_turns();
  members_.push_back({communicator, std::move(work), nullptr});
}

Status StreamBatch::enqueue() {
  std::list<std::shared_ptr<StreamBatch>> kept = {shared_from_this()};  // memory for it, too, is there before
  running_ = members_.size();
  if (!is_captured()) {
    submission_.emplace(submission());
    HeldStreams::begin();
    is_held_ = true;
  }
  const cuda::Entered entered(stream_.driver(), stream_.context());
  Status status = tried([&]() -> Status {
    HOCKET_TRY(enqueue_start());
    return enqueue_end();
  });
  if (status.ok()) return status;
  // The stream may copy to our memory, or wait for the word.
  const std::lock_guard lock(passing().mutex);
  passing().for_ever.splice(passing().for_ever.end(), kept);
  cancel();
  return status;
}

void StreamBatch::cancel() {
  submission_.reset();
  stop();
  for (const auto& call : low_latency_) call->cancel();
}

void StreamBatch::stop() noexcept {
  for (const auto& kernels : kernels_) kernels->stop();
  for (const auto& call : low_latency_) call->stop();
  end_holding();
  word_.store(1);
}

// What the work reads, and word of it to the engine. Of calls that the stream does not wait for, the engine hears when
// they are issued; in a graph, each time that it runs, once the work of the run before has ended.
Status StreamBatch::enqueue_start() {
  for (const Staging& staging : stagings_) HOCKET_TRY(staging.copy_in(stream_));
  if (is_captured()) {
    if (!waits()) {
      word_.store(1);
      HOCKET_TRY(stream_.wait_for(word(), 1));
    }
    using Node = std::list<std::shared_ptr<StreamBatch>>;  // of one batch: memory to drop it, too, is there before
    auto node = std::make_unique<Node>(1, shared_from_this());
    const auto drop = [](void* batch) {
      const std::unique_ptr<Node> owned(static_cast<Node*>(batch));
      const std::lock_guard lock(dropped().mutex);
      dropped().batches.splice(dropped().batches.end(), *owned);
    };
    HOCKET_TRY(stream_.tie_to_graph(node.get(), drop));
    static_cast<void>(node.release());
    return stream_.call([](void* batch) { static_cast<StreamBatch*>(batch)->run_again(); }, this);
  }
  if (!waits()) return {};
  using Held = std::shared_ptr<StreamBatch>;
  auto held = std::make_unique<Held>(shared_from_this());
  const auto arrive = [](void* batch) {
    const std::unique_ptr<Held> owned(static_cast<Held*>(batch));
    (*owned)->arrive();
  };
  HOCKET_TRY(stream_.call(arrive, held.get()));
  static_cast<void>(held.release());
  return {};
}

// The stream waits, and takes what the work has written.
Status StreamBatch::enqueue_end() {
  for (const auto& call : low_latency_) HOCKET_TRY(call->enqueue());
  for (const auto& kernels : kernels_) HOCKET_TRY(kernels->enqueue());
  if (waits()) HOCKET_TRY(stream_.wait_for(word(), 1));
  for (const Staging& staging : stagings_) HOCKET_TRY(staging.copy_out(stream_));
  for (const auto& kernels : kernels_) HOCKET_TRY(kernels->enqueue_last());
  if (is_captured()) return {};
  Result<cuda::KeptEvent> event = stream_.mark();
  HOCKET_TRY(event.status());
  passed_ = std::move(*event);
  const std::lock_guard lock(passing().mutex);
  passing().batches.emplace_back(passed_.get(), shared_from_this());
  return {};
}

Submission StreamBatch::submission() {
  Batch works;
  for (const Member& member : members_) works.push_back(std::make_unique<StreamWork>(shared_from_this(), *member.work));
  return {std::make_shared<Queue>(), std::move(works)};
}

void StreamBatch::submit() noexcept {
  if (!waits()) arrived_ = true;
  if (submission_) engine_.submit(*std::exchange(submission_, {}));
}

void StreamBatch::arrive() noexcept {
  arrived_.store(true, std::memory_order_release);
  engine_.wake();
}

// The graph has come to the batch once more, and has passed it before if this is not the first time.
void StreamBatch::run_again() noexcept {
  word_.store(0);
  for (const auto& kernels : kernels_) kernels->begin_again();
  for (const auto& call : low_latency_) call->begin_again();
  running_ = members_.size();
  HeldStreams::begin_at_once();
  is_held_ = true;
  arrived_ = true;
  const Status status = tried([&] { return issue_again(); });
  if (status.ok()) return;
  for (Member& member : members_) {
    if (member.held != nullptr) member.held->mesh().fail_without_memory();
    member.held.reset();
  }
  stop();
}

Status StreamBatch::issue_again() {
  for (Member& member : members_) {
    member.held = member.communicator.lock();
    if (member.held == nullptr) return Status(Code::kInvalidUsage, "a communicator was destroyed before its graph");
  }
  Submission works = submission();
  for (const auto& work : works.batch.front()) work->issue();
  engine_.submit(std::move(works));
  return {};
}

void StreamBatch::one_ended() {
  if (running_.fetch_sub(1) > 1) return;
  for (Member& member : members_) member.held.reset();
  end_holding();  // the stream waits no longer for anybody
  word_.store(1, std::memory_order_release);
}

void StreamBatch::end_holding() noexcept {
  if (is_held_.exchange(false)) HeldStreams::end();
}

Status StreamBatch::device_state() const {
  if (passed_.get() == nullptr) return {};
  const cuda::Entered entered(stream_.driver(), stream_.context());
  const cuda::DriverResult result = stream_.driver().event_query(passed_.get());
  return result == cuda::kNotReady ? Status() : cuda::checked(stream_.driver(), result, "cuEventQuery");
}

}  // namespace hocket
