// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Two hosts (network namespaces, for as long as this lives) and the wire between them, which is this process: every
// packet passes through it, and it can flip a bit on the way and repair the packet's checksum, so that TCP notices
// nothing; or treat long packets worse than short ones, as links' heartbeats are. Needs root.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"

namespace hocket::test {

class Wire {
 public:
  static constexpr const char* kInterface = "tun0";

  Wire();
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Why there is no wire; empty: there is one.
  const std::string& problem() const { return problem_; }
  // Numeric, of host 0 or 1.
  static std::string address(int host);
  // Runs `body` on a thread of that host, as are the threads that it starts and the sockets that it opens.
  std::thread on_host(int host, std::function<void()> body) const;

  // Flips one bit of the byte that passes after so many others have, of what TCP carries to that host from now on. What
  // TCP sends again does not count: the host may have it already.
  void damage(int to_host, int64_t after);
  // Flips so far.
  uint64_t damaged() const { return damaged_; }

  // What becomes of packets of more than kLong bytes to that host from now on. kVanish: all do; kForgotten: those do
  // that belong to connections of which some had passed until now; kCrawl: they pass one after the other, slowly, and
  // short ones overtake them.
  enum class Treatment : uint8_t { kPass, kVanish, kForgotten, kCrawl };
  void treat_long(int to_host, Treatment treatment) { treatments_[static_cast<size_t>(to_host)] = treatment; }
  static constexpr size_t kLong = 1000;
  static constexpr double kCrawlBytesPerSecond = 20'000;

  // Counts the packets that hold these bytes, from now on.
  void look_for(std::vector<std::byte> bytes);
  uint64_t sightings() const { return sightings_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Host {
    Descriptor name_space;
    Descriptor tunnel;                            // the packets that leave this host, and those that reach it
    std::deque<std::vector<std::byte>> crawling;  // to it
    Clock::time_point next;                       // of them passes
  };

  std::string set_up(int host);
  void carry();
  void look_at(std::span<const std::byte> packet);
  void pass_on(std::span<const std::byte> packet, int to_host);
  void deliver(std::span<const std::byte> packet, int to_host) const;
  void let_crawl();
  void acknowledge(std::span<const std::byte> packet, int to_host);
  bool is_forgotten(std::span<const std::byte> packet, Treatment treatment);
  // It begins with a byte that crawls already.
  bool crawls(std::span<const std::byte> packet, int to_host) const;
  // The data of this packet passes for the first time.
  bool is_new(std::span<const std::byte> packet, int to_host);
  void perhaps_damage(std::span<std::byte> packet, int to_host);

  std::string problem_;
  std::array<Host, 2> hosts_;
  std::mt19937 random_{1};
  std::array<std::map<uint32_t, uint32_t>, 2> next_;  // sequence number to each host, by the two ports
  std::atomic<bool> stopping_ = false;
  std::array<std::atomic<int64_t>, 2> bytes_left_{-1, -1};  // until one is damaged; negative: none will be
  std::atomic<uint64_t> damaged_ = 0;
  std::array<std::atomic<Treatment>, 2> treatments_{};  // of long packets to each host
  std::set<uint32_t> known_;  // connections, by the two ports, of which long packets have passed
  std::mutex mutex_;
  std::vector<std::byte> wanted_;
  std::atomic<uint64_t> sightings_ = 0;
  std::thread carrier_;
};

}  // namespace hocket::test
