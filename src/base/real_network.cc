// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Listening, connecting, interfaces, and which processes share a host.
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/real_system.h"
#include "base/settings.h"
#include "base/socket_address.h"

namespace hocket {
namespace {

constexpr int kSocketFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kBacklog = 4096;  // the kernel lowers it to its own limit

void switch_on(int descriptor, int level, int option) {
  const int one = 1;
  ::setsockopt(descriptor, level, option, &one, sizeof one);
}

// From one of the host's addresses to the same one: its bytes never leave the kernel.
bool is_within_host(int descriptor, const SocketAddress& peer) {
  SocketAddress self;
  self.length = sizeof self.storage;
  return ::getsockname(descriptor, self.get(), &self.length) == 0 && host_text(self.get()) == host_text(peer.get());
}

std::string congestion_control(int descriptor) {
  std::array<char, 16> name{};  // the kernel's limit
  socklen_t length = name.size() - 1;
  ::getsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length);
  return name.data();
}

bool control_congestion(int descriptor, std::string_view by) {
  return ::setsockopt(descriptor, IPPROTO_TCP, TCP_CONGESTION, by.data(), static_cast<socklen_t>(by.size())) == 0;
}

// Where nothing is congested, BBR's pacing only costs timers: half the speed of ranks that share cores. What begins
// with BBR is paced for ever, whatever controls it later; so where it is the host's choice, which this returns,
// connections begin with Reno, which every kernel has.
std::string begin_unpaced(int descriptor) {
  std::string choice = congestion_control(descriptor);
  return choice.starts_with("bbr") && control_congestion(descriptor, "reno") ? choice : "";
}

// Who is to look again at once looks into the card's queue himself, instead of waiting for its interrupt; not everybody
// may have that.
void look_into_card(int descriptor) {
  const Duration spin = settings().ok() ? settings()->spin : Duration(0);
  const auto wanted = static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(spin).count());
  int set = 0;  // by the administrator
  socklen_t length = sizeof set;
  ::getsockopt(descriptor, SOL_SOCKET, SO_BUSY_POLL, &set, &length);
  if (wanted > set) ::setsockopt(descriptor, SOL_SOCKET, SO_BUSY_POLL, &wanted, sizeof wanted);
}

// `pacing`: what controls a connection that leaves the host; empty: what does already.
std::unique_ptr<Socket> make_socket(Descriptor descriptor, const SocketAddress& peer, std::string peer_name,
                                    const std::string& pacing) {
  const bool is_unix = peer.family() == AF_UNIX;
  if (!is_unix) {
    switch_on(descriptor.get(), IPPROTO_TCP, TCP_NODELAY);
    // A lone message that is lost again and again is sent again at even intervals: doubled ones pass for silence.
    switch_on(descriptor.get(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS);
    if (!is_within_host(descriptor.get(), peer)) {
      if (!pacing.empty()) control_congestion(descriptor.get(), pacing);
      look_into_card(descriptor.get());
    }
  }
  return make_real_socket(std::move(descriptor), std::move(peer_name), is_unix);
}

// Who connected over a unix socket has no address; the kernel vouches for its process.
std::string accepted_name(int descriptor, const SocketAddress& peer) {
  if (peer.family() != AF_UNIX) return address_text(peer);
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return "a process of this host";
  return fmt::format("process {} of this host", credentials.pid);
}

// Linux hands errors of the connection that it would have returned to accept: they concern nobody else.
bool concerns_one_connection(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
    case EPERM:
      return true;
    default:
      return false;
  }
}

class RealListener : public Listener {
 public:
  RealListener(Descriptor descriptor, Address address, std::string pacing)
      : descriptor_(std::move(descriptor)), address_(std::move(address)), pacing_(std::move(pacing)) {}

  Result<std::unique_ptr<Socket>> accept() override {
    for (;;) {
      SocketAddress peer;
      peer.length = sizeof peer.storage;
      Descriptor accepted(::accept4(descriptor_.get(), peer.get(), &peer.length, kSocketFlags));
      if (accepted) {
        std::string name = accepted_name(accepted.get(), peer);
        return make_socket(std::move(accepted), peer, std::move(name), pacing_);
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) return std::unique_ptr<Socket>();
      if (!concerns_one_connection(errno)) {
        return system_failure(fmt::format("cannot accept a connection at {}", address_), errno);
      }
    }
  }

  Handle handle() const override { return descriptor_.get(); }
  Address address() const override { return address_; }

 private:
  Descriptor descriptor_;
  Address address_;
  std::string pacing_;  // of connections that leave the host; what is accepted begins like the listener
};

