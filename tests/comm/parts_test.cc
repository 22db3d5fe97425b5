// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The parts of the bootstrap that need no socket: unique ids, interfaces, the all-gather, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>

#include "base/real_system.h"
#include "comm/call_log.h"
#include "comm/crowd.h"
#include "comm/device_windows.h"
#include "comm/handshake_crypto.h"
#include "comm/mesh_exchange.h"
#include "comm/mesh_wire.h"
#include "comm/service_interfaces.h"
#include "comm/shared_heap.h"
#include "comm/unique_id.h"
#include "transports/page_memory.h"

namespace hocket {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Crypto, GivesTheValuesOfTheStandards) {
  // FIPS 180-2 and RFC 4231 on "", but for the length that begins each part.
  EXPECT_EQ(sha256({}).size(), 32u);
  EXPECT_EQ(static_cast<unsigned char>(sha256({})[0]), 0xe3);
  EXPECT_NE(sha256({"ab", "c"}), sha256({"a", "bc"}));
  EXPECT_EQ(static_cast<unsigned char>(hmac_sha256("key", {})[0]), 0x5d);
  EXPECT_TRUE(equal_secrets("same", "same"));
  EXPECT_FALSE(equal_secrets("same", "Same"));
  EXPECT_FALSE(equal_secrets("same", "sam"));
  EXPECT_FALSE(equal_secrets("", ""));
}

UniqueId sample_id() {
  UniqueId id;
  id.addresses = {"10.0.0.7:4411", "[fd00::1]:4412"};
  id.key = "0123456789abcdef";
  return id;
}

TEST(UniqueIds, SurviveTheirTravel) {
  const auto bytes = encode_unique_id(sample_id());
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->size(), 128u);
  const auto id = decode_unique_id(*bytes);
  ASSERT_TRUE(id.ok());
  EXPECT_THAT(id->addresses, ElementsAre("10.0.0.7:4411", "[fd00::1]:4412"));
  EXPECT_EQ(id->key, "0123456789abcdef");
  EXPECT_FALSE(id->root_may_be_late);
  EXPECT_EQ(id->public_id().find("0123"), std::string::npos);
}

TEST(UniqueIds, WriteOutPorts) {
  UniqueId id = sample_id();
  id.addresses = {"[::1]:65534", "unix:name"};
  id.ports = 3;
  id.root_may_be_late = true;
  const auto decoded = decode_unique_id(*encode_unique_id(id));
  EXPECT_THAT(decoded->addresses, ElementsAre("[::1]:65534", "[::1]:65535", "unix:name"));
  EXPECT_TRUE(decoded->root_may_be_late);
}

TEST(UniqueIds, LeaveOutAddressesThatDoNotFit) {
  UniqueId id = sample_id();
  id.addresses = {std::string(90, 'a'), std::string(60, 'b'), "c:1"};
  EXPECT_THAT(decode_unique_id(*encode_unique_id(id))->addresses, ElementsAre(std::string(90, 'a'), "c:1"));
  id.addresses = {std::string(101, 'a')};
  EXPECT_FALSE(encode_unique_id(id).ok());
}

TEST(UniqueIds, EveryDamagedByteIsNoticed) {
  const std::string bytes = *encode_unique_id(sample_id());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    EXPECT_FALSE(decode_unique_id(damaged).ok()) << "byte " << i;
  }
  EXPECT_FALSE(decode_unique_id(bytes.substr(1)).ok());
  EXPECT_FALSE(decode_unique_id("").ok());
  EXPECT_FALSE(decode_unique_id(std::string(128, '\0')).ok());
}

const std::vector<InterfaceAddress> kInterfaces = {
    {"eth0", "10.0.0.7", false, false}, {"docker0", "172.17.0.1", false, false}, {"ib0", "192.168.1.7", false, false},
    {"eth0", "fd00::7", false, true},   {"eth0", "fe80::7%eth0", false, true},   {"lo", "127.0.0.1", true, false},
    {"lo", "::1", true, true}};

