// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/low_latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <set>
#include <utility>

#include "comm/binding.h"
#include "comm/communicator.h"
#include "comm/device_kernels.h"
#include "comm/device_windows.h"
#include "comm/window_kernels.h"
#include "cuda/memory.h"
#include "cuda/shared_memory.h"
#include "kernels/cuda/image.h"

namespace hocket {
namespace {

using device::LowLatencyWork;

// Where packets, of which half is flags, are worth what they save: fewer meetings of the hosts. Reckoned, not measured
// (decision 0088).
constexpr uint64_t kMostBytes = uint64_t{512} << 10;
// What a rank sends in one shot; beyond it a second shot costs less than sending everything to everybody.
constexpr uint64_t kMostOneShotBytes = uint64_t{64} << 10;

constexpr Duration kLook = std::chrono::microseconds(50);

std::atomic_ref<uint32_t> word(uint32_t& of) { return std::atomic_ref<uint32_t>(of); }

Status clear(const cuda::Driver& driver, System& system, std::span<std::byte> memory) {
  const Result<cuda::Stream> stream = cuda::Stream::make(driver);
  HOCKET_TRY(stream.status());
  HOCKET_TRY(load_low_latency_kernels(*stream));
  HOCKET_TRY(stream->clear(memory.data(), memory.size()));
  const Result<cuda::KeptEvent> event = stream->mark();
  HOCKET_TRY(event.status());
  cuda::DriverResult result = cuda::kNotReady;
  while ((result = driver.event_query(event->get())) == cuda::kNotReady) {
    system.threads.sleep_until(system.clock.now() + kLook);
  }
  return cuda::checked(driver, result, "cuEventQuery");
}

// Elements of the piece that goes from one rank to another, in the type in which it is moved.
LowLatencyWork shape_of(const CallFacts& facts, uint32_t ranks) {
  LowLatencyWork work;
  const auto bytes = static_cast<uint32_t>(element_bytes(facts.type));
  work.combines = is_reducing(facts.collective);
  work.piece = work.combines ? facts.count : facts.count * bytes;
  if (facts.collective == Collective::kReduceScatter || facts.collective == Collective::kAllToAll)
    work.send_stride = work.piece;
  if (facts.collective != Collective::kAllReduce) return work;
  const uint64_t size = facts.count * bytes;
  work.shares = ranks > 2 ? size * (ranks - 1) > kMostOneShotBytes : size > device::kMostPieceBytes;
  if (!work.shares) return work;
  work.total = facts.count;
  work.piece = work.send_stride = device::two_shot_piece(facts.count, ranks, bytes);
  return work;
}

DataType moved_type(const CallFacts& facts) { return is_reducing(facts.collective) ? facts.type : DataType::kUint8; }

uint64_t piece_bytes(const CallFacts& facts, const LowLatencyWork& work) {
  return work.piece * element_bytes(moved_type(facts));
}

bool has_shape(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kAllGather || collective == Collective::kAllToAll;
}

}  // namespace

// What could not be cleared is not given back: the device may still write there.
Result<std::shared_ptr<Inbox>> Inbox::make(const cuda::Driver& driver, System& system, int32_t ranks) {
  const cuda::Entered entered(driver, cuda::current_context());
  Result<cuda::KeptEvent> launched = cuda::KeptEvent::take(driver, cuda::current_context());
  HOCKET_TRY(launched.status());
  const size_t bytes = device::inbox_bytes(static_cast<uint32_t>(ranks));
  const Result<void*> memory = cuda::allocate_shared(driver, bytes);
  const std::span<std::byte> whole(memory.ok() ? static_cast<std::byte*>(*memory) : nullptr, bytes);
  const Status status = memory.ok() ? clear(driver, system, whole) : memory.status();
  HOCKET_TRY(status);
  return std::shared_ptr<Inbox>(new Inbox(whole, std::move(*launched)));
}

Inbox::~Inbox() { cuda::free_shared(memory_.data()); }

Status Inbox::launch(const cuda::Stream& stream, cuda::Kernel kernel, cuda::Grid grid, const LowLatencyWork& work) {
  if (stream.graph() != nullptr) return stream.launch(kernel, grid, &work);
  const std::lock_guard lock(mutex_);
  if (last_ != nullptr && last_ != stream.handle()) HOCKET_TRY(stream.wait_for(launched_.get()));
  HOCKET_TRY(stream.launch(kernel, grid, &work));
  last_ = stream.handle();
  return stream.mark(launched_.get());
}

bool fits_low_latency(const WindowTable& windows, const Request& request) {
  const CallFacts& facts = request.facts;
  const DeviceParts inboxes = windows.inboxes();
  if (inboxes.empty() || !has_shape(facts.collective)) return false;
  const auto ranks = static_cast<uint32_t>(inboxes.size());
  const uint64_t blocks = facts.collective == Collective::kAllReduce ? 1 : ranks;
  if (facts.count > kMostBytes / element_bytes(facts.type) / blocks) return false;
  if (piece_bytes(facts, shape_of(facts, ranks)) > device::kMostPieceBytes) return false;
  // Kernels that wait for each other run on devices of their own.
  std::set<cuda::Uuid> devices;
  for (const auto& inbox : inboxes) devices.insert(inbox->offer.device);
  if (devices.size() < ranks) return false;
  for (const WindowSpot& spot : {facts.send_spot, facts.recv_spot}) {
    if (spot.window == 0) continue;
    const auto is_elsewhere = [](const auto& one, const auto& other) {
      return one->offer.device != other->offer.device;
    };
    const DeviceParts parts = windows.device_parts(spot.window);
    if (!std::ranges::equal(parts, inboxes, std::not_fn(is_elsewhere))) return false;
  }
  return true;
}

Result<std::shared_ptr<LowLatencyCall>> LowLatencyCall::make(const cuda::Stream& stream, Communicator& communicator,
                                                             const Request& request) {
  Result<cuda::MemoryBlock> block = cuda::pinned_pool(stream.driver()).take(sizeof(device::LowLatencyControl));
  HOCKET_TRY(block.status());
  const std::shared_ptr<LowLatencyCall> call(new LowLatencyCall(stream, communicator, std::move(*block)));
  const Result<DeviceParts> parts = map_for_call(stream.driver(), communicator, WindowTable::kInboxes);
  HOCKET_TRY(parts.status());
  call->keeps_.assign(parts->begin(), parts->end());

  const DataType type = moved_type(request.facts);
  LowLatencyWork& work = call->work_;
  work = shape_of(request.facts, static_cast<uint32_t>(communicator.ranks()));
  work.rank = static_cast<uint16_t>(communicator.rank());
  work.ranks = static_cast<uint16_t>(communicator.ranks());
  Call arithmetic;
  bind_arithmetic(request, communicator.ranks(), arithmetic);
  work.op = arithmetic.op;
  work.divide_last = arithmetic.divide;
  work.send = static_cast<const std::byte*>(request.send);
  work.recv = static_cast<std::byte*>(request.recv);
  work.control = &call->control_;
  std::ranges::copy(communicator.mesh().windows().begins(WindowTable::kInboxes), work.inboxes);
  const auto packets = device::packets_of(work.piece, static_cast<uint32_t>(element_bytes(type)));
  call->grid_ = {device::low_latency_blocks(packets), 1, device::kBlockThreads};
  call->kernel_ = find_kernel(stream.driver(), device::low_latency_kernel(type));
  if (call->kernel_ == nullptr) return Status(Code::kCuda, fmt::format("no kernel for {}", name(type)));
  return call;
}

LowLatencyCall::LowLatencyCall(const cuda::Stream& stream, Communicator& communicator, cuda::MemoryBlock block)
    : stream_(stream),
      communicator_(communicator),
      inbox_(communicator.inbox()),
      block_(std::move(block)),
      control_(*new(block_.memory()) device::LowLatencyControl()) {}

Status LowLatencyCall::enqueue() {
  launched_ = stream_.graph() == nullptr;
  return inbox_->launch(stream_, kernel_, grid_, work_);
}

void LowLatencyCall::cancel() {
  stop();
  if (!launched_) return;
  communicator_.mesh().fail(Status(
      Code::kCuda, fmt::format("{}rank {}: a call was given up whose kernel had been launched: the driver has refused "
                               "what follows it",
                               communicator_.prefix(), communicator_.rank())));
}

void LowLatencyCall::begin_again() noexcept {
  for (uint32_t* const one : {&control_.begun, &control_.done, &control_.awaited}) word(*one).store(0);
  word(control_.word).store(device::kHeld);
  begun_ = Time{};
}

Result<std::byte*> LowLatencyCall::scratch(size_t bytes) {
  return Status(Code::kInternal, fmt::format("a call by packets wants {} bytes of scratch", bytes));
}

// All ranks have called it, so that a kernel that has begun waits for peers' streams, or for one whose device is gone.
Result<std::optional<size_t>> LowLatencyCall::run(int /*lane*/, const CodedSlice& /*slice*/) {
  if (word(control_.done).load(std::memory_order_acquire) != 0) return std::optional<size_t>(0);
  if (word(control_.begun).load() == 0) return std::optional<size_t>();
  const Time now = communicator_.system().clock.now();
  const Duration patience = communicator_.operation_timeout();
  if (begun_ == Time{}) begun_ = now;
  if (now - begun_ <= patience) return std::optional<size_t>();
  const uint32_t awaited = word(control_.awaited).load();
  return Status(Code::kTimeout, awaited == 0 ? std::string("its kernel does not end")
                                             : fmt::format("its kernel has waited {:g} s for that of rank {}",
                                                           seconds(patience), awaited - 1));
}

void LowLatencyCall::stop() { word(control_.word).store(device::kStopped, std::memory_order_release); }

}  // namespace hocket
