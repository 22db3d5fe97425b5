// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "processes.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

namespace hocket::perf {
namespace {

using Clock = std::chrono::steady_clock;

Outcome from_errno(const char* what) { return {kExitInternal, fmt::format("{}: {}", what, std::strerror(errno))}; }

sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
  return signals;
}

struct Child {
  pid_t pid = -1;
  bool running = false;
};

// The starting process: it waits for its children and for signals, and does nothing else.
class Starter {
 public:
  Starter(const std::string& program, const Patience& patience) : program_(program), patience_(patience) {}

  Outcome start(int processes, const std::function<int(const Seat&)>& body);
  int wait_for_all();
  void kill_all(int signal);

 private:
  void run_child(const Seat& seat, const std::function<int(const Seat&)>& body, pid_t parent) const;
  void reap();
  void take_end(size_t process, int wait_status);
  void begin_ending(int status);
  void end_faster();
  bool any_running() const { return std::ranges::any_of(children_, &Child::running); }

  const std::string& program_;
  const Patience& patience_;
  sigset_t inherited_mask_{};
  std::vector<Child> children_;
  int status_ = kExitOk;
  std::optional<Clock::time_point> next_step_;  // set when all are to end
  bool signalled_ = false;                      // by this process: their ends say nothing any more
  int last_resort_ = SIGTERM;
};

void Starter::run_child(const Seat& seat, const std::function<int(const Seat&)>& body, pid_t parent) const {
  // If the starter is killed outright, nobody is left behind; it may be gone before we asked for that.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExitInternal);
  pthread_sigmask(SIG_SETMASK, &inherited_mask_, nullptr);
  const int status = body(seat);
  std::fflush(nullptr);
  _exit(status);
}

Outcome Starter::start(int processes, const std::function<int(const Seat&)>& body) {
  const sigset_t signals = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &inherited_mask_);
  int ends[2];
  if (pipe(ends) != 0) return from_errno("pipe");
  std::fflush(nullptr);
  const pid_t parent = getpid();
  Outcome outcome;
  for (int process = 0; process < processes && outcome.ok(); ++process) {
    const pid_t pid = fork();
    if (pid == 0) {
      // Only process 0 can write, so that the others see the end of the pipe when it dies early.
      if (process != 0) close(ends[1]);
      run_child(Seat(process, processes, ends[0], process == 0 ? ends[1] : -1), body, parent);
    }
    if (pid < 0) {
      outcome = from_errno("fork");
    } else {
      children_.push_back({pid, true});
    }
  }
  close(ends[0]);
  close(ends[1]);
  return outcome;
}

void Starter::kill_all(int signal) {
  signalled_ = true;
  for (const Child& child : children_) {
    if (child.running) kill(child.pid, signal);
  }
}

void Starter::begin_ending(int status) {
  if (status_ == kExitOk) status_ = status;
  if (!next_step_) next_step_ = Clock::now() + patience_.report;
}

void Starter::end_faster() {
  kill_all(last_resort_);
  last_resort_ = SIGKILL;
  next_step_ = Clock::now() + patience_.end;
}

void Starter::take_end(size_t process, int wait_status) {
  children_[process].running = false;
  const bool killed = WIFSIGNALED(wait_status);
  const int status = killed ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  if (status == kExitOk) return;
  // A process that was killed explains the errors that the others report, even when those are met first.
  if (!signalled_ && (killed || status_ == kExitOk)) {
    const std::string end =
        killed ? fmt::format("was killed by signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)))
               : fmt::format("ended with status {}", status);
    fmt::print(stderr, "{}: process {} (pid {}) {}; all others end too\n", program_, process, children_[process].pid,
               end);
    status_ = status;
  }
  begin_ending(status);
}

void Starter::reap() {
  for (size_t process = 0; process < children_.size(); ++process) {
    int wait_status = 0;
    if (children_[process].running && waitpid(children_[process].pid, &wait_status, WNOHANG) > 0) {
      take_end(process, wait_status);
    }
  }
}

int Starter::wait_for_all() {
  const sigset_t signals = awaited_signals();
  while (reap(), any_running()) {
    if (next_step_ && Clock::now() >= *next_step_) end_faster();
    // The pause matters only once all are to end; until then a signal comes.
    const timespec pause = {.tv_sec = 0, .tv_nsec = 50'000'000};
    const int signal = next_step_ ? sigtimedwait(&signals, nullptr, &pause) : sigwaitinfo(&signals, nullptr);
    if (signal <= 0 || signal == SIGCHLD) continue;
    begin_ending(128 + signal);
    kill_all(signal);
  }
  return status_;
}

}  // namespace

Outcome Seat::publish(const hocketUniqueId& id) const {
  Outcome outcome;
  // Each copy is written and read whole: it is far smaller than PIPE_BUF.
  for (int process = 1; process < processes_ && outcome.ok(); ++process) {
    if (write(id_write_, id.internal, sizeof(id.internal)) != ssize_t{sizeof(id.internal)}) {
      outcome = from_errno("writing the unique id to the other processes");
    }
  }
  close(id_write_);
  close(id_read_);
  return outcome;
}

Outcome Seat::receive(hocketUniqueId& id) const {
  const ssize_t got = read(id_read_, id.internal, sizeof(id.internal));
  close(id_read_);
  if (got == ssize_t{sizeof(id.internal)}) return {};
  if (got < 0) return from_errno("reading the unique id from process 0");
  return {kExitInternal, "process 0 ended before it gave the unique id"};
}

void Seat::take_core() const {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < processes_) return;
  int before = process_;
  size_t core = 0;
  while (!CPU_ISSET(core, &allowed) || before-- > 0) ++core;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(core, &own);
  sched_setaffinity(0, sizeof own, &own);
}

int run_processes(const std::string& program, int processes, const std::function<int(const Seat&)>& body,
                  const Patience& patience) {
  Starter starter(program, patience);
  if (Outcome outcome = starter.start(processes, body); !outcome.ok()) {
    fmt::print(stderr, "{}: {}\n", program, outcome.message);
    starter.kill_all(SIGKILL);
    starter.wait_for_all();
    return outcome.status;
  }
  return starter.wait_for_all();
}

}  // namespace hocket::perf
