// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/faults/hosts.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

namespace hocket::test {
namespace {

bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

}  // namespace

Hosts::Hosts(int count) : count_(count), up_(geteuid() == 0 && script("up")) {
  for (int host = 0; up_ && host < count; ++host) controls_.push_back(open_socket(host));
}

Hosts::~Hosts() {
  for (const int control : controls_) ::close(control);
  if (up_) script("down");
}

std::string Hosts::name() { return "hk" + std::to_string(getpid() % 100000) + "f"; }

std::string Hosts::address(int host) { return "10.77.0." + std::to_string(host + 1); }

bool Hosts::script(const std::string& task) const {
  return run(HOSTS_SCRIPT " " + task + " " + name() + " " + std::to_string(count_));
}

// A socket stays in the namespace in which a thread has opened it.
int Hosts::open_socket(int host) {
  int opened = -1;
  std::thread([&] {
    const int there = ::open(("/run/netns/" + name() + std::to_string(host)).c_str(), O_RDONLY | O_CLOEXEC);
    if (there >= 0 && ::setns(there, CLONE_NEWNET) == 0) opened = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ::close(there);
  }).join();
  return opened;
}

bool Hosts::set_interface(int host, bool up) const {
  const int control = controls_[static_cast<size_t>(host)];
  ifreq request{};
  std::strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
  if (::ioctl(control, SIOCGIFFLAGS, &request) != 0) return false;
  const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<decltype(request.ifr_flags)>(flags);
  return ::ioctl(control, SIOCSIFFLAGS, &request) == 0;
}

// Not by `ip -n`: before that does anything it unmounts /sys, which waits for a thread of the kernel. Among ranks that
// spin that thread has got no core for up to eight seconds, in which nobody was cut off.
bool Hosts::cut_off(int host) const { return set_interface(host, false); }

bool Hosts::let_back(int host) const { return set_interface(host, true) && is_back(host); }

// Kernels look at links that change once a second at most, and their bridges carry nothing until then.
bool Hosts::is_back(int host) {
  constexpr int kForwarding = 3;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int state = 0; state != kForwarding; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    std::ifstream("/sys/class/net/" + name() + "v" + std::to_string(host) + "/brport/state") >> state;
    if (std::chrono::steady_clock::now() > limit) return false;
  }
  return true;
}

bool Hosts::lose_packets() const {
  bool all = up_;
  for (int host = 0; host < count_; ++host) {
    const std::string tc = "tc -n " + name() + std::to_string(host);
    all = all && run("ip netns exec " + name() + std::to_string(host) +
                     " sh -c 'for ip in ipv4 ipv6; do echo 50 > /proc/sys/net/$ip/neigh/eth0/retrans_time_ms; done'");
    // Classic BPF: of a random number below 2^32, is it below 19/20 of that? Then 0 (goes on), else 2 (is dropped).
    all =
        all && run(tc + " qdisc add dev eth0 clsact") &&
        run(tc + " filter add dev eth0 egress bpf da bytecode '4,32 0 0 4294963256,53 0 1 4080218931,6 0 0 2,6 0 0 0'");
  }
  return all;
}

bool Hosts::silence(int host, bool on) const {
  const std::string tc = "tc -n " + name() + std::to_string(host);
  if (!on) return run(tc + " qdisc del dev eth0 clsact");
  return up_ && run(tc + " qdisc add dev eth0 clsact") &&
         run(tc + " filter add dev eth0 egress bpf da bytecode '1,6 0 0 2'");
}

}  // namespace hocket::test
