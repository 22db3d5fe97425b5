// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes alone: one-way latency and throughput of each transport between two pinned threads, or, where sockets are
// measured for latency, processes, as ranks are (two threads share a table of files, and calls of the system are
// dearer). Beside them what the machine gives without them (one cache line, one TCP socket). The distance of the two
// cores changes on virtual machines within seconds, so every line carries the raw figure measured next to it.
//
//   pipe_bench [--latency BYTES | --slice BYTES --total BYTES] [--rounds N] [--lasting] [transport ...]
//                                                                                            all of all by default
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/system.h"
#include "kernels/kernels.h"
#include "transports/lasting_memory.h"
#include "transports/pipe.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = 1 << 20;
constexpr size_t kBuffer = 64 << 20;  // larger than the caches that are ours

// What is measured; 0: everything.
struct Choice {
  size_t latency = 0;  // bytes of messages whose latency is measured, and nothing else
  int rounds = 0;      // of a ping-pong
  size_t slice = 0;    // bytes of messages whose throughput is measured, and nothing else
  size_t total = 0;    // bytes that are sent for it
  bool lasting = false;
};
Choice choice;

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) {
    fmt::print(stderr, "{}\n", result.status().message());
    std::exit(1);
  }
  return std::move(*result);
}

// Runs both at once on the two cores; returns the seconds that `first` took.
template <typename First, typename Second>
double on_two_cores(First first, Second second) {
  std::latch both_in_place(2);
  std::thread other([&] {
    pin(1);
    both_in_place.arrive_and_wait();
    second();
  });
  pin(0);
  both_in_place.arrive_and_wait();
  const Time begin = real_system().clock.now();
  first();
  const Duration taken = real_system().clock.now() - begin;
  other.join();
  return std::chrono::duration<double>(taken).count();
}

// The same in two processes; returns what the first one does. Neither outlives the other: each gives up the sockets
// that are the other's first.
template <typename First, typename Second>
double in_two_processes(First first, Second second) {
  std::fflush(stdout);
  const pid_t parent = ::getpid();
  const pid_t other = ::fork();
  if (other < 0) must<int>(system_failure("cannot fork", errno));
  if (other == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    pin(1);
    second();
    ::_exit(0);
  }
  pin(0);
  const double result = first();
  int status = 0;
  if (::waitpid(other, &status, 0) == other && status == 0) return result;
  fmt::print(stderr, "the other process has failed\n");
  std::exit(1);
}

// Nanoseconds for half a round, when a tenth as many have been played before.
template <typename Round>
double half_a_round(int rounds, Round round) {
  Time begin{};
  for (int i = -rounds / 10; i < rounds; ++i) {
    if (i == 0) begin = real_system().clock.now();
    round(i);
  }
  return std::chrono::duration<double, std::nano>(real_system().clock.now() - begin).count() / rounds / 2;
}

// Nanoseconds for one cache line to go one way.
double raw_line_latency() {
  constexpr uint32_t kRounds = 20'000;
  struct alignas(128) Line {
    std::atomic<uint32_t> value{0};
  };
  static Line there;
  static Line back;
  there.value = back.value = 0;
  const double seconds = on_two_cores(
      [] {
        for (uint32_t i = 1; i <= kRounds; ++i) {
          there.value.store(i, std::memory_order_release);
          while (back.value.load(std::memory_order_acquire) != i) {
          }
        }
      },
      [] {
        for (uint32_t i = 1; i <= kRounds; ++i) {
          while (there.value.load(std::memory_order_acquire) != i) {
          }
          back.value.store(i, std::memory_order_release);
        }
      });
  return seconds * 1e9 / kRounds / 2;
}

struct Sockets {
  std::unique_ptr<Socket> first;
  std::unique_ptr<Socket> second;
};

Sockets connect_sockets() {
  Network& network = real_system().network;
  auto listener = must(network.listen("127.0.0.1:0"));
  Sockets sockets;
  sockets.first = must(network.connect(listener->address()));
  while (sockets.second == nullptr) sockets.second = must(listener->accept());
  return sockets;
}

// One way of a ping-pong over one socket (answers carry the acknowledgements), or over one for each direction, as pipes
// have it.
double raw_socket_latency(bool one_each_way) {
  const int rounds = choice.rounds != 0 ? choice.rounds : 5'000;
  Sockets there = connect_sockets();
  Sockets back = connect_sockets();
  Socket& answer_to = one_each_way ? *back.first : *there.second;
  Socket& answer_at = one_each_way ? *back.second : *there.first;
  const auto send = [](Socket& socket) {
    const std::byte data[8] = {};
    const std::span<const std::byte> parts[] = {data};
    while (must(socket.send(parts)) == 0) {
    }
  };
  const auto receive = [](Socket& socket) {
    std::byte data[8];
    for (size_t got = 0; got < sizeof(data);) got += must(socket.receive({data + got, sizeof(data) - got}));
  };
  return in_two_processes(
      [&] {
        there.second.reset();
        back.first.reset();
        return half_a_round(rounds, [&](int) {
          send(*there.first);
          receive(answer_at);
        });
      },
      [&] {
        there.first.reset();
        back.second.reset();
        half_a_round(rounds, [&](int) {
          receive(*there.second);
          send(answer_to);
        });
      });
}

