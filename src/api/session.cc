// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/session.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"

namespace hocket {
namespace {

thread_local std::string thread_error;
thread_local std::string thread_kept;

}  // namespace

// Never destroyed: threads may still be inside calls when the process ends.
HandleTable<Session>& sessions() {
  static auto& table = *new HandleTable<Session>;
  return table;
}

HandleTable<std::shared_ptr<Queue>>& queues() {
  static auto& table = *new HandleTable<std::shared_ptr<Queue>>;
  return table;
}

Result<Engine*> engine() {
  static std::mutex mutex;
  static Engine* running = nullptr;
  const std::lock_guard lock(mutex);
  if (running == nullptr) {
    Result<std::unique_ptr<Engine>> started = Engine::start(real_system());
    if (!started.ok()) return started.status();
    running = started->release();
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

void abort(Communicator& communicator) {
  communicator.mesh().abort(Status(
      Code::kRemote, fmt::format("{}rank {} aborted the communicator", communicator.prefix(), communicator.rank())));
}

Status Occupy::alone() const {
  if (hold_.alone()) return {};
  if (session() == nullptr) return no_communicator();
  HOCKET_TRY(session()->opened());
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
