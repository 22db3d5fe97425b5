// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/cuda/fake_driver.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "tests/cuda/fake_state.h"

using namespace hocket::cuda;  // NOLINT(google-build-using-namespace): it is the driver
using namespace hocket::fake;  // NOLINT(google-build-using-namespace): so are these

namespace {

constexpr DriverResult kIllegalAddress = 700;
constexpr DriverResult kAlreadyRegistered = 712;
constexpr DriverResult kNotRegistered = 713;
constexpr DriverResult kNotPermitted = 800;
constexpr DriverResult kCaptureUnsupported = 900;

struct State {
  std::mutex mutex;
  std::map<uintptr_t, Allocation> allocations;                      // by base; guarded by mutex
  std::map<std::string, int> calls;                                 // guarded by mutex
  std::string failing;                                              // guarded by mutex
  DriverResult failure = 0;                                         // guarded by mutex
  int fails_after = 0;                                              // guarded by mutex
  uint64_t last_number = 0;                                         // of allocations; guarded by mutex
  std::map<UserObject, std::shared_ptr<OpaqueUserObject>> objects;  // that no graph has; guarded by mutex
  int global_captures = 0;                                          // guarded by mutex
  std::mutex host_functions;                                        // they run one at a time
  OpaqueContext contexts[kDevices] = {OpaqueContext(0), OpaqueContext(1), OpaqueContext(2), OpaqueContext(3),
                                      OpaqueContext(4), OpaqueContext(5), OpaqueContext(6), OpaqueContext(7)};
};

// Never destroyed: streams run until the process ends.
State& state() {
  static auto& instance = *new State;
  return instance;
}

thread_local std::vector<Context> current;
thread_local int capture_mode = 0;
thread_local bool in_host_function = false;

DriverResult health(const OpaqueContext& context) { return context.broken ? kIllegalAddress : kSuccess; }

// In a capture that forbids what is not captured.
DriverResult forbidden() {
  const std::lock_guard lock(state().mutex);
  return state().global_captures > 0 && capture_mode != kRelaxedCapture ? kCaptureUnsupported : kSuccess;
}

const Allocation* find(uintptr_t address) {
  auto next = state().allocations.upper_bound(address);
  if (next == state().allocations.begin()) return nullptr;
  const Allocation& found = std::prev(next)->second;
  return address < reinterpret_cast<uintptr_t>(found.base) + found.size ? &found : nullptr;
}

std::byte* reach(Address address) {
  const std::lock_guard lock(state().mutex);
  const Allocation* found = find(address);
  if (found == nullptr) return reinterpret_cast<std::byte*>(address);
  return found->alias + (address - reinterpret_cast<uintptr_t>(found->base));
}

DriverResult allocate_on_host(void** memory, size_t bytes, unsigned type) {
  std::byte* const mapped = map(-1, bytes, PROT_READ | PROT_WRITE);
  if (mapped == nullptr) return kOutOfMemory;
  const Context context = context_here();
  note({.base = mapped,
        .alias = mapped,
        .size = bytes,
        .type = type,
        .device = context == nullptr ? 0 : context->device});
  *memory = mapped;
  return kSuccess;
}

DriverResult give_back(uintptr_t base) {
  const std::optional<Allocation> gone = take_out(base, Allocation::Origin::kAllocated);
  if (!gone) return kInvalidValue;
  ::munmap(gone->base, gone->size);
  return kSuccess;
}

bool is_known(const void* memory, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return std::ranges::any_of(state().allocations, [&](const auto& each) {
    return begin < each.first + each.second.size && each.first < begin + bytes;
  });
}

// Until no stream waits for a word: what takes memory away from devices may wait for all that they do.
void await_devices(OpaqueContext& here) {
  const std::lock_guard lock(here.lock);
  for (const OpaqueContext& context : state().contexts) {
    while (context.words_awaited > 0 && !context.broken) std::this_thread::yield();
  }
}

void call_host_function(HostFunction function, void* argument) {
  const std::lock_guard lock(state().host_functions);
  in_host_function = true;
  function(argument);
  in_host_function = false;
}

}  // namespace