// Bytes per nanosecond through one socket, from and to large buffers.
double raw_socket_throughput(size_t slice, const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  Sockets sockets = connect_sockets();
  const double seconds = on_two_cores(
      [&] {
        for (size_t done = 0; done < from.size();) {
          const std::span<const std::byte> parts[] = {{from.data() + done, std::min(slice, from.size() - done)}};
          done += must(sockets.first->send(parts));
        }
      },
      [&] {
        for (size_t done = 0; done < to.size();) {
          done += must(sockets.second->receive({to.data() + done, std::min(slice, to.size() - done)}));
        }
      });
  return static_cast<double>(from.size()) / seconds / 1e9;
}

// All pipes of a side share what a transport keeps for each poller, and what it keeps for both ways to a peer, as those
// of a rank do.
struct Side {
  std::unique_ptr<Poller> poller = must(real_system().network.make_poller());
  std::shared_ptr<Ties> ties;
};

struct Pipe {
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
};

Pipe make_pipe(const Transport& transport, const Side& sends, const Side& receives) {
  System& system = real_system();
  Pipe pipe;
  Offer offer;
  Offer received;
  if (transport.carrier() == Transport::Carrier::kSocket) {
    Sockets sockets = connect_sockets();
    offer.socket = std::move(sockets.first);
    received.socket = std::move(sockets.second);
  }
  pipe.sender = must(transport.open({system, *sends.poller, {}, kMaxMessage, "the bench", true, sends.ties}, offer));
  received.object = offer.object;
  if (!offer.handles.empty()) {
    // As the mesh does it: a duplicate arrives through a unix socket.
    auto listener = must(system.network.listen("unix:hocket-pipe-bench"));
    auto out = must(system.network.connect(listener->address()));
    std::unique_ptr<Socket> in;
    while (in == nullptr) in = must(listener->accept());
    std::byte byte{};
    while (must(out->send_handles({&byte, 1}, offer.handles)) == 0) {
    }
    while (must(in->receive({&byte, 1})) == 0) {
    }
    received.handles = in->take_handles();
  }
  pipe.receiver = must(transport.accept({system, *receives.poller, {}, kMaxMessage, "the bench", true, receives.ties},
                                        std::move(received)));
  return pipe;
}

void check(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", status.message());
  std::exit(1);
}

// A new pipe whose ends have met, which takes a transport's time and not its messages'.
Pipe make_warm_pipe(const Transport& transport, const Side& sends, const Side& receives) {
  Pipe pipe = make_pipe(transport, sends, receives);
  const auto go_on = [&] {
    check(pipe.sender->progress());
    check(pipe.receiver->progress());
  };
  while (pipe.sender->reserve(1) == nullptr) go_on();
  *pipe.sender->reserve(1) = std::byte{0};
  pipe.sender->commit(1, {});
  while (pipe.receiver->peek() == nullptr) go_on();
  pipe.receiver->release();
  while (!pipe.sender->flushed()) go_on();
  return pipe;
}

// One side of a ping-pong: a rank's ends of the pipes to the other and back.
class Player {
 public:
  Player(std::unique_ptr<Sender> sender, std::unique_ptr<Receiver> receiver, size_t bytes)
      : sender_(std::move(sender)), receiver_(std::move(receiver)) {
    for (size_t i = 0; i < 2; ++i) contents_[i].assign(bytes, static_cast<std::byte>(i + 1));
  }

  void send(int i) {
    const std::vector<std::byte>& content = content_of(i);
    std::byte* memory;
    while ((memory = sender_->reserve(content.size())) == nullptr) go_on();
    const bool streams = content.size() >= sender_->streaming_from;
    copy(memory, content.data(), content.size(),
         streams ? streaming_to(sender_->reader_is_far(true)) : Streaming::kPlain);
    sender_->commit(content.size(), {1, static_cast<uint32_t>(i)});
  }

  // Nothing else is asked for but once in so many looks, as where a call is made again.
  void receive(int i) {
    const Message* message;
    for (int looks = 1; (message = receiver_->peek()) == nullptr; ++looks) {
      if (looks % kLooks == 0) go_on();
    }
    const std::byte expected = content_of(i)[0];
    if (message->data[0] != expected || message->data[message->size - 1] != expected) std::abort();
    receiver_->release();
  }

