// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who does not belong: strangers, wrong keys, sizes, ranks and versions. They hear why; the others start.
#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <future>
#include <random>

#include "base/bytes.h"
#include "comm/handshake_crypto.h"
#include "comm/service_dial.h"
#include "comm/unique_id.h"
#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

struct DialOutcome {
  Status status;
  Refusal refusal = Refusal::kNone;
};

// Whoever is told by the operation timeout alone is never told: where something is to be told before, no bound on the
// time is needed, which a machine that stands still would break.
ServiceOptions endless_options() {
  ServiceOptions options = quick_options();
  options.operation_timeout = std::chrono::hours(24);
  return options;
}

// Nobody is too slow.
ServiceOptions patient_options() {
  ServiceOptions options = endless_options();
  options.timeout = options.handshake_timeout = std::chrono::hours(1);
  return options;
}

// One dial from `service`, waited for.
DialOutcome dial_once(Service& service, const Address& address, const Hello& hello, const std::string& key) {
  std::promise<DialOutcome> outcome;
  std::unique_ptr<Dial> dial;
  service.reactor().post([&] {
    DialOptions options;
    options.addresses = {address};
    options.hello = hello;
    options.key = key;
    dial =
        std::make_unique<Dial>(service, options, [&](const Result<std::unique_ptr<Socket>>& socket, Refusal refusal) {
          dial.reset();
          outcome.set_value({socket.status(), refusal});
        });
  });
  return outcome.get_future().get();
}

std::unique_ptr<Socket> knock(const Address& address, std::string_view bytes) {
  auto socket = real_system().network.connect(address);
  EXPECT_TRUE(socket.ok()) << socket.status().message();
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  (void)eventually([&] {
    const auto sent = (*socket)->send(std::span(&part, 1));
    return bytes.empty() || !sent.ok() || *sent > 0;
  });
  return std::move(*socket);
}

// Until other threads of this process have done what they had begun: time in which it did not run at all does not
// count.
void sleep_in_steps(int steps) {
  for (int step = 0; step < steps; ++step) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool is_closed(Socket& socket) {
  std::array<std::byte, 256> buffer;
  for (;;) {
    const auto got = socket.receive(buffer);
    if (!got.ok()) return true;
    if (*got == 0) return false;
  }
}

const std::vector<std::string> kNonsense = {
    "GET / HTTP/1.1\r\nHost: here\r\n\r\n", std::string(8, '\x55'), std::string(4096, '\xff'), "HKhs",
    std::string("HKhs\1\0\0\0", 8),         "SSH-2.0-scanner\r\n"};

TEST(Strangers, AreClosedAndDisturbNobody) {
  const auto services = make_services(3);
  const auto service_of = [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; };
  const size_t descriptors = open_descriptors();
  const auto id = make_unique_id(*services[0]);
  std::vector<std::unique_ptr<Socket>> knocking;
  const auto annoy = [&] {
    for (const auto& service : services) {
      for (int i = 0; i < 10; ++i) {
        for (const std::string& bytes : kNonsense) knocking.push_back(knock(service->self().addresses[0], bytes));
        knocking.push_back(knock(service->self().local_address, "x"));
      }
    }
  };
  annoy();
  std::thread later(annoy);
  auto meshes = join_all(*id, 3, service_of);
  later.join();
  EXPECT_TRUE(eventually([&] {  // the half-open ones at the handshake's deadline
    return std::all_of(knocking.begin(), knocking.end(), [](const auto& socket) { return is_closed(*socket); });
  }));
  for (const MeshPointer& mesh : meshes) EXPECT_TRUE(mesh->status().ok()) << mesh->status().message();
  knocking.clear();
  leave_all(meshes);
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; })) << open_descriptors();
}

