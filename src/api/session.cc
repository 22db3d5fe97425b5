// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/session.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "comm/reductions.h"

namespace hocket {
namespace {

thread_local std::string thread_error;
thread_local std::string thread_kept;

// Never destroyed: threads may still be inside calls when the process ends.
template <typename Object, uintptr_t number>
HandleTable<Object>& make_table() {
  static auto& table = *new HandleTable<Object>(number);
  ::pthread_atfork([] { table.lock(); }, [] { table.unlock(); }, [] { table.unlock(); });
  return table;
}

}  // namespace

HandleTable<Session>& sessions() {
  static auto& table = make_table<Session, 0>();
  return table;
}

HandleTable<std::shared_ptr<Queue>>& queues() {
  static auto& table = make_table<std::shared_ptr<Queue>, 1>();
  return table;
}

Result<Engine*> engine() {
  static std::mutex mutex;
  static Engine* running = nullptr;  // never destroyed
  static pid_t process = 0;          // whose it is: in one that was forked no thread runs it
  const std::lock_guard lock(mutex);
  if (running == nullptr || process != ::getpid()) {
    Result<std::unique_ptr<Engine>> started = Engine::start(real_system());
    if (!started.ok()) return started.status();
    running = started->release();
    process = ::getpid();
  }
  return running;
}

hocketResult_t report(const Status& status, Session* session) {
  if (status.ok()) return hocketSuccess;
  if (session == nullptr || remember(*session, status)) log_warn("{}", status.message());
  return report_again(status);
}

hocketResult_t report_again(const Status& status) {
  thread_error = status.message();
  return static_cast<hocketResult_t>(status.code());
}

bool remember(Session& session, const Status& status) {
  const std::lock_guard lock(session.mutex);
  const bool is_new = session.last_error != status.message();
  session.last_error = status.message();
  return is_new;
}

const char* last_error_of_thread() { return thread_error.c_str(); }

const char* keep_for_thread(std::string text) {
  thread_kept = std::move(text);
  return thread_kept.c_str();
}

Status no_communicator() {
  return Status(Code::kInvalidArgument, "comm: no such communicator (destroyed, aborted or never created)");
}

Status null_pointer(const char* name) { return Status(Code::kInvalidArgument, fmt::format("{} is NULL", name)); }

Status may_wait() {
  if (!is_within_function()) return {};
  return Status(Code::kInvalidUsage, "a reduction's function called it, within a call");
}

void abort(Communicator& communicator) {
  communicator.mesh().abort(Status(
      Code::kRemote, fmt::format("{}rank {} aborted the communicator", communicator.prefix(), communicator.rank())));
}

Status Occupy::alone() const {
  if (hold_.alone()) return {};
  if (session() == nullptr) return no_communicator();
  HOCKET_TRY(session()->opened());
  HOCKET_TRY(may_wait());
  return Status(Code::kInvalidUsage, fmt::format("rank {}: another thread is inside a call on this communicator",
                                                 session()->communicator->rank()));
}

Status Occupy::opened() const {
  HOCKET_TRY(alone());
  return session()->opened();
}

Status Occupy::fault() const {
  HOCKET_TRY(opened());
  // First: a call that another thread's abort overtakes is told of the abort.
  HOCKET_TRY(session()->communicator->mesh().status());
  if (session()->phase == Session::Phase::kOpen) return {};
  return Status(Code::kInvalidUsage,
                fmt::format("rank {}: the communicator is finalized", session()->communicator->rank()));
}

}  // namespace hocket