  // Who leaves before that takes its last message along. The other may have left already, with all of it.
  void finish() {
    while (!sender_->flushed()) {
      (void)receiver_->progress();
      check(sender_->progress());
    }
  }

 private:
  static constexpr int kLooks = 256;

  const std::vector<std::byte>& content_of(int i) const { return contents_[i % 2 == 0 ? 0 : 1]; }
  // What was sent may still wait for room, or for the ends to meet.
  void go_on() {
    check(receiver_->progress());
    if (!sender_->flushed()) check(sender_->progress());
  }

  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Receiver> receiver_;
  std::vector<std::byte> contents_[2];
};

double begin_rounds(Player player, int rounds) {
  const double nanoseconds = half_a_round(rounds, [&](int i) {
    player.send(i);
    player.receive(i);
  });
  player.finish();
  return nanoseconds;
}

void answer_rounds(Player player, int rounds) {
  half_a_round(rounds, [&](int i) {
    player.receive(i);
    player.send(i);
  });
  player.finish();
}

double latency_by_sockets(const Transport& transport, size_t bytes) {
  const int rounds = choice.rounds != 0 ? choice.rounds : 5'000;
  Sockets there = connect_sockets();
  Sockets back = connect_sockets();
  const auto player = [&](const Side& side, std::unique_ptr<Socket> to, std::unique_ptr<Socket> from) {
    const PipeContext context{real_system(), *side.poller, {}, kMaxMessage, "the bench", true, side.ties};
    Offer sent, received;
    sent.socket = std::move(to);
    received.socket = std::move(from);
    auto sender = must(transport.open(context, sent));
    return Player(std::move(sender), must(transport.accept(context, std::move(received))), bytes);
  };
  return in_two_processes(
      [&] {
        there.second.reset();
        back.second.reset();
        const Side side{.ties = transport.make_ties()};
        return begin_rounds(player(side, std::move(there.first), std::move(back.first)), rounds);
      },
      [&] {
        there.first.reset();
        back.first.reset();
        const Side side{.ties = transport.make_ties()};
        answer_rounds(player(side, std::move(back.second), std::move(there.second)), rounds);
      });
}

double latency_in_memory(const Transport& transport, size_t bytes) {
  const int rounds = choice.rounds != 0 ? choice.rounds : 50'000;
  const Side first{.ties = transport.make_ties()}, second{.ties = transport.make_ties()};
  Pipe there = make_warm_pipe(transport, first, second);
  Pipe back = make_warm_pipe(transport, second, first);
  double result = 0;
  on_two_cores([&] { result = begin_rounds(Player(std::move(there.sender), std::move(back.receiver), bytes), rounds); },
               [&] { answer_rounds(Player(std::move(back.sender), std::move(there.receiver), bytes), rounds); });
  return result;
}

double latency(const Transport& transport, size_t bytes) {
  const bool by_sockets = transport.carrier() == Transport::Carrier::kSocket;
  return by_sockets ? latency_by_sockets(transport, bytes) : latency_in_memory(transport, bytes);
}

enum class Way { kPlain, kAround, kStrings, kChosen, kInPlace };

Streaming streaming(Way way, const Sender& sender) {
  if (way == Way::kChosen) return streaming_to(sender.reader_is_far(false));
  if (way == Way::kStrings) return Streaming::kStrings;
  return way == Way::kAround ? Streaming::kAround : Streaming::kPlain;
}

// Bytes per nanosecond from a buffer here to a buffer there. kInPlace: from and to the callers' memory without a copy.
double throughput(const Transport& transport, size_t slice, Way way, const std::vector<std::byte>& from,
                  std::vector<std::byte>& to) {
  const size_t usual = transport.carrier() == Transport::Carrier::kSocket ? kBuffer * 2 : kBuffer * 4;
  const size_t total = choice.total != 0 ? choice.total / slice * slice : usual;
  const Side first{.ties = transport.make_ties()}, second{.ties = transport.make_ties()};
  Pipe pipe = make_warm_pipe(transport, first, second);
  const double seconds = on_two_cores(
      [&] {
        for (size_t done = 0; done < total; done += slice) {
          const std::byte* source = from.data() + done % kBuffer;
          if (way == Way::kInPlace) {
            while (pipe.sender->lend({source, slice}, {}) == 0) check(pipe.sender->progress());
            continue;
          }
          std::byte* memory;
          while ((memory = pipe.sender->reserve(slice)) == nullptr) check(pipe.sender->progress());
          copy(memory, source, slice, streaming(way, *pipe.sender));
          pipe.sender->commit(slice, {});
        }
        while (!pipe.sender->flushed()) check(pipe.sender->progress());
      },
      [&] {
        for (size_t done = 0; done < total; done += slice) {
          std::byte* destination = to.data() + done % kBuffer;
          const Message* message;
          if (way == Way::kInPlace) {
            while (pipe.receiver->receive_into({destination, slice}) == nullptr) check(pipe.receiver->progress());
          } else {
            while ((message = pipe.receiver->peek()) == nullptr) check(pipe.receiver->progress());
            copy(destination, message->data, slice, Streaming::kPlain);
          }
          pipe.receiver->release();
        }
      });
  return static_cast<double>(total) / seconds / 1e9;
}