size_t number(const char* variable, size_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// STRANGERS connections, of which a third says nothing, spread over INITS inits (./dev soak: 100,000 and 200).
TEST(Strangers, ManyDuringManyInitsLeaveNothingBehind) {
  const size_t inits = number("INITS", 3);
  const size_t each = number("STRANGERS", 600) / inits;
  const auto services = make_services(3);
  const auto service_of = [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; };
  const auto init = [&] {
    const auto id = make_unique_id(*services[0]);
    std::thread crowd([&] {
      std::deque<std::unique_ptr<Socket>> half_open;
      for (size_t i = 0; i < each; ++i) {
        const Address& address = services[i % 3]->self().addresses[0];
        const bool is_quiet = i % 3 == 0;
        auto socket = knock(address, is_quiet ? std::string() : kNonsense[i / 3 % kNonsense.size()]);
        if (is_quiet) half_open.push_back(std::move(socket));
        if (half_open.size() > 100) half_open.pop_front();
      }
    });
    auto meshes = join_all(*id, 3, service_of);
    crowd.join();
    for (const MeshPointer& mesh : meshes) ASSERT_TRUE(mesh != nullptr && mesh->status().ok());
    leave_all(meshes);
  };
  init();  // what is made once
  const size_t descriptors = open_descriptors();
  const size_t memory = resident_bytes();
  for (size_t i = 0; i < inits && !HasFatalFailure(); ++i) init();
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; })) << open_descriptors();
  EXPECT_LT(resident_bytes(), memory + (size_t{16} << 20));
  std::printf("%zu inits among %zu strangers; %zd KiB more than at first\n", inits, inits * each,
              (static_cast<ssize_t>(resident_bytes()) - static_cast<ssize_t>(memory)) / 1024);
}

// SCAN: nmap's options (./dev soak: all that it knows).
TEST(Strangers, ManyInitsSucceedWhileNmapScans) {
  if (std::system("command -v nmap >/dev/null") != 0) GTEST_SKIP() << "there is no nmap";
  const auto services = make_services(3);
  const auto service_of = [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; };
  const auto init = [&] {
    const auto id = make_unique_id(*services[0]);
    auto meshes = join_all(*id, 3, service_of);
    for (const MeshPointer& mesh : meshes) ASSERT_TRUE(mesh != nullptr && mesh->status().ok());
    leave_all(meshes);
  };
  init();  // what is made once
  const size_t descriptors = open_descriptors();
  std::string ports;
  for (const auto& service : services) {
    const Address& address = service->self().addresses[0];
    ports += (ports.empty() ? "" : ",") + address.substr(address.rfind(':') + 1);
  }
  const char* const options = std::getenv("SCAN");
  const std::string command =
      fmt::format("nmap -n -Pn {} -p {} 127.0.0.1", options == nullptr ? "-sT" : options, ports);
  FILE* const nmap = ::popen((command + " 2>&1").c_str(), "r");
  std::atomic<bool> ended = false;
  std::string report;
  std::thread reader([&] {
    for (int letter = 0; (letter = std::fgetc(nmap)) != EOF;) report += static_cast<char>(letter);
    ended = true;
  });
  size_t inits = 0;
  for (; !ended && !HasFatalFailure(); ++inits) init();
  reader.join();
  EXPECT_EQ(::pclose(nmap), 0) << report;
  EXPECT_THAT(report, testing::ContainsRegex("[0-9]+/tcp +open")) << report;
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; })) << open_descriptors();
  std::printf("%zu inits during `%s`\n", inits, command.c_str());
}

TEST(Strangers, AFloodOfHalfOpenConnectionsIsBounded) {
  ServiceOptions options = quick_options();
  options.max_strangers = 16;
  options.handshake_timeout = std::chrono::hours(1);
  const auto services = make_services(3, options);
  const auto id = make_unique_id(*services[0]);
  const size_t before = open_descriptors();
  std::vector<std::unique_ptr<Socket>> flood;
  for (int i = 0; i < 150; ++i) flood.push_back(knock(services[0]->self().addresses[0], ""));
  // Each costs us one descriptor; the service holds sixteen of the other ends.
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + flood.size() + 16; })) << open_descriptors();
  auto meshes = join_all(*id, 3, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  EXPECT_TRUE(eventually([&] {
    return std::count_if(flood.begin(), flood.end(), [](const auto& socket) { return is_closed(*socket); }) >= 134;
  }));
  leave_all(meshes);
}

TEST(Strangers, GetNoMoreThanAQuarterOfTheDescriptors) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(Service(real_system(), quick_options()).options().max_strangers, 64u);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// The local addresses of all sockets of this process that listen to a network.
std::vector<std::string> listening() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int handle = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(handle, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_storage address{};
    size = sizeof address;
    std::array<char, NI_MAXHOST> host{};
    EXPECT_EQ(::getsockname(handle, reinterpret_cast<sockaddr*>(&address), &size), 0);
    if (address.ss_family == AF_UNIX) continue;
    EXPECT_EQ(::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0,
                            NI_NUMERICHOST),
              0);
    all.emplace_back(host.data());
  }
  return all;
}

