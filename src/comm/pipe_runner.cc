// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/pipe_runner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "comm/device_kernels.h"
#include "comm/staging.h"
#include "comm/stream_slices.h"
#include "cuda/kernels.h"
#include "cuda/pool.h"
#include "cuda/registered.h"
#include "execute/plain.h"
#include "kernels/cuda/image.h"
#include "transports/pipe_memory.h"

namespace hocket {
namespace {

constexpr size_t kAlignment = 64;
// Of pipes' memory, in all: what is registered is pinned.
constexpr size_t kMostRegistered = size_t{4} << 30;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool is_multiple(const void* address, size_t bytes) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; }

// ---- Memory of pipes that kernels reach

std::atomic<size_t> registered_bytes = 0;

class RegisteredRange final : public PipeMemory::Made {
 public:
  RegisteredRange(cuda::RegisteredMemory memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
    registered_bytes += bytes;
  }
  ~RegisteredRange() override { registered_bytes -= bytes_; }

 private:
  const cuda::RegisteredMemory memory_;
  const size_t bytes_;
};

std::unique_ptr<PipeMemory::Made> register_range(const cuda::Driver& driver, PipeMemory::Bytes range) {
  const bool is_too_much = registered_bytes + range.size() > kMostRegistered;
  Result<cuda::RegisteredMemory> memory =
      is_too_much ? Status(Code::kSystem, "pipes have 4 GiB registered") : cuda::RegisteredMemory::make(driver, range);
  if (memory.ok()) return std::make_unique<RegisteredRange>(std::move(*memory), range.size());
  log_warn("{} bytes of a pipe are not registered with the device, so messages there pass through pinned memory: {}",
           range.size(), memory.status().message());
  return nullptr;
}

// ---- Kernels, by what they calculate in; null ones are not there

struct CombineKernels {
  std::array<cuda::Kernel, kDataTypes> of{};
  unsigned multiprocessors = 0;
};

// Of a call: that of its type, and those that copy. No multiprocessors: they cannot do it.
CombineKernels kernels_of(const cuda::Stream& stream, DataType type) {
  CombineKernels kernels;
  const Result<int> reaches = cuda::device_attribute(stream.driver(), stream.device(), cuda::kHostAddresses);
  if (!reaches.ok() || *reaches == 0) return kernels;
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
  PipeRunner(const OwnStreams& streams, Engine& engine, const CombineKernels& kernels)
      : streams_(streams), kernels_(kernels), slices_(engine) {}
  ~PipeRunner() override { stop(); }
  PipeRunner(const PipeRunner&) = delete;
  PipeRunner& operator=(const PipeRunner&) = delete;

  // On the device: nobody else needs it.
  Result<std::byte*> scratch(size_t bytes) override {
    const cuda::Entered entered(driver(), context());
    return scratch_.at_least(cuda::device_pool(driver(), context()), bytes);
  }

  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override {
    const auto index = static_cast<size_t>(lane);
    lanes_.resize(std::max(lanes_.size(), index + 1));
    if (!slices_.is_under_way(index)) HOCKET_TRY(begin(index, slice));
    const Result<bool> ended = slices_.has_ended(index);
    HOCKET_TRY(ended.status());
    if (!*ended) return std::optional<size_t>();
    take_back(slice, lanes_[index]);
    return std::optional(slice.count * element_bytes(slice.type));
  }

  void stop() override { slices_.wait(); }
  void set_waiting(bool waiting) override {
    if (waiting) slices_.wake_engine();
  }

 private:
  struct Lane {
    cuda::GrowingBlock room;  // pinned, for messages that no kernel reaches
    // Where kernels find the messages of the slice at hand.
    std::vector<std::span<const std::byte>> messages;
    std::vector<std::span<std::byte>> reserved;
    PlainBatches batches;
  };

  const cuda::Driver& driver() const { return streams_.front().driver(); }
  cuda::Context context() const { return streams_.front().context(); }

  Status begin(size_t index, const CodedSlice& slice) {
    const cuda::Entered entered(driver(), context());
    Lane& lane = lanes_[index];
    HOCKET_TRY(find_messages(slice, lane));
    CodedSlice reached = slice;
    reached.messages = lane.messages;
    reached.reserved = lane.reserved;
    const cuda::Stream& stream = streams_[index % kOwnStreams];
    const Status launched = launch(reached, lane.batches, stream);
    // What was put on the stream before something failed uses memory, too.
    const Status begun = slices_.begin(index, stream);
    return launched.ok() ? begun : launched;
  }

  Status launch(const CodedSlice& slice, PlainBatches& batches, const cuda::Stream& stream) const {
    batches.start(slice);
    const cuda::Kernel kernel = kernels_.of[static_cast<size_t>(batches.type())];
    for (device::Batch batch; batches.next(batch);) {
      HOCKET_TRY(
          stream.launch(kernel, grid_of(batch, element_bytes(batches.type()), kernels_.multiprocessors), &batch));
    }
    return {};
  }

  // Kernels combine only what is aligned to elements.
  static bool is_reached(std::span<const std::byte> message, const CodedSlice& slice) {
    const bool is_known = PipeMemory::find(message) != nullptr;
    return is_known && (PlainBatches::copies(slice) || is_multiple(message.data(), element_bytes(slice.type)));
  }

  // Where the pipes have them, or in the room, to where what has come is copied.
  Status find_messages(const CodedSlice& slice, Lane& lane) const {
    size_t out_of_reach = 0;
    const auto count = [&](const auto& message) {
      if (!is_reached(message, slice)) out_of_reach += aligned(message.size());
    };
    std::ranges::for_each(slice.messages, count);
    std::ranges::for_each(slice.reserved, count);
    lane.messages.assign(slice.messages.begin(), slice.messages.end());
    lane.reserved.assign(slice.reserved.begin(), slice.reserved.end());
    if (out_of_reach == 0) return {};
    Result<std::byte*> next = lane.room.at_least(cuda::pinned_pool(driver()), out_of_reach);
    HOCKET_TRY(next.status());
    for (std::span<const std::byte>& message : lane.messages) {
      if (is_reached(message, slice)) continue;
      std::memcpy(*next, message.data(), message.size());
      message = {*next, message.size()};
      *next += aligned(message.size());
    }
    for (std::span<std::byte>& message : lane.reserved) {
      if (is_reached(message, slice)) continue;
      message = {*next, message.size()};
      *next += aligned(message.size());
    }
    return {};
  }

  // The messages that were written to the room go to the pipes.
  static void take_back(const CodedSlice& slice, const Lane& lane) {
    for (size_t i = 0; i < slice.reserved.size(); ++i) {
      const std::span<std::byte> to = slice.reserved[i];
      if (lane.reserved[i].data() != to.data()) std::memcpy(to.data(), lane.reserved[i].data(), to.size());
    }
  }

  const OwnStreams& streams_;
  const CombineKernels kernels_;
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

Result<std::shared_ptr<SliceRunner>> pipe_runner(const cuda::Stream& caller, Engine& engine, const Request& request,
                                                 Rank rank, Rank ranks) {
  std::shared_ptr<SliceRunner> runner;
  const bool is_wished = settings().ok() && settings()->device_pipes;
  if (!is_wished || !is_plain(request) || !kernels_reach(caller, request, rank, ranks)) return runner;
  const CombineKernels kernels = kernels_of(caller, request.facts.type);
  if (kernels.multiprocessors == 0) return runner;
  HOCKET_TRY(load_combine_kernels(caller.driver()));  // if the communicator was created in another context
  const Result<const OwnStreams*> streams = own_streams(caller);
  HOCKET_TRY(streams.status());
  PipeMemory::make_wanted([&](PipeMemory::Bytes range) { return register_range(caller.driver(), range); });
  runner = std::make_shared<PipeRunner>(**streams, engine, kernels);
  return runner;
}

}  // namespace hocket