std::vector<std::string> chosen_hosts(std::string_view selection) {
  std::vector<std::string> hosts;
  const auto chosen = choose_interface(kInterfaces, selection);
  if (!chosen.ok()) return hosts;
  for (const InterfaceAddress& address : *chosen) hosts.push_back(address.host);
  return hosts;
}

TEST(Interfaces, AreSelectedByName) {
  EXPECT_THAT(chosen_hosts(""), ElementsAre("10.0.0.7", "fd00::7"));
  EXPECT_THAT(chosen_hosts("ib"), ElementsAre("192.168.1.7"));
  EXPECT_THAT(chosen_hosts("ib,eth"), ElementsAre("10.0.0.7", "fd00::7", "192.168.1.7"));
  EXPECT_THAT(chosen_hosts("eth,docker,lo"), ElementsAre("10.0.0.7", "fd00::7"));
  EXPECT_EQ(interface_count({"eth0", "eth0", "ib0"}), 2u);
  EXPECT_THAT(chosen_hosts("^eth"), ElementsAre("192.168.1.7"));
  EXPECT_THAT(chosen_hosts("=eth0"), ElementsAre("10.0.0.7", "fd00::7"));
  EXPECT_THAT(chosen_hosts("=eth"), IsEmpty());
  EXPECT_THAT(chosen_hosts("lo"), ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(chosen_hosts("docker0"), ElementsAre("172.17.0.1"));
  EXPECT_THAT(chosen_hosts("fd00::7"), ElementsAre("fd00::7"));
  EXPECT_THAT(choose_interface(kInterfaces, "wlan").status().message(), HasSubstr("eth0 (10.0.0.7)"));
  EXPECT_EQ(choose_interface({kInterfaces[5], kInterfaces[1]}, "")->front().host, "172.17.0.1");
  EXPECT_EQ(choose_interface({kInterfaces[5]}, "")->front().host, "127.0.0.1");
}

PeerInfo info_of(int32_t rank) {
  PeerInfo info;
  info.rank = rank;
  info.host_name = "host-" + std::to_string(rank);
  info.addresses = {"10.0.0.1:" + std::to_string(rank)};
  info.transports = "a,b";
  info.max_message = static_cast<uint64_t>(rank) << 33;
  return info;
}

// Delivers messages in an order that differs from rank to rank.
void expect_exchange(int32_t ranks) {
  std::vector<TableExchange> exchanges;
  for (int32_t rank = 0; rank < ranks; ++rank) exchanges.emplace_back(rank, ranks, info_of(rank));
  struct Travelling {
    int32_t from;
    TableExchange::Outgoing message;
  };
  std::deque<Travelling> travelling;
  std::vector<size_t> sent(static_cast<size_t>(ranks));
  const auto take = [&](int32_t from, std::vector<TableExchange::Outgoing> messages) {
    sent[static_cast<size_t>(from)] += messages.size();
    for (auto& message : messages) {
      const auto where = message.to % 3 == 0 ? travelling.begin() : travelling.end();
      travelling.insert(where, {from, std::move(message)});
    }
  };
  for (int32_t rank = ranks - 1; rank >= 0; --rank) take(rank, exchanges[static_cast<size_t>(rank)].start());
  while (!travelling.empty()) {
    const Travelling next = std::move(travelling.front());
    travelling.pop_front();
    Reader reader(next.message.frame);
    ASSERT_EQ(reader.u8(), static_cast<uint8_t>(MessageType::kTable));
    auto more = exchanges[static_cast<size_t>(next.message.to)].receive(next.from, reader);
    ASSERT_TRUE(more.ok()) << more.status().message();
    take(next.message.to, std::move(*more));
  }
  for (int32_t rank = 0; rank < ranks; ++rank) {
    TableExchange& exchange = exchanges[static_cast<size_t>(rank)];
    ASSERT_TRUE(exchange.complete()) << rank << " of " << ranks;
    EXPECT_EQ(sent[static_cast<size_t>(rank)], ranks_ahead(rank, ranks).size());
    const std::vector<PeerInfo> peers = exchange.take_peers();
    for (int32_t peer = 0; peer < ranks; ++peer) {
      const PeerInfo& info = peers[static_cast<size_t>(peer)];
      EXPECT_EQ(info.rank, peer);
      EXPECT_EQ(info.addresses, info_of(peer).addresses);
      EXPECT_EQ(info.max_message, info_of(peer).max_message);
    }
  }
}

TEST(Exchange, TellsEverybodyEverythingInLogarithmicallyManyMessages) {
  for (int32_t ranks = 1; ranks <= 70; ++ranks) expect_exchange(ranks);
  EXPECT_EQ(ranks_ahead(0, 64).size(), 6u);
  EXPECT_EQ(ranks_ahead(0, 65).size(), 7u);
  EXPECT_THAT(ranks_ahead(4, 6), ElementsAre(5, 0, 2));
}

TEST(Exchange, WhatComesBeforeTheStartIsKept) {
  TableExchange zero(0, 2, info_of(0));
  TableExchange one(1, 2, info_of(1));
  const auto from_one = one.start();
  Reader reader(from_one[0].frame);
  (void)reader.u8();
  EXPECT_THAT(*zero.receive(1, reader), IsEmpty());
  EXPECT_FALSE(zero.complete());
  EXPECT_EQ(zero.start().size(), 1u);
  EXPECT_TRUE(zero.complete());
}

TEST(Exchange, RefusesNonsense) {
  TableExchange sender(1, 4, info_of(1));
  const std::string frame = sender.start()[0].frame;
  const auto receive = [](int32_t from, std::string_view bytes) {
    TableExchange two(2, 4, info_of(2));
    Reader reader(bytes.substr(1));
    return two.receive(from, reader).status();
  };
  EXPECT_TRUE(receive(1, frame).ok());
  EXPECT_FALSE(receive(3, frame).ok());
  for (size_t length = 1; length < frame.size(); ++length) EXPECT_FALSE(receive(1, frame.substr(0, length)).ok());
  std::string step = frame;
  for (int value = 1; value < 256; ++value) {
    step[1] = static_cast<char>(value);
    EXPECT_FALSE(receive(1, step).ok()) << value;
  }
}

CallFacts facts_of(Collective collective, uint64_t count) {
  CallFacts facts;
  facts.collective = collective;
  facts.type = DataType::kFloat32;
  facts.count = count;
  facts.peer = 2;
  facts.sending = true;
  return facts;
}

TEST(CallLog, TellsTheCallThatIsAskedForOrElseTheNewest) {
  CallLog log(real_system().clock);
  EXPECT_EQ(log.report(1).text, "");
  log.record(0, 11, facts_of(Collective::kAllGather, 3), "ring");
  log.record_transfer(transfer_key(2, true, 0), 12, facts_of(Collective::kSendRecv, 4), "direct");
  const CallReport known = log.report(1);
  EXPECT_EQ(known.state, CallReport::State::kKnown);
  EXPECT_EQ(known.fingerprint, 11u);
  EXPECT_EQ(known.text, "all_gather(count 3, float32)");
  const CallReport not_yet = log.report(2);
  EXPECT_EQ(not_yet.state, CallReport::State::kNotYet);
  EXPECT_EQ(not_yet.text, "send(count 4, float32, to rank 2)");
  EXPECT_EQ(not_yet.newest, transfer_key(2, true, 0));
  EXPECT_EQ(not_yet.stuck_on, -1);
  log.note_wait(2, Time{}, true);
  EXPECT_EQ(log.report(2).stuck_on, 2);
  log.note_wait(2, Time{});
  EXPECT_EQ(log.report(2).stuck_on, -1);
  EXPECT_EQ(log.report(0).operation, 1u);
}

TEST(CallLog, CallsThatLookAlikeDifferInTheirPlans) {
  CallReport ours = {CallReport::State::kKnown, 3, 1, "barrier()", "dissemination", 3, -1};
  CallReport theirs = {CallReport::State::kKnown, 3, 2, "all_gather(count 3, float32)", "ring", 3, -1};
  EXPECT_EQ(mismatch_text(ours, 4, theirs),
            "barrier() #3: does not match rank 4, which called all_gather(count 3, float32) instead");
  ours.text = theirs.text;
  ours.algorithm = "direct";
  EXPECT_EQ(mismatch_text(ours, 4, theirs),
            "all_gather(count 3, float32) by direct #3: does not match rank 4, which called all_gather(count 3, "
            "float32) by ring instead");
}

TEST(Wire, CutMessagesAreRefused) {
  const CheckIn check_in{1, 4, std::chrono::milliseconds(1500), std::chrono::microseconds(7), info_of(1)};
  const std::string frame = check_in_message(check_in);
  CheckIn read;
  EXPECT_TRUE(read_check_in(frame, &read));
  EXPECT_EQ(read.info.host_name, "host-1");
  EXPECT_EQ(read.patience, check_in.patience);
  EXPECT_EQ(read.timeout, check_in.timeout);
  for (size_t length = 0; length < frame.size(); ++length) EXPECT_FALSE(read_check_in(frame.substr(0, length), &read));
  EXPECT_FALSE(read_check_in(frame + "x", &read));

  const std::string reply = admitted_message({info_of(1), info_of(2)});
  EXPECT_EQ(read_reply(reply)->size(), 2u);
  for (size_t length = 0; length < reply.size(); ++length) EXPECT_FALSE(read_reply(reply.substr(0, length)).ok());
  const Status refusal = read_reply(refused_message(Status(Code::kTimeout, "rank 3 is missing"))).status();
  EXPECT_EQ(refusal.code(), Code::kTimeout);
  EXPECT_EQ(refusal.message(), "rank 3 is missing");
}

TEST(Wire, PipesThatCannotBeAreRefused) {
  const auto accepts = [](const PipeName& name) {
    const std::string frame = offer_message(name, 0);
    Reader reader(std::string_view(frame).substr(1));
    PipeName read;
    uint8_t transport = 0;
    return read_offer(reader, &read, &transport);
  };
  EXPECT_TRUE(accepts({PipeClass::kPointToPoint, 0, 63}));
  EXPECT_FALSE(accepts({static_cast<PipeClass>(2), 0, 0}));
  EXPECT_FALSE(accepts({PipeClass::kCollective, 0, -1}));
  EXPECT_FALSE(accepts({PipeClass::kCollective, 0, 65536}));
}

TEST(Wire, WindowsOutsideTheirMemoryAreRefused) {
  const auto accepts = [](const WindowOffer& offer) {
    const std::string frame = window_message(offer);
    Reader reader(std::string_view(frame).substr(1));
    WindowOffer read;
    return read_window(reader, &read);
  };
  EXPECT_TRUE(accepts({1, 100, 4096, 3996}));
  EXPECT_TRUE(accepts({1, 100, 0, 0}));  // memory that cannot be reached
  EXPECT_FALSE(accepts({1, 101, 4096, 3996}));
  EXPECT_FALSE(accepts({1, 0, 4096, 4097}));
  EXPECT_FALSE(accepts({1, UINT64_MAX, 4096, 1}));
}

cuda::MemoryOffer device_memory(char device) {
  cuda::MemoryOffer offer;
  offer.bytes = 4096;
  offer.allocation = 7;
  offer.device.fill(device);
  return offer;
}

TEST(Wire, WindowsOfDevicesAreReadAsTheyWereWritten) {
  cuda::MemoryOffer device = device_memory('a');
  device.way = cuda::MemoryOffer::Way::kDescriptor;
  device.handle.bytes.fill('h');
  device.reached_count = 1;
  device.reached[0].fill('b');
  const auto passed = [](const WindowOffer& offer, WindowOffer* read) {
    const std::string frame = window_message(offer);
    Reader reader(std::string_view(frame).substr(1));
    return read_window(reader, read);
  };
  WindowOffer read;
  ASSERT_TRUE(passed({1, 100, 4096, 3996, device}, &read));
  ASSERT_TRUE(read.device);
  EXPECT_EQ(read.handles(), 1U);
  EXPECT_EQ(read.device->allocation, 7U);
  EXPECT_EQ(read.device->handle.bytes, device.handle.bytes);
  EXPECT_TRUE(read.device->reaches(device.reached[0]) && read.device->reaches(device.device));
  EXPECT_FALSE(read.device->reaches(cuda::Uuid{}));
  EXPECT_FALSE(passed({1, 100, 4095, 3990, device}, &read)) << "not the memory that was offered";
  device.reached_count = cuda::MemoryOffer::kMostReached + 1;
  EXPECT_FALSE(device.makes_sense());
}

struct Memory {
  std::array<std::byte, 256> bytes{};
  std::byte* at(size_t offset) { return bytes.data() + offset; }
  WindowPart part(size_t size) { return {bytes.data(), size, nullptr}; }
};

class NoSegment final : public Segment {
 public:
  std::span<std::byte> bytes() const override { return {}; }
  Handle handle() const override { return kNoHandle; }
};

TEST(WindowTable, IsCompleteWhenAllHaveTold) {
  Memory mine, first, third;
  WindowTable table(1, 3);
  EXPECT_TRUE(table.put(0, 1, first.part(256)));  // a peer may be ahead of us
  EXPECT_EQ(table.find(mine.at(0), 8).spot.window, 0U);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.open(mine.bytes, std::make_shared<NoSegment>()), 1U);
  EXPECT_FALSE(table.empty());
  EXPECT_FALSE(table.find(mine.at(64), 8).complete);
  EXPECT_THAT(table.missing(1), testing::ElementsAre(2));
  EXPECT_TRUE(table.put(2, 1, third.part(128)));
  const WindowTable::Found found = table.find(mine.at(64), 64);
  EXPECT_TRUE(found.complete && found.reachable);
  EXPECT_EQ(found.spot, (WindowSpot{1, 64}));
  EXPECT_FALSE(table.find(mine.at(64), 65).reachable);  // rank 2 has less
  EXPECT_EQ(table.find(mine.at(64), 193).spot.window, 0U);
  const std::vector<std::byte*> begins(table.begins(1).begin(), table.begins(1).end());
  EXPECT_THAT(begins, testing::ElementsAre(first.at(0), mine.at(0), third.at(0)));
  EXPECT_TRUE(table.close(1));
  EXPECT_FALSE(table.close(1));
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(table.put(0, 1, first.part(256)));  // late, and of no interest
}

