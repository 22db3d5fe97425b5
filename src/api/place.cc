// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/place.h"

#include <fmt/format.h>

#include "comm/staging.h"
#include "cuda/memory.h"

namespace hocket {
namespace {

// CUDA's own streams are addresses, 1 (the default stream) or 2 (that of the thread): never odd and above.
bool may_be_cuda(hocketStream_t stream) {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  return value != 0 && (value <= 2 || value % 2 == 0);
}

}  // namespace

bool is_cuda_stream(hocketStream_t stream) { return may_be_cuda(stream) && cuda::look_for_driver() != nullptr; }

Result<cuda::Stream> find_stream(hocketStream_t stream) {
  return cuda::Stream::find(*cuda::driver(), static_cast<cuda::StreamHandle>(stream));
}

Result<std::shared_ptr<Queue>> queue_of(hocketStream_t stream) {
  const auto pin = queues().pin(stream);
  if (!pin) {
    return Status(Code::kInvalidArgument,
                  fmt::format("stream: {} is neither NULL nor the stream of a live queue", stream));
  }
  if (!(*pin)->in_its_process()) return (*pin)->status();
  return *pin;
}

Status check_stream(hocketStream_t stream) {
  if (stream == nullptr) return {};
  if (!is_cuda_stream(stream)) return queue_of(stream).status();
  return cuda::Stream::check(*cuda::driver(), static_cast<cuda::StreamHandle>(stream));
}

Result<hocketStream_t> stream_of(const Communicator& communicator, Request& request, hocketStream_t given) {
  const cuda::Driver* const driver = cuda::driver();
  if (driver == nullptr || is_cuda_stream(given)) return given;
  request.lendable = is_plain(request.send, request.recv);
  if (request.lendable && request.reduction.scalar_elsewhere == nullptr) return given;
  if (!uses_cuda_memory(*driver, request, communicator.rank(), communicator.ranks())) return given;
  if (given == nullptr) return static_cast<hocketStream_t>(cuda::default_stream());
  return Status(Code::kInvalidArgument, "stream: CUDA memory needs a CUDA stream, this is a queue's");
}

bool is_plain(const void* send, const void* recv) {
  const cuda::Driver* const driver = cuda::driver();
  if (driver == nullptr) return true;
  const auto unknown = [&](const void* buffer) {
    return cuda::recognise(*driver, buffer).kind == cuda::MemoryKind::kUnknown;
  };
  return unknown(send) && (send == recv || unknown(recv));
}

Status check_host_memory(const char* name, const void* buffer) {
  const cuda::Driver* const driver = cuda::driver();
  if (driver == nullptr || !cuda::recognise(*driver, buffer).is_cuda()) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{}: {} is CUDA memory, and this call takes the host's", name, buffer));
}

}  // namespace hocket