TEST(Strangers, FindNobodyAtOtherInterfacesThanTheChosen) {
  const auto services = make_services(2);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  EXPECT_THAT(listening(), AllOf(testing::Not(testing::IsEmpty()), testing::Each(AnyOf("127.0.0.1", "::1"))));
  leave_all(meshes);
}

TEST(WrongKey, IsRefusedAndBothSidesKnow) {
  const auto services = make_services(2, patient_options());
  const auto id = decode_unique_id(*make_unique_id(*services[0]));
  const Address address = services[0]->self().addresses[0];
  const Hello hello{Purpose::kCheckIn, id->public_id(), 1, kRoot};
  EXPECT_TRUE(dial_once(*services[1], address, hello, id->key).status.ok());
  const DialOutcome outcome = dial_once(*services[1], address, hello, std::string(kKeyBytes, 'x'));
  EXPECT_EQ(outcome.refusal, Refusal::kWrongKey);
  EXPECT_THAT(outcome.status.message(), AllOf(HasSubstr(address), HasSubstr("keys of the communicator differ")));
}

// WRONG_KEYS: how many (./dev soak: 1,000).
TEST(WrongKey, NoneOfManyOpens) {
  const auto services = make_services(2, patient_options());
  const auto id = decode_unique_id(*make_unique_id(*services[0]));
  const Hello hello{Purpose::kCheckIn, id->public_id(), 1, kRoot};
  std::mt19937_64 random(1);
  for (size_t left = number("WRONG_KEYS", 50); left > 0; --left) {
    std::string key = id->key;
    key[random() % key.size()] ^= static_cast<char>(1u << random() % 8);  // one bit
    ASSERT_EQ(dial_once(*services[1], services[0]->self().addresses[0], hello, key).refusal, Refusal::kWrongKey);
  }
  EXPECT_TRUE(dial_once(*services[1], services[0]->self().addresses[0], hello, id->key).status.ok());
}

// The first who comes.
std::unique_ptr<Socket> accepted(Listener& listener) {
  std::unique_ptr<Socket> socket;
  (void)eventually([&] {
    socket = std::move(*listener.accept());
    return socket != nullptr;
  });
  return socket;
}

// A listener that accepts everything proves nothing.
TEST(WrongKey, AnAcceptorMustProveItToo) {
  Service service(real_system(), patient_options());
  auto listener = real_system().network.listen("127.0.0.1:0");
  std::thread impostor([&] {
    const std::unique_ptr<Socket> socket = accepted(**listener);
    ASSERT_NE(socket, nullptr);
    const std::string challenge = "HKhs" + std::string(8 + 16, '\0');
    const std::string verdict(33, '\0');
    for (const std::string& bytes : {challenge, verdict}) {
      const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
      EXPECT_TRUE(socket->send(std::span(&part, 1)).ok());
    }
    (void)eventually([&] { return is_closed(*socket); });
  });
  const Hello hello{Purpose::kCheckIn, std::string(16, 'i'), 1, kRoot};
  const DialOutcome outcome = dial_once(service, (*listener)->address(), hello, std::string(16, 'k'));
  impostor.join();
  EXPECT_EQ(outcome.refusal, Refusal::kWrongKey);
  EXPECT_THAT(outcome.status.message(), HasSubstr("cannot prove"));
}

// ---- Who speaks our language by hand

// What a dialer says first; src/comm/handshake.cc has the layout.
std::string greeting(const Hello& hello, uint32_t version) {
  Writer writer;
  writer.raw("HKhs");
  writer.u16(3);
  writer.u16(0);
  writer.u32(version);
  for (const uint8_t byte : {static_cast<uint8_t>(hello.purpose), hello.pipe_class, hello.transport, uint8_t{0}})
    writer.u8(byte);
  writer.u16(hello.lane);
  writer.u16(hello.connection);
  writer.i32(hello.from);
  writer.i32(hello.to);
  writer.raw(hello.id);
  writer.raw(std::string(16, 'n'));
  return writer.take();
}

constexpr size_t kChallenge = 28;
constexpr size_t kVerdict = 33;

