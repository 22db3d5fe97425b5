// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The process group of torch.distributed on Hocket. A call on CPU tensors that torch awaits at once runs on the calling
// thread; others run on lanes: one for the collectives, one for the sends to and one for the receives from each peer.
// So do calls on CUDA tensors, with streams in the place of lanes, and the current stream in that of the calling
// thread. Transfers have a communicator of their own, so that a thread inside a collective does not keep another one
// from sending.
#pragma once

#include <hocket/hocket.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "batch.h"
#include "device_work.h"
#include "mailbox.h"
#include "tensors.h"
#include "work.h"

namespace hocket_torch {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Milliseconds = std::chrono::milliseconds;

// Makes one of several calls.
using IssueOne = c10::function_ref<hocketResult_t(size_t, hocketComm_t, hocketStream_t)>;
// Makes that many calls inside a group.
hocketResult_t grouped(size_t calls, IssueOne issue, hocketComm_t comm, hocketStream_t stream);

// The device of all tensors of a call; none: it is the host.
std::optional<c10::Device> device_of(int rank, const CallTensors& tensors);

// How torch wants a call to run. Of CUDA tensors the timeout does not count: nobody waits for them.
struct Manner {
  bool async;
  Milliseconds timeout;
};

// What a process group can be asked for; torch calls it pg_options.
struct GroupOptions final : c10d::Backend::Options {
  explicit GroupOptions(Milliseconds limit, int chosen = HOCKET_CONFIG_UNDEF_INT)
      : c10d::Backend::Options("hocket", limit), reproducibility(chosen) {}
  const int reproducibility;  // as in hocketConfig_t
};

class Backend final : public c10d::Backend {
 public:
  Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, c10::intrusive_ptr<GroupOptions> options,
          const std::string& name);
  ~Backend() override;

  // ---- Collectives
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  // ---- Collectives on a list with a tensor for each rank
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;

  // ---- Transfers. What has no tag (tag 0) matches in the order in which it was sent.
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  // What a thread transfers between the two begins at the end, together.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { batches_.open(); }
  WorkPtr endCoalescing() override;

  // ---- Life
  const std::string getBackendName() const override { return "hocket"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(Milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& opts) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<Options>& opts, const int& rank,
                                          const int& size) override;
  void enableCollectivesTiming() override {}  // there is nothing to enable
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

 private:
  // Throws if the group has ended.
  Caller caller(const char* call) const;
  WorkPtr collective(CallTensors tensors, Manner manner, Issue issue);
  // Whoever waits for the batch that is open, if any, waits for it, too.
  WorkPtr noted(WorkPtr work);
  c10::intrusive_ptr<Work> transfer(CallTensors tensors, int tag);
  // `purpose`: of the side stream.
  c10::intrusive_ptr<DeviceWork> transfer_on(c10::Device device, CallTensors tensors, int purpose, Issue issue);
  // Its tensor; throws if that cannot travel so.
  Elements checked(const Transfer& transfer) const;
  // Throws if they are of several CUDA devices.
  void check_one_device(const std::vector<Transfer>& transfers) const;
  // Without tags, in memory of one device or of the host.
  WorkPtr transfer_all(const std::vector<Transfer>& transfers);
  // Makes the call, under transferring_.
  void begin(Work& work, const std::shared_ptr<Lane>& lane, Issue issue);
  void receive(Work& work, const Elements& to, int from);
  WorkPtr receive_tagged(CallTensors tensors, int from, int tag);
  // Runs calls inside a group: as many as there are tensors.
  WorkPtr coalesced(CallTensors tensors, Manner manner, size_t calls, IssueOne issue);
  void end(hocketResult_t (*how)(hocketComm_t));
  // The options of a group that is made of this one.
  c10::intrusive_ptr<GroupOptions> inherited(const c10::intrusive_ptr<Options>& given) const;
  void enter(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name);
  // The time that a call has, if that is another one than the communicator's; else 0.
  Milliseconds own_limit(Milliseconds timeout) const;
  at::Tensor gather_rows(const at::Tensor& rows, c10::IntArrayRef counts);
  // How many elements each rank's tensor has; throws if the tensors are of different shapes.
  std::vector<int64_t> gather_nonzeros(const Caller& by, const at::Tensor& sparse);
  void await_rank_0(const std::string& prefix, Milliseconds limit);

  const c10::intrusive_ptr<GroupOptions> options_;
  const Milliseconds communicator_timeout_;
  const c10::intrusive_ptr<c10d::Store> store_;
  hocketComm_t collectives_ = nullptr;
  hocketComm_t transfers_ = nullptr;
  hocketComm_t tagged_ = nullptr;
  std::atomic<bool> ended_{false};
  const std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
  uint64_t sequence_ = 0;    // guarded by issuing_
  uint64_t barriers_ = 0;    // monitored ones
  std::mutex issuing_;       // one thread at a time uses a communicator
  std::mutex transferring_;  // the same for transfers
  std::shared_ptr<Lane> lane_;
  SideStreams collective_streams_;  // guarded by issuing_
  Lanes lanes_;                     // of transfers without a tag; guarded by transferring_
  SideStreams transfer_streams_;    // guarded by transferring_
  Batches batches_;
  std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace hocket_torch