OpaqueUserObject::~OpaqueUserObject() {
  const bool before = std::exchange(in_host_function, true);
  destroy(argument);
  in_host_function = before;
}

namespace hocket::fake {

void note(Allocation allocation) {
  const std::lock_guard lock(state().mutex);
  allocation.number = ++state().last_number;
  state().allocations[reinterpret_cast<uintptr_t>(allocation.base)] = std::move(allocation);
}

std::optional<Allocation> take_out(uintptr_t base, Allocation::Origin origin) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().allocations.find(base);
  if (found == state().allocations.end() || found->second.origin != origin) return {};
  Allocation gone = std::move(found->second);
  state().allocations.erase(found);
  if (gone.alias != gone.base) ::munmap(gone.alias, gone.size);
  return gone;
}

std::optional<Allocation> allocation_at(uintptr_t address) {
  const std::lock_guard lock(state().mutex);
  const Allocation* const found = find(address);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

bool grant(uintptr_t base, int device) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().allocations.find(base);
  if (found == state().allocations.end()) return false;
  found->second.granted.insert(device);
  return true;
}

std::byte* map(int file, size_t bytes, int access) {
  void* memory = ::mmap(nullptr, bytes, access, file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

Context context_of(int device) { return &state().contexts[device]; }

DriverResult entry(const char* symbol) {
  if (in_host_function) return kNotPermitted;
  const std::lock_guard lock(state().mutex);
  ++state().calls[symbol];
  if (state().failing != symbol) return kSuccess;
  return state().fails_after-- > 0 ? kSuccess : state().failure;
}

Context context_here() { return current.empty() ? nullptr : current.back(); }

// Those to pageable memory.
void await_copies() {
  if (context_here() == nullptr) return;
  const std::lock_guard lock(context_here()->making);
}

OpaqueStream* stream_of(StreamHandle handle) {
  if (reinterpret_cast<uintptr_t>(handle) > 2) return handle;
  const Context context = context_here();
  if (context == nullptr) return nullptr;
  const std::lock_guard lock(state().mutex);
  if (context->default_stream == nullptr) context->default_stream = new OpaqueStream(*context);
  return context->default_stream;
}

std::byte* reach_from(const OpaqueContext& context, const std::byte* address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const Allocation* const found = find(begin);
  if (found == nullptr) return nullptr;
  const size_t offset = begin - reinterpret_cast<uintptr_t>(found->base);
  const bool is_own = found->origin == Allocation::Origin::kAllocated;
  const bool is_reached = found->type != kMemoryTypeDevice || found->granted.contains(context.device) ||
                          (is_own && (found->device == context.device || context.reached.count(found->device) != 0));
  return is_reached && bytes <= found->size - offset ? found->alias + offset : nullptr;
}

}  // namespace hocket::fake

extern "C" {

// ---- Errors and contexts

FAKE_API DriverResult cuGetErrorName(DriverResult error, const char** name) {
  *name = error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == 2             ? "CUDA_ERROR_OUT_OF_MEMORY"
                                   : "CUDA_ERROR";
  return kSuccess;
}

FAKE_API DriverResult cuGetErrorString(DriverResult error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered" : "an error of the stand-in";
  return kSuccess;
}

FAKE_API DriverResult cuDevicePrimaryCtxRetain(Context* context, int device) {
  FAKE_ENTER(cuDevicePrimaryCtxRetain);
  if (device < 0 || device >= kDevices) return kInvalidValue;
  *context = &state().contexts[device];
  return kSuccess;
}

FAKE_API DriverResult cuCtxSetCurrent(Context context) {
  current.assign(context == nullptr ? 0 : 1, context);
  return kSuccess;
}

FAKE_API DriverResult cuCtxGetCurrent(Context* context) {
  FAKE_ENTER(cuCtxGetCurrent);
  *context = context_here();
  return kSuccess;
}

FAKE_API DriverResult cuCtxPushCurrent_v2(Context context) {
  FAKE_ENTER(cuCtxPushCurrent);
  current.push_back(context);
  return kSuccess;
}

FAKE_API DriverResult cuCtxPopCurrent_v2(Context* context) {
  FAKE_ENTER(cuCtxPopCurrent);
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}

FAKE_API DriverResult cuCtxGetDevice(int* device) {
  FAKE_ENTER(cuCtxGetDevice);
  if (context_here() == nullptr) return kInvalidContext;
  *device = context_here()->device;
  return kSuccess;
}

FAKE_API DriverResult cuCtxEnablePeerAccess(Context peer, unsigned /*flags*/) {
  FAKE_ENTER(cuCtxEnablePeerAccess);
  if (context_here() == nullptr || peer == context_here()) return kInvalidContext;
  const std::lock_guard lock(state().mutex);
  return context_here()->reached.insert(peer->device).second ? kSuccess : kPeerAccessAlreadyEnabled;
}

FAKE_API DriverResult cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  FAKE_ENTER(cuDeviceGetAttribute);
  if (attribute == kMulticastSupported) return multicast_attribute(value);
  if (card_attribute(attribute, value) == kSuccess) return kSuccess;
  static const std::map<int, int> values = {{kMultiprocessors, 3}, {kComputeMajor, 9}, {kHostAddresses, 1}};
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}

// ---- Memory

FAKE_API DriverResult cuMemAlloc_v2(Address* memory, size_t bytes) {
  FAKE_ENTER(cuMemAlloc);
  await_copies();
  if (context_here() == nullptr) return kInvalidContext;
  const File file = device_file(bytes, context_here()->device);
  if (file == nullptr) return kOutOfMemory;
  std::byte* const base = map(file->get(), bytes, PROT_NONE);
  std::byte* const alias = map(file->get(), bytes, PROT_READ | PROT_WRITE);
  if (base == nullptr || alias == nullptr) return kOutOfMemory;
  note({.base = base,
        .alias = alias,
        .size = bytes,
        .type = kMemoryTypeDevice,
        .device = context_here()->device,
        .file = file});
  *memory = reinterpret_cast<uintptr_t>(base);
  return kSuccess;
}

FAKE_API DriverResult cuMemAllocManaged(Address* memory, size_t bytes, unsigned /*flags*/) {
  FAKE_ENTER(cuMemAllocManaged);
  void* managed = nullptr;
  const DriverResult result = allocate_on_host(&managed, bytes, kManagedMemory);
  *memory = reinterpret_cast<uintptr_t>(managed);
  return result;
}

FAKE_API DriverResult cuMemFree_v2(Address memory) {
  FAKE_ENTER(cuMemFree);
  return give_back(memory);
}

FAKE_API DriverResult cuMemHostAlloc(void** memory, size_t bytes, unsigned /*flags*/) {
  FAKE_ENTER(cuMemHostAlloc);
  await_copies();
  const DriverResult result = forbidden();
  return result == kSuccess ? allocate_on_host(memory, bytes, kMemoryTypeHost) : result;
}

FAKE_API DriverResult cuMemFreeHost(void* memory) {
  FAKE_ENTER(cuMemFreeHost);
  return give_back(reinterpret_cast<uintptr_t>(memory));
}

FAKE_API DriverResult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned /*flags*/) {
  FAKE_ENTER(cuMemHostRegister);
  await_copies();
  if (context_here() == nullptr) return kInvalidContext;
  if (is_known(memory, bytes)) return kAlreadyRegistered;
  auto* const base = static_cast<std::byte*>(memory);
  note({.base = base,
        .alias = base,
        .size = bytes,
        .type = kMemoryTypeHost,
        .device = context_here()->device,
        .origin = Allocation::Origin::kRegistered});
  return kSuccess;
}

