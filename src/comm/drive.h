// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Driving: the calling thread runs operations, of any communicators, to their ends; it spins, yields or sleeps while
// nothing moves.
#pragma once

#include <span>

#include "base/system.h"
#include "comm/mesh.h"
#include "comm/work.h"
#include "execute/wait.h"

namespace hocket {

// What has begun must be gone on with: else its communicator fails. Takes no memory.
class Begun {
 public:
  Begun() = default;
  ~Begun() {
    if (mesh_ != nullptr) mesh_->fail_without_memory();
  }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;
  void begins(Mesh& mesh) { mesh_ = &mesh; }
  void goes_on() { mesh_ = nullptr; }

 private:
  Mesh* mesh_ = nullptr;
};

// Advances every operation once. True when something moved.
bool advance_all(std::span<Work* const> works);
// Called when nothing moved, with at least one work. Spins, yields or sleeps a little; sleeps on `all`, if given,
// together with the pollers of all communicators; otherwise on the first one's poller.
void wait_for_news(System& system, std::span<Work* const> works, Wait& wait, Poller* all = nullptr);
// Fails the communicators of what has not ended, and ends what has had its turn. Takes no memory.
void abandon(System& system, std::span<Work* const> works) noexcept;
// Returns when all have ended, also by an exception.
void drive(System& system, std::span<Work* const> works, Wait& wait);
// Issues a prepared operation of the communicator and returns when it has ended.
Status run(Communicator& communicator, Work& work);

}  // namespace hocket
