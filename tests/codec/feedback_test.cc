// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Error feedback: nothing is lost for good, failed calls leave no trace, and a saved state goes on with the same bits.

#include "codec/feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/codec/samples.h"

namespace hocket {
namespace {

constexpr size_t kCount = 1000;

ConstValues view(const std::vector<float>& values) {
  return {DataType::kFloat32, reinterpret_cast<const std::byte*>(values.data()), values.size()};
}

std::vector<float> through(const Codec& codec, const std::vector<float>& values, uint64_t draw) {
  std::vector<std::byte> message(codec.max_encoded_bytes(values.size(), DataType::kFloat32));
  message.resize(codec.encode(view(values), draw, message));
  std::vector<float> decoded(values.size());
  const Status status = codec.decode_reduce(
      message, std::nullopt, {DataType::kFloat32, reinterpret_cast<std::byte*>(decoded.data()), decoded.size()});
  EXPECT_TRUE(status.ok()) << status.message();
  return decoded;
}

// A tensor whose values come call after call.
class Training {
 public:
  Training(const std::string& specification, Feedback::Kind kind)
      : codec_(std::move(*make_codec(specification))), feedback_(kind, specification) {}

  // One call; what all ranks decode.
  std::vector<float> step(const std::vector<float>& values, bool succeed = true) {
    std::vector<float> corrected;
    const Status status = feedback_.correct("w", view(values), corrected);
    EXPECT_TRUE(status.ok()) << status.message();
    const std::vector<float> decoded = through(*codec_, corrected, feedback_.steps("w"));
    feedback_.keep(corrected, decoded);
    if (succeed) feedback_.commit("w", view(decoded));
    return decoded;
  }
  Feedback& feedback() { return feedback_; }

