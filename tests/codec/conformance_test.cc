// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What every codec promises (codec/codec.h), asked of every codec, with its options, for every type that it takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/codec.h"
#include "tests/codec/samples.h"
#include "tests/codec/specifications.h"

namespace hocket {
namespace {

constexpr size_t kMargin = 64;
constexpr auto kUntouched = std::byte{0xa5};
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};

class Conformance : public testing::TestWithParam<std::string> {
 protected:
  using Bytes = std::vector<std::byte>;

  void SetUp() override {
    auto made = make_codec(GetParam());
    ASSERT_TRUE(made.ok()) << made.status().message();
    codec_ = std::move(*made);
  }

  Bytes encode(DataType type, const Bytes& values, uint64_t draw = 1) const {
    const size_t count = values.size() / element_bytes(type);
    const size_t most = codec_->max_encoded_bytes(count, type);
    Bytes out(most + kMargin, kUntouched);
    const size_t size = codec_->encode({type, values.data(), count}, draw, {out.data(), most});
    EXPECT_LE(size, most);
    EXPECT_EQ(Bytes(kMargin, kUntouched), Bytes(out.end() - kMargin, out.end())) << "wrote beyond its room";
    out.resize(size);
    return out;
  }

  Status decode(const Bytes& message, std::optional<ReduceOp> op, DataType type, Bytes& values) const {
    const Bytes exact(message.begin(), message.end());  // room behind it would hide a read beyond it
    return codec_->decode_reduce(exact, op, {type, values.data(), values.size() / element_bytes(type)});
  }

  Bytes round_trip(DataType type, const Bytes& values, uint64_t draw = 1) const {
    Bytes decoded(values.size(), kUntouched);
    const Status status = decode(encode(type, values, draw), std::nullopt, type, decoded);
    EXPECT_TRUE(status.ok()) << status.message();
    return decoded;
  }

  // Calls test(type, sample, its bytes) for all samples and types that the codec takes.
  template <typename Test>
  void for_all(const std::vector<samples::Sample>& list, Test test) const {
    for (DataType type : kTypes) {
      if (!codec_->supports(type)) continue;
      for (const samples::Sample& sample : list) {
        SCOPED_TRACE(std::string(name(type)) + ", " + sample.name);
        test(type, samples::as(type, sample.values));
        if (HasFatalFailure()) return;
      }
    }
  }

