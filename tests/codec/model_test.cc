// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codecs against their slow models, bit for bit: messages, and what they become, for every type that the codec takes,
// on every instruction set that this machine has.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "codec/codec.h"
#include "tests/codec/codec_model.h"
#include "tests/codec/samples.h"

namespace hocket {
namespace {

using model::Bytes;
using model::Floats;

constexpr uint64_t kDraw = 12345;
constexpr float kBefore = 0.75F;  // where decoded values are added

struct Case {
  std::string specification;
  std::shared_ptr<const model::CodecModel> model;
  bool calculates = false;  // with values that are sent: which NaN becomes of a NaN is open
};

void add_blocks(std::vector<Case>& cases) {
  const auto add = [&](const std::string& specification, const Quantiser& quantiser, uint64_t seed = 0) {
    cases.push_back({specification, model::blocks(quantiser, seed)});
  };
  for (const int bits : {8, 6, 4, 3, 2}) {
    const std::string name = "int" + std::to_string(bits);
    const int levels = (1 << (bits - 1)) - 1;
    add(name, {.bits = bits, .levels = levels});
    add(name + ":scale=signed,block=64",
        {.scaling = Scaling::kSignedExtreme, .bits = bits, .levels = levels, .block = 64});
    add(name + ":scale=minmax,round=stochastic,seed=7",
        {.scaling = Scaling::kRange, .bits = bits, .levels = levels, .stochastic = true}, 7);
    add(name + ":rotate=1,seed=3", {.bits = bits, .levels = levels, .rotated = true}, 3);
  }
  add("fp8", {.scaling = Scaling::kFloat8e4m3});
  add("fp8:format=e5m2,block=128", {.scaling = Scaling::kFloat8e5m2, .block = 128});
  add("terngrad:seed=5", {.bits = 2, .levels = 1, .block = 256, .stochastic = true}, 5);
  for (const auto& [levels, bits] : {std::pair{127, 8}, {31, 6}, {7, 4}, {3, 3}, {1, 2}}) {
    add("qsgd:seed=11,levels=" + std::to_string(levels),
        {.scaling = Scaling::kNorm, .bits = bits, .levels = levels, .block = 128, .stochastic = true}, 11);
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_blocks(cases);
  cases.push_back({"natural:seed=2", model::natural(2)});
  for (const size_t block : {1024U, 256U, 512U, 2048U, 4096U}) {
    cases.push_back({"sign:block=" + std::to_string(block), model::sign(block)});
  }
  cases.push_back({"lossless", model::lossless()});
  cases.push_back({"bounded", model::bounded(1e-3)});
  cases.push_back({"bounded:error=0.25", model::bounded(0.25)});
  for (const char* error : {"1e-30", "1e-20", "1e30"}) {
    cases.push_back({std::string("bounded:error=") + error, model::bounded(std::stod(error))});
  }
  cases.push_back({"topk", model::topk(0.01)});
  cases.push_back({"topk:ratio=0.3", model::topk(0.3)});
  cases.push_back({"threshold:least=0.5", model::threshold(0.5F)});
  cases.push_back({"threshold:least=0.3", model::threshold(0.3F)});
  cases.push_back({"randomk:ratio=0.25,seed=9", model::randomk(0.25, false, 9)});
  cases.push_back({"randomk:ratio=0.5,unbiased=1", model::randomk(0.5, true, 0), true});
  for (const size_t block : {256U, 16U, 1U}) {
    cases.push_back({"blocksparse:block=" + std::to_string(block), model::blocksparse(block)});
  }
  return cases;
}

std::vector<samples::Sample> values_of(DataType type) {
  const bool half = type == DataType::kFloat16;
  std::vector<samples::Sample> list = samples::finite(half ? 65504.0F : std::numeric_limits<float>::max());
  const std::vector<samples::Sample> special = samples::special();
  list.insert(list.end(), special.begin(), special.end());
  list.push_back({"gaussian 9001", samples::gaussian(9001, 5)});
  Floats smooth(1000);
  for (size_t i = 0; i < smooth.size(); ++i) smooth[i] = 0.01F * static_cast<float>(i);
  list.push_back({"smooth", smooth});
  return list;
}

// Just as far apart as one gap of a sparse message goes, and one more and one less.
samples::Sample rare() {
  Floats values(200000);
  size_t place = 3;
  for (const size_t gap : {0U, 65534U, 65535U, 65536U}) {
    place += gap;
    values[place] = 1 + static_cast<float>(place);
  }
  return {"rare", values};
}

class CodecModel : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto made = make_codec(GetParam().specification);
    ASSERT_TRUE(made.ok()) << made.status().message();
    codec_ = std::move(*made);
  }
  ~CodecModel() override { force_instruction_set(""); }