 private:
  std::unique_ptr<const Codec> codec_;
  Feedback feedback_;
};

std::vector<float> input(uint64_t step) { return samples::gaussian(kCount, 100 + step); }

class Residual : public testing::TestWithParam<const char*> {};

TEST_P(Residual, OutputsAndResidualAreTheInputs) {
  Training training(GetParam(), Feedback::Kind::kResidual);
  std::vector<double> inputs(kCount), outputs(kCount);
  for (uint64_t step = 0; step < 20; ++step) {
    const std::vector<float> x = input(step), y = training.step(x);
    const std::vector<float>& residual = training.feedback().state("w");
    for (size_t i = 0; i < kCount; ++i) {
      inputs[i] += static_cast<double>(x[i]);
      outputs[i] += static_cast<double>(y[i]);
      ASSERT_NEAR(inputs[i], outputs[i] + static_cast<double>(residual[i]), 1e-4) << "step " << step << ", " << i;
    }
  }
  EXPECT_EQ(20u, training.feedback().steps("w"));
}

TEST_P(Residual, Ef21ComesToTheInput) {
  Training training(GetParam(), Feedback::Kind::kEf21);
  const std::vector<float> x = input(1);
  const auto distance = [&] {
    double sum = 0;
    for (size_t i = 0; i < kCount; ++i) sum += std::pow(x[i] - training.feedback().state("w")[i], 2.0f);
    return std::sqrt(sum);
  };
  training.step(x);
  const double first = distance();
  for (int step = 0; step < 60; ++step) training.step(x);
  EXPECT_LE(distance(), 0.5 * first);
}

TEST_P(Residual, AFailedCallLeavesNoTrace) {
  Training straight(GetParam(), Feedback::Kind::kResidual), failing(GetParam(), Feedback::Kind::kResidual);
  for (uint64_t step = 0; step < 5; ++step) {
    failing.step(input(step), false);
    ASSERT_EQ(straight.step(input(step)), failing.step(input(step))) << step;
  }
}

TEST_P(Residual, ASavedStateGoesOnWithTheSameBits) {
  for (Feedback::Kind kind : {Feedback::Kind::kResidual, Feedback::Kind::kEf21}) {
    Training straight(GetParam(), kind);
    for (uint64_t step = 0; step < 5; ++step) straight.step(input(step));
    Training resumed(GetParam(), kind);
    ASSERT_TRUE(resumed.feedback().load(straight.feedback().save()).ok());
    for (uint64_t step = 5; step < 10; ++step) ASSERT_EQ(straight.step(input(step)), resumed.step(input(step)));
    ASSERT_EQ(straight.feedback().save(), resumed.feedback().save());
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, Residual,
                         testing::Values("topk:ratio=0.1", "sign", "int4", "int2:round=stochastic",
                                         "randomk:ratio=0.3"));

TEST(Feedback, AnotherCountOrTypeUnderAKeyIsAnError) {
  Feedback feedback(Feedback::Kind::kResidual, "sign");
  std::vector<float> corrected;
  ASSERT_TRUE(feedback.correct("layer.3", view(input(0)), corrected).ok());
  const std::vector<float> shorter(kCount - 1);
  EXPECT_EQ("error feedback: key 'layer.3' was used for 1000 float32, now for 999 float32",
            feedback.correct("layer.3", view(shorter), corrected).message());
  const std::vector<std::byte> halves(2 * kCount);
  EXPECT_EQ("error feedback: key 'layer.3' was used for 1000 float32, now for 1000 bfloat16",
            feedback.correct("layer.3", {DataType::kBfloat16, halves.data(), kCount}, corrected).message());
  feedback.reset("layer.3");
  EXPECT_TRUE(feedback.correct("layer.3", view(shorter), corrected).ok());
  EXPECT_EQ("error feedback: no state is kept of int32",
            feedback.correct("other", {DataType::kInt32, halves.data(), 3}, corrected).message());
}

TEST(Feedback, OfValuesThatAreNotFiniteNothingIsKept) {
  Training training("topk:ratio=0.1", Feedback::Kind::kResidual);
  training.step(input(0));
  const std::vector<float> before = training.feedback().state("w");
  std::vector<float> overflown = input(1);
  overflown[7] = INFINITY;
  training.step(overflown);
  EXPECT_EQ(before, training.feedback().state("w"));
}

TEST(Feedback, DamagedStatesAreRefusedAndChangeNothing) {
  Training training("sign", Feedback::Kind::kResidual);
  training.step(input(0));
  const std::string saved = training.feedback().save();
  for (size_t length = 0; length < saved.size(); length += 1 + length / 20) {
    EXPECT_FALSE(training.feedback().load(saved.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(training.feedback().load(saved + "x").ok());
  EXPECT_EQ(saved, training.feedback().save());
  Feedback other(Feedback::Kind::kResidual, "int4");
  EXPECT_EQ("error feedback: the saved state belongs to 'sign', this is 'int4'", other.load(saved).message());
}

double squares(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0, [](double sum, float value) {
    return sum + static_cast<double>(value) * static_cast<double>(value);
  });
}

// 1 - |C(x) - x|^2 / |x|^2
double contraction(const std::string& specification, const std::vector<float>& x) {
  const std::vector<float> decoded = through(**make_codec(specification), x, 1);
  std::vector<float> lost(x.size());
  for (size_t i = 0; i < x.size(); ++i) lost[i] = x[i] - decoded[i];
  return 1 - squares(lost) / squares(x);
}

TEST(Contraction, TopKKeepsAtLeastItsShare) {
  const std::vector<float> x = samples::gaussian(100000, 5);
  EXPECT_NEAR(0.437, contraction("topk:ratio=0.1", x), 0.01);
  EXPECT_NEAR(0.082, contraction("topk:ratio=0.01", x), 0.005);
  EXPECT_NEAR(0.0118, contraction("topk:ratio=0.001", x), 0.001);
  for (double ratio : {0.001, 0.01, 0.1, 0.5}) EXPECT_GE(contraction("topk:ratio=" + std::to_string(ratio), x), ratio);
  // Equal magnitudes are the worst case: exactly its share.
  EXPECT_NEAR(0.25, contraction("topk:ratio=0.25", std::vector<float>(4096, -2.0f)), 1e-6);
}

TEST(Contraction, SignKeepsWhatTheMeanMagnitudeDoes) {
  const std::vector<float> x = samples::gaussian(1024, 6);  // one block
  double sum = 0;
  for (float value : x) sum += static_cast<double>(std::fabs(value));
  EXPECT_NEAR(sum * sum / (1024 * squares(x)), contraction("sign:block=1024", x), 1e-6);
}

}  // namespace
}  // namespace hocket
