// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ways to move bytes through one TCP connection, both ways at once, with nothing around them: plain send and recv,
// sends without a copy (MSG_ZEROCOPY), io_uring, and a receiver that looks into the network card's queue
// (SO_BUSY_POLL). The ways take turns; the last exchange of each turn is checked. One end listens, the other connects;
// sockets.sh starts them on this host's loopback and in guests. For docs/decisions/0146.
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include <linux/errqueue.h>  // needs timespec

#include "base/descriptor.h"
#include "statistics.h"
#include "transports/page_memory.h"

namespace hocket::perf {
namespace {

constexpr int kBusyPoll = 50;  // microseconds

struct Options {
  std::string listen, connect;
  uint16_t port = 4499;
  std::vector<size_t> sizes = {8, 16384, 65536, 262144, 1048576};
  size_t total = 16 << 20;  // bytes of an exchange, repeated
  int repetitions = 5;
};

int need(int result, const char* what) {
  if (result >= 0) return result;
  std::fprintf(stderr, "socket_bench: %s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

void set(int socket, int level, int option, int value, const char* what) {
  need(::setsockopt(socket, level, option, &value, sizeof value), what);
}

sockaddr_in place(const std::string& host, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &result.sin_addr) == 1) return result;
  std::fprintf(stderr, "socket_bench: '%s' is no address of four numbers\n", host.c_str());
  std::exit(2);
}

// Tries for a minute: the other end may begin later.
Descriptor connect_to(const sockaddr_in& where) {
  for (int attempt = 0;; ++attempt) {
    Descriptor socket(need(::socket(AF_INET, SOCK_STREAM, 0), "socket"));
    const int result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where);
    if (result == 0) return socket;
    if (attempt == 600) need(result, "connect");
    ::usleep(100'000);
  }
}

Descriptor accept_at(const sockaddr_in& where) {
  const Descriptor listener(need(::socket(AF_INET, SOCK_STREAM, 0), "socket"));
  set(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  need(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), "bind");
  need(::listen(listener.get(), 1), "listen");
  return Descriptor(need(::accept(listener.get(), nullptr, nullptr), "accept"));
}

// One end, and the ways: each sends all of `out` and receives all of `in`, both at once.
class End {
 public:
  explicit End(Descriptor socket) : socket_(std::move(socket)) {
    set(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    set(socket_.get(), SOL_SOCKET, SO_ZEROCOPY, 1, "SO_ZEROCOPY");
    const int made = ::io_uring_queue_init(8, &ring_, 0);
    has_ring_ = made == 0;
    if (!has_ring_) std::fprintf(stderr, "socket_bench: no io_uring here: %s\n", std::strerror(-made));
  }
  ~End() {
    if (has_ring_) ::io_uring_queue_exit(&ring_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  using Way = void (End::*)(std::span<std::byte> out, std::span<std::byte> in);

  void plain(std::span<std::byte> out, std::span<std::byte> in) { exchange(out, in, 0); }
  void zero_copy(std::span<std::byte> out, std::span<std::byte> in) { exchange(out, in, MSG_ZEROCOPY); }

  void uring(std::span<std::byte> out, std::span<std::byte> in) {
    bool is_sending = false, is_receiving = false;
    while (!out.empty() || !in.empty()) {
      if (!out.empty() && !std::exchange(is_sending, true)) {
        io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
        ::io_uring_prep_send(entry, socket_.get(), out.data(), out.size(), MSG_NOSIGNAL);
        ::io_uring_sqe_set_data(entry, &out);
      }
      if (!in.empty() && !std::exchange(is_receiving, true)) {
        io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
        ::io_uring_prep_recv(entry, socket_.get(), in.data(), in.size(), 0);
        ::io_uring_sqe_set_data(entry, &in);
      }
      need(::io_uring_submit_and_wait(&ring_, 1), "io_uring");
      for (io_uring_cqe* done = nullptr; ::io_uring_peek_cqe(&ring_, &done) == 0; ::io_uring_cqe_seen(&ring_, done)) {
        auto* const part = static_cast<std::span<std::byte>*>(::io_uring_cqe_get_data(done));
        errno = -done->res;
        *part = part->subspan(static_cast<size_t>(need(done->res == 0 ? -1 : done->res, "io_uring")));
        (part == &out ? is_sending : is_receiving) = false;
      }
    }
  }

  bool has_ring() const { return has_ring_; }
  void look_into_card(bool on) { set(socket_.get(), SOL_SOCKET, SO_BUSY_POLL, on ? kBusyPoll : 0, "SO_BUSY_POLL"); }
  // Nothing is read from where it lies any more.
  void settle() {
    while (heard_ < sent_) hear();
  }
  // Of the sends without a copy, those that the kernel has copied after all.
  double share_copied() const { return heard_ == 0 ? 0 : static_cast<double>(copied_) / heard_; }

 private:
  void exchange(std::span<std::byte> out, std::span<std::byte> in, int flags) {
    const bool hears = flags != 0;
    while (!out.empty() || !in.empty()) {
      if (!out.empty()) {
        const ssize_t sent = ::send(socket_.get(), out.data(), out.size(), MSG_DONTWAIT | MSG_NOSIGNAL | flags);
        if (sent > 0 && hears) ++sent_;
        out = out.subspan(moved(sent));
      }
      if (!in.empty()) in = in.subspan(moved(::recv(socket_.get(), in.data(), in.size(), MSG_DONTWAIT)));
    }
    if (hears) hear();
  }

  static size_t moved(ssize_t result) {
    const bool is_later = result < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
    return is_later ? 0 : static_cast<size_t>(need(static_cast<int>(result == 0 ? -1 : result), "the other end"));
  }

  void hear() {
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(socket_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    sock_extended_err notice{};
    std::memcpy(&notice, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof notice);
    const uint32_t sends = notice.ee_data - notice.ee_info + 1;
    heard_ += sends;
    if ((notice.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) copied_ += sends;
  }

  const Descriptor socket_;
  io_uring ring_{};
  bool has_ring_ = false;
  uint32_t sent_ = 0, heard_ = 0, copied_ = 0;  // sends without a copy
};

struct Way {
  const char* name;
  End::Way run;
  bool looks_into_card = false;
  std::vector<double> times{};  // microseconds
};

// `mark` makes what is sent another one than before.
void run(End& end, Way& way, const Options& options, PageMemory& out, PageMemory& in, uint8_t mark) {
  std::ranges::fill(out.bytes(), static_cast<std::byte>(mark));
  std::ranges::fill(in.bytes(), std::byte{});
  const int calls = static_cast<int>(std::clamp<size_t>(options.total / out.bytes().size(), 4, 200));
  end.look_into_card(way.looks_into_card);
  (end.*way.run)(out.bytes(), in.bytes());
  const auto begin = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) (end.*way.run)(out.bytes(), in.bytes());
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  way.times.push_back(taken.count() / calls);
  end.settle();
  if (std::ranges::all_of(in.bytes(), [mark](std::byte each) { return each == static_cast<std::byte>(mark); })) return;
  std::fprintf(stderr, "socket_bench: %s brought wrong bytes\n", way.name);
  std::exit(1);
}

void measure(End& end, size_t bytes, const Options& options) {
  std::vector<Way> ways = {{"plain", &End::plain}, {"zero copy", &End::zero_copy}, {"busy poll", &End::plain, true}};
  if (end.has_ring()) ways.push_back({"io_uring", &End::uring});
  PageMemory out(bytes), in(bytes);
  uint8_t mark = 0;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    for (Way& way : ways) run(end, way, options, out, in, ++mark);
  }
  if (!options.listen.empty()) return;
  const double plain = statistics_of(ways.front().times).p50;
  std::printf("%10zu", bytes);
  for (const Way& way : ways) {
    const double time = statistics_of(way.times).p50;
    std::printf("  %s %.1f (%.2f)", way.name, time, time / plain);
  }
  std::printf("  copied after all %.0f %%\n", 100 * end.share_copied());
  std::fflush(stdout);
}

int run(const Options& options) {
  const bool listens = !options.listen.empty();
  const sockaddr_in where = place(listens ? options.listen : options.connect, options.port);
  End end(listens ? accept_at(where) : connect_to(where));
  if (!listens)
    std::printf("#    bytes  way: microseconds an exchange, median of %d (beside plain)\n", options.repetitions);
  for (const size_t bytes : options.sizes) measure(end, bytes, options);
  return 0;
}

}  // namespace
}  // namespace hocket::perf

int main(int argc, char** argv) {
  CLI::App app("Ways to move bytes through a TCP connection, written by hand", "socket_bench");
  hocket::perf::Options options;
  auto* const listen = app.add_option("--listen", options.listen, "Wait for the other end at this address");
  app.add_option("--connect", options.connect, "Connect to the other end at this address")->excludes(listen);
  app.add_option("--port", options.port, "Its port")->capture_default_str();
  app.add_option("--sizes", options.sizes, "Bytes of an exchange each way")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--total", options.total, "Bytes of a repetition: so many exchanges, 4 to 200")->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "Of each way")->check(CLI::Range(1, 50))->capture_default_str();
  app.require_option(1, 0);
  CLI11_PARSE(app, argc, argv);
  if (options.listen.empty() == options.connect.empty()) {
    std::fprintf(stderr, "socket_bench: give --listen or --connect\n");
    return 2;
  }
  return hocket::perf::run(options);
}
