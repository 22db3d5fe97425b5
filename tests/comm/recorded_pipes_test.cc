// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the flight recorder is told of the memory that a communicator's pipes hold, while it lives and after.
#include <optional>

#include "choose/cut.h"
#include "comm/communicator.h"
#include "observe/flight.h"
#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

class RecordedPipes : public testing::Test {
 protected:
  RecordedPipes() {
    auto memory = real_system().memory.create(FlightRecorder::bytes());
    bytes_ = (*memory)->bytes();
    recorder_ = std::make_unique<FlightRecorder>(std::move(*memory), 1, FlightNames{});
    const Result<std::string> id = make_unique_id(process_service());
    mesh_ = join_all(*id, 1, [](int32_t) -> Service& { return process_service(); })[0];
  }

  std::unique_ptr<Communicator> open(FlightRecorder* recorder) const {
    CommunicatorOptions options;
    options.key = std::string(32, 'k');
    options.flight = recorder;
    return std::make_unique<Communicator>(real_system(), mesh_, options);
  }
  // Of the mesh's budget.
  std::shared_ptr<Budget> budget() const { return {mesh_, &mesh_->budget()}; }
  FlightCopy::Lane lane() const { return read_flight(bytes_, 0)->lanes.at(0); }

  std::span<const std::byte> bytes_;
  std::unique_ptr<FlightRecorder> recorder_;
  MeshPointer mesh_;
};

TEST_F(RecordedPipes, AreThoseOfNow) {
  std::optional<Holding> early(budget());
  early->grow(1000);
  const auto communicator = open(recorder_.get());
  EXPECT_EQ(lane().pipe_budget, default_pipe_memory(1));
  EXPECT_EQ(lane().pipe_bytes, 1000u) << "held before there was a lane";
  Holding(budget()).grow(30);
  Holding more(budget());
  more.grow(234);
  EXPECT_EQ(lane().pipe_bytes, 1234u);
  early.reset();
  EXPECT_EQ(lane().pipe_bytes, 234u);
}

TEST_F(RecordedPipes, OfACommunicatorThatIsGoneAreNotTold) {
  open(recorder_.get()).reset();
  EXPECT_EQ(read_flight(bytes_, 0)->lanes.size(), 0u);
  recorder_->open({"in its place", 0, 1});
  Holding late(budget());
  late.grow(1000);
  EXPECT_EQ(lane().pipe_bytes, 0u);
}

TEST_F(RecordedPipes, NeedNoRecorder) {
  const auto communicator = open(nullptr);
  Holding held(budget());
  held.grow(1000);
  EXPECT_EQ(mesh_->budget().held(), 1000u);
}

}  // namespace
}  // namespace hocket