FAKE_API DriverResult cuMemHostUnregister(void* memory) {
  FAKE_ENTER(cuMemHostUnregister);
  if (context_here() == nullptr) return kInvalidContext;
  await_devices(*context_here());
  const bool was_there = take_out(reinterpret_cast<uintptr_t>(memory), Allocation::Origin::kRegistered).has_value();
  return was_there ? kSuccess : kNotRegistered;
}

FAKE_API DriverResult cuPointerGetAttributes(unsigned count, const int* attributes, void** into, Address address) {
  FAKE_ENTER(cuPointerGetAttributes);
  const std::lock_guard lock(state().mutex);
  const Allocation* const found = find(address);
  const Allocation known = found == nullptr ? Allocation{} : *found;
  for (unsigned i = 0; i < count; ++i) {
    const bool managed = known.type == kManagedMemory;
    if (attributes[i] == kAttributeMemoryType)
      *static_cast<unsigned*>(into[i]) = managed ? kMemoryTypeDevice : known.type;
    if (attributes[i] == kAttributeIsManaged) *static_cast<unsigned*>(into[i]) = managed ? 1 : 0;
    const bool is_allocated = known.origin == Allocation::Origin::kAllocated;
    if (attributes[i] == kAttributeLegacyIpc)
      *static_cast<unsigned*>(into[i]) = !managed && known.type == kMemoryTypeDevice && is_allocated ? 1 : 0;
    if (attributes[i] == kAttributeBufferId)  // of what is mapped the driver may know none
      *static_cast<uint64_t*>(into[i]) = known.origin == Allocation::Origin::kMapped ? 0 : known.number;
    if (attributes[i] == kAttributeRangeStart)
      *static_cast<Address*>(into[i]) = reinterpret_cast<uintptr_t>(known.base);
    if (attributes[i] == kAttributeRangeSize) *static_cast<size_t*>(into[i]) = known.size;
    if (attributes[i] == kAttributeContext)
      *static_cast<Context*>(into[i]) = is_allocated && known.base != nullptr ? context_of(known.device) : nullptr;
    if (attributes[i] == kAttributeDeviceOrdinal) *static_cast<int*>(into[i]) = known.device;
  }
  return kSuccess;
}

