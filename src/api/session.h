// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What stands behind the C functions: the tables of live handles, how errors reach the caller, and the one place where
// exceptions end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "api/handles.h"
#include "api/pending_creation.h"
#include "base/caught.h"
#include "base/status.h"
#include "base/system.h"
#include "comm/communicator.h"
#include "comm/queue.h"
#include "hocket/hocket.h"

namespace hocket {

struct Session {
  enum class Phase : uint8_t {
    kPending,  // `pending` stands for the communicator, or for why there is none
    kOpen,
    kFinalized,
  };

  // Why it cannot be used yet, or ever.
  Status opened() const {
    return phase.load(std::memory_order_acquire) == Phase::kPending ? pending->status() : Status();
  }

  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<PendingCreation> pending;  // null: it was created by a call that waited
  std::atomic<Phase> phase{Phase::kOpen};
  std::atomic<Rank> probed{0};         // whose message the last probe found
  hocketCodec_t last_codec = nullptr;  // of whoever holds the session
  uint32_t last_digest = 0;            // of that codec
  std::mutex mutex;
  std::string last_error;  // guarded by mutex
};

HandleTable<Session>& sessions();
HandleTable<std::shared_ptr<Queue>>& queues();

// The engine of this process, started at the first use.
Result<Engine*> engine();

// Gives an error to the caller: remembered for this thread (and the session), logged once. Returns the code.
hocketResult_t report(const Status& status, Session* session = nullptr);
// Gives the error that a call of the group was given already: not logged again.
hocketResult_t report_again(const Status& status);
// Makes an error the session's last one. False when it was already.
bool remember(Session& session, const Status& status);
// What this thread was told last.
const char* last_error_of_thread();
// Copies the text to where it stays valid until this thread's next call.
const char* keep_for_thread(std::string text);

// Runs the body of a C function.
template <typename Body>
hocketResult_t guarded(const Body& body) noexcept {
  return caught(body, [](const Status& status) { return report(status); });
}

// Ends what is under way on all ranks.
void abort(Communicator& communicator);

// Of a handle that stands for none.
Status no_communicator();
Status null_pointer(const char* name);
// Fails in a reduction's function: who waits there until calls have ended waits for the one that calls it.
Status may_wait();

// Runs body(Session&) -> Status with the session of a handle.
template <typename Body>
hocketResult_t with_session(hocketComm_t comm, const Body& body) noexcept {
  return guarded([&] {
    const auto pin = sessions().pin(comm);
    if (!pin) return report(no_communicator());
    const Status status = tried([&]() -> Status {
      HOCKET_TRY(pin->opened());
      return body(*pin);
    });
    return report(status, &*pin);
  });
}

// Holds the session of a handle for one thread's call.
class Occupy {
 public:
  // Within its caller: each call makes one.
  [[gnu::always_inline]] explicit Occupy(hocketComm_t comm) : hold_(sessions().hold(comm)) {}
  // Null: no such communicator.
  Session* session() const { return hold_.get(); }
  // Fails when there is none, another thread is inside, or it is not there yet, is finalized or has failed.
  Status status() const { return is_usable() ? Status() : fault(); }
  // Fails for the first three of these alone.
  Status opened() const;

 private:
  bool is_usable() const {
    return hold_.alone() && session()->phase.load(std::memory_order_acquire) == Session::Phase::kOpen &&
           !session()->communicator->mesh().failed();
  }
  Status alone() const;
  Status fault() const;

  const HandleTable<Session>::Hold hold_;
};

// Runs body(Session&) -> Status with the session of a handle held for it, if `state` of it is well; its failure, or why
// it does not run, goes to `failed` as well.
template <Status (Occupy::*state)() const = &Occupy::status, typename Body, typename Failed>
hocketResult_t with_held(hocketComm_t comm, const Body& body, const Failed& failed) noexcept {
  return guarded([&] {
    const Occupy occupy(comm);
    const Status status = tried([&]() -> Status {
      HOCKET_TRY((occupy.*state)());
      return body(*occupy.session());
    });
    if (status.ok()) return hocketSuccess;
    failed(status);
    return report(status, occupy.session());
  });
}

}  // namespace hocket