// As much as comes until the other end closes, at most so many bytes.
std::string hear(Socket& socket, size_t bytes) {
  std::string heard;
  std::array<std::byte, 256> buffer;
  (void)eventually([&] {
    const auto got = socket.receive(std::span(buffer).first(std::min(buffer.size(), bytes - heard.size())));
    if (got.ok()) heard.append(reinterpret_cast<const char*>(buffer.data()), *got);
    return !got.ok() || heard.size() == bytes;
  });
  return heard;
}

void say(Socket& socket, std::string_view bytes) {
  const std::span<const std::byte> part = std::as_bytes(std::span(bytes));
  const auto sent = socket.send(std::span(&part, 1));
  EXPECT_TRUE(sent.ok() && *sent == bytes.size());
}

struct Proof {
  std::string said;
  std::string verdict;
};

// As a dialer who says this for a proof; empty: the right one.
Proof prove(Service& service, const Hello& hello, const std::string& key, std::string proof = {}) {
  const std::string first = greeting(hello, service.options().library_version);
  const auto socket = knock(service.self().addresses[0], first);
  const std::string challenge = hear(*socket, kChallenge);
  EXPECT_EQ(challenge.size(), kChallenge);
  if (proof.empty()) proof = hmac_sha256(key, {"hocket dialer", first + challenge});
  say(*socket, proof);
  return {proof, hear(*socket, kVerdict)};
}

// All of it, word for word: the other end's nonce is another one.
TEST(RecordedHandshake, OpensNothingAndIsToldNothingOfTheKey) {
  const auto services = make_services(1, patient_options());
  const auto id = decode_unique_id(*make_unique_id(*services[0]));
  const Hello hello{Purpose::kCheckIn, id->public_id(), 1, kRoot};
  const Proof recorded = prove(*services[0], hello, id->key);
  ASSERT_EQ(recorded.verdict.size(), kVerdict);
  EXPECT_EQ(recorded.verdict[0], 0);
  const Proof again = prove(*services[0], hello, id->key, recorded.said);
  EXPECT_EQ(again.verdict, static_cast<char>(Refusal::kWrongKey) + std::string(32, '\0')) << "a sample of the key";
}

// Whoever is dialled and knows no key gets a proof of it: the dialer's own.
TEST(WrongKey, AProofThatIsSentBackIsNone) {
  Service service(real_system(), patient_options());
  auto listener = real_system().network.listen("127.0.0.1:0");
  std::thread mirror([&] {
    const std::unique_ptr<Socket> socket = accepted(**listener);
    ASSERT_NE(socket, nullptr);
    (void)hear(*socket, 12 + 48);
    say(*socket, "HKhs" + std::string(8 + 16, '\0'));
    say(*socket, '\0' + hear(*socket, 32));
    (void)eventually([&] { return is_closed(*socket); });
  });
  const Hello hello{Purpose::kCheckIn, std::string(16, 'i'), 1, kRoot};
  const DialOutcome outcome = dial_once(service, (*listener)->address(), hello, std::string(16, 'k'));
  mirror.join();
  EXPECT_EQ(outcome.refusal, Refusal::kWrongKey);
}

// The time is that of the whole proof, not that between two bytes.
TEST(Strangers, WhoComeByteByByteAreClosedInTime) {
  const auto services = make_services(1);
  const Hello hello{Purpose::kCheckIn, std::string(16, 'u'), 1, kRoot};
  const auto socket = knock(services[0]->self().addresses[0], "H");
  const std::string rest = greeting(hello, services[0]->options().library_version).substr(1);
  size_t sent = 0;
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (is_closed(*socket)) return true;
    const std::span<const std::byte> byte = std::as_bytes(std::span(rest).subspan(sent, 1));
    (void)socket->send(std::span(&byte, 1));
    return ++sent == rest.size();
  }));
  EXPECT_LT(sent, rest.size()) << "all came, in three times the time";
}

