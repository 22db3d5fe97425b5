// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The devices' coding kernels, run on the host thread by thread, against the host's codecs: the same bits of every
// codec that has a form, every type, awkward value and length around its tiles and blocks, whichever thread goes first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "kernels/cuda/coding.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/names.h"
#include "kernels/cuda/passes.h"
#include "kernels/exponents.h"
#include "kernels/random.h"
#include "tests/codec/samples.h"
#include "tests/codec/specifications.h"

namespace hocket::device {
namespace {

using Bytes = std::vector<std::byte>;

constexpr auto kUntouched = std::byte{0xa5};
constexpr size_t kMargin = 64;  // bytes before and after that nobody may write
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
constexpr uint64_t kBlocks = 3;

// Bytes with room around them, `offset` from where packs would fit.
class Guarded {
 public:
  Guarded(const Bytes& bytes, size_t offset) : size_(bytes.size()), offset_(offset) {
    const size_t packs = (size_ + offset + 2 * kMargin) / sizeof(Aligned) + 1;
    memory_.resize(packs);
    std::memset(memory_.data(), static_cast<int>(kUntouched), packs * sizeof(Aligned));
    std::copy(bytes.begin(), bytes.end(), data());  // of no bytes too
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(memory_.data()) + kMargin + offset_; }
  Bytes bytes() { return {data(), data() + size_}; }
  bool rest_is_untouched() const {
    const auto* const all = reinterpret_cast<const std::byte*>(memory_.data());
    for (size_t i = 0; i < memory_.size() * sizeof(Aligned); ++i) {
      const bool inside = i >= kMargin + offset_ && i < kMargin + offset_ + size_;
      if (!inside && all[i] != kUntouched) return false;
    }
    return true;
  }

 private:
  struct alignas(16) Aligned {
    uint8_t bytes[16];
  };
  size_t size_;
  size_t offset_;
  std::vector<Aligned> memory_;
};

// Blocks and their threads, one after the other.
template <typename Tiles>
void run_tiles(bool encodes, const CodingWork& work, ThreadOrder order) {
  const auto shared = std::make_unique<typename Tiles::Shared>();
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const uint64_t block = order == ThreadOrder::kForward ? i : kBlocks - 1 - i;
    if (encodes) encode_tiles<Tiles>(work, Team(order), {block, kBlocks}, *shared);
    if (!encodes) decode_tiles<Tiles>(work, Team(order), {block, kBlocks}, *shared);
  }
}

void run_pass(bool encodes, DataType type, const CodingWork& work, ThreadOrder order) {
#define HOCKET_RUN(its_kind, its_type, encoding, decoding)                       \
  if (work.form.kind == CodedForm::Kind::its_kind && type == DataType::its_type) \
    return run_tiles<TileCoder<CodedForm::Kind::its_kind, DataType::its_type>>(encodes, work, order);
  HOCKET_CODING_KERNELS(HOCKET_RUN)
#undef HOCKET_RUN
  FAIL() << "no such kernel";
}

// All passes, on scratch memory that holds something. `state`: of a message whose length varies.
void run(bool encodes, DataType type, CodingWork work, ThreadOrder order, MessageState& state) {
  Guarded scratch(Bytes(scratch_bytes(work.form, work.count, element_bytes(type)), std::byte{0x5a}), 0);
  work.scratch = scratch.data();
  work.state = &state;
  for (; work.pass < passes_of(work.form, encodes, element_bytes(type)); ++work.pass) {
    run_pass(encodes, type, work, order);
  }
  ASSERT_TRUE(scratch.rest_is_untouched());
}

// The same values; of NaN any bits that are one.
bool alike(DataType type, const Bytes& a, const Bytes& b) {
  if (a == b) return true;
  const std::vector<float> x = samples::from(type, a), y = samples::from(type, b);
  for (size_t i = 0; i < x.size(); ++i) {
    const bool both_nan = x[i] != x[i] && y[i] != y[i];
    if (!both_nan && element::bits_of(x[i]) != element::bits_of(y[i])) return false;
  }
  return true;
}

class EveryForm : public testing::TestWithParam<std::string> {
 protected:
  const std::unique_ptr<const Codec> codec_ = std::move(*make_codec(GetParam()));