TEST(WindowTable, OneUnreachablePartMakesItNone) {
  Memory mine, other;
  WindowTable plain(0, 2);
  plain.open(mine.bytes, nullptr);
  EXPECT_TRUE(plain.put(1, 1, other.part(256)));
  EXPECT_TRUE(plain.find(mine.at(0), 8).complete);
  EXPECT_FALSE(plain.find(mine.at(0), 8).reachable);
  WindowTable alone(0, 2);
  alone.give_up(alone.open(mine.bytes, std::make_shared<NoSegment>()));
  EXPECT_TRUE(alone.find(mine.at(0), 8).complete);
  EXPECT_FALSE(alone.find(mine.at(0), 8).reachable);
}

// Pages of an allocation that begins where one of them does.
std::unique_ptr<Segment> pages(size_t count) { return std::move(*real_memory().create(count * page_bytes())); }

TEST(WindowTable, KnowsWhoseBytesHavePagesToThemselves) {
  const size_t page = page_bytes();
  const std::shared_ptr<const Segment> mine = pages(4);
  const auto check = [&](size_t from, size_t bytes, size_t their_begin, size_t their_bytes) {
    const std::shared_ptr<const Segment> theirs = pages(4);
    WindowTable table(0, 2);
    table.open(mine->bytes().first(4 * page - 8), mine);
    EXPECT_TRUE(table.put(1, 1, {theirs->bytes().data() + their_begin, their_bytes, theirs}));
    return table.find(mine->bytes().data() + from, bytes).spot.whole_pages;
  };
  EXPECT_TRUE(check(0, page, 0, 4 * page));
  EXPECT_TRUE(check(page, 2 * page, 0, 4 * page));
  EXPECT_FALSE(check(8, page - 8, 0, 4 * page)) << "it begins on a page of others";
  EXPECT_FALSE(check(0, page - 8, 0, 4 * page)) << "it ends on one";
  EXPECT_FALSE(check(0, page, 8, 2 * page)) << "it does at the peer";
  EXPECT_FALSE(check(0, 4 * page - 8, 0, 4 * page - 8)) << "more is on the last page of what was allocated";
}