// Descriptors that come along are closed, and cost nobody anything.
TEST(Strangers, MayNotLeaveTheirDescriptorsHere) {
  const auto services = make_services(1);
  const size_t before = open_descriptors();
  {
    const Hello hello{Purpose::kCheckIn, std::string(16, 'u'), 1, kRoot};
    const std::string first = greeting(hello, services[0]->options().library_version);
    std::vector<std::unique_ptr<Socket>> sockets;
    for (int i = 0; i < 20; ++i) {
      sockets.push_back(std::move(*real_system().network.connect(services[0]->self().local_address)));
      const Handle own[] = {0, 0, 0};
      ASSERT_TRUE(sockets.back()->send_handles(std::as_bytes(std::span(first)), own).ok());
    }
    EXPECT_TRUE(eventually([&] {
      return std::all_of(sockets.begin(), sockets.end(), [](const auto& socket) { return is_closed(*socket); });
    }));
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; })) << open_descriptors();
}

TEST(Strangers, FillNoLog) {
  testing::internal::CaptureStderr();
  {
    const auto services = make_services(2, patient_options());
    const auto id = decode_unique_id(*make_unique_id(*services[0]));
    const Hello hello{Purpose::kCheckIn, id->public_id(), 1, kRoot};
    for (int i = 0; i < 20; ++i)
      (void)dial_once(*services[1], services[0]->self().addresses[0], hello, std::string(kKeyBytes, 'x'));
  }
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

// Who holds the key and asks for what cannot be is refused, and the others go on.
TEST(ImpossibleConnections, AreRefusedAlsoToWhoHasTheKey) {
  const auto services = make_services(2, patient_options());
  const auto id = make_unique_id(*services[0]);
  const auto key = decode_unique_id(*id);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  const Hello link{Purpose::kLink, key->public_id(), 1, 0};
  const auto refusal = [&](const auto& change) {
    Hello hello = link;
    change(hello);
    return static_cast<Refusal>(prove(*services[0], hello, key->key).verdict[0]);
  };
  EXPECT_EQ(refusal([](Hello& hello) { hello.from = 2; }), Refusal::kNotAllowed);
  EXPECT_EQ(refusal([](Hello& hello) { hello.from = -1; }), Refusal::kNotAllowed);
  EXPECT_EQ(refusal([](Hello& hello) { hello.from = 0; }), Refusal::kNotAllowed) << "itself";
  EXPECT_EQ(refusal([](Hello& hello) { hello.purpose = Purpose::kCheckIn; }), Refusal::kNotAllowed);
  EXPECT_EQ(refusal([](Hello& hello) { hello.to = kRoot; }), Refusal::kNotAllowed) << "the root has no links";
  EXPECT_EQ(refusal([](Hello&) {}), Refusal::kDuplicate);
  const auto data = [](auto change) {
    return [change](Hello& hello) {
      hello.purpose = Purpose::kData;
      change(hello);
    };
  };
  EXPECT_EQ(refusal(data([](Hello& hello) { hello.transport = 200; })), Refusal::kNotAllowed);
  EXPECT_EQ(refusal(data([](Hello& hello) { hello.pipe_class = 9; })), Refusal::kNotAllowed);
  EXPECT_EQ(refusal(data([](Hello& hello) { hello.lane = 0xFFFF; })), Refusal::kNotAllowed);
  for (const MeshPointer& mesh : meshes) EXPECT_TRUE(mesh->status().ok()) << mesh->status().message();
  leave_all(meshes);
}

// A link's dialer would take us for stopped: it hears in half of the timeout that its communicator is not known here.
TEST(UnknownCommunicator, IsToldToALinkSoonerThanToACheckIn) {
  ServiceOptions options = patient_options();
  options.timeout = std::chrono::milliseconds(600);
  const auto services = make_services(1, options);
  const Hello hello{Purpose::kLink, std::string(16, 'u'), 1, 0};
  const auto socket = knock(services[0]->self().addresses[0], greeting(hello, services[0]->options().library_version));
  const std::string told = hear(*socket, kChallenge);
  ASSERT_EQ(told.size(), kChallenge);
  EXPECT_EQ(told[4], static_cast<char>(Refusal::kUnknown));
}

TEST(UnknownCommunicator, IsRefusedAfterAWhile) {
  const auto services = make_services(2);
  const Hello hello{Purpose::kCheckIn, std::string(16, 'u'), 1, kRoot};
  const DialOutcome outcome = dial_once(*services[1], services[0]->self().addresses[0], hello, "key");
  EXPECT_EQ(outcome.refusal, Refusal::kUnknown);
}

TEST(ClosedDoor, SaysThatTheRankHasLeft) {
  const auto services = make_services(2, patient_options());
  const auto text = make_unique_id(*services[0]);
  const auto id = decode_unique_id(*text);
  {
    EXPECT_TRUE(join_as(*services[0], *text, 0, 1).ok());
  }
  const Hello hello{Purpose::kLink, id->public_id(), 1, 0};
  EXPECT_EQ(dial_once(*services[1], services[0]->self().local_address, hello, id->key).refusal, Refusal::kClosed);
}

TEST(OtherVersion, IsRefusedNamingBoth) {
  ServiceOptions other = quick_options();
  other.library_version = 20304;
  Service old(real_system(), quick_options());
  Service young(real_system(), other);
  const auto id = make_unique_id(old);
  const Status refused = join_as(young, *id, 1, 2).status();
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("runs version 0.1.0"), HasSubstr("this process 2.3.4")));
}

