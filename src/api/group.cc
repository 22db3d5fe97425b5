// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "api/arguments.h"
#include "api/joint.h"
#include "api/pending_call.h"
#include "api/place.h"
#include "comm/drive.h"
#include "comm/stream_batch.h"

namespace hocket {
namespace {

// A transfer like one that was made before.
struct Repeat {
  CallArguments arguments;
  const void* send;
  void* recv;
};

struct Group {
  Status error;
  std::vector<Repeat> repeats;               // while there is nothing else, of one communicator ...
  hocketComm_t repeats_on = nullptr;         // ... which is this
  std::vector<std::vector<Job>> jobs;        // each list runs in order
  std::map<hocketComm_t, size_t> job_lists;  // of the communicators used by jobs
  std::vector<PendingCall> calls;
};

constinit thread_local int depth = 0;  // of nested groups
// This thread's, while it is within one. To find it takes one question to the loader, where an object that is destroyed
// with its thread takes three.
constinit thread_local Group* group = nullptr;

Group& group_of_thread() {
  thread_local Group made;
  return made;
}

Status run_now(Session& session, Request& request) {
  Communicator& communicator = *session.communicator;
  if (is_transfer(request.facts) && request.facts.peer == communicator.rank()) {
    return Status(Code::kInvalidUsage,
                  fmt::format("rank {}: {}: a transfer with oneself needs a group that holds both sides",
                              communicator.rank(), describe(request.facts)));
  }
  Operation& operation = communicator.blocking_operation(request.facts);
  HOCKET_TRY(operation.prepare_awaited(request));
  return run(communicator, operation);
}

struct Prepared {
  hocketComm_t comm;
  // Kept until the group has ended, even when aborted meanwhile: the abort of one need not wait for the others.
  std::shared_ptr<Communicator> communicator;
  std::unique_ptr<Work> work;
};

// hocketGroupEnd names no communicator: each keeps the failure that is its own.
Status kept_by(hocketComm_t comm, const Status& status) {
  if (status.ok()) return status;
  if (const auto pin = sessions().pin(comm)) remember(*pin, status);
  return status;
}

Status destroyed_meanwhile() {
  return Status(Code::kInvalidArgument, "comm: destroyed or aborted before the end of the group");
}

// `batch`: of the call's CUDA stream; null: it is the host's.
Result<Prepared> prepare(PendingCall& call, StreamBatch* batch) {
  const auto pin = sessions().pin(call.comm);
  if (!pin) return destroyed_meanwhile();
  const std::shared_ptr<Communicator>& communicator = pin->communicator;
  HOCKET_TRY(communicator->mesh().status());
  if (call.work != nullptr) return Prepared{call.comm, communicator, std::move(call.work)};
  if (call.with_self) HOCKET_TRY(complete_request(*communicator, call.request));
  if (batch != nullptr) {
    Result<std::unique_ptr<Work>> staged = batch->stage(call.request, *communicator);
    if (staged.status().code() == Code::kInvalidArgument) return fault_of(*communicator, call.request, staged.status());
    HOCKET_TRY(staged.status());
    if (*staged != nullptr) return Prepared{call.comm, communicator, std::move(*staged)};
  }
  std::unique_ptr<Operation> operation = communicator->make_operation(call.request);
  operation->go_on_from(call.slices);
  HOCKET_TRY(operation->prepare(std::move(call.request)));
  return Prepared{call.comm, communicator, std::move(operation)};
}

Status run_blocking(const std::vector<Prepared>& blocking, std::span<Work* const> works) {
  if (blocking.empty()) return {};
  Communicator& first = *blocking.front().communicator;
  Wait wait = first.fresh_wait();
  drive(first.system(), works, wait);
  Status failure;
  for (const Prepared& one : blocking) {
    const Status status = kept_by(one.comm, one.work->status());
    if (failure.ok()) failure = status;
  }
  return failure;
}

// The calls of a group, by where they go.
struct Sorted {
  std::vector<Work*> in_order;  // to be issued
  std::vector<Work*> driven_here;
  std::vector<Prepared> blocking;
  std::map<hocketStream_t, std::pair<std::shared_ptr<Queue>, Batch>> queued;
  std::map<hocketStream_t, std::shared_ptr<StreamBatch>> on_streams;
};

Result<StreamBatch*> batch_on(hocketStream_t stream, Sorted& sorted) {
  if (!is_cuda_stream(stream)) return nullptr;
  std::shared_ptr<StreamBatch>& batch = sorted.on_streams[stream];
  if (batch == nullptr) {
    const Result<Engine*> running = engine();
    HOCKET_TRY(running.status());
    const Result<cuda::Stream> found = find_stream(stream);
    HOCKET_TRY(found.status());
    Result<std::shared_ptr<StreamBatch>> made = StreamBatch::make(*found, **running);
    HOCKET_TRY(made.status());
    batch = std::move(*made);
  }
  return batch.get();
}

Status sort(PendingCall& call, Sorted& sorted) {
  const Result<StreamBatch*> batch = batch_on(call.stream, sorted);
  HOCKET_TRY(batch.status());
  Result<Prepared> prepared = prepare(call, *batch);
  HOCKET_TRY(prepared.status());
  if (*batch == nullptr || !(*batch)->is_captured()) sorted.in_order.push_back(prepared->work.get());
  if (*batch != nullptr) {
    (*batch)->add(prepared->communicator, std::move(prepared->work));
  } else if (call.stream == nullptr) {
    sorted.driven_here.push_back(prepared->work.get());
    sorted.blocking.push_back(std::move(*prepared));
  } else {
    Result<std::shared_ptr<Queue>> queue = queue_of(call.stream);
    HOCKET_TRY(queue.status());
    auto& [at, works] = sorted.queued[call.stream];
    at = *queue;
    works.push_back(std::move(prepared->work));
  }
  return {};
}

Status enqueue(const Sorted& sorted) {
  for (const auto& [stream, batch] : sorted.on_streams) {
    const Status status = batch->enqueue();
    if (status.ok()) continue;
    for (const auto& [other, enqueued] : sorted.on_streams) enqueued->cancel();
    return status;
  }
  return {};
}

// What is issued must run: nothing is, unless all can be prepared, all queues and all memory are there, and the streams
// have taken it.
Status run_calls(std::vector<PendingCall> calls) {
  HOCKET_TRY(match_transfers_with_self(calls));
  const JointCalls joint = JointCalls::take(calls);
  Sorted sorted;
  for (PendingCall& call : calls) HOCKET_TRY(kept_by(call.comm, sort(call, sorted)));
  Engine* running = nullptr;
  if (!sorted.queued.empty()) {
    Result<Engine*> started = engine();
    if (!started.ok()) return started.status();
    running = *started;
  }
  std::vector<Submission> submissions;
  for (auto& [stream, work] : sorted.queued) submissions.emplace_back(work.first, std::move(work.second));
  HOCKET_TRY(joint.enqueue());
  HOCKET_TRY(enqueue(sorted));
  for (Work* work : sorted.in_order) work->issue();
  for (Submission& submission : submissions) running->submit(std::move(submission));
  for (const auto& [stream, batch] : sorted.on_streams) batch->submit();
  return run_blocking(sorted.blocking, sorted.driven_here);
}

// On a thread of its own.
Status run_in_order(const std::vector<Job>& jobs) noexcept {
  return tried([&]() -> Status {
    for (const Job& job : jobs) HOCKET_TRY(job());
    return {};
  });
}

Status run_jobs(const std::vector<std::vector<Job>>& lists) {
  std::vector<Status> results(lists.size());
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t i = 0; i < lists.size(); ++i) {
      threads.push_back(real_system().threads.start("hocket-group", [&, i] { results[i] = run_in_order(lists[i]); }));
      if (threads.back() == nullptr) results[i] = Status(Code::kSystem, "no thread for a job of the group");
    }
  }
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

// Made the long way: its request is complete, as a transfer's follows from its arguments.
void push_as_call(const Repeat& repeat, std::optional<size_t> slices, Group& of) {
  of.calls.push_back({of.repeats_on, {repeat.arguments, repeat.send, repeat.recv}, nullptr, false, nullptr, slices});
}

// Before anything else comes into the group: its repeats are made as all other calls are.
void give_up_repeats(Group& of) {
  of.calls.reserve(of.calls.size() + of.repeats.size());  // all become calls, or none
  for (const Repeat& repeat : of.repeats) push_as_call(repeat, {}, of);
  of.repeats.clear();
}

Status run_or_keep(PendingCall call) {
  HOCKET_TRY(check_stream(call.stream));
  if (depth > 0) {
    give_up_repeats(*group);
    group->calls.push_back(std::move(call));
    return {};
  }
  std::vector<PendingCall> calls;
  calls.push_back(std::move(call));
  return run_calls(std::move(calls));
}

// Calls on one communicator run one after the other, those on several at the same time.
Result<Picoseconds> expected_time(const std::vector<PendingCall>& calls) {
  std::map<hocketComm_t, Picoseconds> sums;
  Picoseconds longest = 0;
  for (const PendingCall& call : calls) {
    const auto pin = sessions().pin(call.comm);
    if (!pin) return destroyed_meanwhile();
    if (call.work != nullptr) {
      return kept_by(call.comm, Status(Code::kInvalidUsage, "one-sided calls: the model knows no time of them"));
    }
    const Result<Picoseconds> time = pin->communicator->planner().expected_time(call.request);
    if (!time.ok()) return kept_by(call.comm, time.status());
    longest = std::max(longest, sums[call.comm] += *time);
  }
  return longest;
}

// Makes those repeats that wait for nobody for long, sends first: peers may wait for them. From the first other one on
// they are left as calls.
void make_repeats(Communicator& communicator, Group& of, Begun& begun) {
  size_t left = of.repeats.size();
  for (const bool sending : {true, false}) {
    for (const Repeat& repeat : of.repeats) {
      if (repeat.arguments.sending != sending) continue;
      const bool is_last = --left == 0;
      Repeated repeated;
      if (of.calls.empty())
        repeated = communicator.repeat_transfer(repeat.arguments, repeat.send, repeat.recv, is_last);
      if (repeated.done || repeated.slices) begun.begins(communicator.mesh());
      if (!repeated.done) push_as_call(repeat, repeated.slices, of);
    }
  }
  of.repeats.clear();
}

// A group of nothing but repeats. Nothing else can keep it from being run: it is on one communicator, which is well.
Status run_repeats(Group& of) {
  const Occupy occupy(of.repeats_on);
  if (!occupy.status().ok()) {
    give_up_repeats(of);
    return run_calls(std::move(of.calls));
  }
  const std::shared_ptr<Communicator> communicator = occupy.session()->communicator;
  const Mesh& mesh = communicator->mesh();
  Begun begun;
  make_repeats(*communicator, of, begun);
  if (!of.calls.empty()) {
    const Status status = run_calls(std::move(of.calls));
    // Who has aborted it meanwhile has taken its handle, too.
    if (!status.ok()) return mesh.failed() ? mesh.status() : status;
  }
  begun.goes_on();
  return {};
}

// False: an inner one ended.
bool leave_group() {
  if (--depth > 0) return false;
  --threads_in_groups;
  return true;
}

// What the outermost end takes out of the group; nothing when an inner one ended.
std::optional<Group> taken() {
  if (!leave_group()) return {};
  return std::exchange(*group, {});
}

// The outermost end of a group that has nothing else.
Status end_repeats() {
  leave_group();
  Group ending;
  ending.repeats.swap(group->repeats);
  ending.repeats_on = group->repeats_on;
  const Status status = run_repeats(ending);
  group->repeats.swap(ending.repeats);  // it is empty, and has memory for the next ones
  return status;
}

}  // namespace

