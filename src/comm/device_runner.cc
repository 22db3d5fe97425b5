// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/device_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "comm/device_kernels.h"
#include "comm/extents.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/pool.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/passes.h"

namespace hocket {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The kernels of a call; null ones are not there.
struct CallKernels {
  cuda::Kernel encode = nullptr;
  cuda::Kernel decode = nullptr;
  cuda::Kernel combine = nullptr;
  unsigned multiprocessors = 0;
  bool are_there() const { return encode != nullptr && decode != nullptr && combine != nullptr && multiprocessors > 0; }
};

// Whether a stream can have memory of its device.
bool has_pools(const cuda::Driver& driver, int device) {
  const Result<int> has = cuda::device_attribute(driver, device, cuda::kMemoryPools);
  return has.ok() && *has != 0;
}

CallKernels kernels_of(const cuda::Stream& stream, const Request& request) {
  const cuda::Driver& driver = stream.driver();
  const DataType type = request.facts.type;
  if (varies_in_length(*request.codec->form()) && !has_pools(driver, stream.device())) return {};
  const device::CodingKernels names = device::coding_kernels(request.codec->form()->kind, type);
  return {.encode = find_kernel(driver, names.encode),
          .decode = find_kernel(driver, names.decode),
          .combine = find_kernel(driver, device::combine_kernel(type)),
          .multiprocessors = multiprocessors(driver, stream.device())};
}

// In pinned memory each message follows its state.
device::MessageState* state_of(const std::byte* message) {
  static_assert(sizeof(device::MessageState) <= kAlignment);
  return reinterpret_cast<device::MessageState*>(const_cast<std::byte*>(message) - kAlignment);
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
    return stream_.launch(kernels_.combine, grid_of(batch, element_bytes(slice_.type), kernels_.multiprocessors),
                          &batch);
  }

  Result<size_t> encode(const std::byte* values, std::span<std::byte> message) override {
    const size_t plain_bytes = slice_.count * element_bytes(slice_.type);
    if (slice_.codec == nullptr) {
      HOCKET_TRY(copy(message.data(), values, plain_bytes));
      return plain_bytes;
    }
    HOCKET_TRY(code(kernels_.encode, true, coding(const_cast<std::byte*>(values), message.data())));
    return slice_.codec->max_encoded_bytes(slice_.count, slice_.type);  // or less, as the message's state will say
  }

  Status decode(std::span<const std::byte> message, bool reduces, std::byte* values) override {
    if (slice_.codec == nullptr) {
      const std::array<const std::byte*, 2> both = {values, message.data()};
      return reduces ? combine(both, 0, false, values) : copy(values, message.data(), message.size());
    }
    const size_t longest = slice_.codec->max_encoded_bytes(slice_.count, slice_.type);
    const bool varies = varies_in_length(*slice_.codec->form());
    if (message.size() > longest || (message.size() < longest && !varies)) {
      return Status(Code::kInternal, fmt::format("codec {}: a message of {} bytes for {} elements: expected {}{}",
                                                 slice_.codec->describe(slice_.type).specification, message.size(),
                                                 slice_.count, varies ? "at most " : "", longest));
    }
    device::CodingWork work = coding(values, const_cast<std::byte*>(message.data()));
    work.adds = reduces;
    return code(kernels_.decode, false, work);
  }

 private:
  // All passes; what they leave to each other lies in memory that the stream has meanwhile.
  Status code(cuda::Kernel kernel, bool encodes, device::CodingWork work) {
    const size_t element = element_bytes(slice_.type);
    const size_t scratch = device::scratch_bytes(work.form, work.count, element);
    if (scratch > 0) {
      const Result<std::byte*> memory = stream_.allocate(scratch);
      HOCKET_TRY(memory.status());
      work.scratch = *memory;
    }
    Status status;
    for (const uint32_t passes = device::passes_of(work.form, encodes, element); work.pass < passes; ++work.pass) {
      status = stream_.launch(kernel, grid_of(work, kernels_.multiprocessors), &work);
      if (!status.ok()) break;
    }
    const Status freed = work.scratch == nullptr ? Status() : stream_.free(work.scratch);
    return status.ok() ? freed : status;
  }

  device::CodingWork coding(std::byte* values, std::byte* message) const {
    return {.form = *slice_.codec->form(),
            .draw = slice_.draw,
            .count = slice_.count,
            .values = values,
            .message = message,
            .state = state_of(message)};
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
      Result<cuda::MemoryBlock> block = cuda::pinned_pool(driver).take(bytes);
      HOCKET_TRY(block.status());
      block_ = std::move(*block);
      size_ = bytes;
    }
    return block_.memory();
  }

 private:
  cuda::MemoryBlock block_;
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
    HOCKET_TRY(check_messages(slice, its));
    // 0: passed on as it came, or as long as all are.
    if (const uint64_t encoded = state_of(its.message)->bytes; encoded != 0) its.bytes = encoded;
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
    size_t bytes = 0;                                    // of the message
    std::vector<std::span<const std::byte>> received{};  // messages
  };

  // Kernels only say which message is wrong: the host's codec says why.
  Status check_messages(const CodedSlice& slice, const Lane& lane) const {
    for (size_t i = 0; i < lane.received.size(); ++i) {
      if (state_of(lane.received[i].data())->damaged == 0) continue;
      std::vector<std::byte> values(slice.count * element_bytes(slice.type));
      HOCKET_TRY(slice.codec->decode_reduce(slice.messages[i], std::nullopt, {slice.type, values.data(), slice.count}));
      return {Code::kInternal, "a kernel found a message damaged that the host takes"};
    }
    return {};
  }

  // A message and its state come next in the room.
  static std::byte* place_message(std::byte*& next, size_t bytes, uint64_t length) {
    std::byte* const message = next + kAlignment;
    new (next) device::MessageState{.bytes = length};
    next = message + aligned(bytes);
    return message;
  }

  // With the messages in pinned memory: those of pipes no kernel reaches.
  Status begin(const CodedSlice& slice, Lane& lane) {
    const size_t values = aligned(slice.count * element_bytes(slice.type));
    const size_t sent = slice.reserved.empty() ? 0 : slice.reserved[0].size();
    size_t bytes_in_all = 2 * values + kAlignment + aligned(sent);
    for (const auto& message : slice.messages) bytes_in_all += kAlignment + aligned(message.size());
    const Result<std::byte*> room = lane.room.at_least(stream_.driver(), bytes_in_all);
    HOCKET_TRY(room.status());
    std::byte* next = *room + 2 * values;
    lane.message = place_message(next, sent, 0);
    lane.received.clear();
    for (const auto& message : slice.messages) {
      std::byte* const place = place_message(next, message.size(), message.size());
      std::memcpy(place, message.data(), message.size());
      lane.received.emplace_back(place, message.size());
    }
    const std::span<std::byte> own(lane.message, sent);
    CodedSlice pinned = slice;
    pinned.messages = lane.received;
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
  const bool adds = request.reduction.op == ReduceOp::kSum && request.reduction.scalar_elsewhere == nullptr;
  if (!wished || !coded || !adds || !is_for_kernels(caller, request, rank, ranks)) {
    return std::shared_ptr<SliceRunner>();
  }
  const CallKernels kernels = kernels_of(caller, request);
  if (!kernels.are_there()) return std::shared_ptr<SliceRunner>();
  const Result<cuda::Stream> stream = own_stream(caller);
  HOCKET_TRY(stream.status());
  return std::shared_ptr<SliceRunner>(std::make_shared<DeviceRunner>(*stream, engine, kernels));
}

}  // namespace hocket