TEST(WrongSize, IsRefusedNamingBothWhenTheOthersStart) {
  const auto services = make_services(3);
  const auto id = make_unique_id(*services[0]);
  std::thread wrong([&] {
    const Status refused = join_as(*services[2], *id, 2, 3).status();
    EXPECT_THAT(refused.message(), AnyOf(HasSubstr("rank 2 expects 3 ranks, but the communicator has started with 2"),
                                         HasSubstr("rank 2 of 3 came to a closed root: all 2 ranks")));
  });
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  wrong.join();
  leave_all(meshes);
}

// The right ranks may come late: whoever waits with a wrong number hears it long before the operation timeout.
TEST(WrongSize, IsRefusedNamingBothWhileTheOthersWait) {
  const auto services = make_services(3, endless_options());
  const auto id = make_unique_id(*services[0]);
  std::vector<MeshPointer> meshes(3);
  std::vector<std::thread> threads;
  for (const int32_t rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const JoinResult joined = join_as(*services[static_cast<size_t>(rank)], *id, rank, 3);
      ASSERT_TRUE(joined.ok()) << joined.status().message();
      meshes[static_cast<size_t>(rank)] = *joined;
    });
  }
  sleep_in_steps(100);
  EXPECT_EQ(join_as(*services[2], *id, 2, 8).status().message(),
            "rank 2 expects 8 ranks, but ranks 0, 1 expect 3 ranks");
  const JoinResult right = join_as(*services[2], *id, 2, 3);
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(right.ok()) << right.status().message();
  meshes[2] = *right;
  leave_all(meshes);
}

TEST(WrongSize, IsToldToBothSidesWhenNobodyElseComes) {
  const auto services = make_services(2, endless_options());
  const auto id = make_unique_id(*services[0]);
  for_each_rank(2, [&](int32_t rank) {
    EXPECT_EQ(join_as(*services[static_cast<size_t>(rank)], *id, rank, 2 + rank).status().message(),
              "rank 1 expects 3 ranks, but rank 0 expects 2 ranks");
  });
}

// Who waits less long than another rests between heartbeats would take that one for dead.
TEST(OtherTimeout, IsRefusedNamingBothAndTheOthersHearWhy) {
  ServiceOptions other = endless_options();
  other.timeout *= 10;
  const auto services = make_services(2, endless_options());
  Service slow(real_system(), other);
  const auto id = make_unique_id(*services[0]);
  const auto is_told = AllOf(HasSubstr("rank 2 (process "), HasSubstr("has HOCKET_TIMEOUT=20s"),
                             HasSubstr(" 2s: it must be equal on all ranks"));
  for_each_rank(3, [&](int32_t rank) {
    if (rank == 2) sleep_in_steps(200);
    Service& service = rank == 2 ? slow : *services[static_cast<size_t>(rank)];
    EXPECT_THAT(join_as(service, *id, rank, 3).status().message(), is_told) << "rank " << rank;
  });
}

TEST(LostRank, IsNamedToWhoeverWaitsForMore) {
  const auto services = make_services(3, endless_options());
  const auto id = make_unique_id(*services[0]);
  std::vector<std::thread> threads;
  for (const int32_t rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      const Status status = join_as(*services[static_cast<size_t>(rank)], *id, rank, 4).status();
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr("rank 2 (process"), HasSubstr("was lost before all 4 ranks had come")));
    });
  }
  threads.emplace_back([&] { EXPECT_FALSE(join_as(*services[2], *id, 2, 4).ok()); });
  sleep_in_steps(200);
  services[2]->end();
  for (std::thread& thread : threads) thread.join();
}