Status submit(hocketComm_t comm, Session& session, Request&& request, hocketStream_t stream) {
  HOCKET_TRY(may_wait());
  const Communicator& communicator = *session.communicator;
  const Result<hocketStream_t> own = stream_of(communicator, request, stream);
  if (!own.ok()) return fault_of(communicator, request, own.status());
  if (depth == 0 && *own == nullptr) return run_now(session, request);
  const bool with_self = is_transfer(request.facts) && request.facts.peer == communicator.rank();
  return run_or_keep({comm, std::move(request), *own, with_self, nullptr});
}

Status submit(hocketComm_t comm, Session& session, std::unique_ptr<Work> work, hocketStream_t stream) {
  HOCKET_TRY(may_wait());
  if (depth == 0 && stream == nullptr) return run(*session.communicator, *work);
  return run_or_keep({comm, {}, stream, false, std::move(work)});
}

Status run_or_defer(hocketComm_t used, Job job) {
  if (depth == 0) return job();
  give_up_repeats(*group);
  auto list = group->jobs.size();
  if (used != nullptr) list = group->job_lists.try_emplace(used, list).first->second;
  if (list == group->jobs.size()) group->jobs.emplace_back();
  group->jobs[list].push_back(std::move(job));
  return {};
}

bool keep_repeat(hocketComm_t comm, Session& session, const CallArguments& arguments, const void* send, void* recv) {
  if (!is_transfer(arguments) || !session.communicator->may_repeat(arguments, send, recv)) return false;
  Group& own = *group;
  if (!own.calls.empty() || !own.jobs.empty()) return false;
  if (own.repeats.empty()) own.repeats_on = comm;
  if (own.repeats_on != comm) return false;
  own.repeats.push_back({arguments, send, recv});
  return true;
}

