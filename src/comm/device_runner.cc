// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/device_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "comm/device_kernels.h"
#include "comm/extents.h"
#include "cuda/memory.h"
#include "cuda/pinned.h"
#include "kernels/cuda/image.h"

namespace hocket {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The kernels of a call; null ones are not there.
struct CallKernels {
  cuda::Kernel encode = nullptr;
  cuda::Kernel decode = nullptr;
  cuda::Kernel combine = nullptr;
  unsigned most_blocks = 0;
  bool are_there() const { return encode != nullptr && decode != nullptr && combine != nullptr && most_blocks > 0; }
};

CallKernels kernels_of(const cuda::Stream& stream, const Request& request) {
  const cuda::Driver& driver = stream.driver();
  const DataType type = request.facts.type;
  const device::CodingKernels names = device::coding_kernels(request.codec->form()->kind, type);
  return {.encode = find_kernel(driver, names.encode),
          .decode = find_kernel(driver, names.decode),
          .combine = find_kernel(driver, device::combine_kernel(type)),
          .most_blocks = most_blocks(driver, stream.device())};
}

// Puts what a slice needs done on a stream.
class StreamHands final : public Hands {
 public:
  StreamHands(const cuda::Stream& stream, const CallKernels& kernels, const CodedSlice& slice)
      : stream_(stream), kernels_(kernels), slice_(slice) {}

  Status copy(std::byte* to, const std::byte* from, size_t bytes) override { return stream_.copy(to, from, bytes); }

  Status combine(std::span<const std::byte* const> sources, uint64_t first, bool last, std::byte* result) override {
    device::Batch batch;
    batch.op = slice_.op;
    batch.scaled = first != 0;
    if (batch.scaled) std::memcpy(batch.scale, slice_.scale, element_bytes(slice_.type));
    batch.divide_last = last ? slice_.divide : 0;
    batch.tasks = 1;
    batch.task[0] = {.count = slice_.count,
                     .first_mask = first,
                     .sources = static_cast<uint16_t>(sources.size()),
                     .destinations = 1};
    for (const std::byte* source : sources) batch.address[batch.addresses++] = const_cast<std::byte*>(source);
    batch.address[batch.addresses++] = result;
    return stream_.launch(kernels_.combine, grid_of(batch, element_bytes(slice_.type), kernels_.most_blocks), &batch);
  }

  Result<size_t> encode(const std::byte* values, std::span<std::byte> message) override {
    const size_t plain_bytes = slice_.count * element_bytes(slice_.type);
    if (slice_.codec == nullptr) {
      HOCKET_TRY(copy(message.data(), values, plain_bytes));
      return plain_bytes;
    }
    const device::CodingWork work = coding(const_cast<std::byte*>(values), message.data());
    HOCKET_TRY(stream_.launch(kernels_.encode, grid_of(work, kernels_.most_blocks), &work));
    return slice_.codec->max_encoded_bytes(slice_.count, slice_.type);  // of a codec with a form all are as long
  }

  Status decode(std::span<const std::byte> message, bool reduces, std::byte* values) override {
    if (slice_.codec == nullptr) {
      const std::array<const std::byte*, 2> both = {values, message.data()};
      return reduces ? combine(both, 0, false, values) : copy(values, message.data(), message.size());
    }
    const size_t expected = slice_.codec->max_encoded_bytes(slice_.count, slice_.type);
    if (message.size() != expected) {
      return Status(Code::kInternal, fmt::format("codec {}: a message of {} bytes for {} elements: expected {}",
                                                 slice_.codec->describe(slice_.type).specification, message.size(),
                                                 slice_.count, expected));
    }
    device::CodingWork work = coding(values, const_cast<std::byte*>(message.data()));
    work.adds = reduces;
    return stream_.launch(kernels_.decode, grid_of(work, kernels_.most_blocks), &work);
  }

 private:
  device::CodingWork coding(std::byte* values, std::byte* message) const {
    return {.form = *slice_.codec->form(),
            .draw = slice_.draw,
            .count = slice_.count,
            .values = values,
            .message = message};
  }

  const cuda::Stream& stream_;
  const CallKernels& kernels_;
  const CodedSlice& slice_;
};

// Pinned memory that grows.
class Room {
 public:
  Result<std::byte*> at_least(const cuda::Driver& driver, size_t bytes) {
    if (bytes > size_) {
      Result<cuda::PinnedBlock> block = cuda::pinned_pool(driver).take(bytes);
      HOCKET_TRY(block.status());
      block_ = std::move(*block);
      size_ = bytes;
    }
    return block_.memory();
  }

 private:
  cuda::PinnedBlock block_;
  size_t size_ = 0;
};

class DeviceRunner final : public SliceRunner {
 public:
  DeviceRunner(const cuda::Stream& stream, Engine& engine, const CallKernels& kernels)
      : stream_(stream), engine_(engine), kernels_(kernels) {}
  ~DeviceRunner() override { stop(); }
  DeviceRunner(const DeviceRunner&) = delete;
  DeviceRunner& operator=(const DeviceRunner&) = delete;

