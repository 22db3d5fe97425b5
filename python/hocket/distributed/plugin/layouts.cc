// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "layouts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace hocket_torch {
namespace {

using c10::DispatchKey;

constexpr const char* kCalls[] = {"broadcast_",
                                  "allreduce_",
                                  "allreduce_coalesced_",
                                  "reduce_",
                                  "allgather_",
                                  "_allgather_base_",
                                  "allgather_coalesced_",
                                  "allgather_into_tensor_coalesced_",
                                  "reduce_scatter_",
                                  "_reduce_scatter_base_",
                                  "reduce_scatter_tensor_coalesced_",
                                  "gather_",
                                  "scatter_",
                                  "alltoall_",
                                  "alltoall_base_",
                                  "send",
                                  "recv_",
                                  "recv_any_source_"};

// As if the tensors were dense ones of that device.
template <DispatchKey device>
void as_dense(const c10::OperatorHandle& call, torch::jit::Stack* stack) {
  call.callBoxedForDispatchKey(device, *stack);
}

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  const size_t count = schema.arguments().size();
  const auto index = schema.argumentIndexWithName("process_group");
  TORCH_CHECK(index, schema.name(), " has no process group");
  return torch::jit::peek(stack, static_cast<size_t>(*index), count).toCustomClass<c10d::ProcessGroup>();
}

template <DispatchKey device>
void if_ours(const c10::OperatorHandle& call, torch::jit::Stack* stack) {
  const auto type = device == DispatchKey::CPU ? c10::DeviceType::CPU : c10::DeviceType::CUDA;
  const std::string backend = group_of(call.schema(), *stack)->getBackend(type)->getBackendName();
  TORCH_CHECK_NOT_IMPLEMENTED(
      backend == "hocket", "Could not run '", call.schema().name(), "' with arguments from the '",
      c10::toString(device == DispatchKey::CPU ? DispatchKey::QuantizedCPU : DispatchKey::QuantizedCUDA),
      "' backend: ", backend, " moves no quantized tensors");
  as_dense<device>(call, stack);
}

template <DispatchKey device>
void hand_on(DispatchKey layout) {
  static std::vector<torch::Library> registered;  // for as long as the process lives
  torch::Library& library = registered.emplace_back(torch::Library::IMPL, "c10d", layout, __FILE__, __LINE__);
  for (const char* call : kCalls) {
    const auto known = c10::Dispatcher::singleton().findSchema({std::string("c10d::") + call, ""});
    if (!known || known->hasKernelForDispatchKey(layout)) continue;
    const bool quantized = layout == DispatchKey::QuantizedCPU || layout == DispatchKey::QuantizedCUDA;
    library.impl(call, quantized ? torch::CppFunction::makeFromBoxedFunction<&if_ours<device>>()
                                 : torch::CppFunction::makeFromBoxedFunction<&as_dense<device>>());
  }
}

}  // namespace

void hand_on_all_layouts() {
  for (const DispatchKey layout :
       {DispatchKey::SparseCPU, DispatchKey::SparseCsrCPU, DispatchKey::QuantizedCPU, DispatchKey::MkldnnCPU}) {
    hand_on<DispatchKey::CPU>(layout);
  }
  for (const DispatchKey layout : {DispatchKey::SparseCUDA, DispatchKey::SparseCsrCUDA, DispatchKey::QuantizedCUDA}) {
    hand_on<DispatchKey::CUDA>(layout);
  }
}

}  // namespace hocket_torch
