// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "device_work.h"

#include <ATen/core/jit_type.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>

#include "errors.h"

namespace hocket_torch {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The default stream has no handle of its own, and none at all would mean "here and now": this is CUDA's name for it.
hocketStream_t handle_of(const c10::Stream& stream) {
  void* const handle = stream.native_handle();
  return handle != nullptr ? handle : reinterpret_cast<hocketStream_t>(1);
}

// Its memory is not used again, when the last tensor goes, before the stream has come so far.
void keep_for(const c10::Stream& stream, const std::vector<at::Tensor>& tensors) {
  const c10::impl::VirtualGuardImpl device(stream.device_type());
  for (const at::Tensor& tensor : tensors) device.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

}  // namespace

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

int64_t count_devices() {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return 0;
  return c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
}

c10::Stream SideStreams::of(c10::Device device, int purpose) {
  const auto key = std::make_pair(device.index(), purpose);
  auto found = streams_.find(key);
  if (found == streams_.end()) {
    found = streams_.emplace(key, c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)).first;
  }
  return found->second;
}

DeviceWork::DeviceWork(int rank, uint64_t sequence, CallTensors tensors, hocketComm_t comm,
                       std::shared_ptr<const std::atomic<bool>> aborted, c10::Stream stream)
    : c10d::Work(rank, tensors.type, tensors.title, tensors.noted()),
      tensors_(std::move(tensors)),
      sequence_(sequence),
      comm_(comm),
      aborted_(std::move(aborted)),
      stream_(stream),
      end_(stream.device_type()) {}

void DeviceWork::issue(Issue call) {
  const c10::Stream current = current_stream(stream_.device());
  if (stream_ != current) {
    c10::Event reached(stream_.device_type());
    reached.record(current);
    reached.block(stream_);
    keep_for(stream_, tensors_.inputs);
    keep_for(stream_, tensors_.outputs);
  }
  {
    const c10::StreamGuard guard(stream_);
    check(call(comm_, handle_of(stream_)), [this] { return tensors_.about(); });
  }
  end_.record(stream_);
  if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
}

void DeviceWork::check_communicator() const {
  TORCH_CHECK_WITH(DistBackendError, !*aborted_, "hocket rank ", rank_, ": the process group was aborted",
                   tensors_.about());
  hocketResult_t state = hocketSuccess;
  // One that has been destroyed has completed what was under way.
  if (hocketCommGetAsyncError(comm_, &state) != hocketSuccess || state == hocketInProgress) return;
  check(state, [this] { return tensors_.about(); }, comm_);
}

bool DeviceWork::isCompleted() {
  try {
    check_communicator();
  } catch (...) {
    finish(std::current_exception());
    return true;
  }
  return end_.query();
}

bool DeviceWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return !exception_ && end_.query();
}

void DeviceWork::await(milliseconds limit) {
  constexpr microseconds kLongestNap(200);
  const auto end = steady_clock::now() + limit;
  for (microseconds nap(0); !isCompleted(); nap = std::min(nap + microseconds(1), kLongestNap)) {
    if (steady_clock::now() > end) give_up(rank_, limit, tensors_.about(), sequence_);
    std::this_thread::sleep_for(nap);
  }
}

bool DeviceWork::wait(milliseconds timeout) {
  if (timeout != kNoTimeout) await(timeout);
  synchronize();
  return true;
}

void DeviceWork::synchronize() {
  check_communicator();
  end_.block(current_stream(stream_.device()));
}

void DeviceWork::abort() {
  if (!isCompleted()) hocketCommRevoke(comm_, HOCKET_REVOKE_DEFAULT);
}

c10::intrusive_ptr<c10::ivalue::Future> DeviceWork::getFuture() {
  const std::lock_guard lock(mutex_);
  if (future_ != nullptr) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     std::vector<c10::Device>{stream_.device()});
  const c10::StreamGuard guard(stream_);
  future_->markCompleted(c10::IValue(tensors_.outputs));
  return future_;
}

}  // namespace hocket_torch
