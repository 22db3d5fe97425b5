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
#include "comm/held_streams.h"
#include "comm/slice_messages.h"
#include "comm/staging.h"
#include "comm/stream_slices.h"
#include "cuda/kernels.h"
#include "cuda/pool.h"
#include "execute/execution.h"
#include "execute/plain.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/passes.h"

namespace hocket {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMessageAlignment = 16;  // of kernels that code (CodingWork)

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The kernels of a call; null ones are not there.
struct CallKernels {
  cuda::Kernel encode = nullptr;
  cuda::Kernel decode = nullptr;
  cuda::Kernel combine = nullptr;
  unsigned multiprocessors = 0;
  bool are_there() const { return encode != nullptr && decode != nullptr && combine != nullptr && multiprocessors > 0; }
};

CallKernels kernels_of(const cuda::Stream& stream, const Request& request) {
  const cuda::Driver& driver = stream.driver();
  const DataType type = request.facts.type;
  const device::CodingKernels names = device::coding_kernels(request.codec->form()->kind, type);
  return {.encode = find_kernel(driver, names.encode),
          .decode = find_kernel(driver, names.decode),
          .combine = find_kernel(driver, device::combine_kernel(type)),
          .multiprocessors = multiprocessors(driver, stream.device())};
}

// In pinned memory, each in a line of its own: of the message that is sent, and of those that came.
class MessageStates {
 public:
  static size_t bytes(size_t messages) { return (1 + messages) * kAlignment; }
  // Of the slice's messages, which have just come, in memory that begins at `lines`.
  void start(std::byte* lines, const CodedSlice& slice) {
    static_assert(sizeof(device::MessageState) <= kAlignment);
    lines_ = lines;
    new (lines) device::MessageState;
    for (size_t i = 0; i < slice.messages.size(); ++i) {
      new (lines + (1 + i) * kAlignment) device::MessageState{.bytes = slice.messages[i].size()};
    }
  }
  device::MessageState& sent() const { return *reinterpret_cast<device::MessageState*>(lines_); }
  device::MessageState& came(size_t message) const {
    return *reinterpret_cast<device::MessageState*>(lines_ + (1 + message) * kAlignment);
  }
  // Of one of the slice's messages, by where it lies.
  device::MessageState& of(const std::byte* message, const CodedSlice& slice) const {
    const auto found = std::ranges::find_if(slice.messages, [&](const auto& each) { return each.data() == message; });
    return found == slice.messages.end() ? sent() : came(static_cast<size_t>(found - slice.messages.begin()));
  }

 private:
  std::byte* lines_ = nullptr;
};

// Puts what a slice needs done on a stream.
class StreamHands final : public Hands {
 public:
  StreamHands(const cuda::Stream& stream, const CallKernels& kernels, const CodedSlice& slice,
              const MessageStates& states, std::byte* between_passes)
      : stream_(stream), kernels_(kernels), slice_(slice), states_(states), between_passes_(between_passes) {}

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
    return stream_.launch(kernels_.combine, grid_of(batch, slice_.type, kernels_.multiprocessors), &batch);
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
  // All passes. The stream does one coding after the other, so that one memory does for what they leave to each other.
  Status code(cuda::Kernel kernel, bool encodes, device::CodingWork work) {
    work.scratch = between_passes_;
    const uint32_t passes = device::passes_of(work.form, encodes, element_bytes(slice_.type));
    for (; work.pass < passes; ++work.pass) {
      HOCKET_TRY(stream_.launch(kernel, grid_of(work, kernels_.multiprocessors), &work));
    }
    return {};
  }

  device::CodingWork coding(std::byte* values, std::byte* message) const {
    return {.form = *slice_.codec->form(),
            .draw = slice_.draw,
            .count = slice_.count,
            .values = values,
            .message = message,
            .state = &states_.of(message, slice_)};
  }

  const cuda::Stream& stream_;
  const CallKernels& kernels_;
  const CodedSlice& slice_;
  const MessageStates& states_;
  std::byte* const between_passes_;
};

class DeviceRunner final : public SliceRunner {
 public:
  DeviceRunner(const cuda::Stream& stream, const CallKernels& kernels, bool in_pipes)
      : stream_(stream), kernels_(kernels), in_pipes_(in_pipes), pool_(cuda::pinned_pool(stream.driver())) {}
  ~DeviceRunner() override { stop(); }
  DeviceRunner(const DeviceRunner&) = delete;
  DeviceRunner& operator=(const DeviceRunner&) = delete;

  Status prepare(const Call& call) override {
    const cuda::Entered entered(stream_.driver(), stream_.context());
    const MostMessages most = most_messages(call);
    const size_t slice = Execution::slice_elements(call);
    const size_t coded = call.codec == nullptr ? 0 : call.codec->max_encoded_bytes(slice, call.type);
    const size_t lanes = call.plan->lanes.size();
    const size_t room =
        room_for(most.count, std::max(most.bytes, coded), bytes_beside(aligned(most.bytes), most.count));
    lanes_.resize(lanes);
    HOCKET_TRY(slices_.prepare(stream_, lanes));
    if (call.codec != nullptr) HOCKET_TRY(prepare_passes(*call.codec->form(), slice, element_bytes(call.type)));
    for (Lane& lane : lanes_) HOCKET_TRY(lane.messages.prepare(pool_, room));
    return scratch(Execution::scratch_bytes(call)).status();
  }

