// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/choosing.h"
#include "comm/crowd.h"

#include <algorithm>
#include <fstream>

#include "choose/cut.h"
#include "mesh_fixture.h"
#include "topology/machine.h"
#include "transports/tcp/wire.h"

namespace hocket {
namespace {

Tuning with_machine(const std::string& name) {
  Tuning tuning = built_in_tuning();
  tuning.machine = name;
  tuning.best = {{Collective::kAllReduce, 3, Medium::kMemory, 4096, "chain"}};
  return tuning;
}

class TuningFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_tuning_file(path_);
  }

  const std::string path_ = testing::TempDir() + "hocket-tuning-test";
};

TEST_F(TuningFile, OfThisMachineIsRead) {
  const std::string text = to_text(with_machine(fingerprint(machine())));
  EXPECT_EQ(read(text), text);
}

TEST_F(TuningFile, OfAnotherMachineIsIgnored) { EXPECT_EQ(read(to_text(with_machine("abacus"))), ""); }

TEST_F(TuningFile, ThatIsDamagedOrMissingIsIgnored) {
  const std::string text = to_text(with_machine(fingerprint(machine())));
  EXPECT_EQ(read(text.substr(0, text.size() / 2)), "");
  EXPECT_EQ(read(text + std::string(kMaxTuningText, 'x')), "");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read_tuning_file(path_ + "-missing"), kUncalibrated);
  EXPECT_EQ(read_tuning_file(testing::TempDir()), "");
}

// Each process has a file of its own; rank 0's counts.
TEST(Choosing, AllRanksChooseByTheTuningOfRankZero) {
  std::vector<std::unique_ptr<Service>> services;
  for (int rank = 0; rank < 3; ++rank) {
    ServiceOptions options = quick_options();
    Tuning file = with_machine("machine-" + std::to_string(rank));
    file.cores = 1000;
    options.tuning = to_text(file);
    services.push_back(std::make_unique<Service>(real_system(), options));
  }
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 3, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  Tuning expected = with_machine("machine-0");
  expected.cores = count_cores({meshes[0]->peer(0).cpus});  // not those of whom measured
  for (const MeshPointer& mesh : meshes) EXPECT_EQ(tuning(*mesh), expected);
  leave_all(meshes);
}

TEST(Choosing, WithoutAFileWhatIsBuiltInCounts) {
  const auto services = make_services(2);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  for (const MeshPointer& mesh : meshes) {
    Tuning expected = built_in_tuning();
    expected.cores = count_cores({mesh->peer(0).cpus});
    EXPECT_EQ(tuning(*mesh), expected);
  }
  leave_all(meshes);
}

TEST(Choosing, RanksOfAHostWithInterfacesOfTheirOwnHaveRails) {
  const std::vector<std::vector<Rank>> hosts = {{0, 1}, {2, 3}};
  EXPECT_EQ(rails_of({"ib0", "ib1", "ib1", "ib0"}, hosts), (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(rails_of({"ib0", "ib1", "", "ib0"}, hosts), (std::vector<int32_t>{1, 2, 0, 1}));
  EXPECT_TRUE(rails_of({"ib0", "ib0", "ib1", "ib1"}, hosts).empty());  // one for all of a host
}

// Ranks with different host ids are on different hosts.
TEST(Choosing, AllRanksSeeTheSamePlacement) {
  std::vector<std::unique_ptr<Service>> services;
  for (int rank = 0; rank < 3; ++rank) {
    ServiceOptions options = quick_options();
    options.host_id = rank < 2 ? "a" : "b";
    services.push_back(std::make_unique<Service>(real_system(), options));
  }
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 3, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  for (const MeshPointer& mesh : meshes) {
    EXPECT_EQ(placement(*mesh).ranks, 3);
    EXPECT_EQ(placement(*mesh).per_host, 2);
    EXPECT_TRUE(placement(*mesh).memory);
    EXPECT_EQ(placement(*mesh).hosts, (std::vector<std::vector<Rank>>{{0, 1}, {2}}));
    EXPECT_TRUE(placement(*mesh).rails.empty());
  }
  leave_all(meshes);
}

TEST(Choosing, RanksThatMayNotShareMemoryAreSeenSo) {
  ServiceOptions options = quick_options();
  options.transports = transports().back()->name();
  const auto services = make_services(2, options);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  for (const MeshPointer& mesh : meshes) EXPECT_FALSE(placement(*mesh).memory);
  leave_all(meshes);
}

PeerInfo on_fabric(const std::string& host, const std::string& fabric) {
  PeerInfo peer;
  peer.host_identity = peer.kernel = host;
  peer.addresses = {"10.0.0.1:1"};
  peer.transports = "shm,verbs,tcp";
  peer.presence = "verbs:" + fabric;
  return peer;
}

size_t longest_uncut_of(const std::vector<PeerInfo>& peers) {
  const auto peer = [&](Rank rank) -> const PeerInfo& { return peers[static_cast<size_t>(rank)]; };
  return longest_uncut(static_cast<Rank>(peers.size()), peer, 1 << 20);
}

// Within a host it is memory that carries them.
TEST(Choosing, CallsAreCutWhereEveryTransportBetweenHostsCuts) {
  const auto verbs = std::ranges::find(transports(), "verbs", &Transport::name);
  if (verbs == transports().end()) GTEST_SKIP() << "this build has no verbs";
  const size_t uncut = (*verbs)->uncut_message();
  EXPECT_EQ(longest_uncut_of({on_fabric("a", "x"), on_fabric("b", "x")}), uncut);
  EXPECT_EQ(longest_uncut_of({on_fabric("a", "x"), on_fabric("a", "x"), on_fabric("b", "x")}), uncut);
  EXPECT_GT(longest_uncut_of({on_fabric("a", "x"), on_fabric("b", "y")}), uncut);
  EXPECT_GT(longest_uncut_of({on_fabric("a", "x"), on_fabric("b", "x"), on_fabric("c", "y")}), uncut);
}

// Of 65,483 bytes; one more for a few bytes costs what many bytes do.
TEST(Choosing, MessagesOnSocketsFillWholePacketsOfTheLoopback) {
  constexpr size_t kPacket = 65'483;
  constexpr size_t kFront = kWireHeaderBytes + kWireLine - 1;  // with the most padding
  for (const auto& [medium, packets] : {std::pair{Medium::kSocket, size_t{4}}, {Medium::kNetwork, size_t{2}}}) {
    const size_t bytes = longest_slice(medium) + kFront;
    EXPECT_LE(bytes, packets * kPacket);
    EXPECT_GT(bytes, packets * kPacket - kWireLine - kFront);
  }
  EXPECT_EQ(longest_slice(std::nullopt), longest_slice(Medium::kNetwork)) << "some in memory, some not";
}

TEST(Choosing, MessagesAreAsLongAsTheirMediumLikesAndPipesAllow) {
  ServiceOptions options = quick_options();
  for (const auto& [medium, pipes] : {std::pair{Medium::kMemory, size_t{1} << 20},
                                      {Medium::kSocket, size_t{1} << 20},
                                      {Medium::kMemory, size_t{1} << 16},
                                      {Medium::kSocket, size_t{1} << 16}}) {
    options.max_message = pipes;
    options.transports = medium == Medium::kSocket ? transports().back()->name() : "";
    const auto services = make_services(2, options);
    const auto id = make_unique_id(*services[0]);
    auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
    for (const MeshPointer& mesh : meshes)
      EXPECT_EQ(longest_message(*mesh, placement(*mesh)), std::min(pipes, longest_slice(medium)));
    leave_all(meshes);
  }
}

}  // namespace
}  // namespace hocket
