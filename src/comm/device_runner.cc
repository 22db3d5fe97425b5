// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/device_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "comm/device_kernels.h"
#include "comm/staging.h"
#include "comm/stream_slices.h"
#include "cuda/kernels.h"
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

class DeviceRunner final : public SliceRunner {
 public:
  DeviceRunner(const cuda::Stream& stream, Engine& engine, const CallKernels& kernels)
      : stream_(stream), kernels_(kernels), pool_(cuda::pinned_pool(stream.driver())), slices_(engine) {}
  ~DeviceRunner() override { stop(); }
  DeviceRunner(const DeviceRunner&) = delete;
  DeviceRunner& operator=(const DeviceRunner&) = delete;

  Result<std::byte*> scratch(size_t bytes) override {
    const cuda::Entered entered(stream_.driver(), stream_.context());
    return scratch_.at_least(pool_, bytes);
  }

  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override {
    const auto index = static_cast<size_t>(lane);
    lanes_.resize(std::max(lanes_.size(), index + 1));
    Lane& its = lanes_[index];
    if (!slices_.is_under_way(index)) HOCKET_TRY(begin(index, slice));
    const Result<bool> ended = slices_.has_ended(index);
    HOCKET_TRY(ended.status());
    if (!*ended) return std::optional<size_t>();
    HOCKET_TRY(check_messages(slice, its));
    // 0: passed on as it came, or as long as all are.
    if (const uint64_t encoded = state_of(its.message)->bytes; encoded != 0) its.bytes = encoded;
    for (const std::span<std::byte>& to : slice.reserved) std::memcpy(to.data(), its.message, its.bytes);
    count_traffic(slice, its.bytes);
    return std::optional(its.bytes);
  }

  void stop() override { slices_.wait(); }
  void set_waiting(bool waiting) override {
    if (waiting) slices_.wake_engine();
  }

 private:
  struct Lane {
    cuda::GrowingBlock room;
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
  Status begin(size_t index, const CodedSlice& slice) {
    const cuda::Entered entered(stream_.driver(), stream_.context());
    Lane& lane = lanes_[index];
    const size_t values = aligned(slice.count * element_bytes(slice.type));
    const size_t sent = slice.reserved.empty() ? 0 : slice.reserved[0].size();
    size_t bytes_in_all = 2 * values + kAlignment + aligned(sent);
    for (const auto& message : slice.messages) bytes_in_all += kAlignment + aligned(message.size());
    const Result<std::byte*> room = lane.room.at_least(pool_, bytes_in_all);
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
    const Status begun = slices_.begin(index, stream_);
    HOCKET_TRY(bytes.status());
    HOCKET_TRY(begun);
    lane.bytes = *bytes;
    return {};
  }

  const cuda::Stream stream_;
  const CallKernels kernels_;
  cuda::MemoryPool& pool_;
  cuda::GrowingBlock scratch_;
  std::vector<Lane> lanes_;
  StreamSlices slices_;
};

}  // namespace

Result<std::shared_ptr<SliceRunner>> device_runner(const cuda::Stream& caller, Engine& engine, const Request& request,
                                                   Rank rank, Rank ranks) {
  const bool wished = settings().ok() && settings()->device_codecs;
  const bool coded = request.codec != nullptr && request.codec->form() != nullptr;
  const bool adds = request.reduction.op == ReduceOp::kSum && request.reduction.scalar_elsewhere == nullptr;
  if (!wished || !coded || !adds || !kernels_reach(caller, request, rank, ranks)) {
    return std::shared_ptr<SliceRunner>();
  }
  const CallKernels kernels = kernels_of(caller, request);
  if (!kernels.are_there()) return std::shared_ptr<SliceRunner>();
  const Result<const OwnStreams*> streams = own_streams(caller);
  HOCKET_TRY(streams.status());
  return std::shared_ptr<SliceRunner>(std::make_shared<DeviceRunner>((*streams)->front(), engine, kernels));
}

}  // namespace hocket