TEST(WindowTable, TheEndOfAnAllocationIsNotThatOfALongerOne) {
  const size_t odd = 2 * page_bytes() - 8;
  const std::shared_ptr<const Segment> mine = std::move(*real_memory().create(odd));
  const std::shared_ptr<const Segment> theirs = std::move(*real_memory().create(odd + 4));
  WindowTable table(0, 2);
  table.open(mine->bytes(), mine);
  EXPECT_TRUE(table.put(1, 1, {theirs->bytes().data(), odd + 4, theirs}));
  EXPECT_FALSE(table.find(mine->bytes().data(), odd).spot.whole_pages);
}

TEST(WindowTable, TheEndOfAnAllocationIsThatOfItsPage) {
  const size_t odd = 2 * page_bytes() - 8;
  const std::shared_ptr<const Segment> mine = std::move(*real_memory().create(odd));
  const std::shared_ptr<const Segment> theirs = std::move(*real_memory().create(odd));
  WindowTable table(0, 2);
  table.open(mine->bytes(), mine);
  EXPECT_TRUE(table.put(1, 1, {theirs->bytes().data(), odd, theirs}));
  EXPECT_TRUE(table.find(mine->bytes().data(), odd).spot.whole_pages);
  EXPECT_TRUE(table.holds(mine->bytes().last(1)));
  table.give_up(1);
  EXPECT_FALSE(table.holds(mine->bytes().last(1))) << "nobody was told of it";
  EXPECT_FALSE(table.holds(theirs->bytes()));
}

