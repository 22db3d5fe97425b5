// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a process group begins, issues and ends.
#include "backend.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "errors.h"
#include "interruption.h"

namespace hocket_torch {
namespace {

constexpr char kIdentity[] = "hocket";

hocketUniqueId shared_identity(c10d::Store& store, int rank) {
  hocketUniqueId id{};
  if (rank == 0) {
    check(hocketGetUniqueId(&id));
    store.set(kIdentity, std::vector<uint8_t>(id.internal, id.internal + sizeof id.internal));
    return id;
  }
  const std::vector<uint8_t> bytes = store.get(kIdentity);
  TORCH_CHECK(bytes.size() == sizeof id.internal, "hocket rank ", rank, ": the store has ", bytes.size(),
              " bytes of identity, not ", sizeof id.internal);
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

}  // namespace

std::optional<c10::Device> device_of(int rank, const CallTensors& tensors) {
  const at::Tensor* first = nullptr;
  for (const Tensors* list : {&tensors.inputs, &tensors.outputs}) {
    for (const at::Tensor& tensor : *list) {
      if (first == nullptr) first = &tensor;
      TORCH_CHECK(tensor.device() == first->device(), "hocket rank ", rank, ": ", tensors.name(), ": a tensor is on ",
                  first->device(), ", another on ", tensor.device(), "; all must be on one device");
    }
  }
  if (first == nullptr || first->device().is_cpu()) return std::nullopt;
  return first->device();
}

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<GroupOptions> options, const std::string& name)
    : c10d::Backend(rank, size),
      options_(std::move(options)),
      communicator_timeout_(options_->timeout),
      store_(store),
      lane_(std::make_shared<Lane>()) {
  enter(store, name);
  init();
}

void Backend::enter(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name) {
  const hocketUniqueId id = shared_identity(*store, getRank());
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.commName = name.c_str();
  config.operationTimeoutMs = communicator_timeout_.count();
  config.reproducibility = options_->reproducibility;
  check(hocketCommInitRankConfig(&collectives_, getSize(), id, getRank(), &config));
  // All have read it; who makes a group in this store again must not find it.
  if (getRank() == 0) store->deleteKey(kIdentity);
  const auto split_off = [&](const char* suffix, hocketComm_t* made) {
    const std::string full = name + suffix;
    config.commName = full.c_str();
    check(hocketCommSplit(collectives_, 0, getRank(), made, &config));
  };
  split_off(" transfers", &transfers_);
  split_off(" tagged", &tagged_);
  mailbox_ = std::make_shared<Mailbox>(tagged_);
  for (const hocketComm_t comm : {collectives_, transfers_, tagged_}) note_live(comm, true);
}

// Programs end without a shutdown, too: the others may still be in the last call, which must go well. But what is under
// way here nobody waits for any more.
Backend::~Backend() {
  if (ended_) return;
  const bool given_up = is_under_way(collectives_) || is_under_way(transfers_) || is_under_way(tagged_);
  if (given_up) *aborted_ = true;
  end(given_up ? hocketCommAbort : hocketCommDestroy);
}

void Backend::abort() {
  *aborted_ = true;
  end(hocketCommAbort);
}

void Backend::shutdown() { end(hocketCommDestroy); }

void Backend::end(hocketResult_t (*how)(hocketComm_t)) {
  if (ended_.exchange(true)) return;
  if (mailbox_ != nullptr) mailbox_->close();
  for (const hocketComm_t comm : {tagged_, transfers_, collectives_}) {
    note_live(comm, false);
    if (comm != nullptr) how(comm);
  }
}

Caller Backend::caller(const char* call) const {
  TORCH_CHECK_WITH(DistBackendError, !ended_, "hocket rank ", getRank(), ": ", call, ": the process group has ended");
  return {getRank(), call};
}

c10d::ErrorType Backend::getError() {
  hocketResult_t state = hocketSuccess;
  if (hocketCommGetAsyncError(collectives_, &state) != hocketSuccess) return c10d::ErrorType::COMM_ERROR;
  switch (state) {
    case hocketSuccess:
    case hocketInProgress:
      return c10d::ErrorType::SUCCESS;
    case hocketTimeout:
      return c10d::ErrorType::TIMEOUT;
    case hocketRemoteError:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& opts) {
  const auto self = std::find(ranks.begin(), ranks.end(), getRank());
  if (self == ranks.end()) return nullptr;
  return c10::make_intrusive<Backend>(store, static_cast<int>(self - ranks.begin()), static_cast<int>(ranks.size()),
                                      inherited(opts), getGroupUid() + " part");
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<Options>& opts, const int& rank,
                                                 const int& size) {
  return c10::make_intrusive<Backend>(store, rank, size, inherited(opts), getGroupUid() + " merged");
}

c10::intrusive_ptr<GroupOptions> Backend::inherited(const c10::intrusive_ptr<Options>& given) const {
  if (auto options = c10::dynamic_intrusive_pointer_cast<GroupOptions>(given)) return options;
  return c10::make_intrusive<GroupOptions>(given ? given->timeout : options_->timeout, options_->reproducibility);
}

// ---- Issuing

Milliseconds Backend::own_limit(Milliseconds timeout) const {
  const Milliseconds limit = timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  return limit == communicator_timeout_ ? Milliseconds(0) : limit;
}

WorkPtr Backend::collective(CallTensors tensors, Manner manner, Issue issue) {
  const Milliseconds limit = own_limit(manner.timeout);
  const auto device = device_of(getRank(), tensors);
  const std::lock_guard lock(issuing_);
  if (device) {
    const c10::Stream stream = manner.async ? collective_streams_.of(*device, 0) : current_stream(*device);
    auto work =
        c10::make_intrusive<DeviceWork>(getRank(), ++sequence_, std::move(tensors), collectives_, aborted_, stream);
    work->issue(issue);
    return noted(std::move(work));
  }
  auto work = c10::make_intrusive<Work>(getRank(), ++sequence_, std::move(tensors), collectives_);
  if (!manner.async && limit.count() == 0) {
    const MainWaits waits(collectives_);
    check(issue(collectives_, nullptr), [&] { return work->about(); });
    work->end_well();
    return work;
  }
  check(issue(collectives_, lane_->stream()), [&] { return work->about(); });
  work->ends_on(lane_, limit);
  lane_->hold(work);
  return noted(std::move(work));
}

WorkPtr Backend::noted(WorkPtr work) {
  if (Batch* batch = batches_.current()) batch->issued.push_back(work);
  return work;
}

hocketResult_t grouped(size_t calls, IssueOne issue, hocketComm_t comm, hocketStream_t stream) {
  hocketGroupStart();
  // An error within the group is what its end returns.
  for (size_t i = 0; i < calls; ++i) issue(i, comm, stream);
  return hocketGroupEnd();
}

WorkPtr Backend::coalesced(CallTensors tensors, Manner manner, size_t calls, IssueOne issue) {
  return collective(std::move(tensors), manner,
                    [&](hocketComm_t comm, hocketStream_t stream) { return grouped(calls, issue, comm, stream); });
}

}  // namespace hocket_torch
