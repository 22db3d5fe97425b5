// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A range of the program's memory that a device may use as long as this object lives. What is registered of the host's
// memory is pinned, so its sum is kept within half of what may be locked: the other half is for rings, without which
// there is no pipe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "transports/lasting_memory.h"
#include "transports/verbs/table.h"

namespace hocket {

class Registration {
 public:
  // Null: the device does not take it, which is logged under its name, or it would be too much. `beyond`: null for the
  // host's memory.
  static std::unique_ptr<Registration> make(const VerbsTable& table, ibv_pd* domain, std::span<const std::byte> bytes,
                                            int access, std::string_view device, const BeyondHost* beyond = nullptr);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  uint32_t local_key() const { return region_->lkey; }
  uint32_t remote_key() const { return region_->rkey; }

 private:
  Registration(const VerbsTable& table, ibv_mr* region, size_t counted)
      : table_(table), region_(region), counted_(counted) {}

  const VerbsTable& table_;
  ibv_mr* const region_;
  const size_t counted_;  // of what may be locked
};

}  // namespace hocket
