// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Messages from and to memory that the host does not reach, as that of an accelerator: cards read and write it by
// dma-bufs, and whatever refuses or breaks, the host never touches it. Over devices that are not there (fake_verbs.h),
// and, in a guest, over real queue pairs.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/lasting_memory.h"
#include "transports/verbs/ring_memory.h"
#include "verbs_pipes.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;
using Bytes = LastingMemory::Bytes;

constexpr uint64_t kMessage = 1;
constexpr size_t kOffset = 64;  // of the memory in its first page

// Who touches it where it lies, dies.
class Accelerator {
 public:
  explicit Accelerator(size_t bytes = kMaxMessage) : size_(bytes), mapped_(kOffset + bytes) {
    file_ = Descriptor(::memfd_create("accelerator", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(mapped_)), 0);
    base_ = map(PROT_NONE);
    alias_ = map(PROT_READ | PROT_WRITE);
  }
  ~Accelerator() {
    end();
    ::munmap(base_, mapped_);
    ::munmap(alias_, mapped_);
  }
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  std::span<std::byte> bytes() const { return {base_ + kOffset, size_}; }
  // What its kernels see.
  std::span<std::byte> inside() const { return {alias_ + kOffset, size_}; }
  std::span<std::byte> inside(const std::byte* at, size_t bytes) const { return {alias_ + (at - base_), bytes}; }

  // Lasts until end().
  void begin() {
    auto beyond = std::make_shared<BeyondHost>();
    const std::string path = "/proc/self/fd/" + std::to_string(file_.get());
    beyond->dma_buf = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    beyond->offset = kOffset;
    beyond->copy_out = [this](std::byte* to, Bytes from) -> Status {
      ++copies;
      if (!copies_work) return Status(Code::kCuda, "the accelerator is broken");
      std::ranges::copy(inside(from.data(), from.size()), to);
      return {};
    };
    lasts_.emplace(bytes(), std::move(beyond));
  }
  void end() { lasts_.reset(); }

  int copies = 0;
  bool copies_work = true;

 private:
  std::byte* map(int access) const {
    void* const mapped = ::mmap(nullptr, mapped_, access, MAP_SHARED, file_.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    return static_cast<std::byte*>(mapped);
  }

  const size_t size_;
  const size_t mapped_;
  Descriptor file_;
  std::byte* base_ = nullptr;
  std::byte* alias_ = nullptr;
  std::optional<LastingMemory::Hold> lasts_;
};

class Accelerators {
 protected:
  Accelerators() {
    std::ranges::copy(pattern(kMessage, kMaxMessage), source_.inside().begin());
    source_.begin();
    target_.begin();
  }

  static Ticket lend(PipePair& pair, const Accelerator& from) {
    const Ticket ticket = pair.sender->lend(from.bytes(), envelope(kMessage));
    EXPECT_NE(ticket, 0u);
    return ticket;
  }
  // To the target, or where the pipe has it; false: it did not come, or not right.
  bool fetch(PipePair& pair) {
    const Message* got = nullptr;
    wait_until(real_system(), [&] {
      (void)pair.sender->progress();
      got = pair.receiver->receive_beyond(target_.bytes());
      return got != nullptr || !pair.receiver->progress().ok();
    });
    landed_ = got != nullptr && got->data == target_.bytes().data();
    const std::byte* const data = landed_ ? target_.inside().data() : got != nullptr ? got->data : nullptr;
    const bool right = got != nullptr && got->digest == envelope(kMessage).digest() &&
                       std::ranges::equal(std::span(data, got->size), pattern(kMessage, kMaxMessage));
    pair.receiver->release();
    return right;
  }
  static bool ends(PipePair& pair, Ticket ticket) {
    return wait_until(real_system(), [&] { return pair.sender->done(ticket); }) && pair.sender->progress().ok();
  }
  bool passes(PipePair& pair) {
    const Ticket ticket = lend(pair, source_);
    return fetch(pair) && ends(pair, ticket);
  }
  bool is_target_untouched() const {
    return std::ranges::all_of(target_.inside(), [](std::byte each) { return each == std::byte{0}; });
  }

  Accelerator source_, target_;
  bool landed_ = false;  // what was fetched lies in the target
};

class Direct : public Verbs, protected Accelerators {
 protected:
  Direct() { set_two_fake_ports(); }

