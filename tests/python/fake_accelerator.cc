// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A CUDA device for a torch that was built without CUDA, on the stand-in for the driver (tests/cuda/fake_driver.h): its
// memory, streams and events, and as many kernels as tests need. What has no kernel here runs on the host, when the
// current stream has come so far.
//
// Memory is never used again, but what is freed is overwritten, in the order of the stream that it was allocated on,
// unless it was recorded on other streams: whoever forgets to record sees other values.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_cpu_dispatch.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/view_as_real_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/cuda/fake_driver.h"

namespace {

constexpr c10::DeviceIndex kDevices = 2;

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kDevices> current_streams = {};

// By StreamId; number 0 of each device is its default stream, which has no handle.
struct Streams {
  std::mutex mutex;
  std::array<std::vector<StreamHandle>, kDevices> handles;  // guarded by mutex
};

Streams& streams() {
  static auto& instance = *new Streams;
  return instance;
}

size_t place(c10::DeviceIndex device) { return static_cast<size_t>(device < 0 ? current_device : device); }

void enter(c10::DeviceIndex device) {
  Context context = nullptr;
  cuDevicePrimaryCtxRetain(&context, static_cast<int>(place(device)));
  cuCtxSetCurrent(context);
}

StreamHandle handle_of(const c10::Stream& stream) {
  enter(stream.device_index());
  if (stream.id() == 0) return nullptr;
  const std::lock_guard lock(streams().mutex);
  return streams().handles[place(stream.device_index())][static_cast<size_t>(stream.id()) - 1];
}

class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::kCUDA, current_device}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = static_cast<c10::DeviceIndex>(place(device.index()));
    enter(current_device);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const override {
    const size_t at = place(device.index());
    return named(at, current_streams[at]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return named(place(device.index()), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*is_high_priority*/) const override {
    const size_t at = place(device.index());
    enter(static_cast<c10::DeviceIndex>(at));
    StreamHandle made = nullptr;
    cuStreamCreate(&made, 0);
    const std::lock_guard lock(streams().mutex);
    streams().handles[at].push_back(made);
    return named(at, static_cast<c10::StreamId>(streams().handles[at].size()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const size_t at = place(stream.device_index());
    return named(at, std::exchange(current_streams[at], stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle_of(stream); }
  bool queryStream(const c10::Stream& stream) const override { return cuStreamQuery(handle_of(stream)) == 0; }
  void synchronizeStream(const c10::Stream& stream) const override { cuStreamSynchronize(handle_of(stream)); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    const StreamHandle handle = handle_of(stream);
    if (*event == nullptr) cuEventCreate(reinterpret_cast<Event*>(event), 0);
    cuEventRecord(static_cast<Event>(*event), handle);
  }
  void block(void* event, const c10::Stream& stream) const override {
    cuStreamWaitEvent(handle_of(stream), static_cast<Event>(event), 0);
  }
  bool queryEvent(void* event) const override { return cuEventQuery(static_cast<Event>(event)) == 0; }
  void synchronizeEvent(void* event) const override {
    while (!queryEvent(event)) std::this_thread::yield();
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    cuEventDestroy_v2(static_cast<Event>(event));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override;

 private:
  static c10::Stream named(size_t device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, {c10::kCUDA, static_cast<c10::DeviceIndex>(device)}, id);
  }
};

const FakeGuard guard;
C10_REGISTER_GUARD_IMPL(CUDA, FakeGuard);

c10::Stream current_stream() { return guard.getStream(guard.getDevice()); }

// ---- Memory

struct Block {
  void* inside;  // where kernels find it
  size_t bytes;
  c10::Stream stream;
  bool is_recorded = false;
};

void release(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (block->is_recorded) return;
  hocket::fake::launch(handle_of(block->stream),
                       [inside = block->inside, bytes = block->bytes] { std::memset(inside, 0x55, bytes); });
}

class FakeAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device = guard.getDevice();
    enter(device.index());
    Address address = 0;
    TORCH_CHECK(cuMemAlloc_v2(&address, std::max(bytes, size_t{1})) == 0, "the stand-in has no memory");
    auto* const block = new Block{hocket::fake::memory_of(address), bytes, current_stream()};
    return {reinterpret_cast<void*>(address), block, &release, device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(hocket::fake::memory_of(reinterpret_cast<Address>(to)),
                hocket::fake::memory_of(reinterpret_cast<Address>(from)), bytes);
  }
};

FakeAllocator allocator;

void FakeGuard::recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const {
  auto* const block = static_cast<Block*>(memory.get_context());
  if (block != nullptr && block->stream != stream) block->is_recorded = true;
}

// ---- Kernels

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &allocator, kKeys,
                                   type.value_or(at::get_default_dtype_as_scalartype()), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                         std::optional<bool> /*pinned*/) {
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(strides), &allocator,
                                           kKeys, type.value_or(at::get_default_dtype_as_scalartype()));
}

// The tensor as a kernel sees it.
at::Tensor inside(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor.detach();
  void* const memory = hocket::fake::memory_of(reinterpret_cast<Address>(tensor.data_ptr()));
  return at::from_blob(memory, tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

// Between devices in the order of the stream; from and to the host the caller waits.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool /*non_blocking*/) {
  if (self.numel() == 0) return self;
  const at::Tensor expanded = source.expand(self.sizes());
  const at::Device device = self.is_cuda() ? self.device() : source.device();
  const c10::Stream stream = guard.getStream(device);
  const auto move = [to = inside(self), from = inside(expanded)]() mutable {
    const at::NoGradGuard no_grad;
    to.copy_(from);
  };
  hocket::fake::launch(handle_of(stream), move);
  if (!self.is_cuda() || !source.is_cuda()) stream.synchronize();
  return self;
}

// To new memory.
const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  const auto wanted = C10_AS_INTARRAYREF_SLOW(size);
  if (self.sizes() == wanted) return self;
  const at::Tensor fresh = at::empty(wanted, self.options(), format);
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
  self.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return at::Tensor(to).copy_(self);
}

void on_the_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", at::cpu::as_strided_symint);
  library.impl("view_as_real", at::cpu::view_as_real);
  library.impl("view", at::cpu::view_symint);
  library.impl("_reshape_alias", at::cpu::_reshape_alias_symint);
  library.impl("resize_", resize);
  library.impl("copy_", copy);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_host>()); }

}  // namespace

PYBIND11_MODULE(_fake_accelerator, module) {
  module.def(
      "busy",
      [](int milliseconds) {
        hocket::fake::launch(handle_of(current_stream()),
                             [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
      },
      "The current stream has nothing else to do for so long.");
  module.def("is_idle", [] { return current_stream().query(); });
  module.def("stream_handle", [](c10::DeviceIndex device) {
    return reinterpret_cast<uintptr_t>(handle_of(guard.getStream({c10::kCUDA, device})));
  });
  module.def("use_new_stream", [] { guard.exchangeStream(guard.getStreamFromGlobalPool(guard.getDevice(), false)); });
  module.def("use_device", [](c10::DeviceIndex device) { guard.setDevice({c10::kCUDA, device}); });
}
