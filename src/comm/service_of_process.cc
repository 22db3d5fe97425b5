// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One service for each process, also for those that fork() makes.
#include <pthread.h>

#include <cstdlib>

#include "comm/service.h"

namespace hocket {
namespace {

std::mutex process_mutex;
Service* of_process = nullptr;  // never destroyed: communicators may outlive all static objects
// Those of the processes that we were forked from: users still hold their communicators.
std::vector<Service*>& of_ancestors = *new std::vector<Service*>;

void before_fork() {
  process_mutex.lock();
  of_process->before_fork();
}

void after_fork_in_parent() {
  of_process->after_fork_in_parent();
  process_mutex.unlock();
}

void after_fork_in_child() {
  of_process->after_fork_in_child();
  process_mutex.unlock();
}

}  // namespace

Service& process_service() {
  const std::lock_guard lock(process_mutex);
  if (of_process != nullptr && of_process->in_its_process()) return *of_process;
  const bool is_first = of_process == nullptr;
  if (!is_first) of_ancestors.push_back(of_process);
  of_process = new Service(real_system(), service_options_from_settings());
  if (is_first) {
    std::atexit([] { of_process->end(); });
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  }
  return *of_process;
}

}  // namespace hocket
