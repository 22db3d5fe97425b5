// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory that lasts: what hocketMemAlloc gave, and what is registered with a communicator. The library is told when it
// ends, so what was made of it (a registration with a device) can be kept until then. Of other memory nobody knows
// whether it is still mapped. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace hocket {

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

  // The same range may last for several reasons.
  void begin(Bytes range);
  void end(Bytes range);
  // Other pages are in the place of these.
  void replace(Bytes pages);

  void join(User* user);
  void leave(User* user);
  // Gives the range that holds these bytes to `make`, and does not end it meanwhile. False: there is none.
  bool with(Bytes bytes, const std::function<void(Bytes range)>& make);

  // A range that lasts as long as this object.
  class Hold {
   public:
    explicit Hold(Bytes range) : range_(range) { of_process().begin(range); }
    ~Hold() { of_process().end(range_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    const Bytes range_;
  };

 private:
  struct Range {
    Bytes bytes;
    size_t reasons = 0;
  };

  std::mutex mutex_;
  std::vector<Range> ranges_;
  std::vector<User*> users_;
};

bool overlap(LastingMemory::Bytes left, LastingMemory::Bytes right);

}  // namespace hocket
