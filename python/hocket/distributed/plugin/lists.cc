// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Collectives on lists with a tensor for each rank.
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

// A list as the C API takes it. Tensors of the host are used where they lie. Those of a device are packed together:
// what lies between them may be all of its memory, and would be moved along.
struct List {
  Parts parts;
  Tensors packed;  // one, or none
};

List packed_as(Parts parts, at::Tensor packed) {
  parts.data = packed.data_ptr();
  std::exclusive_scan(parts.counts.begin(), parts.counts.end(), parts.offsets.begin(), size_t{0});
  return {std::move(parts), {std::move(packed)}};
}

List joined(Parts parts, const Tensors& tensors) {
  const at::NoGradGuard no_grad;
  Tensors flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return packed_as(std::move(parts), at::cat(flat));
}

bool is_on_device(const Tensors& tensors) { return !tensors.empty() && !tensors.front().is_cpu(); }

// To be read ...
List read_from(const Caller& caller, const char* name, const Tensors& tensors) {
  Parts parts = parts_of(caller, name, tensors);
  return is_on_device(tensors) ? joined(std::move(parts), tensors) : List{std::move(parts), {}};
}

// ... or written: then unpack() follows the call.
List written_to(const Caller& caller, const char* name, const Tensors& tensors) {
  Parts parts = parts_of(caller, name, tensors);
  if (!is_on_device(tensors)) return {std::move(parts), {}};
  int64_t length = 0;
  for (const at::Tensor& tensor : tensors) length += tensor.numel();
  return packed_as(std::move(parts), at::empty({length}, tensors.front().options()));
}

// `result`: of the call that wrote the list.
hocketResult_t unpack(hocketResult_t result, const List& list, const Tensors& tensors) {
  if (result != hocketSuccess || list.packed.empty()) return result;
  const at::NoGradGuard no_grad;
  int64_t next = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(list.packed.front().narrow(0, next, tensor.numel()).view(tensor.sizes()));
    next += tensor.numel();
  }
  return result;
}

void append(Tensors& tensors, const Tensors& more) { tensors.insert(tensors.end(), more.begin(), more.end()); }

Tensors both(Tensors tensors, const Tensors& more) {
  append(tensors, more);
  return tensors;
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
  const List list = written_to(by, "outputs", outputs.front());
  const Parts& to = list.parts;
  check_part(by, to, from);
  return collective({c10d::OpType::ALLGATHER, "hocket:all_gather", both(inputs, list.packed), outputs.front()},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return unpack(hocketAllGatherV(from.data, from.count, to.data, to.counts.data(),
                                                     to.offsets.data(), from.type, comm, stream),
                                    list, outputs.front());
                    });
}

WorkPtr Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::AllgatherOptions& opts) {
  const Caller by = caller("all_gather_coalesced");
  check_one_per_rank(by, "outputs", outputs.size(), getSize());
  std::vector<Elements> from;
  std::vector<List> to;
  std::vector<Tensors> lists;
  Tensors held = inputs;
  Tensors all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors& list = lists.emplace_back();
    for (const Tensors& of_rank : outputs) {
      TORCH_CHECK(of_rank.size() == inputs.size(), "hocket rank ", getRank(),
                  ": all_gather_coalesced: ", of_rank.size(), " outputs for ", inputs.size(), " inputs");
      list.push_back(of_rank[i]);
    }
    from.push_back(moved(by, "input", inputs[i]));
    to.push_back(written_to(by, "outputs", list));
    check_part(by, to.back().parts, from.back());
    append(held, to.back().packed);
    append(all, list);
  }
  const auto gather = [&](size_t i, hocketComm_t comm, hocketStream_t stream) {
    const Parts& parts = to[i].parts;
    return hocketAllGatherV(from[i].data, from[i].count, parts.data, parts.counts.data(), parts.offsets.data(),
                            from[i].type, comm, stream);
  };
  return collective({c10d::OpType::ALLGATHER_COALESCED, "hocket:all_gather_coalesced", held, all},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      hocketResult_t result = grouped(to.size(), gather, comm, stream);
                      for (size_t i = 0; i < to.size(); ++i) result = unpack(result, to[i], lists[i]);
                      return result;
                    });
}

WorkPtr Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const Caller by = caller("gather");
  const int root = root_of(by, opts.rootRank, getSize());
  const Elements from = moved(by, "input", only(by, inputs));
  const bool is_root = root == getRank();
  const Tensors& of_root = list_of_root(by, "outputs", outputs, is_root, getSize());
  const List list = written_to(by, "outputs", of_root);
  const Parts& to = list.parts;
  if (is_root) check_part(by, to, from);
  return collective({c10d::OpType::GATHER, "hocket:gather", both(inputs, list.packed), of_root},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return unpack(hocketGatherV(from.data, from.count, to.data, to.counts.data(), to.offsets.data(),
                                                  from.type, root, comm, stream),
                                    list, of_root);
                    });
}

WorkPtr Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) {
  const Caller by = caller("scatter");
  const int root = root_of(by, opts.rootRank, getSize());
  const Elements to = moved(by, "output", only(by, outputs));
  const bool is_root = root == getRank();
  const Tensors& of_root = list_of_root(by, "inputs", inputs, is_root, getSize());
  const List list = read_from(by, "inputs", of_root);
  const Parts& from = list.parts;
  if (is_root) check_part(by, from, to);
  return collective({c10d::OpType::SCATTER, "hocket:scatter", both(of_root, list.packed), outputs},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketScatterV(from.data, from.counts.data(), from.offsets.data(), to.data, to.count,
                                            to.type, root, comm, stream);
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
  const List list = joined(parts, inputs.front());
  const Reduction op(by, opts.reduceOp, output.scalar_type(), collectives_);
  return collective({c10d::OpType::REDUCE_SCATTER, "hocket:reduce_scatter", list.packed, outputs},
                    {opts.asyncOp, opts.timeout}, [&](hocketComm_t comm, hocketStream_t stream) {
                      return hocketReduceScatterV(list.parts.data, to.data, parts.counts.data(), to.type, op, comm,
                                                  stream);
                    });
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  const Caller by = caller("all_to_all");
  check_one_per_rank(by, "outputs", outputs.size(), getSize());
  check_one_per_rank(by, "inputs", inputs.size(), getSize());
  const List received = written_to(by, "outputs", outputs);
  const List sent = read_from(by, "inputs", inputs);
  const Parts& to = received.parts;
  const Parts& from = sent.parts;
  TORCH_CHECK(to.type == from.type, "hocket rank ", getRank(), ": all_to_all: outputs (", describe(outputs[0]),
              ") and inputs (", describe(inputs[0]), ") are of different types");
  const Tensors held = both(both(inputs, sent.packed), received.packed);
  return collective({c10d::OpType::ALLTOALL, "hocket:all_to_all", held, outputs}, {opts.asyncOp, opts.timeout},
                    [&](hocketComm_t comm, hocketStream_t stream) {
                      return unpack(hocketAllToAllV(from.data, from.counts.data(), from.offsets.data(), to.data,
                                                    to.counts.data(), to.offsets.data(), to.type, comm, stream),
                                    received, outputs);
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
