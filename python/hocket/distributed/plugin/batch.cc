// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "batch.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backend.h"
#include "errors.h"

namespace hocket_torch {
namespace {

// Of all batches of a device; those of single transfers are above it.
constexpr int kStreamOfBatches = -1;
constexpr int kHost = -1;  // before any device's index

class Held final : public c10d::Work {
 public:
  using c10d::Work::Work;
  bool isCompleted() override { return false; }
  bool wait(Milliseconds) override {
    TORCH_CHECK(false, "hocket rank ", rank_, ": ", c10d::opTypeToString(opType_),
                " in a batch: it begins when the batch ends; wait for the batch");
  }
};

class Together final : public c10d::Work {
 public:
  Together(int rank, std::vector<WorkPtr> works)
      : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

  bool isCompleted() override {
    return std::all_of(works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::all_of(works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isSuccess(); });
  }
  bool wait(Milliseconds timeout) override {
    for (const WorkPtr& work : works_) work->wait(timeout);
    return true;
  }
  void synchronize() override {
    for (const WorkPtr& work : works_) work->synchronize();
  }
  void abort() override {
    for (const WorkPtr& work : works_) work->abort();
  }
  Tensors result() override {
    Tensors all;
    for (const WorkPtr& work : works_) {
      for (at::Tensor& tensor : work->result()) all.push_back(std::move(tensor));
    }
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(c10::FutureType::create(result_type()));
    for (const WorkPtr& work : works_) futures.push_back(work->getFuture());
    return c10::collectAll(futures)->then(
        [outputs = result()](c10::ivalue::Future& ended) {
          ended.value();  // or what went wrong
          return c10::IValue(outputs);
        },
        result_type());
  }

 private:
  static c10::TypePtr result_type() { return c10::ListType::create(c10::TensorType::get()); }

  const std::vector<WorkPtr> works_;
};

}  // namespace

WorkPtr Batch::add(int rank, Transfer transfer) {
  transfers.push_back(std::move(transfer));
  return c10::make_intrusive<Held>(rank, transfers.back().type);
}

// One that was left open, because what torch did between failed, is forgotten.
void Batches::open() {
  const std::lock_guard lock(mutex_);
  open_[std::this_thread::get_id()] = {};
  any_ = true;
}

Batch Batches::close() {
  const std::lock_guard lock(mutex_);
  auto node = open_.extract(std::this_thread::get_id());
  any_ = !open_.empty();
  return node ? std::move(node.mapped()) : Batch{};
}

Batch* Batches::current() {
  if (!any_) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(std::this_thread::get_id());
  return found == open_.end() ? nullptr : &found->second;
}

WorkPtr together(int rank, std::vector<WorkPtr> works) {
  if (works.empty()) return nullptr;
  if (works.size() == 1) return works.front();
  return c10::make_intrusive<Together>(rank, std::move(works));
}

// ---- The backend's part

// A device's transfers match in their order. Of two devices each rank would have to say which comes first, and ranks
// number their devices differently: tensors would come to the wrong place.
void Backend::check_one_device(const std::vector<Transfer>& transfers) const {
  std::optional<c10::Device> first;
  for (const Transfer& each : transfers) {
    const c10::Device device = each.tensors.front().device();
    if (device.is_cpu()) continue;
    if (!first) first = device;
    TORCH_CHECK(device == *first, "hocket rank ", getRank(), ": batch_isend_irecv: tensors on ", *first, " and ",
                device, "; a batch may have those of one CUDA device, and of the CPU");
  }
}

WorkPtr Backend::endCoalescing() {
  Batch batch = batches_.close();
  for (const Transfer& each : batch.transfers) checked(each);
  check_one_device(batch.transfers);
  std::map<int, std::vector<Transfer>> plain;  // by device, the host's first: so all ranks issue them
  for (Transfer& each : batch.transfers) {
    if (each.type == c10d::OpType::RECVANYSOURCE) {
      batch.issued.push_back(recvAnysource(each.tensors, each.tag));
    } else if (each.tag == 0) {
      const c10::Device device = each.tensors.front().device();
      plain[device.is_cpu() ? kHost : device.index()].push_back(std::move(each));
    } else if (each.type == c10d::OpType::SEND) {
      batch.issued.push_back(send(each.tensors, each.peer, each.tag));
    } else {
      batch.issued.push_back(recv(each.tensors, each.peer, each.tag));
    }
  }
  for (const auto& [device, transfers] : plain) batch.issued.push_back(transfer_all(transfers));
  return together(getRank(), std::move(batch.issued));
}

WorkPtr Backend::transfer_all(const std::vector<Transfer>& transfers) {
  CallTensors tensors{c10d::OpType::COALESCED, "hocket:batch_isend_irecv", {}, {}};
  std::vector<Elements> elements;
  for (const Transfer& each : transfers) {
    elements.push_back(checked(each));
    (each.type == c10d::OpType::SEND ? tensors.inputs : tensors.outputs).push_back(each.tensors.front());
  }
  const auto one = [&](size_t i, hocketComm_t comm, hocketStream_t stream) {
    const auto& [data, count, type, width] = elements[i];
    const Transfer& each = transfers[i];
    return each.type == c10d::OpType::SEND ? hocketSend(data, count, type, each.peer, comm, stream)
                                           : hocketRecv(data, count, type, each.peer, comm, stream);
  };
  const auto all = [&](hocketComm_t comm, hocketStream_t stream) {
    return grouped(transfers.size(), one, comm, stream);
  };
  if (const auto device = device_of(getRank(), tensors)) {
    return transfer_on(*device, std::move(tensors), kStreamOfBatches, all);
  }
  auto work = transfer(std::move(tensors), 0);
  const std::lock_guard lock(transferring_);
  begin(*work, lanes_.idle(), all);
  return work;
}

}  // namespace hocket_torch
