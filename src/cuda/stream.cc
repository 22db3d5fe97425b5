// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/stream.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

namespace hocket::cuda {
namespace {

constexpr uintptr_t kLastDefaultStream = 2;  // CU_STREAM_PER_THREAD

constinit thread_local Context entered = nullptr;  // the last one that the thread has entered and not left

Address address_of(const void* pointer) { return static_cast<Address>(reinterpret_cast<uintptr_t>(pointer)); }

}  // namespace

StreamHandle default_stream() { return reinterpret_cast<StreamHandle>(uintptr_t{1}); }  // CU_STREAM_LEGACY

bool is_default(const void* handle) { return reinterpret_cast<uintptr_t>(handle) <= kLastDefaultStream; }

Entered::Entered(const Driver& driver, Context context)
    : driver_(driver), before_(std::exchange(entered, context)), enters_(context != before_) {
  if (!enters_) return;
  pushed_ = driver_.context_push(context) == kSuccess;
  driver_.exchange_capture_mode(&capture_mode_);
}

Entered::~Entered() {
  entered = before_;
  if (!enters_) return;
  driver_.exchange_capture_mode(&capture_mode_);
  Context context = nullptr;
  if (pushed_) driver_.context_pop(&context);
}

Status Stream::check(const Driver& driver, StreamHandle handle) {
  Context context = nullptr;
  return checked(driver, driver.stream_get_context(handle, &context), "stream: cuStreamGetCtx");
}

Result<Stream> Stream::find(const Driver& driver, StreamHandle handle) {
  Stream stream;
  stream.driver_ = &driver;
  stream.handle_ = handle;
  HOCKET_TRY(checked(driver, driver.stream_get_context(handle, &stream.context_), "stream: cuStreamGetCtx"));
  if (stream.context_ == nullptr) return Status(Code::kCuda, "stream: this thread uses no CUDA context");
  const Entered inside(driver, stream.context_);
  HOCKET_TRY(checked(driver, driver.context_get_device(&stream.device_), "stream: cuCtxGetDevice"));
  int capture = 0;
  HOCKET_TRY(checked(driver, driver.stream_get_capture(handle, &capture, nullptr, &stream.graph_, nullptr, nullptr),
                     "stream: cuStreamGetCaptureInfo"));
  if (capture == kCaptureInvalidated) return Status(Code::kCuda, "stream: its capture has failed already");
  if (capture != kCaptureActive) stream.graph_ = nullptr;
  return stream;
}

Result<Stream> Stream::make(const Driver& driver) {
  StreamHandle handle = nullptr;
  int least = 0, greatest = 0;
  HOCKET_TRY(checked(driver, driver.stream_get_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange"));
  HOCKET_TRY(checked(driver, driver.stream_create(&handle, kNonBlocking, greatest), "cuStreamCreateWithPriority"));
  return find(driver, handle);
}

bool Stream::is_apart() const {
  unsigned flags = 0;
  return !is_default(handle_) && driver_->stream_get_flags(handle_, &flags) == kSuccess && (flags & kNonBlocking) != 0;
}

bool Stream::is_idle() const {
  return !is_default(handle_) && graph_ == nullptr && driver_->stream_query(handle_) == kSuccess;
}

void Stream::wait_until_idle() const {
  while (driver_->stream_query(handle_) == kNotReady) std::this_thread::yield();
}

Status Stream::copy(void* to, const void* from, size_t bytes) const {
  return checked(*driver_, driver_->copy(address_of(to), address_of(from), bytes, handle_), "cuMemcpyAsync");
}

Status Stream::clear(void* memory, size_t bytes) const {
  return checked(*driver_, driver_->memory_set(address_of(memory), 0, bytes, handle_), "cuMemsetD8Async");
}

Status Stream::call(HostFunction function, void* argument) const {
  return checked(*driver_, driver_->launch_host_function(handle_, function, argument), "cuLaunchHostFunc");
}

Status Stream::wait_for(const uint32_t* word, uint32_t value) const {
  return checked(*driver_, driver_->stream_wait_value(handle_, address_of(word), value, kWaitEqual),
                 "cuStreamWaitValue32");
}

Status Stream::wait_until_at_least(const uint32_t* word, uint32_t value) const {
  return checked(*driver_, driver_->stream_wait_value(handle_, address_of(word), value, kWaitAtLeast),
                 "cuStreamWaitValue32");
}

Result<KeptEvent> Stream::mark() const {
  Result<KeptEvent> event = KeptEvent::take(*driver_, context_);
  HOCKET_TRY(event.status());
  HOCKET_TRY(mark(event->get()));
  return event;
}

Status Stream::mark(Event event) const {
  return checked(*driver_, driver_->event_record(event, handle_), "cuEventRecord");
}

Status Stream::wait_for(Event event) const {
  return checked(*driver_, driver_->stream_wait_event(handle_, event, 0), "cuStreamWaitEvent");
}

Status Stream::launch(Kernel kernel, Grid grid, const void* argument) const {
  void* arguments[] = {const_cast<void*>(argument)};
  return checked(*driver_,
                 driver_->launch_kernel(kernel, grid.x, grid.y, 1, grid.threads, 1, 1, 0, handle_, arguments, nullptr),
                 "cuLaunchKernel");
}

Status Stream::tie_to_graph(void* argument, HostFunction drop) const {
  UserObject object = nullptr;
  HOCKET_TRY(checked(*driver_, driver_->user_object_create(&object, argument, drop, 1, kNoDestructorSync),
                     "cuUserObjectCreate"));
  return checked(*driver_, driver_->graph_retain(graph_, object, 1, kMoveReference), "cuGraphRetainUserObject");
}

}  // namespace hocket::cuda