  Bytes encode(DataType type, const Bytes& values) const {
    const size_t count = values.size() / element_bytes(type);
    Bytes out(codec_->max_encoded_bytes(count, type));
    out.resize(codec_->encode({type, values.data(), count}, kDraw, out));
    return out;
  }

  // What decoding leaves where `kBefore` was.
  void expect_decoded(DataType type, const Bytes& message, const Floats& decoded, bool add) const {
    const size_t count = decoded.size();
    Bytes values = samples::as(type, Floats(count, kBefore));
    const auto op = add ? std::optional(ReduceOp::kSum) : std::nullopt;
    const Status status = codec_->decode_reduce(message, op, {type, values.data(), count});
    ASSERT_TRUE(status.ok()) << status.message();
    Floats wanted = decoded;
    for (float& value : wanted) value = add ? kBefore + value : value;
    const Floats got = samples::from(type, values), rounded = samples::from(type, samples::as(type, wanted));
    for (size_t i = 0; i < count; ++i) {
      const bool both_nan = got[i] != got[i] && rounded[i] != rounded[i];
      const bool equal = got[i] == rounded[i] && std::signbit(got[i]) == std::signbit(rounded[i]);
      ASSERT_TRUE(both_nan || equal) << "element " << i << ": " << got[i] << ", wanted " << rounded[i];
    }
  }

  void expect_as_model(DataType type, const Bytes& values, const std::string& what) const {
    const Bytes wanted = GetParam().model->encode(type, values, kDraw);
    const Floats decoded = GetParam().model->decode(type, wanted, values.size() / element_bytes(type));
    for (const std::string_view set : instruction_sets()) {
      SCOPED_TRACE(std::string(set) + ", " + std::string(name(type)) + ", " + what);
      ASSERT_TRUE(force_instruction_set(set));
      const Bytes message = encode(type, values);
      const bool is_open = GetParam().calculates && what.ends_with("nan");
      ASSERT_TRUE(is_open ? wanted.size() == message.size() : wanted == message);
      for (const bool add : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(expect_decoded(type, message, decoded, add));
      }
    }
  }

  std::unique_ptr<const Codec> codec_;
};

TEST_P(CodecModel, IsTheModelBitForBit) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    if (!codec_->supports(type)) continue;
    std::vector<samples::Sample> list = values_of(type);
    const bool is_sparse = codec_->block() == 0;
    if (is_sparse) list.push_back(rare());
    for (const samples::Sample& sample : list) {
      ASSERT_NO_FATAL_FAILURE(expect_as_model(type, samples::as(type, sample.values), sample.name));
    }
  }
}

// All patterns of a 16-bit type, each `stride` after the one before.
Bytes all_patterns(uint32_t stride) {
  constexpr uint32_t kPatterns = 1 << 16;
  std::vector<uint16_t> patterns(kPatterns);
  for (uint32_t i = 0; i < kPatterns; ++i) patterns[i] = static_cast<uint16_t>(i * stride);
  const auto bytes = std::as_bytes(std::span(patterns));
  return {bytes.begin(), bytes.end()};
}

// Those that are finite. Blocks of others are NaN whole.
Bytes finite_of(DataType type, const Bytes& patterns) {
  const Floats values = samples::from(type, patterns);
  Bytes finite;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) finite.insert(finite.end(), &patterns[2 * i], &patterns[2 * i] + 2);
  }
  return finite;
}

// Beside its neighbours, and among numbers of all sizes.
TEST_P(CodecModel, IsTheModelOfEverySixteenBits) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    if (!codec_->supports(type)) continue;
    const Bytes mixed = all_patterns(0x9e37);
    ASSERT_NO_FATAL_FAILURE(expect_as_model(type, all_patterns(1), "in order, nan"));
    ASSERT_NO_FATAL_FAILURE(expect_as_model(type, mixed, "mixed, nan"));
    ASSERT_NO_FATAL_FAILURE(expect_as_model(type, finite_of(type, mixed), "mixed, finite"));
  }
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string text = info.param.specification;
  std::ranges::replace_if(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecModel, testing::ValuesIn(all_cases()), test_name);

}  // namespace
}  // namespace hocket