  std::unique_ptr<const Codec> codec_;
};

float largest_magnitude(const std::vector<float>& values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

TEST_P(Conformance, StaysWithinItsError) {
  for (DataType type : kTypes) {
    if (!codec_->supports(type)) continue;
    const CodecDescription description = codec_->describe(type);
    const auto most = static_cast<float>(description.range);
    for (const samples::Sample& sample : samples::finite(most)) {
      const std::vector<std::byte> before = samples::as(type, sample.values);
      const std::vector<float> x = samples::from(type, before), y = samples::from(type, round_trip(type, before));
      const double limit =
          description.relative_error * static_cast<double>(largest_magnitude(x)) + description.absolute_error;
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_LE(std::fabs(x[i]), most) << "a sample beyond the range";
        ASSERT_LE(std::fabs(static_cast<double>(y[i]) - static_cast<double>(x[i])), limit)
            << name(type) << ", " << sample.name << ", element " << i << ": " << x[i] << " became " << y[i];
      }
    }
  }
}

TEST_P(Conformance, LosslessCodecsKeepEveryBit) {
  for_all(samples::finite(60000), [&](DataType type, const std::vector<std::byte>& values) {
    if (codec_->describe(type).lossless) {
      ASSERT_EQ(values, round_trip(type, values));
    }
  });
}

TEST_P(Conformance, IdempotentCodecsChangeNothingTwice) {
  for_all(samples::finite(30000), [&](DataType type, const std::vector<std::byte>& values) {
    if (!codec_->describe(type).idempotent) return;
    const std::vector<std::byte> once = round_trip(type, values);
    ASSERT_EQ(samples::from(type, once), samples::from(type, round_trip(type, once)));
  });
}

TEST_P(Conformance, AddsWhatItDecodes) {
  for_all(samples::finite(1000), [&](DataType type, const std::vector<std::byte>& values) {
    const std::vector<float> others(values.size() / element_bytes(type), 0.75f);
    std::vector<std::byte> sum = samples::as(type, others);
    ASSERT_TRUE(decode(encode(type, values), ReduceOp::kSum, type, sum).ok());
    // In float32 a sum of decoded values is exact to the bit; a narrower type is rounded once, from the decoded
    // float32.
    const std::vector<float> decoded = samples::from(type, round_trip(type, values)), got = samples::from(type, sum);
    for (size_t i = 0; i < got.size(); ++i) {
      const float wanted = 0.75f + decoded[i];
      if (type == DataType::kFloat32) {
        ASSERT_EQ(wanted, got[i]) << i;
      }
      const double rounding = type == DataType::kFloat16 ? 0x1p-10 : 0x1p-7;
      ASSERT_NEAR(wanted, got[i], rounding * (1 + std::fabs(static_cast<double>(wanted)))) << i;
    }
  });
}

// Where it promises so, whatever is there before.
TEST_P(Conformance, AddsAsItStores) {
  for_all(samples::finite(1000), [&](DataType type, const std::vector<std::byte>& values) {
    if (!adds_as_stored(*codec_, type)) return;
    const std::vector<std::byte> message = encode(type, values), stored = round_trip(type, values);
    for (const float before : {-0.0F, 0.3F, 1e-40F}) {
      std::vector<std::byte> added = samples::as(type, std::vector<float>(values.size() / element_bytes(type), before));
      std::vector<float> sums = samples::from(type, added);
      ASSERT_TRUE(decode(message, ReduceOp::kSum, type, added).ok());
      const std::vector<float> operands = samples::from(type, stored);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += operands[i];
      ASSERT_EQ(samples::as(type, sums), added);
    }
  });
}

TEST_P(Conformance, TakesValuesAndMessagesOfAnyAlignment) {
  for_all(samples::finite(1000), [&](DataType type, const std::vector<std::byte>& values) {
    const std::vector<std::byte> message = encode(type, values);
    std::vector<std::byte> odd_values(values.size() + 1), odd_message(message.size() + 1);
    std::ranges::copy(values, odd_values.begin() + 1);
    std::ranges::copy(message, odd_message.begin() + 1);
    const size_t count = values.size() / element_bytes(type), most = codec_->max_encoded_bytes(count, type);
    std::vector<std::byte> out(most + 1);
    out.resize(1 + codec_->encode({type, odd_values.data() + 1, count}, 1, {out.data() + 1, most}));
    ASSERT_EQ(message, std::vector<std::byte>(out.begin() + 1, out.end()));
    std::vector<std::byte> sum = values;
    for (const auto op : {std::optional<ReduceOp>(), std::optional(ReduceOp::kSum)}) {
      ASSERT_TRUE(decode(message, op, type, sum).ok());
      ASSERT_TRUE(
          codec_->decode_reduce(std::span(odd_message).subspan(1), op, {type, odd_values.data() + 1, count}).ok());
      ASSERT_EQ(sum, std::vector<std::byte>(odd_values.begin() + 1, odd_values.end()));
    }
  });
}

TEST_P(Conformance, NothingInfiniteOrNanBecomesFinite) {
  for_all(samples::special(), [&](DataType type, const std::vector<std::byte>& values) {
    const std::vector<float> x = samples::from(type, values), y = samples::from(type, round_trip(type, values));
    bool seen = false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i])) continue;
      seen = true;
      ASSERT_FALSE(std::isfinite(y[i])) << x[i] << " became " << y[i];
      if (std::isinf(y[i])) {
        ASSERT_EQ(x[i], y[i]);
      }
    }
    ASSERT_TRUE(seen);
  });
}

TEST_P(Conformance, RefusesMessagesOfAnyOtherLength) {
  for_all({{"some", samples::gaussian(300, 5)}}, [&](DataType type, const std::vector<std::byte>& values) {
    const std::vector<std::byte> message = encode(type, values);
    std::vector<std::byte> out(values.size());
    for (size_t length = 0; length < message.size() + 50; ++length) {
      if (length == message.size()) continue;
      std::vector<std::byte> other = message;
      other.resize(length);
      const Status status = decode(other, std::nullopt, type, out);
      ASSERT_FALSE(status.ok()) << message.size() << " bytes cut or grown to " << length;
      ASSERT_EQ(0u, status.message().find("codec " + GetParam().substr(0, GetParam().find(':')))) << status.message();
    }
  });
}

