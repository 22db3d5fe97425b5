// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hocket::perf {
namespace {

int need(int result, const char* what) {
  if (result >= 0) return result;
  std::fprintf(stderr, "limits: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

// As Hocket's own within a host: no waiting for more, no pacing.
void prepare(int end) {
  constexpr int kOn = 1;
  constexpr char kReno[] = "reno";
  need(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn), "TCP_NODELAY");
  need(setsockopt(end, IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof kReno - 1), "TCP_CONGESTION");
}

// Bytes that went; negative: never will.
ssize_t moved(ssize_t result) {
  return result < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : result == 0 ? -1 : result;
}

}  // namespace

Loopback::Loopback() {
  const int listener = need(socket(AF_INET, SOCK_STREAM, 0), "socket");
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  need(bind(listener, reinterpret_cast<sockaddr*>(&place), length), "bind");
  need(listen(listener, 1), "listen");
  need(getsockname(listener, reinterpret_cast<sockaddr*>(&place), &length), "getsockname");
  ends_[0] = need(socket(AF_INET, SOCK_STREAM, 0), "socket");
  need(connect(ends_[0], reinterpret_cast<sockaddr*>(&place), length), "connect");
  ends_[1] = need(accept(listener, nullptr, nullptr), "accept");
  close(listener);
  for (const int end : ends_) prepare(end);
}

Loopback::~Loopback() {
  for (const int end : ends_) {
    if (end >= 0) close(end);
  }
}

void Loopback::be(int rank) {
  const auto mine = static_cast<size_t>(rank);
  own_ = ends_[mine];
  close(ends_[1 - mine]);
  ends_[1 - mine] = -1;
}

bool Loopback::exchange(std::span<const std::byte> out, std::span<std::byte> in) const {
  while (!out.empty() || !in.empty()) {
    if (!out.empty()) {
      const ssize_t sent = moved(send(own_, out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
      if (sent < 0) return false;
      out = out.subspan(static_cast<size_t>(sent));
    }
    if (!in.empty()) {
      const ssize_t got = moved(recv(own_, in.data(), in.size(), MSG_DONTWAIT));
      if (got < 0) return false;
      in = in.subspan(static_cast<size_t>(got));
    }
  }
  return true;
}

}  // namespace hocket::perf