FAKE_API DriverResult cuMemcpyAsync(Address to, Address from, size_t bytes, StreamHandle handle) {
  FAKE_ENTER(cuMemcpyAsync);
  OpaqueStream* const stream = stream_of(handle);
  if (stream == nullptr || context_here() != &stream->context) return kInvalidContext;
  if (const DriverResult result = health(stream->context); result != kSuccess) return result;
  stream->put([=] {
    std::memcpy(reach(to), reach(from), bytes);
    return true;
  });
  const auto is_pageable = [&](Address address) { return !is_known(reinterpret_cast<void*>(address), bytes); };
  if (!is_pageable(to) && !is_pageable(from)) return kSuccess;
  std::unique_lock making(stream->context.making, std::defer_lock), lock(stream->context.lock, std::defer_lock);
  if (is_pageable(to)) making.lock();
  if (stream == stream->context.default_stream) lock.lock();
  stream->synchronize();
  return kSuccess;
}

FAKE_API DriverResult cuMemsetD8Async(Address to, unsigned char value, size_t bytes, StreamHandle handle) {
  FAKE_ENTER(cuMemsetD8Async);
  OpaqueStream* const stream = stream_of(handle);
  if (stream == nullptr || context_here() != &stream->context) return kInvalidContext;
  if (const DriverResult result = health(stream->context); result != kSuccess) return result;
  stream->put([=] {
    std::memset(reach(to), value, bytes);
    return true;
  });
  return kSuccess;
}

// ---- Streams

FAKE_API DriverResult cuStreamCreate(StreamHandle* stream, unsigned flags) {
  FAKE_ENTER(cuStreamCreate);
  if (context_here() == nullptr) return kInvalidContext;
  *stream = new OpaqueStream(*context_here(), flags);
  return kSuccess;
}

FAKE_API DriverResult cuStreamCreateWithPriority(StreamHandle* stream, unsigned flags, int /*priority*/) {
  FAKE_ENTER(cuStreamCreateWithPriority);
  return cuStreamCreate(stream, flags);
}

FAKE_API DriverResult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  FAKE_ENTER(cuCtxGetStreamPriorityRange);
  *least = 0;
  *greatest = -5;
  return kSuccess;
}

FAKE_API DriverResult cuStreamDestroy_v2(StreamHandle stream) {
  FAKE_ENTER(cuStreamDestroy);
  delete stream;
  return kSuccess;
}

