// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a process group begins, issues and ends.
#include "backend.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "errors.h"

namespace hocket_torch {
namespace {

constexpr char kIdentity[] = "hocket";

// The communicator that the main thread waits on; the handle of one that ended is told from others.
std::atomic<hocketComm_t> main_waits_on{nullptr};

bool is_main() {
  static thread_local const bool main = gettid() == getpid();
  return main;
}

class MainWaits {
 public:
  explicit MainWaits(hocketComm_t comm) {
    if (is_main()) main_waits_on.store(comm, std::memory_order_relaxed);
  }
  ~MainWaits() {
    if (is_main()) main_waits_on.store(nullptr, std::memory_order_relaxed);
  }
  MainWaits(const MainWaits&) = delete;
  MainWaits& operator=(const MainWaits&) = delete;
};

// The communicators of this process. Never destroyed, as threads may end after it.
struct Live {
  std::mutex mutex;
  std::set<hocketComm_t> all;
};

Live& live() {
  static auto& table = *new Live;
  return table;
}

void note_live(hocketComm_t comm, bool is_live) {
  const std::lock_guard lock(live().mutex);
  is_live ? void(live().all.insert(comm)) : void(live().all.erase(comm));
}

bool is_under_way(hocketComm_t comm) {
  hocketResult_t state = hocketSuccess;
  return comm != nullptr && hocketCommGetAsyncError(comm, &state) == hocketSuccess && state == hocketInProgress;
}

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

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout,
                 std::string name)
    : c10d::Backend(rank, size),
      options_(c10::make_intrusive<Options>("hocket", timeout)),
      communicator_timeout_(timeout),
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
  check(hocketCommInitRankConfig(&collectives_, getSize(), id, getRank(), &config));
  // All have read it; who makes a group in this store again must not find it.
  if (getRank() == 0) store->deleteKey(kIdentity);
  const std::string transfers = name + " transfers";
  config.commName = transfers.c_str();
  check(hocketCommSplit(collectives_, 0, getRank(), &transfers_, &config));
  for (const hocketComm_t comm : {collectives_, transfers_}) note_live(comm, true);
}

// Programs end without a shutdown, too: the others may still be in the last call, which must go well. But what is under
// way here nobody waits for any more.
Backend::~Backend() {
  if (ended_) return;
  const bool given_up = is_under_way(collectives_) || is_under_way(transfers_);
  end(given_up ? hocketCommAbort : hocketCommDestroy);
}

void Backend::abort() { end(hocketCommAbort); }

void Backend::shutdown() { end(hocketCommDestroy); }

void Backend::end(hocketResult_t (*how)(hocketComm_t)) {
  if (ended_.exchange(true)) return;
  for (const hocketComm_t comm : {transfers_, collectives_}) {
    note_live(comm, false);
    if (comm != nullptr) how(comm);
  }
}

void Backend::interrupt() {
  const hocketComm_t waiting = main_waits_on.load();
  const std::lock_guard lock(live().mutex);
  for (const hocketComm_t comm : live().all) {
    // What runs on lanes may be what the main thread waits for, by a future of torch.
    if (comm == waiting || is_under_way(comm)) hocketCommRevoke(comm, HOCKET_REVOKE_DEFAULT);
  }
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
  const Milliseconds timeout = opts ? opts->timeout : options_->timeout;
  return c10::make_intrusive<Backend>(store, static_cast<int>(self - ranks.begin()), static_cast<int>(ranks.size()),
                                      timeout, getGroupUid() + " part");
}

// ---- Issuing

Milliseconds Backend::own_limit(Milliseconds timeout) const {
  const Milliseconds limit = timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  return limit == communicator_timeout_ ? Milliseconds(0) : limit;
}

WorkPtr Backend::collective(CallTensors tensors, Manner manner, Issue issue) {
  const Milliseconds limit = own_limit(manner.timeout);
  const std::lock_guard lock(issuing_);
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
  return work;
}

WorkPtr Backend::coalesced(CallTensors tensors, Manner manner, size_t calls,
                           c10::function_ref<hocketResult_t(size_t, hocketComm_t, hocketStream_t)> issue) {
  return collective(std::move(tensors), manner, [&](hocketComm_t comm, hocketStream_t stream) {
    hocketGroupStart();
    // An error within the group is what its end returns.
    for (size_t i = 0; i < calls; ++i) issue(i, comm, stream);
    return hocketGroupEnd();
  });
}

// ---- Transfers

std::shared_ptr<Lane> Backend::lane_of(Direction direction, int peer) {
  std::shared_ptr<Lane>& lane = lanes_[{direction, peer}];
  if (lane == nullptr) lane = std::make_shared<Lane>();
  return lane;
}

WorkPtr Backend::send(Tensors& tensors, int to, int /*tag*/) {
  const Caller by = caller("send");
  const Elements from = moved(by, "tensor", only(by, tensors));
  auto work = transfer({c10d::OpType::SEND, "hocket:send", tensors, {}});
  const std::lock_guard lock(transferring_);
  const auto lane = lane_of(Direction::kTo, to);
  check(hocketSend(from.data, from.count, from.type, to, transfers_, lane->stream()), [&] { return work->about(); });
  work->ends_on(lane, own_limit(c10d::kUnsetTimeout));
  lane->hold(work);
  return work;
}

WorkPtr Backend::recv(Tensors& tensors, int from, int /*tag*/) {
  const Caller by = caller("recv");
  const Elements to = moved(by, "tensor", only(by, tensors));
  auto work = transfer({c10d::OpType::RECV, "hocket:recv", {}, tensors});
  const std::lock_guard lock(transferring_);
  receive(*work, to, from);
  return work;
}

void Backend::receive(Work& work, const Elements& to, int from) {
  const auto lane = lane_of(Direction::kFrom, from);
  check(hocketRecv(to.data, to.count, to.type, from, transfers_, lane->stream()), [&] { return work.about(); });
  work.comes_from(from);
  work.ends_on(lane, own_limit(c10d::kUnsetTimeout));
  lane->hold(c10::intrusive_ptr<Work>::reclaim_copy(&work));
}

WorkPtr Backend::recvAnysource(Tensors& tensors, int /*tag*/) {
  const Caller by = caller("recv from any source");
  const Elements to = moved(by, "tensor", only(by, tensors));
  auto work = transfer({c10d::OpType::RECVANYSOURCE, "hocket:recv_any_source", {}, tensors});
  const auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  work->begins_when(
      [self, to](Work& found) {
        const std::lock_guard lock(self->transferring_);
        int from = -1;
        check(hocketProbe(self->transfers_, &from), [&] { return found.about(); });
        if (from >= 0) self->receive(found, to, from);
        return from >= 0;
      },
      options_->timeout);
  return work;
}

c10::intrusive_ptr<Work> Backend::transfer(CallTensors tensors) {
  return c10::make_intrusive<Work>(getRank(), 0, std::move(tensors), transfers_);
}

}  // namespace hocket_torch
