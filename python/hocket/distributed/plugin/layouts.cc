// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "layouts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

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

template <DispatchKey device>
void hand_on(DispatchKey layout) {
  static std::vector<torch::Library> registered;  // for as long as the process lives
  torch::Library& library = registered.emplace_back(torch::Library::IMPL, "c10d", layout, __FILE__, __LINE__);
  for (const char* call : kCalls) {
    const auto known = c10::Dispatcher::singleton().findSchema({std::string("c10d::") + call, ""});
    if (!known || known->hasKernelForDispatchKey(layout)) continue;
    library.impl(call, torch::CppFunction::makeFromBoxedFunction<&as_dense<device>>());
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
