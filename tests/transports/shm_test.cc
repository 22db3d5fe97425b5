// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Shared memory between real processes: sleep and wake, death without notice, nothing left behind, memory used.
#include <dirent.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "pipe_pair.h"

namespace hocket::test {
namespace {

constexpr size_t kMaxMessage = 64 << 10;

int open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

int files_in_dev_shm() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with("hocket")) ++count;
  }
  return count;
}

int mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:hocket") != std::string::npos;
  return count;
}

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(getpagesize());
}

Medium medium() { return {"shm", "shm", "", 0, {}}; }

// A pipe whose receiver lives in a child process; pollers and memory are inherited, wakes cross the border.
struct Child {
  pid_t pid = 0;
  std::unique_ptr<Poller> parent_poller;
  std::unique_ptr<Poller> child_poller;
  std::unique_ptr<Sender> sender;      // in the parent
  std::unique_ptr<Receiver> receiver;  // in the child
};

// Forks; the child runs `body` and exits with what it returns.
Child start_child(const std::function<int(Child&)>& body) {
  System& system = real_system();
  Child child;
  child.parent_poller = std::move(*system.network.make_poller());
  child.child_poller = std::move(*system.network.make_poller());
  const auto waker = [&system](Handle handle) { return [&system, handle] { system.network.wake(handle); }; };
  const PipeContext parent{
      system, *child.parent_poller,        waker(child.child_poller->wake_handle()), kMaxMessage, "child",
      true,   transport("shm").make_ties()};
  const PipeContext other{
      system, *child.child_poller,         waker(child.parent_poller->wake_handle()), kMaxMessage, "parent",
      true,   transport("shm").make_ties()};
  Offer offer;
  child.sender = std::move(*transport("shm").open(parent, offer));
  child.pid = fork();
  if (child.pid != 0) return child;
  Offer received;
  received.handles = {dup(offer.handles.front())};
  child.receiver = std::move(*transport("shm").accept(other, std::move(received)));
  child.sender.reset();
  _exit(body(child));
}

