// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The operating system behind four small interfaces: Clock, Threads, Network, SharedMemory. Bootstrap, mesh, pipes and
// executor use nothing else, so that the same code runs on real_system() and inside a deterministic simulator.
//
// Rule that makes simulation possible: nobody calls yield, sleep_until, Poller::wait or a Socket while holding a mutex.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace hocket {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// For people to read.
inline double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Names a kernel object (a descriptor on the real system). Only the System that made it can interpret it.
using Handle = int;
inline constexpr Handle kNoHandle = -1;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() = 0;
};

// Destroying a thread joins it.
class Thread {
 public:
  virtual ~Thread() = default;
};

// Where threads run.
struct HostInfo {
  std::string name;        // for people
  std::string kernel;      // equal for those among whom processors are shared
  std::string processors;  // that they may use: bits in hexadecimal, the lowest first
};

class Threads {
 public:
  virtual ~Threads() = default;
  // Null when the system grants no more threads.
  virtual std::unique_ptr<Thread> start(std::string name, std::function<void()> body) = 0;
  virtual void yield() = 0;
  virtual void sleep_until(Time time) = 0;
  // Tells the thread that calls from all others that live. Never null.
  virtual const void* self() = 0;
  virtual HostInfo host() = 0;
};

// Where a socket is reached: "10.0.0.7:4411", "[fe80::1%eth0]:4411", or "unix:NAME" (abstract name, one host only).
using Address = std::string;

// A connected or connecting stream. Never blocks. One thread at a time for each direction.
class Socket {
 public:
  virtual ~Socket() = default;
  // Bytes accepted; 0 when the socket is full or still connecting. The others are offered again, unchanged, ahead of
  // all else. Fails when the peer is gone.
  virtual Result<size_t> send(std::span<const std::span<const std::byte>> parts) = 0;
  // The same, and the system may go on to read the bytes where they lie. They must not change before the other end's
  // program has them, and their pages must be unmapped, not used again, if that is never known.
  virtual Result<size_t> send_kept(std::span<const std::byte> bytes) { return send({&bytes, 1}); }
  // Bytes read; 0 when nothing is there yet. End of stream is a failure with Code::kRemote.
  virtual Result<size_t> receive(std::span<std::byte> into) = 0;
  // Sends `bytes` (whole or not at all; 0: full) together with duplicates of `handles`. Unix sockets only.
  virtual Result<size_t> send_handles(std::span<const std::byte> bytes, std::span<const Handle> handles) = 0;
  // Handles that arrived with the bytes received so far; the caller owns (and closes) them.
  virtual std::vector<Handle> take_handles() = 0;
  virtual Handle handle() const = 0;
  virtual std::string peer_name() const = 0;
  // Bytes accepted that the other end's system has not got yet. Whoever closes may lose them: news that comes for a
  // closed socket resets the connection.
  virtual size_t under_way() const { return 0; }
  // Bytes that have come and that receive() gives when others have come too.
  virtual size_t held_back() const { return 0; }
};

class Listener {
 public:
  virtual ~Listener() = default;
  // The next connection, or null when none waits.
  virtual Result<std::unique_ptr<Socket>> accept() = 0;
  virtual Handle handle() const = 0;
  virtual Address address() const = 0;  // with the port that was really bound
};

// Sleeps until a watched socket has news (edge-triggered: news since it was last seen), until woken, or until a time.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual Status add(Handle handle) = 0;
  virtual void remove(Handle handle) = 0;
  // Returns the handles with news (may be empty). One thread at a time.
  virtual std::vector<Handle> wait(Time until) = 0;
  // From any thread: the current or next wait returns at once.
  virtual void wake() = 0;
  // May be sent to another process on this host, which then wakes us by Network::wake(handle). Owned by the poller.
  virtual Handle wake_handle() const = 0;
  // Another poller that watches this handle has news when this one has: one thread can wait for many pollers.
  virtual Handle handle() const = 0;
};

// One usable network interface address of this host.
struct InterfaceAddress {
  std::string interface;
  std::string host;  // numeric, without port
  bool loopback = false;
  bool ipv6 = false;
};

class Network {
 public:
  virtual ~Network() = default;
  virtual Result<std::unique_ptr<Listener>> listen(const Address& address) = 0;
  // Returns at once, still connecting. Of a "unix:NAME", kRemote says that nobody listens there, and kTimeout that too
  // many wait.
  virtual Result<std::unique_ptr<Socket>> connect(const Address& address) = 0;
  virtual Result<std::unique_ptr<Poller>> make_poller() = 0;
  virtual void wake(Handle wake_handle) = 0;
  virtual void close(Handle handle) = 0;  // for handles received from a socket
  virtual Result<std::vector<InterfaceAddress>> interfaces() = 0;
  // Equal for two processes exactly when they can reach each other by unix: addresses and pass handles.
  virtual std::string host_identity() = 0;
};

// Memory mapped into this process; unmapped and (where it owns one) its handle closed on destruction.
class Segment {
 public:
  virtual ~Segment() = default;
  virtual std::span<std::byte> bytes() const = 0;
  virtual Handle handle() const = 0;  // what another process maps; owned by the segment
};

class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  // Zero-filled. Nothing stays behind when all processes that map it are gone, however they end.
  virtual Result<std::unique_ptr<Segment>> create(size_t bytes) = 0;
  // Takes ownership of the handle. Fails when the object is smaller than `bytes`.
  virtual Result<std::unique_ptr<Segment>> map(Handle handle, size_t bytes) = 0;
  // Names this process to others of its host, for read(), and to people.
  virtual int64_t process() = 0;
  // Copies what lies at `address` in a process of this host, which shares nothing. False when the system does not allow
  // it, the process is gone, or nothing lies there.
  virtual bool read(int64_t process, uint64_t address, std::span<std::byte> into) = 0;
};

struct System {
  Clock& clock;
  Threads& threads;
  Network& network;
  SharedMemory& memory;
};

System& real_system();

}  // namespace hocket
