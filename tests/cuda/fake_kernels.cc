// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The stand-in's kernels: the code of the real ones, run by the host thread by thread. A kernel that is given memory
// which its device does not reach breaks the device, as it would a real one.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/coding.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/low_latency.h"
#include "kernels/cuda/names.h"
#include "kernels/cuda/passes.h"
#include "tests/cuda/fake_driver.h"
#include "tests/cuda/fake_multicast.h"
#include "tests/cuda/fake_state.h"

namespace hocket::cuda {

struct OpaqueKernel {
  const char* symbol;
  size_t argument_bytes;
  // Whether a grid fits to the argument.
  bool (*fits)(const void* argument, unsigned grid_x, unsigned grid_y);
  bool (*run)(const OpaqueContext&, void* argument, unsigned blocks);
};

struct OpaqueLibrary {};

}  // namespace hocket::cuda

namespace {

using namespace hocket;  // NOLINT(google-build-using-namespace): as in its other parts

constexpr uint32_t kImageMagic = 0xba55ed50;  // of what nvcc calls a fatbin
constexpr cuda::DriverResult kInvalidImage = 200;
constexpr cuda::DriverResult kNotFound = 500;

// Points a batch to where we reach what it was told. False: that is out of reach.
bool translate_told(const cuda::OpaqueContext& context, device::Batch& batch) {
  const auto reached = [&](const void* told, size_t bytes) {
    return fake::reach_from(context, static_cast<const std::byte*>(told), bytes);
  };
  batch.word = reinterpret_cast<const uint32_t*>(reached(batch.word, sizeof *batch.word));
  if (batch.word == nullptr || batch.late == nullptr) return batch.word != nullptr;
  batch.late = reinterpret_cast<std::byte* const*>(reached(batch.late, batch.addresses * sizeof *batch.late));
  return batch.late != nullptr;
}

std::atomic<int> uses_of_pipes = 0, uses_of_pinned = 0;

void note_use(const std::byte* address) {
  const auto known = fake::allocation_at(reinterpret_cast<uintptr_t>(address));
  if (!known || known->type != cuda::kMemoryTypeHost) return;
  ++(known->origin == fake::Allocation::Origin::kRegistered ? uses_of_pipes : uses_of_pinned);
}

// The same of the memory that it combines, which is aligned to elements.
bool translate(const cuda::OpaqueContext& context, size_t element_bytes, device::Batch& batch) {
  for (uint32_t t = 0; t < batch.tasks; ++t) {
    const device::Task& task = batch.task[t];
    for (uint32_t a = task.address; a < task.address + task.sources + task.destinations; ++a) {
      std::byte* const address = device::address_of(batch, task, a - task.address);
      if (reinterpret_cast<uintptr_t>(address) % element_bytes != 0) return false;
      batch.address[a] = fake::reach_from(context, address, task.count * element_bytes);
      if (batch.address[a] == nullptr) return false;
      note_use(address);
    }
  }
  return true;
}

bool fits_batch(const void* argument, unsigned /*grid_x*/, unsigned grid_y) {
  return grid_y == static_cast<const device::Batch*>(argument)->tasks;
}

std::atomic<int> let_go[4];  // by word

template <DataType type>
bool run_batch(const cuda::OpaqueContext& context, void* argument, unsigned blocks) {
  device::Batch& batch = *static_cast<device::Batch*>(argument);
  if (batch.word != nullptr && !translate_told(context, batch)) return false;
  if (!device::may_begin(batch)) return true;
  if (batch.word != nullptr) ++let_go[batch.when];
  if (!translate(context, sizeof(typename element::Of<type>::Storage), batch)) return false;
  const uint64_t threads = uint64_t{blocks} * device::kBlockThreads;
  for (uint32_t task = 0; task < batch.tasks; ++task) {
    for (uint64_t thread = 0; thread < threads; ++thread) {
      device::combine_task<type>(batch, batch.task[task], batch.address + batch.task[task].address, {thread, threads});
    }
  }
  return true;
}

// A task's one address of many, or what the device reaches by itself.
bool translate(const cuda::OpaqueContext& context, bool of_all, size_t bytes, std::byte*& address,
               fake::FakeSwitch& fabric) {
  if (of_all) fabric = fake::FakeSwitch::find(context, address, bytes);
  if (of_all && !fabric.reaches()) return false;
  address = of_all ? fabric.address() : fake::reach_from(context, address, bytes);
  return address != nullptr && reinterpret_cast<uintptr_t>(address) % device::kPackBytes == 0;
}

// Reads through one object and writes through another, or the same.
struct TwoSwitches {
  const fake::FakeSwitch& from;
  const fake::FakeSwitch& to;
  template <DataType type, ReduceOp op>
  device::MulticastPack reduce(const std::byte* address) const {
    return from.reduce<type, op>(address);
  }
  void store(std::byte* address, const device::MulticastPack& pack) const { to.store(address, pack); }
};

template <DataType type>
bool run_multicast(const cuda::OpaqueContext& context, void* argument, unsigned blocks) {
  device::Batch& batch = *static_cast<device::Batch*>(argument);
  if (batch.word != nullptr && !translate_told(context, batch)) return false;
  if (!device::may_begin(batch)) return true;
  constexpr size_t kElement = sizeof(typename element::Of<type>::Storage);
  const uint64_t threads = uint64_t{blocks} * device::kBlockThreads;
  for (uint32_t t = 0; t < batch.tasks; ++t) {
    const device::Task& task = batch.task[t];
    if (task.count == 0) continue;
    std::byte *source = device::address_of(batch, task, 0), *destination = device::address_of(batch, task, 1);
    fake::FakeSwitch from, to;
    const size_t bytes = task.count * kElement;
    if (bytes % device::kPackBytes != 0 || !translate(context, batch.from_all, bytes, source, from) ||
        !translate(context, batch.to_all, bytes, destination, to))
      return false;
    const TwoSwitches fabric{from, to};
    const device::MulticastTask<type, TwoSwitches> work(batch, source, destination, fabric);
    for (uint64_t thread = 0; thread < threads; ++thread) work.run(task.count, {thread, threads});
  }
  return true;
}

std::atomic<int> low_latency_ends{0};

// Others run meanwhile, as kernels of other devices do.
struct Yield {
  void before_packet() const {}
  void between_looks() const { std::this_thread::yield(); }
};

uint64_t packets_of(const device::LowLatencyWork& work, size_t element_bytes) {
  return device::packets_of(work.piece, static_cast<uint32_t>(element_bytes));
}

// Nothing to do fits to any grid.
template <DataType type>
bool fits_low_latency(const void* argument, unsigned grid_x, unsigned grid_y) {
  const auto& work = *static_cast<const device::LowLatencyWork*>(argument);
  const uint64_t packets = packets_of(work, sizeof(typename element::Of<type>::Storage));
  return grid_y == 1 && (work.ranks == 0 || grid_x == device::low_latency_blocks(packets));
}

bool translate(const cuda::OpaqueContext& context, size_t element_bytes, device::LowLatencyWork& work) {
  for (uint32_t rank = 0; rank < work.ranks; ++rank) {
    work.inboxes[rank] = fake::reach_from(context, work.inboxes[rank], device::inbox_bytes(work.ranks));
    if (work.inboxes[rank] == nullptr) return false;
  }
  const uint64_t whole = work.total == 0 ? work.piece : work.total;
  const bool has_many = work.total == 0 && !work.combines;
  const uint64_t sent = work.total == 0 && work.send_stride > 0 ? work.ranks * whole : whole;
  work.send = fake::reach_from(context, work.send, sent * element_bytes);
  work.recv = fake::reach_from(context, work.recv, (has_many ? work.ranks : 1) * whole * element_bytes);
  return work.send != nullptr && work.recv != nullptr;
}

template <DataType type>
bool run_low_latency(const cuda::OpaqueContext& context, void* argument, unsigned blocks) {
  device::LowLatencyWork& work = *static_cast<device::LowLatencyWork*>(argument);
  if (!translate(context, sizeof(typename element::Of<type>::Storage), work)) return work.ranks == 0;
  const device::Team team;
  for (unsigned block = 0; block < blocks; ++block) {
    device::LowLatencyRoom room;
    device::LowLatencyBlock<type, Yield>(work, team, room, block, blocks, Yield()).run();
  }
  ++low_latency_ends;
  return true;
}

std::atomic<bool> messages_are_spoiled{false};

bool fits_work(const void* argument, unsigned grid_x, unsigned grid_y) {
  return grid_y == 1 &&
         grid_x <= std::max<uint64_t>(1, device::tiles_of(*static_cast<const device::CodingWork*>(argument)));
}

// Where no length varies, a message has at least a bit for each element; all are aligned to 16 bytes.
bool translate_message(const cuda::OpaqueContext& context, size_t scratch, device::CodingWork& work) {
  const bool varies = varies_in_length(work.form);
  if (reinterpret_cast<uintptr_t>(work.message) % 16 != 0) return false;
  note_use(work.message);
  work.message = fake::reach_from(context, work.message, varies ? 1 : work.count / 8);
  if (!varies) return work.message != nullptr;
  work.state = reinterpret_cast<device::MessageState*>(
      fake::reach_from(context, reinterpret_cast<std::byte*>(work.state), sizeof *work.state));
  work.scratch = fake::reach_from(context, work.scratch, scratch);
  return work.message != nullptr && work.state != nullptr && work.scratch != nullptr;
}

template <CodedForm::Kind kind, DataType type, bool encodes>
bool run_work(const cuda::OpaqueContext& context, void* argument, unsigned blocks) {
  using Tiles = device::TileCoder<kind, type>;
  device::CodingWork& work = *static_cast<device::CodingWork*>(argument);
  if (work.count == 0) return true;
  constexpr size_t kElement = sizeof(typename element::Of<type>::Storage);
  work.values = fake::reach_from(context, work.values, work.count * kElement);
  const size_t scratch = device::scratch_bytes(work.form, work.count, kElement);
  if (work.values == nullptr || !translate_message(context, scratch, work)) return false;
  const bool is_last = work.pass + 1 == device::passes_of(work.form, encodes, kElement);
  const auto shared = std::make_unique<typename Tiles::Shared>();
  for (uint64_t block = 0; block < blocks; ++block) {
    if constexpr (encodes) device::encode_tiles<Tiles>(work, device::Team(), {block, blocks}, *shared);
    if constexpr (!encodes) device::decode_tiles<Tiles>(work, device::Team(), {block, blocks}, *shared);
  }
  if (encodes && is_last && messages_are_spoiled) work.message[0] = std::byte{0xff};
  return true;
}

std::atomic<bool> loading_waits_for_all_streams{false};
std::atomic<bool> kernels_are_held{false};

// A kernel's first launch in a context may wait for what the context does, as loading does: here for words.
bool is_first(const cuda::OpaqueKernel& kernel, const cuda::OpaqueContext& context) {
  static std::mutex mutex;
  static std::set<std::pair<const cuda::OpaqueKernel*, const cuda::OpaqueContext*>> launched;
  const std::lock_guard lock(mutex);
  return launched.emplace(&kernel, &context).second;
}

cuda::OpaqueLibrary only_library;
cuda::OpaqueKernel all_kernels[] = {
#define FAKE_KERNEL(type, symbol) {#symbol, sizeof(device::Batch), fits_batch, run_batch<DataType::type>},
    HOCKET_COMBINE_KERNELS(FAKE_KERNEL)
#undef FAKE_KERNEL
#define FAKE_KERNEL(type, symbol) {#symbol, sizeof(device::Batch), fits_batch, run_multicast<DataType::type>},
        HOCKET_MULTICAST_KERNELS(FAKE_KERNEL)
#undef FAKE_KERNEL
#define FAKE_KERNEL(type, symbol) \
  {#symbol, sizeof(device::LowLatencyWork), fits_low_latency<DataType::type>, run_low_latency<DataType::type>},
            HOCKET_LOW_LATENCY_KERNELS(FAKE_KERNEL)
#undef FAKE_KERNEL
#define FAKE_KERNELS(kind, type, encoding, decoding)                                                         \
  {#encoding, sizeof(device::CodingWork), fits_work, run_work<CodedForm::Kind::kind, DataType::type, true>}, \
      {#decoding, sizeof(device::CodingWork), fits_work, run_work<CodedForm::Kind::kind, DataType::type, false>},
                HOCKET_CODING_KERNELS(FAKE_KERNELS)
#undef FAKE_KERNELS
};

}  // namespace

FAKE_API int hocket::fake::let_go_by(uint32_t word) { return let_go[word]; }

FAKE_API int hocket::fake::uses_of_registered_memory() { return uses_of_pipes; }

FAKE_API int hocket::fake::uses_of_pinned_memory() { return uses_of_pinned; }

FAKE_API void hocket::fake::hold_kernels(bool hold) { kernels_are_held = hold; }

FAKE_API int hocket::fake::low_latency_calls() { return low_latency_ends; }

FAKE_API void hocket::fake::spoil_messages(bool spoils) { messages_are_spoiled = spoils; }

FAKE_API void hocket::fake::let_loading_wait_for_all_streams() { loading_waits_for_all_streams = true; }

extern "C" {

FAKE_API cuda::DriverResult cuLibraryLoadData(cuda::Library* library, const void* image, int* /*options*/,
                                              void** /*values*/, unsigned, int* /*more*/, void** /*values*/, unsigned) {
  FAKE_ENTER(cuLibraryLoadData);
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kImageMagic) return kInvalidImage;
  *library = &only_library;
  return cuda::kSuccess;
}

FAKE_API cuda::DriverResult cuLibraryGetKernel(cuda::Kernel* kernel, cuda::Library /*library*/, const char* symbol) {
  FAKE_ENTER(cuLibraryGetKernel);
  for (cuda::OpaqueKernel& one : all_kernels) {
    if (std::string(one.symbol) != symbol) continue;
    *kernel = &one;
    return cuda::kSuccess;
  }
  return kNotFound;
}

FAKE_API cuda::DriverResult cuLaunchKernel(cuda::Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                           unsigned block_x, unsigned block_y, unsigned block_z,
                                           unsigned /*shared_bytes*/, cuda::StreamHandle handle, void** arguments,
                                           void** /*extra*/) {
  FAKE_ENTER(cuLaunchKernel);
  cuda::OpaqueStream* const stream = fake::stream_of(handle);
  if (stream == nullptr || fake::context_here() != &stream->context) return fake::kInvalidContext;
  {
    const std::lock_guard lock(stream->context.lock);
  }
  const auto* const bytes = static_cast<const std::byte*>(arguments[0]);
  const bool is_right = grid_x > 0 && grid_y > 0 && kernel->fits(bytes, grid_x, grid_y) && grid_z == 1 &&
                        block_x == device::kBlockThreads && block_y == 1 && block_z == 1;
  if (!is_right) return fake::kInvalidValue;
  std::vector<std::max_align_t> argument(kernel->argument_bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(argument.data(), bytes, kernel->argument_bytes);
  if (is_first(*kernel, stream->context)) {
    const std::atomic<int>& awaited =
        loading_waits_for_all_streams ? stream->context.words_awaited : stream->words_awaited;
    while (awaited > 0) std::this_thread::yield();
  }
  stream->put([kernel, argument, grid_x, &context = stream->context]() mutable {
    if (kernels_are_held) return false;
    if (!kernel->run(context, argument.data(), grid_x)) context.broken = true;
    return true;
  });
  return cuda::kSuccess;
}

}  // extern "C"