  Result<std::byte*> scratch(size_t bytes) override {
    const cuda::Entered entered(stream_.driver(), stream_.context());
    return scratch_.at_least(pool_, bytes);
  }

  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override {
    const auto index = static_cast<size_t>(lane);
    Lane& its = lanes_[index];
    if (!slices_.is_under_way(index)) HOCKET_TRY(begin(index, slice));
    const Result<bool> ended = slices_.has_ended(index);
    HOCKET_TRY(ended.status());
    if (!*ended) return std::optional<size_t>();
    HOCKET_TRY(check_messages(slice, its));
    // 0: passed on as it came, or as long as all are.
    if (const uint64_t encoded = its.states.sent().bytes; encoded != 0) its.bytes = encoded;
    for (const std::span<std::byte>& to : slice.reserved) {
      const std::byte* const from = its.messages.reserved()[0].data();
      if (to.data() != from) std::memcpy(to.data(), from, its.bytes);
    }
    count_traffic(slice, its.bytes);
    return std::optional(its.bytes);
  }

  void stop() override { slices_.wait(); }
  Duration next_nap() override { return slices_.next_nap(); }

 private:
  struct Lane {
    SliceMessages messages;
    MessageStates states;
    size_t bytes = 0;  // of the message that is sent
  };

  // Kernels only say which message is wrong: the host's codec says why.
  Status check_messages(const CodedSlice& slice, const Lane& lane) const {
    for (size_t i = 0; i < slice.messages.size(); ++i) {
      if (lane.states.came(i).damaged == 0) continue;
      std::vector<std::byte> values(slice.count * element_bytes(slice.type));
      HOCKET_TRY(slice.codec->decode_reduce(slice.messages[i], std::nullopt, {slice.type, values.data(), slice.count}));
      return {Code::kInternal, "a kernel found a message damaged that the host takes"};
    }
    return {};
  }

  // Memory for what passes leave to each other, of codings of at most so many elements.
  Status prepare_passes(const CodedForm& form, size_t elements, size_t element) {
    const size_t bytes = device::scratch_bytes(form, elements, element);
    if (bytes == 0) return {};
    const Result<std::byte*> memory = passes_.at_least(cuda::device_pool(stream_.driver(), stream_.context()), bytes);
    HOCKET_TRY(memory.status());
    between_passes_ = *memory;
    return {};
  }

  // The room of do_slice(), twice the values, and then the messages' states.
  static size_t bytes_beside(size_t values, size_t messages) { return 2 * values + MessageStates::bytes(messages); }

  // Kernels write one message, of which the others are copies.
  Status begin(size_t index, const CodedSlice& slice) {
    const cuda::Entered entered(stream_.driver(), stream_.context());
    Lane& lane = lanes_[index];
    const size_t values = aligned(slice.count * element_bytes(slice.type));
    const auto sent = slice.reserved.first(std::min<size_t>(1, slice.reserved.size()));
    const auto alignment = in_pipes_ ? std::optional(kMessageAlignment) : std::nullopt;
    const Result<std::byte*> room =
        lane.messages.place(pool_, slice.messages, sent, alignment, bytes_beside(values, slice.messages.size()));
    HOCKET_TRY(room.status());
    CodedSlice reached = slice;
    reached.messages = lane.messages.messages();
    reached.reserved = lane.messages.reserved();
    lane.states.start(*room + 2 * values, reached);
    StreamHands hands(stream_, kernels_, reached, lane.states, between_passes_);
    const Result<size_t> bytes = do_slice(reached, {*room, *room + values}, hands);
    // What was put on the stream before something failed uses memory, too.
    const Status begun = slices_.begin(index, stream_);
    HOCKET_TRY(bytes.status());
    HOCKET_TRY(begun);
    lane.bytes = *bytes;
    return {};
  }

  const cuda::Stream stream_;
  const CallKernels kernels_;
  const bool in_pipes_;  // messages are coded where pipes have them
  cuda::MemoryPool& pool_;
  cuda::GrowingBlock scratch_;
  std::byte* between_passes_ = nullptr;  // of the device
  cuda::GrowingBlock passes_;            // holds it
  std::vector<Lane> lanes_;
  StreamSlices slices_;
};

}  // namespace

Result<std::shared_ptr<SliceRunner>> device_runner(const cuda::Stream& caller, const Request& request, Rank rank,
                                                   Rank ranks) {
  const bool wished = settings().ok() && settings()->device_codecs;
  const bool coded = request.codec != nullptr && request.codec->form() != nullptr;
  const bool adds = request.reduction.op == ReduceOp::kSum && request.reduction.scalar_elsewhere == nullptr;
  const bool can_launch = wished && coded && adds && may_launch_beside(caller);
  if (!can_launch || !kernels_reach(caller, request, rank, ranks)) return std::shared_ptr<SliceRunner>();
  const CallKernels kernels = kernels_of(caller, request);
  if (!kernels.are_there()) return std::shared_ptr<SliceRunner>();
  HOCKET_TRY(load_combine_kernels(caller.driver()));  // if the communicator was created in another context
  HOCKET_TRY(load_coding_kernels(caller.driver()));
  const Result<const OwnStreams*> streams = own_streams(caller.driver(), caller.context());
  HOCKET_TRY(streams.status());
  const bool in_pipes = kernels_use_pipes(caller);
  if (in_pipes) register_wanted_pipes(caller.driver());
  return std::shared_ptr<SliceRunner>(std::make_shared<DeviceRunner>((*streams)->front(), kernels, in_pipes));
}

}  // namespace hocket
