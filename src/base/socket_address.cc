// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Parses and prints socket addresses.
#include "base/socket_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/descriptor.h"

namespace hocket {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

Status bad_address(const Address& address, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("bad address '{}': {}", address, why)};
}

Result<std::vector<SocketAddress>> unix_address(const Address& address) {
  std::string_view name = std::string_view(address).substr(kUnixPrefix.size());
  SocketAddress result;
  auto& path = reinterpret_cast<sockaddr_un&>(result.storage);
  path.sun_family = AF_UNIX;
  if (name.size() >= sizeof path.sun_path) {
    return bad_address(address, fmt::format("a unix name has at most {} bytes", sizeof path.sun_path - 1));
  }
  // A leading null byte makes the name abstract: it needs no file and goes when its listener goes. Without a name, the
  // kernel chooses one at bind.
  std::memcpy(path.sun_path + 1, name.data(), name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + (name.empty() ? 0 : 1 + name.size()));
  return std::vector{result};
}

struct HostAndPort {
  std::string host;
  std::string port;
};

Result<HostAndPort> split(const Address& address) {
  size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad_address(address, "expected host:port or unix:NAME");
  HostAndPort result{address.substr(0, colon), address.substr(colon + 1)};
  unsigned port = 0;
  const char* end = result.port.data() + result.port.size();
  auto [rest, error] = std::from_chars(result.port.data(), end, port);
  if (error != std::errc() || rest != end || port > 65535) return bad_address(address, "the port must be 0 to 65535");
  if (result.host.front() == '[') {
    if (result.host.size() < 3 || result.host.back() != ']') return bad_address(address, "']' is missing");
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    return bad_address(address, "an IPv6 address needs brackets: [host]:port");
  }
  return result;
}

}  // namespace

Result<std::vector<SocketAddress>> resolve(const Address& address) {
  if (address.starts_with(kUnixPrefix)) return unix_address(address);
  Result<HostAndPort> parts = split(address);
  if (!parts.ok()) return parts.status();

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (int error = ::getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &found); error != 0) {
    const std::string why = error == EAI_SYSTEM ? error_text(errno) : ::gai_strerror(error);
    return Status(Code::kSystem, fmt::format("cannot look up host '{}': {}", parts->host, why));
  }
  std::vector<SocketAddress> result;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    SocketAddress& one = result.emplace_back();
    std::memcpy(&one.storage, each->ai_addr, each->ai_addrlen);
    one.length = each->ai_addrlen;
  }
  ::freeaddrinfo(found);
  if (result.empty()) return bad_address(address, "the host has neither an IPv4 nor an IPv6 address");
  return result;
}

std::string host_text(const sockaddr* address) {
  char host[NI_MAXHOST];
  socklen_t length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  int error = ::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? host : "?";
}

Address address_text(const SocketAddress& address) {
  switch (address.family()) {
    case AF_INET:
      return fmt::format("{}:{}", host_text(address.get()),
                         ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port));
    case AF_INET6:
      return fmt::format("[{}]:{}", host_text(address.get()),
                         ntohs(reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port));
    default: {
      const auto& path = reinterpret_cast<const sockaddr_un&>(address.storage);
      size_t length = address.length - offsetof(sockaddr_un, sun_path);
      return std::string(kUnixPrefix) + (length > 1 ? std::string(path.sun_path + 1, length - 1) : std::string());
    }
  }
}

}  // namespace hocket
