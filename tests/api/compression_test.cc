// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// HOCKET_COMPRESSION=auto, the default: ranks that share memory gain nothing from codecs, so their calls send the
// values.
#include <gtest/gtest.h>

#include <vector>

#include "tests/api/codec.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

constexpr size_t kCount = 1 << 18;

// A third: no codec here would leave it as it is.
std::vector<float> thirds() { return std::vector<float>(kCount, 1.0f / 3); }

hocketCodecDescription_t described(const Codec& codec) {
  hocketCodecDescription_t description = {};
  description.size = sizeof description;
  EXPECT_EQ(hocketCodecDescribe(codec, hocketFloat32, &description), hocketSuccess);
  return description;
}

TEST(CompressionByItself, IsLeftOutWhereItDoesNotPay) {
  run_threads(2, [](Member& member) {
    for (const char* specification : {"int4", "topk:ratio=0.01", "sign"}) {
      const Codec codec(specification);
      const std::vector<float> send = thirds();
      std::vector<float> recv(kCount);
      EXPECT_EQ(hocketAllReduceCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketSum, codec, nullptr,
                                          member.comm, nullptr),
                hocketSuccess);
      EXPECT_EQ(recv, std::vector<float>(kCount, 2.0f / 3)) << specification;
      EXPECT_EQ(described(codec).messageBytes, 0u) << specification;
    }
  });
}

// Such calls are repeated without asking their codec again: not for another one, nor when it is gone.
TEST(CompressionByItself, RepeatsNoCallOfADestroyedCodec) {
  run_threads(2, [](Member& member) {
    float value = 1;
    const auto call = [&](hocketCodec_t codec) {
      return hocketAllReduceCompressed(&value, &value, 1, hocketFloat32, hocketSum, codec, nullptr, member.comm,
                                       nullptr);
    };
    const Codec stays("fp16");
    hocketCodec_t goes = nullptr;
    ASSERT_EQ(hocketCodecCreate(&goes, "int8"), hocketSuccess);
    for (const hocketCodec_t codec : {goes, hocketCodec_t(stays), goes}) {
      for (int repeat = 0; repeat < 3; ++repeat) ASSERT_EQ(call(codec), hocketSuccess);
    }
    ASSERT_EQ(hocketCodecDestroy(goes), hocketSuccess);
    expect_error(call(goes), hocketInvalidArgument, member.comm, {"codec: no such codec"});
    EXPECT_EQ(call(stays), hocketSuccess);
    EXPECT_EQ(value, 1024);
  });
}

// Whose cost depends on the values, nobody can weigh: they do as they are told.
TEST(CompressionByItself, IsKeptWhereNobodyKnows) {
  run_threads(2, [](Member& member) {
    const Codec codec("threshold:least=0.5");
    const std::vector<float> send = thirds();
    std::vector<float> recv(kCount, 1);
    EXPECT_EQ(hocketAllReduceCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketSum, codec, nullptr,
                                        member.comm, nullptr),
              hocketSuccess);
    EXPECT_EQ(recv, std::vector<float>(kCount, 0));
    EXPECT_GT(described(codec).messageBytes, 0u);
  });
}

// What an earlier call with a codec lost is sent whole, and nothing is left behind.
TEST(CompressionByItself, SendsWhatWasKept) {
  run_threads(2, [](Member& member) {
    const Codec codec("topk:ratio=0.01");
    for (int step = 0; step < 2; ++step) {
      std::vector<float> values = thirds();
      EXPECT_EQ(hocketAllReduceCompressed(values.data(), values.data(), kCount, hocketFloat32, hocketAvg, codec, "x",
                                          member.comm, nullptr),
                hocketSuccess)
          << hocketGetLastError(member.comm);
      EXPECT_EQ(values, thirds());
    }
    const std::string state = codec.save();
    const Codec resumed("topk:ratio=0.01");
    EXPECT_EQ(hocketCodecLoadState(resumed, state.data(), state.size()), hocketSuccess);
  });
}

}  // namespace
}  // namespace hocket::test