class Renewals final : public LastingMemory::User {
 public:
  Renewals() { LastingMemory::of_process().join(this); }
  ~Renewals() override { LastingMemory::of_process().leave(this); }
  void forget(LastingMemory::Bytes) override {}
  void renew(LastingMemory::Bytes range) override { begins.push_back(range.data()); }
  std::vector<const std::byte*> begins;
};

TEST(SharedHeap, PagesThatAreTakenBackAreOursAlone) {
  SharedHeap heap(real_memory());
  Renewals renewals;
  const size_t page = page_bytes();
  auto* start = static_cast<std::byte*>(*heap.allocate(3 * page));
  const std::shared_ptr<const Segment> segment = heap.find(start, 1).segment;
  const std::unique_ptr<Segment> theirs = std::move(*real_memory().map(::dup(segment->handle()), 3 * page));
  std::fill_n(start, 3 * page, std::byte{1});
  const std::span<std::byte> middle(start + page, page);
  heap.close(middle);
  EXPECT_TRUE(heap.take_back(middle).ok());
  std::ranges::fill(theirs->bytes(), std::byte{2});
  EXPECT_EQ(start[page - 1], std::byte{2}) << "what was not taken back is still shared";
  EXPECT_TRUE(std::ranges::all_of(middle, [](std::byte each) { return each == std::byte{1}; }));
  EXPECT_EQ(start[2 * page], std::byte{2});
  std::ranges::fill(middle, std::byte{3});
  EXPECT_EQ(theirs->bytes()[page], std::byte{2});
  EXPECT_THAT(renewals.begins, ElementsAre(start)) << "what devices know of it is of the pages before";
  EXPECT_EQ(heap.find(start, 1).segment, nullptr) << "others would map what is not ours any more";
  EXPECT_TRUE(heap.take_back(middle).ok());
  EXPECT_TRUE(heap.free(start).ok());
  EXPECT_TRUE(heap.take_back(middle).ok()) << "of memory that was freed";
}

