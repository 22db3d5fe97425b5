// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Collectives on lists with a tensor for each rank: they are used where they lie.
#include <numeric>

#include "backend.h"
#include "errors.h"

namespace hocket_torch {
namespace {

// A root's list; empty on others.
const Tensors& list_of_root(const Caller& caller, const char* name, const std::vector<Tensors>& lists, bool is_root,
                            int size) {
  static const Tensors none;
  if (!is_root) {
    TORCH_CHECK(lists.empty(), "hocket rank ", caller.rank, ": ", caller.call, ": ", name, " is for the root only");
    return none;
  }
  TORCH_CHECK(lists.size() == 1, "hocket rank ", caller.rank, ": ", caller.call, ": the root needs one list of ", name);
  check_one_per_rank(caller, name, lists.front().size(), size);
  return lists.front();
}

void check_part(const Caller& caller, const Parts& parts, const Elements& own) {
  const size_t expected = parts.counts[static_cast<size_t>(caller.rank)];
  TORCH_CHECK(parts.type == own.type && expected == own.count, "hocket rank ", caller.rank, ": ", caller.call,
              ": the tensor of this rank has ", own.count, " elements, its place in the list ", expected,
              parts.type == own.type ? "" : " of another type");
}

// Counts of rows as counts of elements; without any, equal parts.
Parts rows_of(const Caller& caller, const char* name, const at::Tensor& tensor, const std::vector<int64_t>& rows,
              int size) {
  const Elements all = moved(caller, name, tensor);
  const int64_t length = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::vector<int64_t> counts = rows;
  if (rows.empty()) {
    TORCH_CHECK(length % size == 0, "hocket rank ", caller.rank, ": ", caller.call, ": ", name, " (", describe(tensor),
                "): ", length, " rows cannot be divided among ", size, " ranks");
    counts.assign(static_cast<size_t>(size), length / size);
  }
  const bool fits = counts.size() == static_cast<size_t>(size) &&
                    std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count >= 0; }) &&
                    std::accumulate(counts.begin(), counts.end(), int64_t{0}) == length;
  TORCH_CHECK(fits, "hocket rank ", caller.rank, ": ", caller.call, ": the split sizes of ", name, " (",
              describe(tensor), ") must be ", size, " and add up to ", length);
  const size_t row = length == 0 ? 0 : all.count / static_cast<size_t>(length);
  Parts parts{all.data, all.type, {}, {}};
  size_t next = 0;
  for (const int64_t count : counts) {
    parts.offsets.push_back(next);
    parts.counts.push_back(static_cast<size_t>(count) * row);
    next += parts.counts.back();
  }
  return parts;
}

}  // namespace

WorkPtr Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const Caller by = caller("all_gather");
  const Elements from = moved(by, "input", only(by, inputs));
  TORCH_CHECK(outputs.size() == 1, "hocket rank ", getRank(), ": all_gather: takes one list of outputs, not ",
              outputs.size());
  check_one_per_rank(by, "outputs", outputs.front().size(), getSize());
  const Parts to = parts_of(by, "outputs", outputs.front());
  check_part(by, to, from);
  return collective({c10d::OpType::ALLGATHER, "hocket:all_gather", inputs, outputs.front()},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketAllGatherV(from.data, from.count, to.data, to.counts.data(), to.offsets.data(),
                                              from.type, comm, stream);
                    });
}

WorkPtr Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::AllgatherOptions& opts) {
  const Caller by = caller("all_gather_coalesced");
  check_one_per_rank(by, "outputs", outputs.size(), getSize());
  std::vector<Elements> from;
  std::vector<Parts> to;
  Tensors all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors list;
    for (const Tensors& of_rank : outputs) {
      TORCH_CHECK(of_rank.size() == inputs.size(), "hocket rank ", getRank(),
                  ": all_gather_coalesced: ", of_rank.size(), " outputs for ", inputs.size(), " inputs");
      list.push_back(of_rank[i]);
    }
    from.push_back(moved(by, "input", inputs[i]));
    to.push_back(parts_of(by, "outputs", list));
    check_part(by, to.back(), from.back());
    all.insert(all.end(), list.begin(), list.end());
  }
  return coalesced({c10d::OpType::ALLGATHER_COALESCED, "hocket:all_gather_coalesced", inputs, all},
                   {opts.asyncOp, opts.timeout}, to.size(), [&](size_t i, hocketComm_t comm, hocketStream_t stream) {
                     return hocketAllGatherV(from[i].data, from[i].count, to[i].data, to[i].counts.data(),
                                             to[i].offsets.data(), from[i].type, comm, stream);
                   });
}