void print_latency(const Transport& transport) {
  const bool socket = transport.carrier() == Transport::Carrier::kSocket;
  fmt::print("# {}: one-way latency, ns\n# {:>8} {:>9} {:>9} {:>6}{}\n", transport.name(), "bytes", "pipe",
             socket ? "raw tcp" : "raw line", "ratio", socket ? "   raw, one socket" : "");
  std::vector<size_t> sizes = {8, 56, 64, 4096};
  if (choice.latency != 0) sizes = {choice.latency};
  for (const size_t bytes : sizes) {
    const auto raw_latency = [&] { return socket ? raw_socket_latency(true) : raw_line_latency(); };
    const double before = raw_latency();
    const double own = latency(transport, bytes);
    const double raw = (before + raw_latency()) / 2;
    fmt::print("  {:>8} {:>9.0f} {:>9.0f} {:>6.2f}", bytes, own, raw, own / raw);
    fmt::print("{}\n", socket ? fmt::format("{:>18.0f}", raw_socket_latency(false)) : "");
  }
}

void print_throughput(const Transport& transport, const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const bool socket = transport.carrier() == Transport::Carrier::kSocket;
  fmt::print("# {}: throughput, GB/s\n# {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}{}\n", transport.name(), "slice",
             "plain", "around", "strings", "chosen", "in place", "line, ns", socket ? "   raw tcp" : "");
  const size_t first = choice.slice != 0 ? choice.slice : 1 << 10;
  const size_t last = choice.slice != 0 ? choice.slice : kMaxMessage;
  for (size_t slice = first; slice <= last; slice *= 2) {
    const double before = raw_line_latency();
    const double plain = throughput(transport, slice, Way::kPlain, from, to);
    const double around = throughput(transport, slice, Way::kAround, from, to);
    const double strings = throughput(transport, slice, Way::kStrings, from, to);
    const double chosen = throughput(transport, slice, Way::kChosen, from, to);
    const double in_place = throughput(transport, slice, Way::kInPlace, from, to);
    fmt::print("  {:>8} {:>8.3g} {:>8.3g} {:>8.3g} {:>8.3g} {:>9.3g} {:>4.0f}-{:<4.0f}", slice, plain, around, strings,
               chosen, in_place, before, raw_line_latency());
    fmt::print("{}\n", socket ? fmt::format("{:>9.3g}", raw_socket_throughput(slice, from, to)) : "");
  }
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) {
  using namespace hocket;
  const std::vector<std::byte> from(kBuffer, std::byte{1});
  std::vector<std::byte> to(kBuffer);
  CLI::App app("Latency and throughput of pipes");
  std::vector<std::string> names;
  app.add_option("transports", names, "all by default");
  auto* latency = app.add_option("--latency", choice.latency, "bytes: the latency of such messages alone")
                      ->check(CLI::Range(size_t{1}, kMaxMessage));
  app.add_option("--rounds", choice.rounds, "of each ping-pong")->check(CLI::Range(1, 10'000'000));
  auto* slice = app.add_option("--slice", choice.slice, "bytes: the throughput of such messages alone")
                    ->check(CLI::Range(size_t{1}, kMaxMessage))
                    ->excludes(latency);
  app.add_option("--total", choice.total, "bytes that are sent to measure a throughput")->needs(slice);
  app.add_flag("--lasting", choice.lasting, "the buffers last, so devices may keep them registered");
  CLI11_PARSE(app, argc, argv);
  std::optional<LastingMemory::Hold> source_lasts;
  std::optional<LastingMemory::Hold> target_lasts;
  if (choice.lasting) {
    source_lasts.emplace(LastingMemory::Bytes(from));
    target_lasts.emplace(LastingMemory::Bytes(to));
  }
  for (const Transport* transport : must(choose_transports(fmt::format("{}", fmt::join(names, ","))))) {
    if (choice.slice == 0) print_latency(*transport);
    if (choice.latency == 0) print_throughput(*transport, from, to);
  }
}
