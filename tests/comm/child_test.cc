// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What becomes of a communicator of which not all ranks have come when the one that it is made of fails, and has lost
// nobody. Ranks are threads of this process.
#include "comm/child.h"

#include "comm/unique_id.h"
#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

using testing::HasSubstr;

using CommunicatorPointer = std::shared_ptr<Communicator>;

constexpr Duration kLooks = std::chrono::milliseconds(300);  // a child looks at its parent often in that time

class ChildTest : public testing::Test {
 protected:
  ChildTest() {
    const Result<std::string> id = make_unique_id(process_service());
    key_ = decode_unique_id(*id)->key;
    for (MeshPointer& mesh : join_all(*id, 3, [](int32_t) -> Service& { return process_service(); }))
      parents_.push_back(std::make_shared<Communicator>(real_system(), std::move(mesh), options()));
  }

  CommunicatorOptions options() const {
    CommunicatorOptions options;
    options.key = key_;
    options.operation_timeout = std::chrono::minutes(1);
    return options;
  }

  // That of ranks 0 and 2, for this one.
  CommunicatorPointer open(size_t rank, EndsWith ends_with) const {
    const Result<CommunicatorPointer> child = open_child(*parents_[rank], {0, 2}, "child", options(), ends_with);
    EXPECT_TRUE(child.ok()) << child.status().message();
    return child.ok() ? *child : nullptr;
  }

  // Rank 1 ends it, and all know.
  void end_parent() const {
    parents_[1]->mesh().fail(Status(Code::kRemote, "enough"));
    for (const CommunicatorPointer& parent : parents_) ASSERT_TRUE(eventually([&] { return parent->mesh().failed(); }));
  }

  std::string key_;
  std::vector<CommunicatorPointer> parents_;
};

// The call after which they come may have failed with the parent on those that are missing.
TEST_F(ChildTest, AfterACallOfTheParentEndsWithIt) {
  const CommunicatorPointer child = open(0, EndsWith::kParent);
  end_parent();
  ASSERT_TRUE(eventually([&] { return child->mesh().failed(); }));
  EXPECT_EQ(child->mesh().status().message(),
            "the communicator of which this one was being made has failed: enough (reported by rank 1)");
  EXPECT_THAT(child->mesh().lost(), testing::IsEmpty());
}

TEST_F(ChildTest, WhoseRanksComeThoughTheParentHasFailedWaitsForThem) {
  const CommunicatorPointer child = open(0, EndsWith::kMembers);
  end_parent();
  std::this_thread::sleep_for(kLooks);
  const CommunicatorPointer late = open(2, EndsWith::kMembers);
  Mesh& mesh = child->mesh();
  EXPECT_TRUE(eventually([&] { return mesh.failed() || mesh.sender(PipeClass::kCollective, 1, 0) != nullptr; }));
  for (const CommunicatorPointer& each : {child, late})
    EXPECT_TRUE(each->mesh().status().ok()) << each->mesh().status().message();
}

}  // namespace
}  // namespace hocket
