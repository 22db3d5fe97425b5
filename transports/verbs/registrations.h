// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lasting memory (lasting_memory.h) as a queue pair's device may use it: a range is registered when some of it is first
// needed, and stays so until the range ends or the queue pair does. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transports/lasting_memory.h"
#include "transports/verbs/registration.h"

namespace hocket {

class Registrations final : public LastingMemory::User {
 public:
  struct Keys {
    uint32_t local = 0;
    uint32_t remote = 0;
  };

  // `device` is its name in messages.
  Registrations(const VerbsTable& table, ibv_pd* domain, int access, std::string device);
  ~Registrations() override;
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Nothing: these bytes do not last, or the device does not take them, or too much is registered.
  std::optional<Keys> keys_for(LastingMemory::Bytes bytes);
  void forget(LastingMemory::Bytes range) override;
  void renew(LastingMemory::Bytes range) override;

 private:
  struct Entry {
    LastingMemory::Bytes range;
    std::unique_ptr<Registration> registration;  // null: it could not be registered
    bool retired = false;                        // of pages that are there no more
  };

  const Entry* find(LastingMemory::Bytes bytes) const;

  const VerbsTable& table_;
  ibv_pd* const domain_;
  const int access_;
  const std::string device_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace hocket
