// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace hocket::tool {
namespace {

constexpr size_t kLongestLine = 64 << 10;

sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure("pipe", errno);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// In the new process. Returns only if the program cannot be run.
void become(std::vector<char*>& command, std::vector<char*>& environment, int out, int error, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody is left behind, whatever ends us
  if (getppid() != parent) _exit(EXIT_FAILURE);
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  execvpe(command[0], command.data(), environment.data());
}

void write_all(int target, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(target, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;  // nobody reads what is printed any more
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

Workers::~Workers() {
  signal_all(SIGKILL);
  for (const auto& [process, worker] : workers_) waitpid(process, nullptr, 0);
}

Status Workers::watch_signals() {
  const sigset_t signals = awaited_signals();
  std::signal(SIGPIPE, SIG_IGN);  // who no longer reads us shall not keep us from tidying up
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  return signals_ ? Status() : system_failure("signalfd", errno);
}

Status Workers::start(const Job& job) {
  Result<Pipe> out = make_pipe();
  if (!out.ok()) return out.status();
  Result<Pipe> error = make_pipe();
  if (!error.ok()) return error.status();
  Result<Pipe> failure = make_pipe();  // closes when the program runs; otherwise says why it does not
  if (!failure.ok()) return failure.status();
  std::vector<std::string> words = job.command;
  std::vector<std::string> settings;
  for (const auto& [name, value] : job.environment) settings.push_back(name + "=" + value);
  std::vector<char*> command = pointers(words);
  std::vector<char*> environment = pointers(settings);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) return system_failure("fork", errno);
  if (process == 0) {
    become(command, environment, out->write.get(), error->write.get(), parent);
    const int why = errno;
    write_all(failure->write.get(), std::string_view(reinterpret_cast<const char*>(&why), sizeof why));
    _exit(EXIT_FAILURE);
  }
  setpgid(process, process);  // here too: whoever comes first
  failure->write = Descriptor();
  int why = 0;
  if (read(failure->read.get(), &why, sizeof why) == sizeof why) {
    waitpid(process, nullptr, 0);
    return system_failure(job.command[0], why);
  }
  for (const Pipe* each : {&*out, &*error}) fcntl(each->read.get(), F_SETFL, O_NONBLOCK);
  workers_[process] = Worker{
      job.name, job.prefix, {std::move(out->read), STDOUT_FILENO, {}}, {std::move(error->read), STDERR_FILENO, {}}};
  return {};
}

Result<Workers::News> Workers::wait(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    News news;
    news.signal = read_signals();
    reap(news);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (news.signal != 0 || !news.ended.empty() || left.count() <= 0) return news;
    std::vector<pollfd> watched = {{signals_.get(), POLLIN, 0}};
    for (auto& [process, worker] : workers_) {
      for (Stream* stream : {&worker.out, &worker.error}) {
        if (stream->source) watched.push_back({stream->source.get(), POLLIN, 0});
      }
    }
    if (poll(watched.data(), watched.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return system_failure("poll", errno);
    }
    for (auto& [process, worker] : workers_) {
      pass_on(worker, worker.out, false);
      pass_on(worker, worker.error, false);
    }
  }
}

void Workers::signal_all(int signal) {
  for (const auto& [process, worker] : workers_) kill(-process, signal);
}

// Whole lines only, so that those of several programs do not mix.
void Workers::pass_on(Worker& worker, Stream& stream, bool to_its_end) {
  std::array<char, 16 << 10> buffer;
  std::string lines;
  ssize_t count = 0;
  while (stream.source && (count = read(stream.source.get(), buffer.data(), buffer.size())) > 0) {
    stream.begun.append(buffer.data(), static_cast<size_t>(count));
    for (size_t end = 0; (end = stream.begun.find('\n')) != std::string::npos || stream.begun.size() > kLongestLine;) {
      end = std::min(end, kLongestLine);
      lines += worker.prefix + stream.begun.substr(0, end) + "\n";
      stream.begun.erase(0, end + (stream.begun[end] == '\n' ? 1 : 0));
    }
    if (!to_its_end) break;
  }
  const bool over = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  if ((over || to_its_end) && !stream.begun.empty()) {
    lines += worker.prefix + std::exchange(stream.begun, {}) + "\n";
  }
  if (over) stream.source = Descriptor();
  write_all(stream.target, lines);
}

void Workers::reap(News& news) {
  int status = 0;
  pid_t process = 0;
  while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
    const auto found = workers_.find(process);
    if (found == workers_.end()) continue;
    pass_on(found->second, found->second.out, true);
    pass_on(found->second, found->second.error, true);
    news.ended.push_back({found->second.name, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)});
    workers_.erase(found);
  }
}

int Workers::read_signals() {
  int asked = 0;
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (static_cast<int>(info.ssi_signo) != SIGCHLD) asked = static_cast<int>(info.ssi_signo);
  }
  return asked;
}

}  // namespace hocket::tool
