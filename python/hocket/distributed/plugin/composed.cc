// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What consists of several calls: sparse sums, and the barrier that tells who is missing.
#include <algorithm>
#include <numeric>
#include <string>

#include "backend.h"
#include "errors.h"

namespace hocket_torch {
namespace {

std::string joined(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

}  // namespace

// `counts`: how many rows each rank has.
at::Tensor Backend::gather_rows(const at::Tensor& rows, c10::IntArrayRef counts) {
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  at::Tensor all = at::empty(shape, rows.options());
  std::vector<Tensors> outputs{all.split_with_sizes(counts)};
  Tensors inputs{rows.contiguous()};
  allgather(outputs, inputs, {.asyncOp = false});
  return all;
}

std::vector<int64_t> Backend::gather_nonzeros(const Caller& by, const at::Tensor& sparse) {
  std::vector<int64_t> own{sparse._nnz(), sparse.sparse_dim(), static_cast<int64_t>(sparse.scalar_type())};
  own.insert(own.end(), sparse.sizes().begin(), sparse.sizes().end());
  at::Tensor length = at::scalar_tensor(static_cast<int64_t>(own.size()), at::kLong);
  at::Tensor lengths = at::empty({getSize()}, at::kLong);
  _allgather_base(lengths, length, {.asyncOp = false});
  const c10::IntArrayRef counts{lengths.const_data_ptr<int64_t>(), static_cast<size_t>(getSize())};
  const at::Tensor all = gather_rows(at::tensor(own), counts);
  std::vector<int64_t> nonzeros;
  const auto* theirs = all.const_data_ptr<int64_t>();
  for (const int64_t count : counts) {
    const c10::IntArrayRef shape{theirs + 3, static_cast<size_t>(count - 3)};
    const auto type = static_cast<at::ScalarType>(theirs[2]);
    TORCH_CHECK(shape == sparse.sizes() && theirs[1] == sparse.sparse_dim() && type == sparse.scalar_type(),
                "hocket rank ", by.rank, ": ", by.call, ": the sparse tensor (", describe(sparse), ", ",
                sparse.sparse_dim(), " dimensions sparse) is ", type, " of shape ", shape, " (", theirs[1],
                " sparse) on rank ", nonzeros.size());
    nonzeros.push_back(theirs[0]);
    theirs += count;
  }
  return nonzeros;
}

// It runs on the calling thread, as how much is to be moved comes to light only on the way.
WorkPtr Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const Caller by = caller("all_reduce");
  const at::Tensor& tensor = only(by, tensors);
  TORCH_CHECK(tensor.layout() == at::kSparse && tensor.device().is_cpu(), "hocket rank ", getRank(),
              ": all_reduce: tensor (", describe(tensor), ") has layout ", tensor.layout(), " on ", tensor.device(),
              "; possible are dense and COO tensors on the CPU");
  TORCH_CHECK(opts.reduceOp.op_ == c10d::ReduceOp::SUM, "hocket rank ", getRank(),
              ": all_reduce: sparse tensors can only be summed");
  const at::Tensor own = tensor.coalesce();
  const std::vector<int64_t> nonzeros = gather_nonzeros(by, own);
  const at::Tensor indices = gather_rows(own.indices().t(), nonzeros);
  const at::Tensor values = gather_rows(own.values(), nonzeros);
  tensor.copy_(at::sparse_coo_tensor(indices.t(), values, tensor.sizes()).coalesce());
  auto work = c10::make_intrusive<Work>(
      getRank(), sequence_, CallTensors{c10d::OpType::_ALLREDUCE_SPARSE, "hocket:all_reduce_sparse", {}, tensors},
      collectives_);
  work->end_well();
  return work;
}

// Goes by the store and not by the communicator, so that whoever comes late finds the group unharmed.
void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  caller("monitored_barrier");
  const Milliseconds limit = opts.timeout == c10d::kUnsetTimeout ? options_->timeout : opts.timeout;
  const std::string prefix = "monitored_barrier/" + std::to_string(barriers_++) + "/";
  if (getRank() != 0) {
    store_->set(prefix + std::to_string(getRank()), std::vector<uint8_t>{1});
    return await_rank_0(prefix, limit);
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<int> missing;
  for (int rank = 1; rank < getSize() && (wait_all_ranks || missing.empty()); ++rank) {
    const auto left = std::chrono::duration_cast<Milliseconds>(end - std::chrono::steady_clock::now());
    try {
      store_->wait({prefix + std::to_string(rank)}, std::max(left, Milliseconds(1)));
    } catch (const std::exception&) {
      missing.push_back(rank);
    }
  }
  const std::string verdict = missing.empty() ? "" : joined(missing);
  store_->set(prefix + "verdict", std::vector<uint8_t>(verdict.begin(), verdict.end()));
  TORCH_CHECK_WITH(DistBackendError, missing.empty(), "[Rank 0]: ", missing.size() > 1 ? "Ranks " : "Rank ", verdict,
                   " failed to pass monitoredBarrier in ", limit.count(), " ms");
}

void Backend::await_rank_0(const std::string& prefix, Milliseconds limit) {
  try {
    // It may have begun to wait later, and then waits as long for the others.
    store_->wait({prefix + "verdict"}, 2 * limit);
  } catch (const std::exception&) {
    TORCH_CHECK_WITH(DistBackendError, false, "[Rank ", getRank(), "]: Rank 0 failed to pass monitoredBarrier in ",
                     limit.count(), " ms");
  }
  const std::vector<uint8_t> verdict = store_->get(prefix + "verdict");
  TORCH_CHECK_WITH(DistBackendError, verdict.empty(), "[Rank ", getRank(), "]: Rank ",
                   std::string(verdict.begin(), verdict.end()), " failed to pass monitoredBarrier in ", limit.count(),
                   " ms");
}

}  // namespace hocket_torch
