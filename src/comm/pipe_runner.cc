// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/pipe_runner.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "comm/device_kernels.h"
#include "comm/held_streams.h"
#include "comm/slice_messages.h"
#include "comm/staging.h"
#include "comm/stream_slices.h"
#include "cuda/cards.h"
#include "cuda/pool.h"
#include "execute/execution.h"
#include "execute/plain.h"
#include "kernels/cuda/image.h"

namespace hocket {
namespace {

// By what they calculate in; null ones are not there.
struct CombineKernels {
  std::array<cuda::Kernel, kDataTypes> of{};
  unsigned multiprocessors = 0;
};

// Of a call: that of its type, and those that copy. No multiprocessors: they cannot do it.
CombineKernels kernels_of(const cuda::Stream& stream, DataType type) {
  CombineKernels kernels;
  kernels.multiprocessors = multiprocessors(stream.driver(), stream.device());
  for (const DataType each : {type, DataType::kUint8, DataType::kUint32, DataType::kUint64}) {
    const cuda::Kernel found = find_kernel(stream.driver(), device::combine_kernel(each));
    if (found == nullptr) kernels.multiprocessors = 0;
    kernels.of[static_cast<size_t>(each)] = found;
  }
  return kernels;
}

class PipeRunner final : public SliceRunner {
 public:
  PipeRunner(const OwnStreams& streams, const CombineKernels& kernels)
      : streams_(streams),
        kernels_(kernels),
        hides_card_writes_(cuda::hides_card_writes(streams.front().driver(), streams.front().device())) {}
  ~PipeRunner() override { stop(); }
  PipeRunner(const PipeRunner&) = delete;
  PipeRunner& operator=(const PipeRunner&) = delete;

  Status prepare(const Call& call) override {
    const cuda::Entered entered(driver(), context());
    const MostMessages most = most_messages(call);
    const size_t lanes = call.plan->lanes.size();
    const size_t room = room_for(most.count, most.bytes);
    lanes_.resize(lanes);
    HOCKET_TRY(slices_.prepare(streams_.front(), lanes));
    for (Lane& lane : lanes_) HOCKET_TRY(lane.messages.prepare(cuda::pinned_pool(driver()), room));
    return scratch(Execution::scratch_bytes(call)).status();
  }

  // On the device: nobody else needs it.
  Result<std::byte*> scratch(size_t bytes) override {
    const cuda::Entered entered(driver(), context());
    return scratch_.at_least(cuda::device_pool(driver(), context()), bytes);
  }

  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override {
    const auto index = static_cast<size_t>(lane);
    if (!slices_.is_under_way(index)) HOCKET_TRY(begin(index, slice));
    if (slices_.is_under_way(index)) {
      const Result<bool> ended = slices_.has_ended(index);
      HOCKET_TRY(ended.status());
      if (!*ended) return std::optional<size_t>();
      take_back(slice, lanes_[index].messages);
    }
    return std::optional(slice.count * element_bytes(slice.type));
  }

  void stop() override { slices_.wait(); }
  Duration next_nap() override { return slices_.next_nap(); }

 private:
  struct Lane {
    SliceMessages messages;  // of the slice at hand
    PlainBatches batches;
  };

  const cuda::Driver& driver() const { return streams_.front().driver(); }
  cuda::Context context() const { return streams_.front().context(); }

  // Nothing is under way afterwards if cards have done it all.
  Status begin(size_t index, const CodedSlice& slice) {
    const cuda::Entered entered(driver(), context());
    Lane& lane = lanes_[index];
    if (slice.landed && hides_card_writes_) HOCKET_TRY(cuda::see_card_writes(driver()));
    // Kernels combine only what is aligned to elements.
    const size_t alignment = PlainBatches::copies(slice) ? 1 : element_bytes(slice.type);
    cuda::MemoryPool& pinned = cuda::pinned_pool(driver());
    CodedSlice reached = slice;
    if (slice.landed) reached.messages = {};  // kernels reach them
    HOCKET_TRY(lane.messages.place(pinned, reached.messages, slice.reserved, alignment).status());
    reached.messages = slice.landed ? slice.messages : lane.messages.messages();
    reached.reserved = lane.messages.reserved();
    lane.batches.start(reached);
    device::Batch batch;
    if (!lane.batches.next(batch)) return {};
    const cuda::Stream& stream = streams_[index % kOwnStreams];
    const Status launched = launch(batch, lane.batches, stream);
    // What was put on the stream before something failed uses memory, too.
    const Status begun = slices_.begin(index, stream);
    return launched.ok() ? begun : launched;
  }

  // The batch, and those that come after it.
  Status launch(device::Batch& batch, PlainBatches& batches, const cuda::Stream& stream) const {
    const cuda::Kernel kernel = kernels_.of[static_cast<size_t>(batches.type())];
    do {
      HOCKET_TRY(stream.launch(kernel, grid_of(batch, batches.type(), kernels_.multiprocessors), &batch));
    } while (batches.next(batch));
    return {};
  }

  // The messages that were written elsewhere go to the pipes.
  static void take_back(const CodedSlice& slice, const SliceMessages& messages) {
    for (size_t i = 0; i < slice.reserved.size(); ++i) {
      const std::span<std::byte> to = slice.reserved[i], from = messages.reserved()[i];
      if (from.data() != to.data()) std::memcpy(to.data(), from.data(), to.size());
    }
  }

  const OwnStreams& streams_;
  const CombineKernels kernels_;
  const bool hides_card_writes_;
  cuda::GrowingBlock scratch_;
  std::vector<Lane> lanes_;
  StreamSlices slices_;
};

bool is_plain(const Request& request) {
  const Reduction& reduction = request.reduction;
  return request.codec == nullptr && reduction.user == nullptr && reduction.scalar_elsewhere == nullptr &&
         !is_exact(request.facts) && !is_reached(request.facts);
}

}  // namespace

Result<std::shared_ptr<SliceRunner>> pipe_runner(const cuda::Stream& caller, const Request& request, Rank rank,
                                                 Rank ranks) {
  std::shared_ptr<SliceRunner> runner;
  const bool can_launch = kernels_use_pipes(caller) && may_launch_beside(caller);
  if (!can_launch || !is_plain(request) || !kernels_reach(caller, request, rank, ranks)) return runner;
  const CombineKernels kernels = kernels_of(caller, request.facts.type);
  if (kernels.multiprocessors == 0) return runner;
  HOCKET_TRY(load_combine_kernels(caller.driver()));  // if the communicator was created in another context
  const Result<const OwnStreams*> streams = own_streams(caller.driver(), caller.context());
  HOCKET_TRY(streams.status());
  register_wanted_pipes(caller.driver());
  runner = std::make_shared<PipeRunner>(**streams, kernels);
  return runner;
}

}  // namespace hocket