// Whether it is an error or other values; what is watched is the memory around, under the sanitizers.
TEST_P(Conformance, SurvivesEveryFlippedBit) {
  for_all({{"some", samples::gaussian(70, 6)}}, [&](DataType type, const std::vector<std::byte>& values) {
    std::vector<std::byte> message = encode(type, values), out(values.size());
    for (size_t bit = 0; bit < 8 * message.size(); ++bit) {
      message[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      const Status status = decode(message, ReduceOp::kSum, type, out);
      ASSERT_TRUE(status.ok() || status.code() == Code::kInternal);
      message[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    }
  });
}

TEST_P(Conformance, RefusesWhatItCannotAdd) {
  for (DataType type : kTypes) {
    if (!codec_->supports(type) || codec_->describe(type).lossless) continue;
    std::vector<std::byte> values = samples::as(type, samples::gaussian(100, 1));
    const Status status = decode(encode(type, values), ReduceOp::kMax, type, values);
    if (codec_->describe(DataType::kFloat32).lossless) continue;
    ASSERT_FALSE(status.ok());
    EXPECT_NE(std::string::npos, status.message().find("max")) << status.message();
  }
}

TEST_P(Conformance, ItsDescriptionMakesItAgain) {
  const std::string specification = codec_->describe(DataType::kFloat32).specification;
  auto again = make_codec(specification);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(specification, (*again)->describe(DataType::kFloat32).specification);
  const std::vector<std::byte> values = samples::as(DataType::kFloat32, samples::gaussian(1000, 2));
  std::vector<std::byte> out((*again)->max_encoded_bytes(1000, DataType::kFloat32));
  out.resize((*again)->encode({DataType::kFloat32, values.data(), 1000}, 1, out));
  EXPECT_EQ(encode(DataType::kFloat32, values), out);
}

TEST_P(Conformance, LongMessagesHaveTheStatedRatio) {
  for_all({{"long", samples::gaussian(1 << 16, 3)}}, [&](DataType type, const std::vector<std::byte>& values) {
    constexpr double kHead = 16;
    ASSERT_LE(static_cast<double>(encode(type, values).size()),
              codec_->describe(type).ratio * static_cast<double>(values.size()) + kHead);
  });
}

TEST_P(Conformance, CutAtItsBlockItDecodesTheSame) {
  if (codec_->describe(DataType::kFloat32).unbiased) return;  // draws are by place in the message
  const size_t cut = 3 * std::max<size_t>(codec_->block(), 1);
  const std::vector<float> values = samples::gaussian(2 * cut + 5, 4);
  const std::vector<std::byte> whole = samples::as(DataType::kFloat32, values);
  const auto middle = whole.begin() + static_cast<ptrdiff_t>(4 * cut);
  if (codec_->block() == 0) return;  // selects over the whole message
  std::vector<std::byte> parts = round_trip(DataType::kFloat32, {whole.begin(), middle});
  const std::vector<std::byte> second = round_trip(DataType::kFloat32, {middle, whole.end()});
  parts.insert(parts.end(), second.begin(), second.end());
  EXPECT_EQ(round_trip(DataType::kFloat32, whole), parts);
}

// In a bitmap of five elements, whose byte has room for eight.
TEST(SparseMessages, PlacesBeyondTheLastElementAreRefused) {
  const auto codec = make_codec("topk");
  const auto decoded = [&](uint8_t bitmap) {
    std::vector<std::byte> message(10), values(20);
    for (const auto& [at, byte] : {std::pair<size_t, uint8_t>{0, 1}, {1, 1}, {5, bitmap}})
      message[at] = std::byte{byte};
    return (*codec)->decode_reduce(message, std::nullopt, {DataType::kFloat32, values.data(), 5});
  };
  EXPECT_TRUE(decoded(0x10).ok());
  EXPECT_FALSE(decoded(0x30).ok());
}

INSTANTIATE_TEST_SUITE_P(Codecs, Conformance, testing::ValuesIn(all_specifications()), [](const auto& specification) {
  std::string name = specification.param;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace hocket