  Result<std::byte*> scratch(size_t bytes) override {
    const cuda::Entered entered(stream_.driver(), stream_.context());
    return scratch_.at_least(stream_.driver(), bytes);
  }

  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override {
    const cuda::Entered entered(stream_.driver(), stream_.context());
    lanes_.resize(std::max(lanes_.size(), static_cast<size_t>(lane) + 1));
    Lane& its = lanes_[static_cast<size_t>(lane)];
    if (its.done == nullptr) HOCKET_TRY(begin(slice, its));
    const cuda::DriverResult state = stream_.driver().event_query(its.done);
    if (state == cuda::kNotReady) return std::optional<size_t>();
    stream_.driver().event_destroy(std::exchange(its.done, nullptr));
    HOCKET_TRY(checked(stream_.driver(), state, "cuEventQuery"));
    for (const std::span<std::byte>& to : slice.reserved) std::memcpy(to.data(), its.message, its.bytes);
    count_traffic(slice, its.bytes);
    return std::optional(its.bytes);
  }

  // Kernels wait for nobody: this takes no longer than the last of them.
  void stop() override {
    for (Lane& lane : lanes_) {
      if (lane.done == nullptr) continue;
      const cuda::Entered entered(stream_.driver(), stream_.context());
      while (stream_.driver().event_query(lane.done) == cuda::kNotReady) std::this_thread::yield();
      stream_.driver().event_destroy(std::exchange(lane.done, nullptr));
    }
  }

 private:
  struct Lane {
    Room room;
    cuda::Event done = nullptr;  // of the slice at hand; null: there is none
    std::byte* message = nullptr;
    size_t bytes = 0;  // of the message
  };

  // With the messages in pinned memory: those of pipes no kernel reaches.
  Status begin(const CodedSlice& slice, Lane& lane) {
    const size_t values = aligned(slice.count * element_bytes(slice.type));
    const size_t sent = slice.reserved.empty() ? 0 : aligned(slice.reserved[0].size());
    size_t received = 0;
    for (const auto& message : slice.messages) received += aligned(message.size());
    const Result<std::byte*> room = lane.room.at_least(stream_.driver(), 2 * values + sent + received);
    HOCKET_TRY(room.status());
    lane.message = *room + 2 * values;
    std::byte* next = lane.message + sent;
    std::vector<std::span<const std::byte>> messages;
    for (const auto& message : slice.messages) {
      std::memcpy(next, message.data(), message.size());
      messages.emplace_back(next, message.size());
      next += aligned(message.size());
    }
    const std::span<std::byte> own(lane.message, slice.reserved.empty() ? 0 : slice.reserved[0].size());
    CodedSlice pinned = slice;
    pinned.messages = messages;
    pinned.reserved = std::span(&own, slice.reserved.empty() ? 0 : 1);
    StreamHands hands(stream_, kernels_, pinned);
    const Result<size_t> bytes = do_slice(pinned, {*room, *room + values}, hands);
    // What was put on the stream before something failed uses memory, too.
    const Result<cuda::Event> event = stream_.mark();
    if (event.ok()) lane.done = *event;
    HOCKET_TRY(bytes.status());
    HOCKET_TRY(event.status());
    lane.bytes = *bytes;
    return stream_.call([](void* engine) { static_cast<Engine*>(engine)->wake(); }, &engine_);
  }

  const cuda::Stream stream_;
  Engine& engine_;
  const CallKernels kernels_;
  Room scratch_;
  std::vector<Lane> lanes_;
};

// The stream of each context that calls' kernels share.
Result<cuda::Stream> own_stream(const cuda::Stream& caller) {
  static auto& streams = *new std::map<cuda::Context, cuda::Stream>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto known = streams.find(caller.context());
  if (known != streams.end()) return known->second;
  const Result<cuda::Stream> made = cuda::Stream::make(caller.driver());
  if (made.ok()) streams.emplace(caller.context(), *made);
  return made;
}

// Kernels of the stream's device reach the buffers, and at least one is in its memory.
bool is_for_kernels(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks) {
  bool on_device = false;
  const auto is_reached = [&](const void* buffer, Extent extent) {
    if (extent.is_empty()) return true;
    const cuda::Memory memory = cuda::recognise(stream.driver(), buffer);
    on_device |= memory.is_cuda();
    return memory.kind != cuda::MemoryKind::kUnknown &&
           (memory.kind != cuda::MemoryKind::kDevice || memory.device == stream.device());
  };
  return is_reached(request.send, send_extent(request, rank, ranks)) &&
         is_reached(request.recv, recv_extent(request, rank, ranks)) && on_device;
}

}  // namespace

Result<std::shared_ptr<SliceRunner>> device_runner(const cuda::Stream& caller, Engine& engine, const Request& request,
                                                   Rank rank, Rank ranks) {
  const bool wished = settings().ok() && settings()->device_codecs;
  const bool coded = request.codec != nullptr && request.codec->form() != nullptr;
  if (!wished || !coded || request.reduction.scalar_elsewhere != nullptr ||
      !is_for_kernels(caller, request, rank, ranks)) {
    return std::shared_ptr<SliceRunner>();
  }
  const CallKernels kernels = kernels_of(caller, request);
  if (!kernels.are_there()) return std::shared_ptr<SliceRunner>();
  const Result<cuda::Stream> stream = own_stream(caller);
  HOCKET_TRY(stream.status());
  return std::shared_ptr<SliceRunner>(std::make_shared<DeviceRunner>(*stream, engine, kernels));
}

}  // namespace hocket