Result<std::unique_ptr<Listener>> listen_at(const SocketAddress& place, const Address& address) {
  const std::string what = "cannot listen at " + address;
  Descriptor descriptor(::socket(place.family(), SOCK_STREAM | kSocketFlags, 0));
  if (!descriptor) return system_failure(what, errno);
  if (place.family() != AF_UNIX) switch_on(descriptor.get(), SOL_SOCKET, SO_REUSEADDR);
  if (place.family() == AF_INET6) switch_on(descriptor.get(), IPPROTO_IPV6, IPV6_V6ONLY);
  if (::bind(descriptor.get(), place.get(), place.length) != 0) return system_failure(what, errno);
  std::string pacing = place.family() == AF_UNIX ? "" : begin_unpaced(descriptor.get());
  if (::listen(descriptor.get(), kBacklog) != 0) return system_failure(what, errno);
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (::getsockname(descriptor.get(), bound.get(), &bound.length) != 0) return system_failure(what, errno);
  return std::unique_ptr<Listener>(
      std::make_unique<RealListener>(std::move(descriptor), address_text(bound), std::move(pacing)));
}

Result<std::unique_ptr<Socket>> connect_to(const SocketAddress& place, const Address& address) {
  const std::string what = "cannot connect to " + address;
  Descriptor descriptor(::socket(place.family(), SOCK_STREAM | kSocketFlags, 0));
  if (!descriptor) return system_failure(what, errno);
  const std::string pacing = place.family() == AF_UNIX ? "" : begin_unpaced(descriptor.get());
  // An interrupted connect goes on by itself, as one in progress.
  if (::connect(descriptor.get(), place.get(), place.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    // Only a unix listener whose queue is full says this.
    if (errno == EAGAIN) return Status(Code::kTimeout, what + ": too many connections wait there");
    return system_failure(what, errno);
  }
  return make_socket(std::move(descriptor), place, address, pacing);
}

bool is_usable(const ifaddrs& each) {
  if (each.ifa_addr == nullptr || (each.ifa_flags & IFF_UP) == 0 || (each.ifa_flags & IFF_RUNNING) == 0) return false;
  return each.ifa_addr->sa_family == AF_INET || each.ifa_addr->sa_family == AF_INET6;
}

bool is_link_local(const InterfaceAddress& address) {
  return address.host.starts_with("169.254.") || address.host.starts_with("fe80:");
}

// Lower is better; the kernel's order decides among equals.
int preference(const InterfaceAddress& address) {
  return (address.loopback ? 4 : 0) + (is_link_local(address) ? 2 : 0) + (address.ipv6 ? 1 : 0);
}

uint64_t hash(std::string_view text) {  // FNV-1a
  uint64_t value = 0xCBF29CE484222325u;
  for (char each : text) value = (value ^ static_cast<unsigned char>(each)) * 0x100000001B3u;
  return value;
}

class RealNetwork : public Network {
 public:
  Result<std::unique_ptr<Listener>> listen(const Address& address) override {
    Result<std::vector<SocketAddress>> places = resolve(address);
    if (!places.ok()) return places.status();
    return listen_at(places->front(), address);
  }

  Result<std::unique_ptr<Socket>> connect(const Address& address) override {
    Result<std::vector<SocketAddress>> places = resolve(address);
    if (!places.ok()) return places.status();
    // A name may stand for several addresses ("localhost"); the first that does not refuse at once is taken.
    Result<std::unique_ptr<Socket>> socket = Status(Code::kInternal, "no address");
    for (const SocketAddress& place : *places) {
      socket = connect_to(place, address);
      if (socket.ok()) break;
    }
    return socket;
  }

  Result<std::unique_ptr<Poller>> make_poller() override { return make_real_poller(); }
  void wake(Handle wake_handle) override { wake_real_poller(wake_handle); }
  void close(Handle handle) override { Descriptor closed(handle); }

  Result<std::vector<InterfaceAddress>> interfaces() override {
    ifaddrs* found = nullptr;
    if (::getifaddrs(&found) != 0) return system_failure("cannot list the network interfaces", errno);
    std::vector<InterfaceAddress> result;
    for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
      if (!is_usable(*each)) continue;
      result.push_back({each->ifa_name, host_text(each->ifa_addr), (each->ifa_flags & IFF_LOOPBACK) != 0,
                        each->ifa_addr->sa_family == AF_INET6});
    }
    ::freeifaddrs(found);
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& left, const auto& right) { return preference(left) < preference(right); });
    return result;
  }

  std::string host_identity() override {
    // The kernel that booted, the namespace of its abstract unix names, and the user who may be trusted.
    std::string boot = boot_id();
    if (boot.empty()) boot = host_name();
    struct stat names{};
    ::stat("/proc/self/ns/net", &names);
    return fmt::format("{:016x}", hash(fmt::format("{}/{}/{}", boot, names.st_ino, ::getuid())));
  }
};

}  // namespace

Network& real_network() {
  static RealNetwork& network = *new RealNetwork;
  return network;
}

}  // namespace hocket
