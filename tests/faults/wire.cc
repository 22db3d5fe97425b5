// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/faults/wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hocket::test {
namespace {

constexpr size_t kMaxPacket = 65536;
constexpr uint8_t kTcp = 6;
constexpr std::byte kSyn{2};
constexpr std::byte kAck{16};
constexpr size_t kShortest = 40;  // of IP and TCP

std::string failed(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

sockaddr socket_address(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  sockaddr generic;
  std::memcpy(&generic, &address, sizeof generic);
  return generic;
}

// Of the namespace that the calling thread is in: a tunnel with one address, to a peer with another.
std::string make_tunnel(const std::string& own, const std::string& peer, Descriptor* tunnel) {
  *tunnel = Descriptor(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ifreq request{};
  std::strncpy(request.ifr_name, Wire::kInterface, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(tunnel->get(), TUNSETIFF, &request) != 0) return failed("TUNSETIFF");
  const Descriptor control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  request.ifr_addr = socket_address(own);
  if (::ioctl(control.get(), SIOCSIFADDR, &request) != 0) return failed("SIOCSIFADDR");
  request.ifr_dstaddr = socket_address(peer);
  if (::ioctl(control.get(), SIOCSIFDSTADDR, &request) != 0) return failed("SIOCSIFDSTADDR");
  request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_POINTOPOINT;
  return ::ioctl(control.get(), SIOCSIFFLAGS, &request) == 0 ? "" : failed("SIOCSIFFLAGS");
}

uint32_t sum_words(std::span<const std::byte> bytes, uint32_t sum) {
  for (size_t i = 0; i < bytes.size(); ++i) sum += static_cast<uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  return sum;
}

bool is_tcp(std::span<const std::byte> packet) {
  return packet.size() >= kShortest && static_cast<int>(packet[0]) >> 4 == 4 && packet[9] == std::byte{kTcp};
}

template <typename Byte>
std::span<Byte> segment_of(std::span<Byte> packet) {
  return packet.subspan(4 * (static_cast<size_t>(packet[0]) & 15));
}

uint32_t word_of(std::span<const std::byte> segment, size_t at) {
  uint32_t word;
  std::memcpy(&word, &segment[at], sizeof word);
  return word;
}

// What a packet of TCP carries.
template <typename Byte>
struct Data {
  uint32_t ports;
  uint32_t begin;  // sequence number
  std::span<Byte> bytes;
};

template <typename Byte>
Data<Byte> data_of(std::span<Byte> packet) {
  const std::span<Byte> segment = segment_of(packet);
  return {word_of(segment, 0), ntohl(word_of(segment, 4)),
          segment.subspan(4 * (static_cast<size_t>(segment[12]) >> 4))};
}

// `addresses`: of source and destination.
void repair_checksum(std::span<const std::byte> addresses, std::span<std::byte> segment) {
  constexpr size_t kChecksum = 16;
  segment[kChecksum] = segment[kChecksum + 1] = std::byte{0};
  uint32_t sum = sum_words(segment, sum_words(addresses, kTcp + static_cast<uint32_t>(segment.size())));
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  segment[kChecksum] = static_cast<std::byte>(~sum >> 8);
  segment[kChecksum + 1] = static_cast<std::byte>(~sum);
}

}  // namespace

Wire::Wire() {
  for (int host = 0; host < 2 && problem_.empty(); ++host) {
    std::thread([&] { problem_ = set_up(host); }).join();
  }
  if (problem_.empty()) carrier_ = std::thread([this] { carry(); });
}

Wire::~Wire() {
  stopping_ = true;
  if (carrier_.joinable()) carrier_.join();
}

std::string Wire::address(int host) { return fmt::format("10.78.0.{}", host + 1); }

std::string Wire::set_up(int host) {
  if (::unshare(CLONE_NEWNET) != 0) return failed("unshare");
  Host& made = hosts_[static_cast<size_t>(host)];
  made.name_space = Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  return make_tunnel(address(host), address(1 - host), &made.tunnel);
}

std::thread Wire::on_host(int host, std::function<void()> body) const {
  return std::thread([name_space = hosts_[static_cast<size_t>(host)].name_space.get(), body = std::move(body)] {
    if (::setns(name_space, CLONE_NEWNET) == 0) body();
  });
}

void Wire::damage(int to_host, int64_t after) { bytes_left_[static_cast<size_t>(to_host)] = after; }

void Wire::look_for(std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  wanted_ = std::move(bytes);
  sightings_ = 0;
}

void Wire::look_at(std::span<const std::byte> packet) {
  const std::lock_guard lock(mutex_);
  const auto found = std::search(packet.begin(), packet.end(), wanted_.begin(), wanted_.end());
  if (!wanted_.empty() && found != packet.end()) ++sightings_;
}

void Wire::carry() {
  std::array<std::byte, kMaxPacket> packet;
  while (!stopping_) {
    pollfd polled[2] = {{hosts_[0].tunnel.get(), POLLIN, 0}, {hosts_[1].tunnel.get(), POLLIN, 0}};
    (void)::poll(polled, 2, 10);
    for (int from = 0; from < 2; ++from) {
      const ssize_t length = ::read(polled[from].fd, packet.data(), packet.size());
      if (length <= 0) continue;
      const auto bytes = std::span(packet).first(static_cast<size_t>(length));
      look_at(bytes);
      perhaps_damage(bytes, 1 - from);
      pass_on(bytes, 1 - from);
    }
    let_crawl();
  }
}

void Wire::pass_on(std::span<const std::byte> packet, int to_host) {
  const auto host = static_cast<size_t>(to_host);
  acknowledge(packet, to_host);
  const Treatment treatment = packet.size() > kLong ? treatments_[host].load() : Treatment::kPass;
  if (treatment == Treatment::kVanish || is_forgotten(packet, treatment)) return;
  if (treatment != Treatment::kCrawl) return deliver(packet, to_host);
  if (!crawls(packet, to_host)) hosts_[host].crawling.emplace_back(packet.begin(), packet.end());
}

// What is sent again when the first one has passed was perhaps lost behind the wire.
bool Wire::crawls(std::span<const std::byte> packet, int to_host) const {
  if (!is_tcp(packet)) return false;
  const Data data = data_of(packet);
  const auto& crawling = hosts_[static_cast<size_t>(to_host)].crawling;
  return std::any_of(crawling.begin(), crawling.end(), [&](std::span<const std::byte> before) {
    if (!is_tcp(before)) return false;
    const Data its = data_of(before);
    return its.ports == data.ports && data.begin - its.begin < its.bytes.size();
  });
}

// A packet that finds no room is lost, as on any wire.
void Wire::deliver(std::span<const std::byte> packet, int to_host) const {
  const int tunnel = hosts_[static_cast<size_t>(to_host)].tunnel.get();
  [[maybe_unused]] const ssize_t written = ::write(tunnel, packet.data(), packet.size());
}

void Wire::let_crawl() {
  const Clock::time_point now = Clock::now();
  for (int to_host = 0; to_host < 2; ++to_host) {
    Host& host = hosts_[static_cast<size_t>(to_host)];
    if (host.crawling.empty() || now < host.next) continue;
    deliver(host.crawling.front(), to_host);
    const std::chrono::duration<double> time(static_cast<double>(host.crawling.front().size()) / kCrawlBytesPerSecond);
    host.next = now + std::chrono::duration_cast<Clock::duration>(time);
    host.crawling.pop_front();
  }
}

// Packets of the connection that are under way acknowledge what this one does: one that acknowledges less than another
// that has overtaken it, by more than a window, is refused (RFC 5961, 5.2).
void Wire::acknowledge(std::span<const std::byte> packet, int to_host) {
  if (!is_tcp(packet)) return;
  constexpr size_t kAcknowledged = 8;
  const std::span<const std::byte> by = segment_of(packet);
  if ((by[13] & kAck) == std::byte{0}) return;
  for (std::vector<std::byte>& crawling : hosts_[static_cast<size_t>(to_host)].crawling) {
    const std::span<std::byte> segment = segment_of(std::span(crawling));
    if (!std::equal(segment.begin(), segment.begin() + 4, by.begin())) continue;  // ports
    std::copy_n(by.begin() + kAcknowledged, 4, segment.begin() + kAcknowledged);
    repair_checksum(std::span(crawling).subspan(12, 8), segment);
  }
}

bool Wire::is_forgotten(std::span<const std::byte> packet, Treatment treatment) {
  if (packet.size() <= kLong) return false;
  const uint32_t ports = word_of(segment_of(packet), 0);
  if (treatment == Treatment::kForgotten) return known_.contains(ports);
  known_.insert(ports);
  return false;
}

bool Wire::is_new(std::span<const std::byte> packet, int to_host) {
  const Data data = data_of(packet);
  const uint32_t end = data.begin + static_cast<uint32_t>(data.bytes.size());
  auto& all = next_[static_cast<size_t>(to_host)];
  // Another connection with the ports of an old one.
  if ((segment_of(packet)[13] & kSyn) != std::byte{0}) all.erase(data.ports);
  const auto [known, is_first] = all.emplace(data.ports, end);
  const bool is_ahead = is_first || static_cast<int32_t>(end - known->second) > 0;
  if (is_ahead) known->second = end;
  return is_ahead && !data.bytes.empty();
}

void Wire::perhaps_damage(std::span<std::byte> packet, int to_host) {
  if (!is_tcp(packet) || !is_new(packet, to_host)) return;
  const std::span<std::byte> data = data_of(packet).bytes;
  std::atomic<int64_t>& left = bytes_left_[static_cast<size_t>(to_host)];
  if (left < 0) return;
  const int64_t position = left.fetch_sub(static_cast<int64_t>(data.size()));
  if (position >= static_cast<int64_t>(data.size())) return;
  left = -1;
  data[static_cast<size_t>(position)] ^= static_cast<std::byte>(1 << random_() % 8);
  repair_checksum(packet.subspan(12, 8), segment_of(packet));
  ++damaged_;
}

}  // namespace hocket::test