  // The frame of what was lent is in the receiver's ring, and nobody has looked at it.
  static void arrive(PipePair& pair) {
    ASSERT_TRUE(wait_until(real_system(), [&] { return pair.sender->progress().ok() && pair.sender->flushed(); }));
    ASSERT_TRUE(pair.receiver->progress().ok());
  }
  bool can_lend(PipePair& pair) const { return pair.sender->can_lend(source_.bytes()); }
};

TEST_F(Direct, IsReadFromOneAcceleratorToTheOther) {
  PipePair made = open_pair();
  EXPECT_TRUE(can_lend(made));
  const Ticket ticket = lend(made, source_);
  arrive(made);
  EXPECT_FALSE(made.sender->done(ticket)) << "nobody has looked";
  EXPECT_TRUE(fetch(made));
  EXPECT_TRUE(landed_);
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 1u);
  EXPECT_EQ(fake_dma_buf_bytes(), 2 * kMaxMessage);
  EXPECT_EQ(source_.copies, 0);
}

TEST_F(Direct, ManyGoOneAfterTheOtherBesideOthers) {
  PipePair made = open_pair();
  for (uint64_t round = 0; round < 300; ++round) {
    ASSERT_TRUE(passes(made)) << "round " << round;
    ASSERT_TRUE(landed_);
    ASSERT_TRUE(send(*made.sender, round, kShort));
    ASSERT_TRUE(receive(made, round, kShort));
  }
  EXPECT_EQ(fake_reads(), 300u);
  EXPECT_EQ(source_.copies, 0);
}

TEST_F(Direct, IsOnlyDoneWithWhatCardsReach) {
  PipePair closed = pair();
  EXPECT_FALSE(can_lend(closed)) << "nobody has answered";
  PipePair made = open_pair();
  EXPECT_TRUE(can_lend(made));
  EXPECT_FALSE(made.sender->can_lend(source_.bytes().first(32 << 10))) << "it is shorter than what is lent";
  const std::vector<std::byte> host(kMaxMessage);
  EXPECT_FALSE(made.sender->can_lend(host)) << "it does not last";
  source_.end();
  EXPECT_FALSE(can_lend(made));
}

// A rank of the host's memory beside one of a device's.
TEST_F(Direct, TheHostsMemoryMayBeTheTarget) {
  std::vector<std::byte> host(kMaxMessage);
  PipePair made = open_pair();
  const auto fetched = [&] {
    const Message* got = nullptr;
    wait_until(real_system(), [&] { return (got = made.receiver->receive_into(host)) != nullptr; });
    const bool right = std::ranges::equal(std::span(got->data, got->size), pattern(kMessage, kMaxMessage));
    made.receiver->release();
    return right;
  };
  const Ticket first = lend(made, source_);
  EXPECT_TRUE(fetched());
  EXPECT_TRUE(ends(made, first));
  const LastingMemory::Hold lasts(host);
  const Ticket second = lend(made, source_);
  EXPECT_TRUE(fetched());
  EXPECT_TRUE(ends(made, second));
  EXPECT_TRUE(std::ranges::equal(host, pattern(kMessage, kMaxMessage)));
  EXPECT_EQ(fake_reads(), 2u);
}

TEST_F(Direct, AMessageThatWasCopiedStaysWithThePipe) {
  PipePair made = open_pair();
  const auto host = pattern(kMessage, kMaxMessage);
  const Ticket ticket = made.sender->send_stable(host, envelope(kMessage));
  ASSERT_NE(ticket, 0u);
  EXPECT_TRUE(fetch(made));
  EXPECT_FALSE(landed_);
  EXPECT_TRUE(is_target_untouched());
}

TEST_F(Direct, TakesNothingOfWhatMayBeLocked) {
  const LockLimit limit(2 * kMaxMessage - 1);
  if (!limit.is_set()) GTEST_SKIP() << "ulimit -l is " << limit.highest();
  PipePair made = open_pair();
  EXPECT_TRUE(passes(made));
  EXPECT_TRUE(landed_);
}

TEST_F(Direct, NothingStaysRegisteredWhenTheMemoryEnds) {
  PipePair made = open_pair();
  for (size_t round = 1; round <= 3; ++round) {
    ASSERT_TRUE(passes(made));
    EXPECT_EQ(fake_reads(), round);
    source_.end();
    EXPECT_EQ(fake_dma_buf_bytes(), kMaxMessage) << "the target";
    source_.begin();
  }
}

// ---- What refuses

// Each port tells once in a process, so each test has another name for it.
void name_card(const char* name) {
  FakePort port;
  port.device = name;
  port.gids = {fake_gid("::ffff:10.0.0.1", 0)};
  set_fake_ports({port});
}