FAKE_API DriverResult cuStreamSynchronize(StreamHandle handle) {
  FAKE_ENTER(cuStreamSynchronize);
  OpaqueStream* const stream = stream_of(handle);
  stream->synchronize();
  return health(stream->context);
}

FAKE_API DriverResult cuStreamQuery(StreamHandle handle) {
  FAKE_ENTER(cuStreamQuery);
  OpaqueStream* const stream = stream_of(handle);
  if (stream->context.broken) return kIllegalAddress;
  return stream->is_idle() ? kSuccess : kNotReady;
}

FAKE_API DriverResult cuStreamGetCtx(StreamHandle handle, Context* context) {
  FAKE_ENTER(cuStreamGetCtx);
  OpaqueStream* const stream = stream_of(handle);
  if (stream == nullptr) return kInvalidContext;
  *context = &stream->context;
  return health(stream->context);
}

FAKE_API DriverResult cuStreamGetFlags(StreamHandle handle, unsigned* flags) {
  FAKE_ENTER(cuStreamGetFlags);
  const OpaqueStream* const stream = stream_of(handle);
  if (stream == nullptr) return kInvalidContext;
  *flags = stream->flags;
  return health(stream->context);
}

FAKE_API DriverResult cuStreamWaitValue32_v2(StreamHandle handle, Address address, uint32_t value, unsigned how) {
  FAKE_ENTER(cuStreamWaitValue32);
  auto* const word = reinterpret_cast<const std::atomic<uint32_t>*>(reach(address));
  const bool equal = how == kWaitEqual;
  OpaqueStream* const stream = stream_of(handle);
  const bool counts = stream->captured == nullptr;
  const auto count = [stream, counts](int more) {
    if (!counts) return;
    stream->words_awaited += more;
    stream->context.words_awaited += more;
  };
  count(1);
  stream->put([=] {
    const bool is_there = equal ? word->load() == value : word->load() >= value;
    if (is_there) count(-1);
    return is_there;
  });
  return kSuccess;
}

FAKE_API DriverResult cuLaunchHostFunc(StreamHandle handle, HostFunction function, void* argument) {
  FAKE_ENTER(cuLaunchHostFunc);
  await_copies();
  stream_of(handle)->put([=] {
    call_host_function(function, argument);
    return true;
  });
  return kSuccess;
}

// ---- Events

FAKE_API DriverResult cuEventCreate(Event* event, unsigned /*flags*/) {
  FAKE_ENTER(cuEventCreate);
  if (context_here() == nullptr) return kInvalidContext;
  await_copies();
  *event = new OpaqueEvent(*context_here());
  return kSuccess;
}

FAKE_API DriverResult cuEventRecord(Event event, StreamHandle handle) {
  FAKE_ENTER(cuEventRecord);
  auto passed = std::make_shared<std::atomic<bool>>(false);
  event->passed = passed;
  stream_of(handle)->put([passed] {
    passed->store(true);
    return true;
  });
  return kSuccess;
}

FAKE_API DriverResult cuEventQuery(Event event) {
  FAKE_ENTER(cuEventQuery);
  if (const DriverResult result = forbidden(); result != kSuccess) return result;
  if (event->context.broken) return kIllegalAddress;
  return event->passed->load() ? kSuccess : kNotReady;
}

FAKE_API DriverResult cuEventDestroy_v2(Event event) {
  FAKE_ENTER(cuEventDestroy);
  await_copies();
  delete event;
  return kSuccess;
}

FAKE_API DriverResult cuStreamWaitEvent(StreamHandle handle, Event event, unsigned /*flags*/) {
  FAKE_ENTER(cuStreamWaitEvent);
  stream_of(handle)->put([passed = event->passed] { return passed->load(); });
  return kSuccess;
}

// ---- Graphs

FAKE_API DriverResult cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}

FAKE_API DriverResult cuStreamBeginCapture_v2(StreamHandle handle, int mode) {
  FAKE_ENTER(cuStreamBeginCapture);
  handle->captured = std::make_unique<OpaqueGraph>();
  handle->captures_globally = mode == 0;
  const std::lock_guard lock(state().mutex);
  state().global_captures += mode == 0 ? 1 : 0;
  return kSuccess;
}

