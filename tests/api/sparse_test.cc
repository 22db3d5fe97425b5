// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sparse collectives through the C API: COO and CSR in, sparse and dense out, equal to the dense sum, and wrong tensors
// told by name.
#include <gtest/gtest.h>

#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

constexpr uint64_t kRows = 300, kColumns = 77, kCount = kRows * kColumns;

// A tensor with its memory.
struct Tensor {
  std::vector<uint64_t> offsets, indices;
  std::vector<float> values;
  hocketSparse_t view(hocketSparseLayout_t layout) {
    hocketSparse_t sparse{};
    sparse.size = sizeof sparse;
    sparse.layout = layout;
    sparse.rows = kRows;
    sparse.columns = kColumns;
    sparse.nonzeros = values.size();
    sparse.offsets = layout == hocketSparseCsr ? offsets.data() : nullptr;
    sparse.indices = indices.data();
    sparse.values = values.data();
    return sparse;
  }
};

// Every `stride`th element from the rank on.
Tensor of_rank(int rank, uint64_t stride, hocketSparseLayout_t layout) {
  Tensor tensor;
  tensor.offsets.assign(kRows + 1, 0);
  for (uint64_t place = static_cast<uint64_t>(rank); place < kCount; place += stride) {
    tensor.indices.push_back(layout == hocketSparseCsr ? place % kColumns : place);
    tensor.values.push_back(static_cast<float>(rank + 1));
    for (uint64_t row = place / kColumns; row < kRows; ++row) ++tensor.offsets[row + 1];
  }
  return tensor;
}

Tensor with_room(size_t room) {
  return {std::vector<uint64_t>(kRows + 1), std::vector<uint64_t>(room), std::vector<float>(room)};
}

std::vector<float> dense(const hocketSparse_t& sparse) {
  std::vector<float> values(kCount);
  uint64_t row = 0;
  for (uint64_t i = 0; i < sparse.nonzeros; ++i) {
    while (sparse.offsets != nullptr && i >= sparse.offsets[row + 1]) ++row;
    values[row * kColumns + sparse.indices[i]] += static_cast<const float*>(sparse.values)[i];
  }
  return values;
}

std::vector<float> wanted(int ranks, uint64_t stride) {
  std::vector<float> sum(kCount);
  for (int rank = 0; rank < ranks; ++rank) {
    for (uint64_t place = static_cast<uint64_t>(rank); place < kCount; place += stride) {
      sum[place] += static_cast<float>(rank + 1);
    }
  }
  return sum;
}

class Sparse : public testing::TestWithParam<hocketSparseLayout_t> {};

TEST_P(Sparse, SumsAreTheDenseSums) {
  for (uint64_t stride : {1u, 2u, 10u, 5000u}) {
    run_threads(3, [&](Member& member) {
      Tensor mine = of_rank(member.rank, stride, GetParam()), room = with_room(kCount);
      const hocketSparse_t send = mine.view(GetParam());
      hocketSparse_t recv = room.view(GetParam());
      ASSERT_EQ(hocketAllReduceSparse(&send, &recv, hocketFloat32, hocketSum, member.comm), hocketSuccess)
          << hocketGetLastError(member.comm);
      EXPECT_EQ(wanted(3, stride), dense(recv));
      std::vector<float> values(kCount, -1.0f);
      ASSERT_EQ(hocketAllReduceSparseToDense(&send, values.data(), hocketFloat32, hocketAvg, member.comm),
                hocketSuccess)
          << hocketGetLastError(member.comm);
      for (float& value : values) value *= 3;
      EXPECT_EQ(wanted(3, stride), values);
    });
  }
}