// The same on all ranks: each knows what every device reaches.
TEST(WindowTable, IsForKernelsWhereAllDevicesReachEachOther) {
  Memory mine;
  const auto part = [](char device, bool reaches_other) {
    cuda::MemoryOffer offer = device_memory(device);
    if (reaches_other) offer.reached[offer.reached_count++].fill(device == 'a' ? 'b' : 'a');
    return std::make_shared<DevicePart>(offer);
  };
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      WindowTable table(0, 2);
      table.open(mine.bytes, nullptr, WindowPurpose::kData, part('a', ours));
      EXPECT_TRUE(table.put(1, 1, {nullptr, 256, {}, part('b', theirs)}));
      const WindowTable::Found found = table.find(mine.at(0), 8);
      EXPECT_TRUE(found.complete && found.on_device);
      EXPECT_EQ(found.reachable, ours && theirs);
      EXPECT_EQ(table.reach(1, 1).state, WindowTable::Reach::State::kDevice);
    }
  }
  WindowTable mixed(0, 2);
  Memory other;
  mixed.open(mine.bytes, nullptr, WindowPurpose::kData, part('a', true));
  EXPECT_TRUE(mixed.put(1, 1, other.part(256)));
  EXPECT_FALSE(mixed.find(mine.at(0), 8).reachable);
}

