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

// Every rank has its own number of rows.
at::Tensor Backend::gather_rows(const at::Tensor& rows) {
  const at::Tensor own = at::full({1}, rows.size(0), at::kLong);
  at::Tensor lengths = at::empty({getSize()}, at::kLong);
  _allgather_base(lengths, const_cast<at::Tensor&>(own), {.asyncOp = false});
  const auto* counts = lengths.const_data_ptr<int64_t>();
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[0] = std::accumulate(counts, counts + getSize(), int64_t{0});
  at::Tensor all = at::empty(shape, rows.options());
  std::vector<Tensors> outputs{all.split_with_sizes({counts, static_cast<size_t>(getSize())})};
  Tensors inputs{rows.contiguous()};
  allgather(outputs, inputs, {.asyncOp = false});
  return all;
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
  const at::Tensor indices = gather_rows(own.indices().t());
  const at::Tensor values = gather_rows(own.values());
  tensor.copy_(at::sparse_coo_tensor(indices.t(), values, tensor.sizes()).coalesce());
  auto work = c10::make_intrusive<Work>(
      getRank(), sequence_, CallTensors{c10d::OpType::_ALLREDUCE_SPARSE, "hocket:all_reduce_sparse", {}, tensors},
      collectives_);
  work->end_well();
  return work;
}

// Goes by the store and not by the communicator, so that whoever comes late finds the group unharmed.
void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
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