WorkPtr Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const Caller by = caller("gather");
  const Elements from = moved(by, "input", only(by, inputs));
  const bool is_root = opts.rootRank == getRank();
  const Tensors& list = list_of_root(by, "outputs", outputs, is_root, getSize());
  const Parts to = parts_of(by, "outputs", list);
  if (is_root) check_part(by, to, from);
  return collective({c10d::OpType::GATHER, "hocket:gather", inputs, list}, {opts.asyncOp, opts.timeout},
                    [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketGatherV(from.data, from.count, to.data, to.counts.data(), to.offsets.data(),
                                           from.type, static_cast<int>(opts.rootRank), comm, stream);
                    });
}

WorkPtr Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) {
  const Caller by = caller("scatter");
  const Elements to = moved(by, "output", only(by, outputs));
  const bool is_root = opts.rootRank == getRank();
  const Tensors& list = list_of_root(by, "inputs", inputs, is_root, getSize());
  const Parts from = parts_of(by, "inputs", list);
  if (is_root) check_part(by, from, to);
  return collective({c10d::OpType::SCATTER, "hocket:scatter", list, outputs}, {opts.asyncOp, opts.timeout},
                    [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketScatterV(from.data, from.counts.data(), from.offsets.data(), to.data, to.count,
                                            to.type, static_cast<int>(opts.rootRank), comm, stream);
                    });
}

// The C API wants the parts to be sent one after the other.
WorkPtr Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                const c10d::ReduceScatterOptions& opts) {
  const Caller by = caller("reduce_scatter");
  const at::Tensor& output = only(by, outputs);
  moved(by, "output", output);
  const Elements to = reduced(by, "output", output);
  TORCH_CHECK(inputs.size() == 1, "hocket rank ", getRank(), ": reduce_scatter: takes one list of inputs, not ",
              inputs.size());
  check_one_per_rank(by, "inputs", inputs.front().size(), getSize());
  const Parts parts = parts_of(by, "inputs", inputs.front());
  check_part(by, parts, to);
  Tensors flat;
  for (const at::Tensor& input : inputs.front()) flat.push_back(input.reshape({-1}));
  const at::Tensor packed = at::cat(flat);
  const Reduction op(by, opts.reduceOp, output.scalar_type(), collectives_);
  return collective({c10d::OpType::REDUCE_SCATTER, "hocket:reduce_scatter", {packed}, outputs},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketReduceScatterV(packed.data_ptr(), to.data, parts.counts.data(), to.type, op, comm,
                                                  stream);
                    });
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  const Caller by = caller("all_to_all");
  check_one_per_rank(by, "outputs", outputs.size(), getSize());
  check_one_per_rank(by, "inputs", inputs.size(), getSize());
  const Parts to = parts_of(by, "outputs", outputs);
  const Parts from = parts_of(by, "inputs", inputs);
  TORCH_CHECK(to.type == from.type, "hocket rank ", getRank(), ": all_to_all: outputs (", describe(outputs[0]),
              ") and inputs (", describe(inputs[0]), ") are of different types");
  return collective({c10d::OpType::ALLTOALL, "hocket:all_to_all", inputs, outputs}, {opts.asyncOp, opts.timeout},
                    [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketAllToAllV(from.data, from.counts.data(), from.offsets.data(), to.data,
                                             to.counts.data(), to.offsets.data(), to.type, comm, stream);
                    });
}

WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                               std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& opts) {
  const Caller by = caller("all_to_all_single");
  const Parts to = rows_of(by, "output", output, output_sizes, getSize());
  const Parts from = rows_of(by, "input", input, input_sizes, getSize());
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "hocket rank ", getRank(), ": all_to_all_single: output (",
              describe(output), ") and input (", describe(input), ") are of different types");
  return collective({c10d::OpType::ALLTOALL_BASE, "hocket:all_to_all_single", {input}, {output}},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketAllToAllV(from.data, from.counts.data(), from.offsets.data(), to.data,
                                             to.counts.data(), to.offsets.data(), to.type, comm, stream);
                    });
}

}  // namespace hocket_torch