TEST_P(Sparse, GathersGiveEachRanksTensor) {
  run_threads(3, [&](Member& member) {
    Tensor mine = of_rank(member.rank, 9, GetParam());
    std::vector<Tensor> rooms(3, with_room(kCount));
    const hocketSparse_t send = mine.view(GetParam());
    std::vector<hocketSparse_t> recv;
    for (Tensor& room : rooms) recv.push_back(room.view(GetParam()));
    ASSERT_EQ(hocketAllGatherSparse(&send, recv.data(), hocketFloat32, member.comm), hocketSuccess)
        << hocketGetLastError(member.comm);
    for (int rank = 0; rank < 3; ++rank) {
      Tensor theirs = of_rank(rank, 9, GetParam());
      EXPECT_EQ(dense(theirs.view(GetParam())), dense(recv[static_cast<size_t>(rank)]));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Sparse, testing::Values(hocketSparseCoo, hocketSparseCsr));

TEST(SparseErrors, AreNamed) {
  run_threads(2, [&](Member& member) {
    Tensor mine = of_rank(member.rank, 9, hocketSparseCoo), room = with_room(kCount), narrow = with_room(3);
    hocketSparse_t send = mine.view(hocketSparseCoo), recv = room.view(hocketSparseCoo);
    const auto call = [&](hocketDataType_t type = hocketFloat32, hocketRedOp_t op = hocketSum) {
      return hocketAllReduceSparse(&send, &recv, type, op, member.comm);
    };
    expect_error(call(hocketInt32), hocketInvalidArgument, member.comm, {"datatype", "int32"});
    for (const int type : {12, 19, 99, -1}) {
      expect_error(call(static_cast<hocketDataType_t>(type)), hocketInvalidArgument, member.comm, {"datatype"});
    }
    expect_error(call(hocketFloat32, hocketMax), hocketInvalidArgument, member.comm, {"op: ", "sum and avg"});
    recv.columns = 5;
    expect_error(call(), hocketInvalidArgument, member.comm, {"recv: 300 rows of 5 columns, but send has 300 of 77"});
    recv = narrow.view(hocketSparseCoo);
    expect_error(call(), hocketInvalidArgument, member.comm, {"recv.nonzeros: there is room for 3, the result has"});
    EXPECT_GT(recv.nonzeros, 3u);
    recv = room.view(hocketSparseCoo);
    std::swap(mine.indices[3], mine.indices[4]);
    expect_error(call(), hocketInvalidArgument, member.comm, {"send.indices[4]", "does not rise above"});
    std::swap(mine.indices[3], mine.indices[4]);
    mine.indices.back() = kCount;
    expect_error(call(), hocketInvalidArgument, member.comm, {"send.indices[", "is not below 23100"});
    send.layout = hocketSparseCsr;
    expect_error(call(), hocketInvalidArgument, member.comm, {"send.offsets: NULL, where CSR has rows"});
    Tensor rows = of_rank(member.rank, 9, hocketSparseCsr);
    send = rows.view(hocketSparseCsr);
    rows.offsets[2] = 1 << 20;
    expect_error(call(), hocketInvalidArgument, member.comm, {"send.offsets[2]: 1048576 is not from"});
    EXPECT_EQ(hocketAllReduceSparse(nullptr, &recv, hocketFloat32, hocketSum, member.comm), hocketInvalidArgument);
    Tensor good = of_rank(member.rank, 9, hocketSparseCoo);
    send = good.view(hocketSparseCoo);
    ASSERT_EQ(call(), hocketSuccess) << hocketGetLastError(member.comm);
    send.rows = recv.rows = kRows + static_cast<uint64_t>(member.rank);
    expect_error(call(), hocketInvalidUsage, member.comm, {"sparse tensors differ: from 23100 to 23177 elements"});
  });
}

// The values of one rank's call and of another's would mean something else.
TEST(SparseErrors, RanksThatAskForSomethingElseAreToldSo) {
  const auto differ = [](const std::vector<std::string>& words, const auto& call) {
    run_threads(2, [&](Member& member) {
      Tensor mine = of_rank(member.rank, 9, hocketSparseCoo), room = with_room(kCount);
      hocketSparse_t send = mine.view(hocketSparseCoo), recv = room.view(hocketSparseCoo);
      expect_error(call(member, send, recv), hocketInvalidUsage, member.comm, words);
    });
  };
  differ({"all_reduce"}, [](Member& member, hocketSparse_t& send, hocketSparse_t& recv) {
    return hocketAllReduceSparse(&send, &recv, hocketFloat32, member.rank == 0 ? hocketSum : hocketAvg, member.comm);
  });
  differ({"all_reduce"}, [](Member& member, hocketSparse_t& send, hocketSparse_t& recv) {
    std::vector<float> dense(kCount);
    return member.rank == 0 ? hocketAllReduceSparse(&send, &recv, hocketFloat32, hocketSum, member.comm)
                            : hocketAllReduceSparseToDense(&send, dense.data(), hocketFloat32, hocketSum, member.comm);
  });
  differ({"in 77 to 300 columns"}, [](Member& member, hocketSparse_t& send, hocketSparse_t& recv) {
    if (member.rank == 0) {
      std::swap(send.rows, send.columns);
      std::swap(recv.rows, recv.columns);
    }
    return hocketAllReduceSparse(&send, &recv, hocketFloat32, hocketSum, member.comm);
  });
}

}  // namespace
}  // namespace hocket::test
