// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One connection between simulated hosts. Each end holds what has arrived there and not been read.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/simulated_kernel.h"
#include "base/simulated_links.h"

namespace hocket {

class SimulatedEnd : public SimulatedObject, public std::enable_shared_from_this<SimulatedEnd> {
 public:
  using Objects = std::vector<std::shared_ptr<SimulatedObject>>;

  // `path`: to the other end.
  SimulatedEnd(SimulatedScheduler& scheduler, std::string peer_name, SimulatedPath path)
      : scheduler_(scheduler), peer_name_(std::move(peer_name)), path_(std::move(path)) {}

  const std::string& peer_name() const { return peer_name_; }
  bool has_news() const override { return connected_ || !failure_.ok(); }

  // The two ends know each other from now on; bytes flow once an end is connected.
  static void join(const std::shared_ptr<SimulatedEnd>& one, const std::shared_ptr<SimulatedEnd>& other);
  void connect();
  void fail(Status failure);
  bool is_closed() const { return closed_; }

  Result<size_t> send(std::span<const std::span<const std::byte>> parts);
  Result<size_t> send_objects(std::span<const std::byte> bytes, Objects objects);
  Result<size_t> receive(std::span<std::byte> into);
  Objects take_objects() { return std::exchange(taken_, {}); }
  void close();

 private:
  struct Parcel {
    uint64_t position = 0;  // in the stream, of the byte that it came with
    Objects objects;
  };

  // How many of so many bytes can be sent now.
  Result<size_t> room_for(size_t bytes);
  void deliver(std::string bytes, Objects objects);
  void on_arrival(const std::string& bytes, Objects objects);
  void on_room(size_t bytes);
  void on_end();
  Time arrival_time();
  // Once the path has been passed, unless it is cut by then or the other end is closed.
  void at_peer(Time time, std::function<void(SimulatedEnd&)> function);

  SimulatedScheduler& scheduler_;
  const std::string peer_name_;
  const SimulatedPath path_;
  std::weak_ptr<SimulatedEnd> peer_;
  bool connected_ = false;
  bool closed_ = false;
  bool peer_has_closed_ = false;
  Status failure_;

  size_t on_their_way_ = 0;  // bytes sent that, as far as this end knows, have not been read
  bool was_full_ = false;
  Time last_arrival_;

  std::string inbox_;
  uint64_t bytes_read_ = 0;
  std::deque<Parcel> parcels_;
  Objects taken_;
};

}  // namespace hocket