  CodingWork work(Guarded& values, Guarded& message, size_t count, uint64_t draw) const {
    return {.form = *codec_->form(), .draw = draw, .count = count, .values = values.data(), .message = message.data()};
  }

  bool is_message(const Bytes& bytes, const Bytes& wanted) const {
    const CodedForm& form = *codec_->form();
    return form.kind == CodedForm::Kind::kCast ? alike(form.wire, bytes, wanted) : bytes == wanted;
  }

  // Values begin `offset` elements behind where quads of them would be aligned.
  void compare(DataType type, const std::vector<float>& floats, uint64_t draw, size_t first) {
    const Bytes values = samples::as(type, floats);
    const size_t count = floats.size();
    Bytes wanted(codec_->max_encoded_bytes(count, type));
    const size_t most = wanted.size();
    wanted.resize(codec_->encode({type, values.data(), count}, draw, wanted));
    ASSERT_TRUE(wanted.size() == most || varies_in_length(*codec_->form()));
    const size_t offset = first * element_bytes(type);
    for (const ThreadOrder order : {ThreadOrder::kForward, ThreadOrder::kBackward}) {
      Guarded from(values, offset), message(Bytes(most), 0);
      MessageState state{.bytes = wanted.size()};
      if (varies_in_length(*codec_->form())) state.bytes = 0;
      run(true, type, work(from, message, count, draw), order, state);
      ASSERT_EQ(state.bytes, wanted.size()) << name(type) << ", " << count << " elements";
      Bytes bytes = message.bytes();
      bytes.resize(wanted.size());
      ASSERT_TRUE(is_message(bytes, wanted)) << name(type) << ", " << count << " elements";
      ASSERT_TRUE(message.rest_is_untouched() && from.rest_is_untouched()) << name(type) << ", " << count;
      for (const bool adds : {false, true}) compare_decoding(type, floats, wanted, adds, order, offset);
    }
  }

  void compare_decoding(DataType type, const std::vector<float>& floats, const Bytes& message, bool adds,
                        ThreadOrder order, size_t offset) {
    std::vector<float> before(floats.rbegin(), floats.rend());
    Bytes wanted = samples::as(type, before);
    Guarded to(wanted, offset), from(message, 0);
    const auto op = adds ? std::optional(ReduceOp::kSum) : std::nullopt;
    ASSERT_TRUE(codec_->decode_reduce(message, op, {type, wanted.data(), floats.size()}).ok());
    CodingWork decoding = work(to, from, floats.size(), 0);
    decoding.adds = adds;
    MessageState state{.bytes = message.size()};
    run(false, type, decoding, order, state);
    ASSERT_EQ(state.damaged, 0u);
    ASSERT_TRUE(alike(type, to.bytes(), wanted)) << name(type) << ", " << floats.size() << " elements, adds " << adds;
    ASSERT_TRUE(to.rest_is_untouched()) << name(type) << ", " << floats.size();
  }

