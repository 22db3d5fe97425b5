// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Collectives on single tensors, and on coalesced ones.
#include <string>

#include "backend.h"
#include "errors.h"

namespace hocket_torch {
namespace {

std::string numbered(const char* name, size_t i) { return std::string(name) + "[" + std::to_string(i) + "]"; }

void check_same_type(const Caller& caller, const at::Tensor& output, const at::Tensor& input) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "hocket rank ", caller.rank, ": ", caller.call, ": output (",
              describe(output), ") and input (", describe(input), ") are of different types");
}

// `whole` has as many elements for each rank as `part`.
void check_whole(const Caller& caller, int size, const at::Tensor& whole, const at::Tensor& part) {
  check_same_type(caller, whole, part);
  TORCH_CHECK(whole.numel() == part.numel() * size, "hocket rank ", caller.rank, ": ", caller.call, ": the tensor (",
              describe(whole), ") must have ", size, " times the elements of the one for each rank (", describe(part),
              ")");
}

void check_pairs(const Caller& caller, size_t outputs, size_t inputs) {
  TORCH_CHECK(outputs == inputs && inputs > 0, "hocket rank ", caller.rank, ": ", caller.call, ": ", outputs,
              " outputs for ", inputs, " inputs");
}

}  // namespace

WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const Caller by = caller("broadcast");
  const int root = root_of(by, opts.rootRank, getSize());
  const Elements elements = moved(by, "tensor", only(by, tensors));
  return collective({c10d::OpType::BROADCAST, "hocket:broadcast", {}, tensors}, {opts.asyncOp, opts.timeout},
                    [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketBcast(elements.data, elements.count, elements.type, root, comm, stream);
                    });
}

WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const Caller by = caller("all_reduce");
  if (only(by, tensors).is_sparse()) return allreduce_sparse(tensors, opts);
  const Elements elements = reduced(by, "tensor", tensors.front());
  const Reduction op(by, opts.reduceOp, tensors.front().scalar_type(), collectives_);
  return collective({c10d::OpType::ALLREDUCE, "hocket:all_reduce", {}, tensors}, {opts.asyncOp, opts.timeout},
                    [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketAllReduce(elements.data, elements.data, elements.count, elements.type, op, comm,
                                             stream);
                    });
}

WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  const Caller by = caller("all_reduce_coalesced");
  check_pairs(by, tensors.size(), tensors.size());
  std::vector<Elements> all;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_same_type(by, tensors[i], tensors.front());
    all.push_back(reduced(by, numbered("tensors", i).c_str(), tensors[i]));
  }
  const Reduction op(by, opts.reduceOp, tensors.front().scalar_type(), collectives_);
  return coalesced({c10d::OpType::ALLREDUCE_COALESCED, "hocket:all_reduce_coalesced", {}, tensors},
                   {opts.asyncOp, opts.timeout}, all.size(), [&](size_t i, hocketComm_t comm, hocketStream_t stream) {
                     return hocketAllReduce(all[i].data, all[i].data, all[i].count, all[i].type, op, comm, stream);
                   });
}

WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const Caller by = caller("reduce");
  const int root = root_of(by, opts.rootRank, getSize());
  const Elements elements = reduced(by, "tensor", only(by, tensors));
  const Reduction op(by, opts.reduceOp, tensors.front().scalar_type(), collectives_);
  return collective({c10d::OpType::REDUCE, "hocket:reduce", {}, tensors}, {opts.asyncOp, opts.timeout},
                    [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketReduce(elements.data, elements.data, elements.count, elements.type, op, root, comm,
                                          stream);
                    });
}

WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  const Caller by = caller("all_gather_into_tensor");
  const Elements to = moved(by, "output", output);
  const Elements from = moved(by, "input", input);
  check_whole(by, getSize(), output, input);
  return collective({c10d::OpType::_ALLGATHER_BASE, "hocket:all_gather_into_tensor", {input}, {output}},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketAllGather(from.data, to.data, from.count, from.type, comm, stream);
                    });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  const Caller by = caller("reduce_scatter_tensor");
  moved(by, "output", output);
  moved(by, "input", input);
  const Elements to = reduced(by, "output", output);
  const Elements from = reduced(by, "input", input);
  check_whole(by, getSize(), input, output);
  const Reduction op(by, opts.reduceOp, input.scalar_type(), collectives_);
  return collective({c10d::OpType::_REDUCE_SCATTER_BASE, "hocket:reduce_scatter_tensor", {input}, {output}},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketReduceScatter(from.data, to.data, to.count, to.type, op, comm, stream);
                    });
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& opts) {
  const Caller by = caller("all_gather_into_tensor_coalesced");
  check_pairs(by, outputs.size(), inputs.size());
  std::vector<Elements> to;
  std::vector<Elements> from;
  for (size_t i = 0; i < inputs.size(); ++i) {
    to.push_back(moved(by, numbered("outputs", i).c_str(), outputs[i]));
    from.push_back(moved(by, numbered("inputs", i).c_str(), inputs[i]));
    check_whole(by, getSize(), outputs[i], inputs[i]);
  }
  return coalesced({c10d::OpType::COALESCED, "hocket:all_gather_into_tensor_coalesced", inputs, outputs},
                   {opts.asyncOp, opts.timeout}, to.size(), [&](size_t i, hocketComm_t comm, hocketStream_t stream) {
                     return hocketAllGather(from[i].data, to[i].data, from[i].count, from[i].type, comm, stream);
                   });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& opts) {
  const Caller by = caller("reduce_scatter_tensor_coalesced");
  check_pairs(by, outputs.size(), inputs.size());
  std::vector<Elements> to;
  std::vector<Elements> from;
  for (size_t i = 0; i < inputs.size(); ++i) {
    moved(by, numbered("outputs", i).c_str(), outputs[i]);
    moved(by, numbered("inputs", i).c_str(), inputs[i]);
    to.push_back(reduced(by, numbered("outputs", i).c_str(), outputs[i]));
    from.push_back(reduced(by, numbered("inputs", i).c_str(), inputs[i]));
    check_whole(by, getSize(), inputs[i], outputs[i]);
    check_same_type(by, inputs[i], inputs.front());
  }
  const Reduction op(by, opts.reduceOp, inputs.front().scalar_type(), collectives_);
  return coalesced({c10d::OpType::COALESCED, "hocket:reduce_scatter_tensor_coalesced", inputs, outputs},
                   {opts.asyncOp, opts.timeout}, to.size(), [&](size_t i, hocketComm_t comm, hocketStream_t stream) {
                     return hocketReduceScatter(from[i].data, to[i].data, to[i].count, to[i].type, op, comm, stream);
                   });
}

// One that names a device also waits for what its current stream has to do.
WorkPtr Backend::barrier(const c10d::BarrierOptions& opts) {
  caller("barrier");
  // Programs name devices where there are none, too (Accelerate does).
  const int64_t devices = count_devices();
  for (const int64_t device : opts.device_ids) {
    if (device < devices) current_stream({c10::kCUDA, static_cast<c10::DeviceIndex>(device)}).synchronize();
  }
  return collective({c10d::OpType::BARRIER, "hocket:barrier", {}, {}}, {opts.asyncOp, opts.timeout},
                    [](hocketComm_t comm, hocketStream_t stream) { return hocketBarrier(comm, stream); });
}

}  // namespace hocket_torch