int exit_code(pid_t pid) {
  int state = 0;
  waitpid(pid, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 256 + WTERMSIG(state);
}

int receive_sleeping(Child& child, uint64_t messages) {
  System& system = real_system();
  const Time limit = system.clock.now() + std::chrono::seconds(20);
  for (uint64_t m = 0; m < messages; ++m) {
    const Message* got = nullptr;
    while ((got = child.receiver->peek()) == nullptr) {
      if (system.clock.now() > limit) return 2;
      child.receiver->set_waiting(true);
      if (child.receiver->peek() == nullptr) {
        child.child_poller->wait(system.clock.now() + std::chrono::milliseconds(500));
      }
    }
    const size_t bytes = m * 37 % kMaxMessage;
    if (got->size != bytes || got->digest != envelope(m).digest()) return 3;
    if (bytes > 0 && std::memcmp(got->data, pattern(m, bytes).data(), bytes) != 0) return 4;
    child.receiver->release();
  }
  return 0;
}

TEST(Shm, ProcessesSleepAndWakeEachOther) {
  constexpr uint64_t kMessages = 2000;
  System& system = real_system();
  const Time begin = system.clock.now();
  Child child = start_child([](Child& self) { return receive_sleeping(self, kMessages); });
  for (uint64_t m = 0; m < kMessages; ++m) {
    const size_t bytes = m * 37 % kMaxMessage;
    std::byte* memory = nullptr;
    while ((memory = child.sender->reserve(bytes)) == nullptr &&
           system.clock.now() - begin < std::chrono::seconds(20)) {
      child.sender->set_waiting(true);
      if (child.sender->reserve(bytes) == nullptr) {
        child.parent_poller->wait(system.clock.now() + std::chrono::milliseconds(500));
      }
    }
    ASSERT_NE(memory, nullptr) << "message " << m;
    if (bytes > 0) std::memcpy(memory, pattern(m, bytes).data(), bytes);
    child.sender->commit(bytes, envelope(m));
    // Lets the reader fall asleep now and then.
    if (m % 100 == 0) system.threads.sleep_until(system.clock.now() + std::chrono::milliseconds(1));
  }
  EXPECT_EQ(exit_code(child.pid), 0);
  EXPECT_LT(system.clock.now() - begin, std::chrono::seconds(5)) << "sleepers were not woken";
}

TEST(Shm, AKilledProcessLeavesNothingBehind) {
  const int descriptors = open_descriptors();
  const int files = files_in_dev_shm();
  const int segments = mapped_segments();
  {
    Child child = start_child([](Child& self) {
      for (;;) {
        if (self.receiver->peek() != nullptr) self.receiver->release();
      }
      return 0;
    });
    for (uint64_t m = 0; m < 1000; ++m) {
      ASSERT_TRUE(wait_until(real_system(), [&] { return child.sender->reserve(1000) != nullptr; }));
      child.sender->commit(1000, envelope(m));
    }
    EXPECT_EQ(mapped_segments(), segments + 1);
    kill(child.pid, SIGKILL);
    EXPECT_EQ(exit_code(child.pid), 256 + SIGKILL);
    // The survivor fills what room there is and stays whole.
    while (child.sender->reserve(kMaxMessage) != nullptr) child.sender->commit(kMaxMessage, envelope(0));
    EXPECT_TRUE(child.sender->progress().ok());
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(files_in_dev_shm(), files);
  EXPECT_EQ(mapped_segments(), segments);
}

TEST(Shm, AnIdlePipeTakesLittleMemory) {
  for (const char* name : {"local", "shm"}) {
    constexpr int kPipes = 100;
    const Medium chosen{name, name, "", 0, {}};
    std::vector<PipePair> pairs;
    pairs.push_back(make_pair(real_system(), chosen, 1 << 20));
    const size_t before = resident_bytes();
    for (int i = 0; i < kPipes; ++i) {
      pairs.push_back(make_pair(real_system(), chosen, 1 << 20));
      EXPECT_NE(pairs.back().sender->reserve(8), nullptr);
      EXPECT_EQ(pairs.back().receiver->peek(), nullptr);
    }
    EXPECT_LT((resident_bytes() - before) / kPipes, 16u << 10) << name;
  }
}

TEST(Shm, ManyPipesComeAndGo) {
  make_pair(real_system(), medium(), kMaxMessage);
  const int descriptors = open_descriptors();
  const int segments = mapped_segments();
  for (int i = 0; i < 300; ++i) make_pair(real_system(), medium(), kMaxMessage);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(mapped_segments(), segments);
}

// Accepts with the given handles; all of them must be closed afterwards.
Status accept_handles(std::vector<Handle> handles) {
  System& system = real_system();
  auto poller = std::move(*system.network.make_poller());
  Offer offer;
  offer.handles = std::move(handles);
  return transport("shm").accept({system, *poller, {}, kMaxMessage, "rank 3"}, std::move(offer)).status();
}

TEST(Shm, RefusesMemoryThatIsTooSmall) {
  const int descriptors = open_descriptors();
  const int small = memfd_create("small", 0);
  ASSERT_EQ(ftruncate(small, 4096), 0);
  const Status status = accept_handles({small});
  EXPECT_THAT(status.message(), testing::HasSubstr("shm pipe from rank 3"));
  EXPECT_THAT(status.message(), testing::HasSubstr("4096"));
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(Shm, RefusesTheWrongNumberOfHandlesAndClosesThem) {
  const int descriptors = open_descriptors();
  const Status status = accept_handles({dup(0), dup(0)});
  EXPECT_THAT(status.message(), testing::HasSubstr("2 handles"));
  EXPECT_EQ(open_descriptors(), descriptors);
}

class FullMemory final : public SharedMemory {
 public:
  Result<std::unique_ptr<Segment>> create(size_t bytes) override {
    return Status(Code::kSystem, fmt::format("no room for {} bytes of shared memory", bytes));
  }
  Result<std::unique_ptr<Segment>> map(Handle, size_t) override { return Status(Code::kSystem, "no memory"); }
  int64_t process() override { return 0; }
  bool read(int64_t, uint64_t, std::span<std::byte>) override { return false; }
};

TEST(Shm, FullMemoryIsAnErrorThatNamesThePipe) {
  FullMemory full;
  System& real = real_system();
  System system{real.clock, real.threads, real.network, full};
  auto poller = std::move(*real.network.make_poller());
  Offer offer;
  const Status status = transport("shm").open({system, *poller, {}, kMaxMessage, "rank 3"}, offer).status();
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), testing::HasSubstr("shm pipe to rank 3: no room for"));
  EXPECT_TRUE(offer.handles.empty());
}

}  // namespace
}  // namespace hocket::test