void group_start() {
  if (depth++ > 0) return;
  group = &group_of_thread();
  ++threads_in_groups;
}

bool is_within_group() { return depth > 0; }

void group_failed(const Status& status) {
  if (depth > 0 && group->error.ok()) group->error = status;
}

hocketResult_t group_end() {
  if (depth == 0) return report(Status(Code::kInvalidUsage, "hocketGroupEnd without hocketGroupStart"));
  if (depth == 1 && group->error.ok() && !group->repeats.empty()) return report(end_repeats());
  std::optional<Group> ending = taken();
  if (!ending) return hocketSuccess;
  if (!ending->error.ok()) return report_again(ending->error);
  const Status status = run_jobs(ending->jobs);
  return report(status.ok() ? run_calls(std::move(ending->calls)) : status);
}

hocketResult_t group_simulate_end(const Status& fault, float* expected) {
  if (depth == 0) return report(Status(Code::kInvalidUsage, "hocketGroupSimulateEnd without hocketGroupStart"));
  std::optional<Group> ending = taken();
  if (!ending) {
    group_failed(Status(Code::kInvalidUsage, "hocketGroupSimulateEnd within an outer group"));
    return report(group->error);
  }
  if (!ending->error.ok()) return report_again(ending->error);
  if (!fault.ok()) return report(fault);
  give_up_repeats(*ending);
  if (!ending->jobs.empty()) {
    return report(Status(Code::kInvalidUsage, "hocketGroupSimulateEnd: the group creates communicators"));
  }
  const Result<Picoseconds> time = expected_time(ending->calls);
  if (time.ok()) *expected = static_cast<float>(*time) / 1e6F;
  return report(time.status());
}

}  // namespace hocket