TEST(WindowTable, RefusesWhatPeersCannotTell) {
  Memory memory;
  WindowTable table(0, 2);
  EXPECT_FALSE(table.put(1, 0, memory.part(8)));
  EXPECT_FALSE(table.put(0, 1, memory.part(8)));
  EXPECT_FALSE(table.put(1, WindowTable::kMaxAhead + 1, memory.part(8)));
  EXPECT_TRUE(table.put(1, 1, memory.part(8)));
  EXPECT_FALSE(table.put(1, 1, memory.part(8)));
}

// Bits in hexadecimal, the lowest first.
TEST(Crowd, CoresAreCountedOnce) {
  EXPECT_EQ(count_cores({"3", "3", "3"}), 2);
  EXPECT_EQ(count_cores({"1", "2", "4"}), 3);  // each bound to its own
  EXPECT_EQ(count_cores({"0001", "f"}), 5);
  EXPECT_EQ(count_cores({"", "zz"}), 1);
  EXPECT_EQ(count_cores({}), 1);
}

TEST(Crowd, RanksThatShareCoresHaveTheirPartOfWhatACoreHas) {
  EXPECT_EQ((Crowd{.ranks = 2, .cores = 2}).share(16 << 20), 16u << 20);
  EXPECT_EQ((Crowd{.ranks = 2, .cores = 64}).share(16 << 20), 16u << 20);
  EXPECT_EQ((Crowd{.ranks = 4, .cores = 2}).share(16 << 20), 8u << 20);
  EXPECT_EQ((Crowd{.ranks = 3, .cores = 2}).share(12 << 20), 8u << 20);
}

TEST(Crowd, AProcessKnowsWhereItMayRun) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(count_cores({real_system().threads.host().processors}), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(count_cores({real_system().threads.host().processors}), 1);
  EXPECT_EQ(real_system().threads.host().processors.size(), static_cast<size_t>(first / 4 + 1));
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace hocket
