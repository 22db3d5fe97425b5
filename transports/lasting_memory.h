// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory that lasts: what hocketMemAlloc gave, and what is registered with a communicator. The library is told when it
// ends, so what was made of it (a registration with a device) can be kept until then. Of other memory nobody knows
// whether it is still mapped. It may be memory of an accelerator, which cards reach and the host does not. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"

namespace hocket {

// How a range is reached whose addresses mean nothing to the host.
struct BeyondHost {
  Descriptor dma_buf;  // by cards: there the range begins at `offset`
  size_t offset = 0;
  // Copies some of the range to the host's memory, where no card does.
  std::function<Status(std::byte* to, std::span<const std::byte> from)> copy_out;
};

class LastingMemory {
 public:
  using Bytes = std::span<const std::byte>;

  // Somebody who makes something of it.
  class User {
   public:
    virtual ~User() = default;
    // This range ends: nothing made of it is used from now on.
    virtual void forget(Bytes range) = 0;
    // Other pages are in the place of some of this range: who comes from now on gets something made anew. What is under
    // way may go on with the old.
    virtual void renew(Bytes range) = 0;
  };

  // Of this process; a forked child has one of its own.
  static LastingMemory& of_process();

  // The same range may last for several reasons. `beyond`: null for the host's memory.
  using Reason = uint64_t;
  Reason begin(Bytes range, std::shared_ptr<const BeyondHost> beyond = nullptr);
  // One that has ended already is none.
  void end(Reason reason);
  // The memory is freed, for whatever reasons some of it should have lasted.
  void end_all(Bytes memory);
  // Other pages are in the place of these.
  void replace(Bytes pages);

  void join(User* user);
  void leave(User* user);
  // Gives the range that holds these bytes to `make`, and does not end it meanwhile. False: there is none.
  bool with(Bytes bytes, const std::function<void(Bytes range, const BeyondHost* beyond)>& make);
  // How these bytes are reached; null: the host does, or they do not last.
  std::shared_ptr<const BeyondHost> beyond_host(Bytes bytes);

  // A range that lasts as long as this object.
  class Hold {
   public:
    explicit Hold(Bytes range, std::shared_ptr<const BeyondHost> beyond = nullptr)
        : range_(range), reason_(of_process().begin(range, std::move(beyond))) {}
    ~Hold() { of_process().end(reason_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Bytes range() const { return range_; }

   private:
    const Bytes range_;
    const Reason reason_;
  };

 private:
  struct Range {
    Bytes bytes;
    Reason reason = 0;
    std::shared_ptr<const BeyondHost> beyond;
  };

  const Range* find(Bytes bytes) const;
  void forget(Bytes range);

  std::mutex mutex_;
  std::vector<Range> ranges_;
  std::vector<User*> users_;
};

bool overlap(LastingMemory::Bytes left, LastingMemory::Bytes right);

// Of memory that lasted when it was seen to be beyond the host, or of the host's: fails where the first has ended.
Status copy_to_host(std::byte* to, std::span<const std::byte> from, bool beyond_host);

}  // namespace hocket