TEST_F(Direct, ACardThatRefusesTheSourceSaysSoOnce) {
  name_card("refusing0");
  testing::internal::CaptureStderr();
  for (int pipe = 0; pipe < 2; ++pipe) {
    PipePair made = open_pair();
    fail_fake_call(FakeCall::kRegisterDmaBuf, 0, EOPNOTSUPP);
    EXPECT_FALSE(can_lend(made));
    EXPECT_FALSE(can_lend(made)) << "it is not asked again";
  }
  const std::string said = testing::internal::GetCapturedStderr();
  constexpr const char* kSaid = "does not register memory of an accelerator (operation not supported): it is copied";
  EXPECT_THAT(said, HasSubstr(kSaid));
  EXPECT_EQ(said.find(kSaid), said.rfind(kSaid)) << said;
  EXPECT_EQ(fake_dma_buf_bytes(), 0u);
}

TEST_F(Direct, ACardThatRefusesTheTargetLeavesItToThePipe) {
  PipePair made = open_pair();
  const Ticket ticket = lend(made, source_);
  fail_fake_call(FakeCall::kRegisterDmaBuf, 0, ENOMEM);
  EXPECT_TRUE(fetch(made));
  EXPECT_FALSE(landed_);
  EXPECT_TRUE(is_target_untouched());
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 1u) << "into the pipe's buffer";
}

TEST_F(Direct, ALibraryWithoutDmaBufsRefuses) {
  static const VerbsTable kOlder = [] {
    VerbsTable table = **fake_verbs();
    table.reg_dmabuf_mr = nullptr;
    return table;
  }();
  static const VerbsTransport kTransport([]() -> Result<const VerbsTable*> { return &kOlder; });
  add_transport("older verbs", kTransport);
  PipePair made = make_pair(real_system(), {"verbs", "older verbs", "127.0.0.1:0", 0, {}}, kMaxMessage);
  EXPECT_TRUE(send(*made.sender, 0, kShort));
  EXPECT_TRUE(receive(made, 0, kShort));
  EXPECT_FALSE(can_lend(made));
}

// ---- What breaks

TEST_F(Direct, WhatACardCannotReadComesOverTheSocketToThePipe) {
  PipePair made = open_pair();
  const Ticket ticket = lend(made, source_);
  arrive(made);
  set_fake_port_up(1, false);
  EXPECT_TRUE(fetch(made));
  EXPECT_FALSE(landed_);
  EXPECT_TRUE(is_target_untouched());
  EXPECT_GT(source_.copies, 0);
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 0u);
  EXPECT_TRUE(passes(made)) << "by the other port";
  EXPECT_TRUE(landed_);
  EXPECT_EQ(fake_reads(), 1u);
}

// Of what the device has written by then nobody knows.
TEST_F(Direct, AReadThatBreaksComesOverTheSocketToThePipe) {
  PipePair made = open_pair();
  const Ticket ticket = lend(made, source_);
  arrive(made);
  hold_fake_acknowledgements(true);
  EXPECT_EQ(made.receiver->receive_beyond(target_.bytes()), nullptr);
  EXPECT_EQ(fake_reads(), 1u);
  set_fake_port_up(1, false);
  EXPECT_TRUE(fetch(made));
  hold_fake_acknowledgements(false);
  EXPECT_FALSE(landed_);
  EXPECT_GT(source_.copies, 0);
  EXPECT_TRUE(ends(made, ticket));
}

// More than can be lent at a time: the last ones find no port any more.
TEST_F(Direct, WhatIsStillToBeLentIsCopiedWhenNoPortIsLeft) {
  PipePair made = open_pair();
  std::vector<Ticket> tickets;
  for (size_t i = 0; i < kPipeDepth + 2; ++i) tickets.push_back(lend(made, source_));
  set_fake_port_up(1, false);
  set_fake_port_up(2, false);
  for (const Ticket ticket : tickets) {
    ASSERT_TRUE(fetch(made));
    EXPECT_FALSE(landed_);
    EXPECT_TRUE(ends(made, ticket));
  }
  EXPECT_EQ(fake_reads(), 0u);
  EXPECT_FALSE(can_lend(made));
}

TEST_F(Direct, AnAcceleratorThatBreaksFailsThePipe) {
  PipePair made = open_pair();
  const Ticket ticket = lend(made, source_);
  arrive(made);
  set_fake_port_up(1, false);
  source_.copies_work = false;
  EXPECT_FALSE(fetch(made));
  EXPECT_THAT(made.sender->progress().message(), HasSubstr("the accelerator is broken"));
  EXPECT_TRUE(made.sender->done(ticket));
  EXPECT_FALSE(made.receiver->progress().ok());
}