  // Whether the host takes it for a message.
  bool check_damaged(DataType type, size_t count, const Bytes& message, ThreadOrder order) {
    Bytes wanted(count * element_bytes(type));
    Guarded to(wanted, 0), from(message, 0);
    MessageState state{.bytes = message.size()};
    run(false, type, work(to, from, count, 0), order, state);
    EXPECT_TRUE(to.rest_is_untouched() && from.rest_is_untouched());
    const bool taken = codec_->decode_reduce(message, std::nullopt, {type, wanted.data(), count}).ok();
    EXPECT_EQ(state.damaged, taken ? 0u : 1u);
    EXPECT_TRUE(!taken || alike(type, to.bytes(), wanted));
    return taken;
  }
};

TEST_P(EveryForm, GivesTheBitsOfTheHostAtEveryLength) {
  uint64_t draw = 0;
  for (const size_t count :
       {1u, 3u, 31u, 32u, 33u, 65u, 255u, 256u, 257u, 511u, 1023u, 1024u, 1025u, 4095u, 4096u, 4097u, 10007u}) {
    for (const DataType type : kTypes) {
      ++draw;
      for (const size_t first : {size_t{0}, 1 + draw % 3}) {
        compare(type, samples::gaussian(count, draw, 3), draw, first);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(EveryForm, GivesTheBitsOfTheHostOfAwkwardValues) {
  uint64_t draw = 100;
  std::vector<samples::Sample> awkward = samples::finite(60000), special = samples::special();
  awkward.insert(awkward.end(), special.begin(), special.end());
  for (const samples::Sample& sample : awkward) {
    if (sample.values.empty()) continue;
    for (const DataType type : kTypes) {
      ++draw;
      compare(type, sample.values, draw, draw % 2);
      if (HasFatalFailure()) FAIL() << sample.name;
    }
  }
}

// Tiles that are whole, where whatever is odd about a value stands at every place of what a thread has at once: of
// every kind of them some, in blocks of all their own and among others.
TEST_P(EveryForm, GivesTheBitsOfTheHostOfWholeTiles) {
  std::vector<float> values = samples::gaussian(2 * size_t{kCodedTile} + 40, 7, 2);
  const float odd[] = {0.0f, -0.0f, 1e-45f, -1e-40f, 6e-8f, -3e-5f, 0.5f, -0.5f, 1.5f, 65519, -65520, 3e38f};
  for (size_t i = 0; i < kCodedTile; i += 5) values[i] = odd[i / 5 % std::size(odd)];
  for (size_t i = 0; i < 512; ++i) values[1024 + i] = std::copysign(1.0f, values[i]);  // ties
  for (size_t i = 2048; i < 2048 + 256; ++i) values[i] = i % 3 == 0 ? -0.0f : 0.0f;
  values[700] = std::numeric_limits<float>::quiet_NaN();
  values[2900] = std::numeric_limits<float>::infinity();
  values[3333] = -std::numeric_limits<float>::infinity();
  for (const DataType type : kTypes) {
    compare(type, values, 5, 0);
    if (HasFatalFailure()) return;
  }
}

// Tiles of signs are longer.
class Signs : public EveryForm {};

TEST_P(Signs, OfWholeTiles) {
  const size_t tile = size_t{kSignBlocks} * codec_->form()->sign_block;
  for (const size_t more : {size_t{0}, size_t{1}, size_t{codec_->form()->sign_block} + 37}) {
    std::vector<float> values = samples::gaussian(tile + more, more);
    for (size_t i = 0; i < values.size(); i += 11) values[i] = i % 2 == 0 ? -0.0f : std::ldexp(values[i], 90);
    values[tile / 2] = std::numeric_limits<float>::quiet_NaN();
    for (const DataType type : kTypes) {
      compare(type, values, 1, 0);
      compare(type, values, 2, 1);
      if (HasFatalFailure()) return;
    }
  }
}

// ---- Messages of varying length

class Varying : public EveryForm {};

// Parts of several tiles, among which are none, few and all that are selected; ties in all of them.
TEST_P(Varying, OfManyElements) {
  const size_t count = size_t{kMostParts} * kSelectTile + 70001;
  std::vector<float> values(count, 0);
  for (size_t i = 0; i < count; i += 66003) values[i] = static_cast<float>(i % 7) - 3;  // gaps are long
  compare(DataType::kFloat32, values, 1, 0);
  for (size_t i = 500000; i < 800000; ++i) values[i] = static_cast<float>(mix(i) % 5) - 2;
  for (size_t i = count - 40; i < count; ++i) values[i] = 2;  // the end of a bitmap
  compare(DataType::kBfloat16, values, 2, 1);
}

// Nothing finite is among the largest: all that is not finite is selected, whatever comes first of it.
TEST_P(Varying, OfManyThatAreNotFinite) {
  std::vector<float> values = samples::gaussian(6000, 4);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 1; i < values.size(); i += 70) values[i] = -std::numeric_limits<float>::infinity();
  for (const DataType type : kTypes) compare(type, values, 1, 0);
}

// Whatever came: as the host, a device says that it is damaged or has the host's values; and it never leaves its
// memory.
TEST_P(Varying, OfDamagedMessages) {
  std::mt19937 random(1);
  int damaged = 0, right = 0;
  for (int round = 0; round < 1000; ++round) {
    const size_t count = 1 + random() % 5000;
    const DataType type = kTypes[random() % 3];
    const Bytes values = samples::as(type, samples::gaussian(count, random()));
    Bytes message(codec_->max_encoded_bytes(count, type));
    const size_t most = message.size();
    message.resize(codec_->encode({type, values.data(), count}, 0, message));
    const size_t changes = random() % 3;
    for (size_t i = 0; i < changes; ++i) {
      const size_t place = random() % (random() % 2 == 0 ? std::min<size_t>(message.size(), 40) : message.size());
      message[place] = static_cast<std::byte>(random() % 3 == 0 ? random() % 8 : random());
    }
    if (random() % 4 == 0) message.resize(std::min(most, message.size() + random() % 9));
    if (random() % 4 == 0) message.resize(message.size() - std::min<size_t>(message.size(), random() % 9));
    const bool host_takes = check_damaged(type, count, message, static_cast<ThreadOrder>(round % 2));
    (host_takes ? right : damaged) += 1;
    if (HasFailure()) FAIL() << "round " << round << ", " << count << " " << name(type);
  }
  EXPECT_GT(right, 200);
  EXPECT_GT(damaged, 200);
}

class Frames : public EveryForm {};

// An escape of an element that is not there, beyond the last in the masks, with an exponent of its own.
TEST_P(Frames, OfEscapesBeyondTheLastElement) {
  constexpr size_t kCount = 1000, kMask = 128, kMasks = 4 + kCount;
  const Bytes values = samples::as(DataType::kBfloat16, std::vector<float>(kCount, 1));
  Bytes message(codec_->max_encoded_bytes(kCount, DataType::kBfloat16));
  ASSERT_EQ(codec_->encode({DataType::kBfloat16, values.data(), kCount}, 0, message), kMasks + 3 * kMask);
  message.resize(kMasks + 3 * kMask + 1);
  EXPECT_FALSE(check_damaged(DataType::kBfloat16, kCount, message, ThreadOrder::kForward));
  message[2] = std::byte{1};
  for (size_t mask = 0; mask < 3; ++mask) message[kMasks + mask * kMask + kCount / 8] |= std::byte{1};
  EXPECT_FALSE(check_damaged(DataType::kBfloat16, kCount, message, ThreadOrder::kForward));
}

// More frames than are looked for at once, some of them much longer than others, and some of them raw.
std::vector<float> values_of_many_frames() {
  std::vector<float> values(150 * kExponentFrame + 77, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t frame = i / kExponentFrame, place = i % kExponentFrame;
    const bool is_raw = frame % 41 == 40, is_long = frame > 70 && place < frame * 37 % 900;
    const bool is_short = frame <= 70 && place % 1024 == 5;
    if (is_long || is_short) values[i] = 0x1p-60f;
    if (is_raw) values[i] = std::ldexp(1.5f, static_cast<int>(mix(i) % 200) - 100);
  }
  return values;
}

TEST_P(Frames, OfManyLengths) {
  compare(DataType::kFloat32, values_of_many_frames(), 1, 0);
  compare(DataType::kBfloat16, values_of_many_frames(), 1, 1);
}

// Where frames are about as long as each other, all groups are found at once.
TEST_P(Frames, OfGroupsThatBeginWhereTheySeemTo) {
  constexpr size_t kGroups = 10;
  std::vector<float> floats = samples::gaussian(kGroups * kFrameGroup * kExponentFrame + 5000, 3);
  for (const bool are_late : {false, true}) {
    // By up to 5000 bytes: a few frames are longer than all others.
    for (size_t i = 5; are_late && i < 20 * kExponentFrame; i += 16) floats[i] = 0x1p-60f;
    const Bytes values = samples::as(DataType::kFloat32, floats);
    Bytes message(codec_->max_encoded_bytes(floats.size(), DataType::kFloat32));
    MessageState state{.bytes = codec_->encode({DataType::kFloat32, values.data(), floats.size()}, 0, message)};
    Guarded to(values, 0), from(message, 0);
    CodingWork decoding = work(to, from, floats.size(), 0);
    Guarded scratch(Bytes(scratch_bytes(decoding.form, decoding.count, sizeof(float))), 0);
    decoding.scratch = scratch.data();
    decoding.state = &state;
    for (; decoding.pass < static_cast<uint32_t>(ReadPass::kFind); ++decoding.pass) {
      run_pass(false, DataType::kFloat32, decoding, ThreadOrder::kForward);
    }
    const auto* const groups =
        reinterpret_cast<const FrameGroup*>(scratch.data() + FrameArrays(decoding.count, sizeof(float)).groups);
    EXPECT_EQ(groups[0].begin, 0u);
    for (size_t i = 1; i <= kGroups; ++i) EXPECT_EQ(groups[i].begin, groups[i - 1].end) << i << " " << are_late;
    EXPECT_EQ(groups[kGroups].end, state.bytes);
  }
}

// Of a message in which one frame says that it is longer or shorter than it is, or is no frame.
TEST_P(Frames, OfManyWithOneThatIsDamaged) {
  const std::vector<float> floats = values_of_many_frames();
  const Bytes values = samples::as(DataType::kBfloat16, floats);
  Bytes message(codec_->max_encoded_bytes(floats.size(), DataType::kBfloat16));
  message.resize(codec_->encode({DataType::kBfloat16, values.data(), floats.size()}, 0, message));
  ASSERT_TRUE(check_damaged(DataType::kBfloat16, floats.size(), message, ThreadOrder::kForward));
  constexpr size_t kFirstLength = 4 + kExponentFrame + exponent_mask_bytes(kExponentFrame) + 4;  // it has four escapes
  for (const size_t frame : {0u, 1u, 30u}) {
    for (const size_t place : {0u, 2u, 3u}) {
      Bytes damaged = message;
      std::byte& byte = damaged[frame * kFirstLength + place];
      ASSERT_EQ(message[frame * kFirstLength], std::byte{1});
      byte = static_cast<std::byte>(static_cast<int>(byte) + 1);
      EXPECT_FALSE(check_damaged(DataType::kBfloat16, floats.size(), damaged, ThreadOrder::kBackward));
    }
  }
  message.resize(message.size() - 1);
  EXPECT_FALSE(check_damaged(DataType::kBfloat16, floats.size(), message, ThreadOrder::kForward));
}

std::vector<std::string> with_form() {
  std::vector<std::string> list = all_specifications();
  list.insert(list.end(), {"fp8:block=256", "int6:scale=minmax,block=256", "int8:rotate=1,round=stochastic,block=128",
                           "int3:block=256,scale=signed", "qsgd:levels=127,block=256", "sign:block=4096", "int6",
                           "int3", "int2", "int8", "int4", "fp8:format=e5m2", "int8:block=128", "int4:block=64",
                           "int6:block=128", "fp8:block=64", "topk:ratio=0.001", "topk:ratio=0.05"});
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  std::erase_if(list, [](const std::string& text) { return (*make_codec(text))->form() == nullptr; });
  return list;
}
INSTANTIATE_TEST_SUITE_P(Codecs, EveryForm, testing::ValuesIn(with_form()), [](const auto& each) {
  std::string text = each.param;
  for (char& letter : text) letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return text;
});

INSTANTIATE_TEST_SUITE_P(Codecs, Varying, testing::Values("topk", "topk:ratio=0.1", "threshold:least=0.5", "lossless"),
                         [](const auto& each) {
                           std::string text = each.param;
                           for (char& letter : text) letter = std::isalnum(letter) ? letter : '_';
                           return text;
                         });

INSTANTIATE_TEST_SUITE_P(Codecs, Signs, testing::Values("sign", "sign:block=256", "sign:block=4096"),
                         [](const auto& each) {
                           std::string text = each.param;
                           for (char& letter : text) letter = std::isalnum(letter) ? letter : '_';
                           return text;
                         });

INSTANTIATE_TEST_SUITE_P(Codecs, Frames, testing::Values("lossless"), [](const auto& each) { return each.param; });

TEST(CodingKernels, HaveNamesThatSayWhatTheyAre) {
  for (const DataType type : kTypes) {
    const CodingKernels names = coding_kernels(CodedForm::Kind::kBlocks, type);
    ASSERT_NE(names.encode, nullptr);
    EXPECT_EQ(names.encode, "hocket_encode_blocks_" + std::string(name(type)));
    EXPECT_EQ(names.decode, "hocket_decode_blocks_" + std::string(name(type)));
  }
  EXPECT_EQ(coding_kernels(CodedForm::Kind::kCast, DataType::kFloat64).encode, nullptr);
}

}  // namespace
}  // namespace hocket::device
