// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Hosts that can be cut off: network namespaces on one bridge, for as long as this lives. Needs root.
#pragma once

#include <string>
#include <vector>

namespace hocket::test {

class Hosts {
 public:
  explicit Hosts(int count);
  ~Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  bool up() const { return up_; }
  // As `ip netns` calls the first of them, but for its number at the end.
  static std::string name();
  // Numeric.
  static std::string address(int host);

  // From this call on nothing that the host sends arrives, nor anything that is sent to it.
  bool cut_off(int host) const;
  bool let_back(int host) const;
  // One in twenty of the packets that any host sends is lost from now on. Who asks the local network where a host is
  // asks again after 50 ms: after a second, as kernels do else, the timeout of these tests is over.
  bool lose_packets() const;
  // Nothing that this host sends arrives any more, or all does again.
  bool silence(int host, bool on) const;

  // A socket for datagrams of that host, whoever uses it; the caller closes it. Negative: there is none.
  static int open_socket(int host);

 private:
  bool script(const std::string& task) const;
  bool set_interface(int host, bool up) const;
  static bool is_back(int host);

  const int count_;
  const bool up_;
  std::vector<int> controls_;  // a socket of each
};

}  // namespace hocket::test