FAKE_API DriverResult cuStreamEndCapture(StreamHandle handle, Graph* graph) {
  FAKE_ENTER(cuStreamEndCapture);
  *graph = handle->captured.release();
  const std::lock_guard lock(state().mutex);
  state().global_captures -= handle->captures_globally ? 1 : 0;
  return kSuccess;
}

FAKE_API DriverResult cuStreamGetCaptureInfo_v2(StreamHandle handle, int* status, uint64_t* /*id*/, Graph* graph,
                                                const void** /*dependencies*/, size_t* /*count*/) {
  FAKE_ENTER(cuStreamGetCaptureInfo);
  OpaqueStream* const stream = stream_of(handle);
  *status = stream->captured != nullptr ? kCaptureActive : 0;
  if (stream->captured != nullptr) *graph = stream->captured.get();
  return kSuccess;
}

FAKE_API DriverResult cuUserObjectCreate(UserObject* object, void* argument, HostFunction destroy, unsigned /*count*/,
                                         unsigned /*flags*/) {
  FAKE_ENTER(cuUserObjectCreate);
  auto made = std::make_shared<OpaqueUserObject>();
  made->argument = argument;
  made->destroy = destroy;
  *object = made.get();
  const std::lock_guard lock(state().mutex);
  state().objects[*object] = std::move(made);
  return kSuccess;
}

FAKE_API DriverResult cuGraphRetainUserObject(Graph graph, UserObject object, unsigned /*count*/, unsigned /*flags*/) {
  FAKE_ENTER(cuGraphRetainUserObject);
  const std::lock_guard lock(state().mutex);
  graph->objects.push_back(std::move(state().objects[object]));
  state().objects.erase(object);
  return kSuccess;
}

FAKE_API DriverResult cuGraphInstantiateWithFlags(GraphExecution* execution, Graph graph,
                                                  unsigned long long /*flags*/) {
  FAKE_ENTER(cuGraphInstantiate);
  *execution = new OpaqueGraphExecution{*graph};
  return kSuccess;
}

FAKE_API DriverResult cuGraphLaunch(GraphExecution execution, StreamHandle handle) {
  FAKE_ENTER(cuGraphLaunch);
  for (const Task& task : execution->graph.tasks) stream_of(handle)->put(task);
  return kSuccess;
}

FAKE_API DriverResult cuGraphDestroy(Graph graph) {
  delete graph;
  return kSuccess;
}

FAKE_API DriverResult cuGraphExecDestroy(GraphExecution execution) {
  delete execution;
  return kSuccess;
}

}  // extern "C"

namespace hocket::fake {

FAKE_API void launch(StreamHandle stream, std::function<void()> kernel) {
  stream_of(stream)->put([kernel = std::move(kernel)] {
    kernel();
    return true;
  });
}

FAKE_API void* memory_of(cuda::Address address) { return reach(address); }

FAKE_API void fail(const std::string& symbol, DriverResult result, int after) {
  const std::lock_guard lock(state().mutex);
  state().failing = result == kSuccess ? "" : symbol;
  state().failure = result;
  state().fails_after = after;
}

FAKE_API void take_anew(const void* memory) {
  const std::lock_guard lock(state().mutex);
  state().allocations.at(reinterpret_cast<uintptr_t>(memory)).number = ++state().last_number;
}

FAKE_API size_t registered_bytes() {
  const std::lock_guard lock(state().mutex);
  size_t bytes = 0;
  for (const auto& [base, each] : state().allocations) {
    if (each.origin == Allocation::Origin::kRegistered) bytes += each.size;
  }
  return bytes;
}

FAKE_API void break_device(int device) { state().contexts[device].broken = true; }

FAKE_API int all_calls() {
  const std::lock_guard lock(state().mutex);
  int sum = 0;
  for (const auto& [symbol, calls] : state().calls) sum += calls;
  return sum;
}

FAKE_API int calls_of(const std::string& symbol) {
  const std::lock_guard lock(state().mutex);
  return state().calls[symbol];
}

}  // namespace hocket::fake
