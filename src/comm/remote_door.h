// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a rank's device comes to one peer's windows: the peer's service thread is asked once for each window, and lets it
// in. When the connection breaks, the peer is first asked to end its own end of it, so that nothing late is written;
// only then is what was under way done by its service thread, as is all that the device does not reach. Knows no
// device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/system.h"
#include "comm/remote.h"
#include "transports/remote_memory.h"

namespace hocket {

// Any thread.
class RemoteDoor {
 public:
  // A peer that cannot let us in, or whose connection broke, is asked again after this rest; after twice the last one
  // if it broke again.
  static constexpr Duration kRest = std::chrono::seconds(1);
  static constexpr Duration kLongestRest = std::chrono::seconds(64);

  // Asks the peer's service thread; null: too much is asked of it now.
  using Ask = std::function<std::shared_ptr<const RemoteAnswer>(const RemoteRequest&)>;
  // `peer` names it in warnings.
  RemoteDoor(RemoteMemory& memory, Clock& clock, Ask ask, std::string peer);

  struct Entrance {
    enum class State : uint8_t {
      kWait,     // come back
      kService,  // by the peer's service thread, this time
      kDevice,   // by `transfer`
    } state = State::kService;
    std::unique_ptr<RemoteTransfer> transfer{};
    uint64_t end = 0;  // by which it goes, for report()
  };
  // Begins a put, which reads `local`, or a get, which writes there. What lies outside the peer's part is refused by
  // the service thread.
  Entrance begin(const RemoteRequest& request, void* local);
  // What became of a transfer. Where it failed, begin() says what to do.
  void report(uint64_t end, const Status& status);
  // It is closed here.
  void forget(uint32_t window);

 private:
  // Of a peer's part of a window.
  struct Known {
    bool by_device = false;
    uint64_t bytes = 0;
    Time again{};  // not by the device: when to ask next
  };

  void ask(uint32_t window, std::string card);
  void take_answer();
  void break_off(const Status& why);
  // Nothing is asked that is not answered.
  bool is_settled();

  RemoteMemory& memory_;
  Clock& clock_;
  const Ask ask_;
  const std::string peer_;
  std::mutex mutex_;
  std::shared_ptr<RemoteEnd> end_;
  uint64_t ends_ = 0;     // of which end_ is the last
  bool closing_ = false;  // the peer has not said yet that it has ended its end
  std::shared_ptr<const RemoteAnswer> answer_;
  uint32_t asked_ = 0;  // the window; 0: to end its end
  std::map<uint32_t, Known> windows_;
  Duration rest_{};
  Time rests_until_{};
};

}  // namespace hocket
