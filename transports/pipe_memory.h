// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Where the ends of pipes of this process keep messages. Something can be made of such a range, as a registration with
// a device is: by whoever wants it, at a time that suits him. It goes before the range does. Any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace hocket {

class PipeMemory {
 public:
  using Bytes = std::span<std::byte>;
  // What is made of a range. The thread that ends the range destroys it, and holds no lock meanwhile: that may wait.
  class Made {
   public:
    virtual ~Made() = default;
  };
  // Null: it cannot be made, and is not asked for again.
  using Maker = std::function<std::unique_ptr<Made>(Bytes range)>;

  // Messages lie there as long as this object lives. Several may say so of the same range.
  explicit PipeMemory(Bytes range);
  ~PipeMemory();
  PipeMemory(const PipeMemory&) = delete;
  PipeMemory& operator=(const PipeMemory&) = delete;

  // What was made of the range that holds these bytes, which lasts as long as the pipe's end does. Null: nothing; if
  // it is a pipe's range, it is wanted from now on.
  static const Made* find(std::span<const std::byte> bytes);
  // Makes something of each range of which it is wanted and was not tried. No lock is held meanwhile.
  static void make_wanted(const Maker& make);

 private:
  const Bytes range_;
};

}  // namespace hocket