TEST(RankTwice, TheSecondIsRefusedAndTheOthersStart) {
  const auto services = make_services(4);
  const auto id = make_unique_id(*services[0]);
  std::vector<JoinResult> ones(2, Status(Code::kInternal, "not tried"));
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      ones[i] = join_as(*services[i], *id, 1, 3);
      if (!ones[i].ok()) ++refused;
    });
  }
  EXPECT_TRUE(eventually([&] { return refused == 1; }));
  const auto service_of = [&](int32_t rank) -> Service& { return *services[rank == 0 ? 2 : 3]; };
  // Who is in may leave while others still learn who they are.
  std::thread zero([&] { EXPECT_TRUE(join_as(service_of(0), *id, 0, 3).ok()); });
  {
    EXPECT_TRUE(join_as(service_of(2), *id, 2, 3).ok());
  }
  zero.join();
  for (std::thread& thread : threads) thread.join();
  const JoinResult& second = ones[0].ok() ? ones[1] : ones[0];
  EXPECT_TRUE(ones[0].ok() || ones[1].ok());
  EXPECT_THAT(second.status().message(), AllOf(HasSubstr("rank 1 of 3 came twice"), HasSubstr("is refused")));
}

TEST(RankTwice, InOneProcessIsRefusedAtOnce) {
  Service service(real_system(), quick_options());
  const auto id = make_unique_id(service);
  const auto first = join_as(service, *id, 0, 1);
  EXPECT_TRUE(first.ok());
  EXPECT_THAT(join_as(service, *id, 0, 1).status().message(), HasSubstr("rank 0 joins twice"));
}

TEST(MissingRank, IsNamedToAllWhoCame) {
  ServiceOptions options = quick_options();
  options.operation_timeout = std::chrono::milliseconds(500);
  const auto services = make_services(3, options);
  const auto id = make_unique_id(*services[0]);
  std::vector<std::thread> threads;
  for (const int32_t rank : {0, 1, 4}) {
    threads.emplace_back([&, rank] {
      const Status status = join_as(*services[static_cast<size_t>(rank % 3)], *id, rank, 5).status();
      EXPECT_EQ(status.code(), Code::kTimeout);
      EXPECT_EQ(status.message(), "ranks 2, 3 of 5 did not join within 0.5 s (the operation timeout)");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(join_as(*services[2], *id, 2, 5).status().message(), HasSubstr("came to a closed root"));
}

TEST(MissingRank, IsWaitedForAsLongAsTheLeastPatientSays) {
  const auto services = make_services(2, endless_options());
  const auto id = make_unique_id(*services[0]);
  for_each_rank(2, [&](int32_t rank) {
    JoinOptions options;
    options.unique_id = *id;
    options.rank = rank;
    options.ranks = 3;
    options.operation_timeout = rank == 1 ? std::chrono::milliseconds(300) : std::chrono::hours(24);
    EXPECT_EQ(join_mesh(*services[static_cast<size_t>(rank)], options).status().message(),
              "rank 2 of 3 did not join within 0.3 s (the operation timeout)");
  });
}

TEST(GuestThatGivesUp, FreesItsPlace) {
  const auto services = make_services(3);
  const auto id = make_unique_id(*services[0]);
  std::atomic<bool> stop = false;
  JoinOptions impatient;
  impatient.unique_id = *id;
  impatient.rank = 1;
  impatient.ranks = 2;
  impatient.cancelled = [&] { return stop.load(); };
  std::thread giving_up([&] { EXPECT_FALSE(join_mesh(*services[1], impatient).ok()); });
  sleep_in_steps(50);
  stop = true;
  giving_up.join();
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[rank == 0 ? 0 : 2]; });
  leave_all(meshes);
}

TEST(Root, ThatIsGoneIsNamed) {
  ServiceOptions options = quick_options();
  options.timeout = std::chrono::milliseconds(300);
  Service guest(real_system(), options);
  std::string id;
  Address address;
  {
    Service root(real_system(), options);
    id = *make_unique_id(root);
    address = root.self().addresses[0];
  }
  const Status status = join_as(guest, id, 1, 2).status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 cannot check in with the root"), HasSubstr(address),
                                      HasSubstr("connection refused")));
}

}  // namespace
}  // namespace hocket