TEST_F(Direct, MemoryThatEndsWhileItIsLentIsNotTouched) {
  PipePair made = open_pair();
  (void)lend(made, source_);
  arrive(made);
  source_.end();
  EXPECT_FALSE(fetch(made));
  EXPECT_THAT(made.sender->progress().message(), HasSubstr("freed or deregistered while they were sent"));
}

// ---- Callers that take their memory back

TEST_F(Direct, WhatTheSenderTakesBackIsReadNoMore) {
  PipePair made = open_pair();
  const Ticket ticket = lend(made, source_);
  arrive(made);
  made.sender->withdraw();
  EXPECT_TRUE(made.sender->done(ticket));
  EXPECT_FALSE(fetch(made));
  EXPECT_EQ(fake_reads(), 0u);
  EXPECT_TRUE(is_target_untouched());
  EXPECT_THAT(made.receiver->progress().message(), HasSubstr("has taken back the memory"));
}

TEST_F(Direct, NothingIsWrittenWhereTheReceiverTookItsMemoryBack) {
  PipePair made = open_pair();
  (void)lend(made, source_);
  arrive(made);
  hold_fake_acknowledgements(true);  // the read is under way
  EXPECT_EQ(made.receiver->receive_beyond(target_.bytes()), nullptr);
  ASSERT_EQ(fake_connected_pairs(1), 2u);
  made.receiver->withdraw();
  EXPECT_EQ(fake_connected_pairs(1), 1u) << "its queue pair is no more, so no device writes";
  hold_fake_acknowledgements(false);
  EXPECT_THAT(failure(*made.sender).message(), HasSubstr("has taken back the memory"));
}

// ---- A device that is there

// What a device without dma-bufs would do with them: the same bytes, by the key of where the host reaches them.
ibv_mr* register_alias(ibv_pd* domain, uint64_t offset, size_t bytes, uint64_t address, int file, int access) {
  void* const alias = ::mmap(nullptr, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (alias == MAP_FAILED) return nullptr;  // kept until the process ends
  using Register = ibv_mr* (*)(ibv_pd*, void*, size_t, uint64_t, int);
  static const auto kRegister =
      reinterpret_cast<Register>(::dlsym(::dlopen("libibverbs.so.1", RTLD_NOW), "ibv_reg_mr_iova"));
  return kRegister(domain, static_cast<std::byte*>(alias) + offset, bytes, address, access);
}

class DirectDevice : public testing::Test, protected Accelerators {
 protected:
  void SetUp() override {
    if (verbs_transport().presence().empty()) GTEST_SKIP() << "there is no device";
  }
  // Its first message has gone through.
  static PipePair open(const Transport& transport) {
    add_transport("a device", transport);
    PipePair made = make_pair(real_system(), {"verbs", "a device", "127.0.0.1:0", 0, {}}, kMaxMessage);
    std::byte* memory = nullptr;
    wait_until(real_system(), [&] { return (memory = made.sender->reserve(kShort)) != nullptr; });
    made.sender->commit(kShort, envelope(0));
    EXPECT_TRUE(wait_until(real_system(), [&] {
      (void)made.sender->progress();
      return made.receiver->peek() != nullptr;
    }));
    made.receiver->release();
    return made;
  }
};

TEST_F(DirectDevice, RefusesDmaBufsAloud) {
  testing::internal::CaptureStderr();
  PipePair made = open(verbs_transport());
  EXPECT_FALSE(made.sender->can_lend(source_.bytes()));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("does not register memory of an accelerator"));
}

TEST_F(DirectDevice, ReadsFromOneAcceleratorToTheOther) {
  static const VerbsTable kTable = [] {
    VerbsTable table = **libibverbs();
    table.reg_dmabuf_mr = register_alias;
    return table;
  }();
  static const VerbsTransport kTransport([]() -> Result<const VerbsTable*> { return &kTable; });
  PipePair made = open(kTransport);
  for (int round = 0; round < 20; ++round) {
    std::ranges::fill(target_.inside(), std::byte{0});
    ASSERT_TRUE(made.sender->can_lend(source_.bytes()));
    ASSERT_TRUE(passes(made)) << "round " << round;
    ASSERT_TRUE(landed_);
  }
  EXPECT_EQ(source_.copies, 0);
}

}  // namespace
}  // namespace hocket::test
