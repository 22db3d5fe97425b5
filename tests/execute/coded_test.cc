// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All-reduces whose messages are encoded, on the real executor: all ranks end with the same bits, the error never
// exceeds what was computed from the plan, and grows with the number of ranks as predicted.

#include "execute/coded.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>

#include "choose/cut.h"
#include "choose/question.h"
#include "codec/whole.h"
#include "comm/binding.h"
#include "comm/coding.h"
#include "execute/local_ranks.h"
#include "kernels/random.h"
#include "plan/builders.h"
#include "plan/check.h"
#include "plan/coded.h"
#include "prove/coded.h"
#include "prove/prove.h"
#include "tests/codec/samples.h"
#include "tests/codec/specifications.h"

namespace hocket::test {
namespace {

constexpr size_t kMaxMessage = size_t{1} << 16;
constexpr size_t kSliceElements = 8192;
constexpr size_t kBlock = 256;  // elements; of every codec with blocks, or a multiple

std::vector<Plan> build(std::string_view algorithm, Rank ranks) {
  const Builder* builder = find_builder(Collective::kAllReduce, algorithm);
  std::vector<Plan> plans;
  BuildOptions options{.ranks = ranks, .coded = true};
  for (options.rank = 0; options.rank < ranks; ++options.rank) plans.push_back(hocket::build(*builder, options));
  return plans;
}

// Hosts of so many ranks each, one after the other: only what goes between them is encoded. The root is the last rank.
std::vector<Plan> build_over(const std::vector<Rank>& hosts, Collective collective = Collective::kAllReduce,
                             std::string_view algorithm = "hierarchical") {
  Hierarchy hierarchy{.levels = {{}}, .across = "two_shot"};
  BuildOptions options{.ranks = 0, .hierarchy = &hierarchy, .coded = true};
  for (const Rank size : hosts) {
    hierarchy.levels[0].emplace_back();
    for (Rank i = 0; i < size; ++i) hierarchy.levels[0].back().push_back(options.ranks++);
  }
  const Builder* builder = find_builder(collective, algorithm);
  if (is_rooted(collective)) options.root = options.ranks - 1;
  EXPECT_TRUE(builder->fits(options)) << name(collective) << " " << hosts.size();
  std::vector<Plan> plans;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) plans.push_back(build(*builder, options));
  return plans;
}

struct Outcome {
  std::vector<std::vector<float>> results;  // by rank
  std::string failure;
};

// Elements that a rank ends with, of a call of so many of each.
size_t result_size(Collective collective, size_t count, size_t ranks) {
  if (collective == Collective::kAllGather) return count * ranks;
  return collective == Collective::kReduceScatter ? count / ranks : count;
}

// One call of float32. `losses`, by rank: where each keeps what its encodings lose. `traffic`: of all ranks.
Outcome perform(LocalRanks& local, const std::vector<Plan>& plans, const Codec* codec,
                const std::vector<std::vector<float>>& inputs, uint64_t draw = 1,
                std::vector<std::vector<float>>* losses = nullptr, CodedTraffic* traffic = nullptr) {
  const auto ranks = static_cast<Rank>(plans.size());
  Outcome outcome;
  if (losses != nullptr) losses->assign(plans.size(), std::vector<float>(inputs[0].size()));
  const Collective collective = plans[0].collective;
  const size_t count = inputs[0].size();
  outcome.results.assign(plans.size(), std::vector<float>(result_size(collective, count, plans.size()), -1));
  std::vector<Request> requests(plans.size());
  std::vector<Call> calls(plans.size());
  std::vector<std::vector<std::byte>> scratch(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    requests[i].facts.collective = collective;
    requests[i].facts.type = DataType::kFloat32;
    const bool is_parted = collective == Collective::kReduceScatter || collective == Collective::kAllToAll;
    requests[i].facts.count = is_parted ? count / plans.size() : count;
    requests[i].send = inputs[i].data();
    requests[i].recv = outcome.results[i].data();
    requests[i].codec = {std::shared_ptr<const Codec>(), codec};  // chunks are whole blocks of it
    requests[i].losses = losses != nullptr ? (*losses)[i].data() : nullptr;
    Call& call = calls[i];
    call.plan = &plans[i];
    bind_arithmetic(requests[i], ranks, call);
    bind_layouts(requests[i], call);
    call.codec = codec;
    call.draw = draw;
    call.traffic = traffic;
    call.slice_bytes = kSliceElements * sizeof(float);
    const size_t share = kSliceElements / static_cast<size_t>(plans[i].message_chunks) / kBlock * kBlock;
    call.window = std::max(kBlock, share);
    scratch[i].resize(Execution::scratch_bytes(call) + 64);
    call.scratch = scratch[i].data();
  }
  if (local.run(calls, 7, false)) return outcome;
  outcome.failure = "somebody waits forever";
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (!local.execution(rank).status().ok()) outcome.failure = local.execution(rank).status().message();
  }
  return outcome;
}

Outcome perform(const std::vector<Plan>& plans, const Codec* codec, const std::vector<std::vector<float>>& inputs,
                uint64_t draw = 1) {
  LocalRanks local(static_cast<Rank>(plans.size()), kMaxMessage);
  return perform(local, plans, codec, inputs, draw);
}

std::vector<std::vector<float>> gaussian_inputs(Rank ranks, size_t count, float size = 1) {
  std::vector<std::vector<float>> inputs;
  for (Rank rank = 0; rank < ranks; ++rank) {
    inputs.push_back(samples::gaussian(count, 1000 + static_cast<uint64_t>(rank), size));
  }
  return inputs;
}

// Whole blocks in every chunk.
size_t count_for(const std::vector<Plan>& plans, size_t blocks) {
  return static_cast<size_t>(plans[0].send_chunks) * blocks * kBlock;
}

std::vector<double> exact_sum(const std::vector<std::vector<float>>& inputs) {
  std::vector<double> sum(inputs[0].size());
  for (const std::vector<float>& input : inputs) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(input[i]);
  }
  return sum;
}

struct Errors {
  double relative = 0;  // euclidean norms
  double largest = 0;   // of any element
};

Errors errors_of(const std::vector<float>& result, const std::vector<double>& wanted) {
  double lost = 0, whole = 0;
  Errors errors;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double error = static_cast<double>(result[i]) - wanted[i];
    lost += error * error;
    whole += wanted[i] * wanted[i];
    errors.largest = std::max(errors.largest, std::fabs(error));
  }
  errors.relative = std::sqrt(lost / whole);
  return errors;
}

double largest_magnitude(const std::vector<std::vector<float>>& inputs) {
  float largest = 0;
  for (const auto& input : inputs) {
    for (float value : input) largest = std::max(largest, std::fabs(value));
  }
  return static_cast<double>(largest);
}

std::unique_ptr<const Codec> codec_of(const std::string& specification) {
  return std::move(*make_codec(specification));
}

// The root mean square error of encoding once, relative.
double encoding_error(const Codec& codec, const std::vector<float>& x) {
  std::vector<std::byte> message(codec.max_encoded_bytes(x.size(), DataType::kFloat32));
  message.resize(
      codec.encode({DataType::kFloat32, reinterpret_cast<const std::byte*>(x.data()), x.size()}, 1, message));
  std::vector<float> decoded(x.size());
  EXPECT_TRUE(codec
                  .decode_reduce(message, std::nullopt,
                                 {DataType::kFloat32, reinterpret_cast<std::byte*>(decoded.data()), decoded.size()})
                  .ok());
  return errors_of(decoded, {x.begin(), x.end()}).relative;
}

void expect_same_bits(const Outcome& outcome, const std::string& what) {
  ASSERT_EQ("", outcome.failure) << what;
  for (size_t rank = 1; rank < outcome.results.size(); ++rank) {
    ASSERT_EQ(0, std::memcmp(outcome.results[0].data(), outcome.results[rank].data(),
                             outcome.results[0].size() * sizeof(float)))
        << what << ": rank " << rank << " has other bits than rank 0";
  }
}

constexpr std::string_view kOnce[] = {"one_shot", "two_shot", "pairwise"};
constexpr std::string_view kByHops[] = {"ring", "chain",     "binomial",     "knomial",
                                        "bine", "circulant", "rabenseifner", "swing"};

// Whether a call may take it, if the codec may encode as often as it likes.
bool may_take(std::string_view algorithm, Rank ranks, const Codec& codec) {
  Question question{.collective = Collective::kAllReduce, .ranks = ranks, .coded = true};
  question.coding = cost_of(codec, DataType::kFloat32);
  question.coding.encodings = kMostEncodings;
  return obstacle(*find_builder(Collective::kAllReduce, algorithm), question, kMaxMessage).empty();
}

// All that calls may take are proved, and encode no more often than is said; others are refused.
TEST(Coded, PlansEncodeAsOftenAsIsSaid) {
  const auto repeats = codec_of("int8"), differs = codec_of("int4:scale=minmax");
  for (const Builder& builder : builders()) {
    if (builder.collective != Collective::kAllReduce || builder.uses_windows()) continue;
    for (const Rank ranks : {2, 3, 4, 5, 7, 8, 12, 16, 33, 64}) {
      if (!builder.fits({.ranks = ranks, .coded = true})) continue;
      const std::vector<Plan> plans = build(builder.name, ranks);
      const auto effect = prove_coded(plans, coding_errors(*repeats, DataType::kFloat32));
      const std::string what = fmt::format("{}, {} ranks", builder.name, ranks);
      const std::optional<int32_t> said = encodings(builder, ranks);
      if (!said) {
        EXPECT_FALSE(may_take(builder.name, ranks, *repeats)) << what;
        continue;
      }
      ASSERT_TRUE(effect.ok()) << what << ": " << effect.status().message();
      EXPECT_LE(effect->encodings, *said) << what;
      if (std::has_single_bit(static_cast<uint32_t>(ranks))) {
        EXPECT_EQ(effect->encodings, *said) << what;
      }
      const bool is_same = prove_coded(plans, coding_errors(*differs, DataType::kFloat32)).ok();
      EXPECT_LE(may_take(builder.name, ranks, *differs), is_same) << what << ", with a codec that changes results";
    }
  }
}

TEST(Coded, PlansStayRightWhenTheyKeepWhatTheySend) {
  for (const Builder& builder : builders()) {
    // All-to-all's sends are no results, and windows carry no messages.
    if (builder.equal_chunks_only || builder.uses_windows()) continue;
    for (Rank ranks = 2; ranks <= 9; ++ranks) {
      std::vector<Plan> plans;
      for (Rank rank = 0; rank < ranks; ++rank) {
        const BuildOptions options{.rank = rank, .ranks = ranks, .coded = true};
        if (!builder.fits(options)) break;
        plans.push_back(hocket::build(builder, options));
      }
      if (plans.empty()) continue;
      for (const bool in_place : {false, true}) {
        const auto proof = prove(plans, {.in_place = in_place, .ordered = builder.ordered});
        EXPECT_TRUE(proof.ok()) << builder.name << " " << ranks << ": " << proof.status().message();
      }
    }
  }
}

// Each of two ranks adds what it decodes to its own raw values: no two end alike.
TEST(Coded, WhoAddsWhatNobodyElseHasIsFoundOut) {
  const std::vector<Plan> plans = build("recursive_doubling", 2);
  const auto effect = prove_coded(plans, {.relative_error = 0.01});
  ASSERT_FALSE(effect.ok());
  EXPECT_EQ("coded, rank 1 ends with other bits in recv[0] than rank 0", effect.status().message());
  const Outcome outcome = perform(plans, codec_of("int4").get(), gaussian_inputs(2, kBlock));
  ASSERT_EQ("", outcome.failure);
  EXPECT_NE(outcome.results[0], outcome.results[1]);
}

// The square of the error of a sum of p contributions, in units of that of encoding once: each contribution is encoded
// once (one-shot), and the sum once more (two-shot), or the partial sums are at every step (halving, circulant) or hop
// (ring). Of two ranks each adds its own as it is, so that only every second contribution is encoded.
double law(std::string_view algorithm, Rank ranks) {
  const double p = ranks;
  if (algorithm == "one_shot") return 1;
  if (algorithm == "ring") return (p + 1) / 2;
  if (algorithm == "circulant" || algorithm == "rabenseifner") return 1 + std::log2(p) / 2;
  return ranks == 2 ? 1.5 : 2;
}

class Growth : public testing::TestWithParam<Rank> {};

TEST_P(Growth, IsAsPredicted) {
  const auto codec = codec_of("int8");
  const Rank ranks = GetParam();
  for (std::string_view algorithm : {"one_shot", "two_shot", "pairwise", "ring", "circulant", "rabenseifner"}) {
    const std::string what = fmt::format("{}, {} ranks", algorithm, ranks);
    const std::vector<Plan> plans = build(algorithm, ranks);
    const auto effect = prove_coded(plans, coding_errors(*codec, DataType::kFloat32));
    ASSERT_TRUE(effect.ok()) << what << ": " << effect.status().message();
    const auto inputs = gaussian_inputs(ranks, count_for(plans, 8));
    const Outcome outcome = perform(plans, codec.get(), inputs);
    expect_same_bits(outcome, what);
    const Errors errors = errors_of(outcome.results[0], exact_sum(inputs));
    const double eps = encoding_error(*codec, inputs[0]), lawful = std::sqrt(law(algorithm, ranks));
    EXPECT_NEAR(lawful, std::sqrt(effect->noise), 0.1 * lawful) << what << ", as promised";
    EXPECT_NEAR(lawful, errors.relative / eps, 0.1 * lawful) << what << ", as measured";
    EXPECT_LE(errors.largest, effect->relative * largest_magnitude(inputs) + effect->absolute) << what;
    if (algorithm == "ring" && ranks >= 16) {
      EXPECT_GT(errors.relative / eps, 1.1 * std::sqrt(law("two_shot", ranks))) << "no worse than two-shot";
    }
    RecordProperty(fmt::format("{}_{}", algorithm, ranks), fmt::format("{:.4g}", errors.relative));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Growth, testing::Values(2, 3, 5, 8, 16, 64));

// Whichever is chosen keeps what hocketCodecErrorBound says.
TEST(Coded, OthersAreNoFartherOffThanTwoShot) {
  const CodingErrors errors{
      .relative_error = 0.01, .absolute_error = 0.001, .rounding = 0x1p-8, .adds_as_stored = true};
  for (Rank ranks = 2; ranks <= 64; ++ranks) {
    const auto two_shot = prove_coded(build("two_shot", ranks), errors);
    for (const char* algorithm : {"one_shot", "pairwise"}) {
      const auto other = prove_coded(build(algorithm, ranks), errors);
      ASSERT_TRUE(other.ok()) << other.status().message();
      EXPECT_LE(other->relative, two_shot->relative * (1 + 1e-9)) << algorithm << ranks;
      EXPECT_LE(other->absolute, two_shot->absolute * (1 + 1e-9)) << algorithm << ranks;
    }
  }
}

// What narrow types round when they store it, and what is selected, is not what the others add.
TEST(Coded, OneShotAddsWhatItStored) {
  const CodingErrors errors{.relative_error = 0.01};
  EXPECT_FALSE(prove_coded(build("one_shot", 3), errors).ok());
  for (const char* algorithm : {"two_shot", "pairwise", "ring"}) {
    EXPECT_TRUE(prove_coded(build(algorithm, 3), errors).ok()) << algorithm;
  }
}

// The same codec, allowed to encode as often as the algorithm does.
std::string allowed(const std::string& specification, std::string_view algorithm, Rank ranks) {
  const int32_t times = *encodings(*find_builder(Collective::kAllReduce, algorithm), ranks);
  const char between = specification.find(':') == std::string::npos ? ':' : ',';
  return fmt::format("{}{}encodings={}", specification, between, std::max(times, kFewestEncodings));
}

class EveryCodec : public testing::TestWithParam<std::tuple<std::string_view, Rank>> {};

TEST_P(EveryCodec, GivesAllRanksTheSameBitsWithinWhatHocketCodecErrorBoundSays) {
  const auto [algorithm, ranks] = GetParam();
  const std::vector<Plan> plans = build(algorithm, ranks);
  const auto inputs = gaussian_inputs(ranks, count_for(plans, 1) - 77);  // the last chunk is no whole block
  const std::vector<double> sum = exact_sum(inputs);
  LocalRanks local(ranks, kMaxMessage);
  for (const std::string& plain : all_specifications()) {
    const std::string specification = allowed(plain, algorithm, ranks);
    const auto codec = codec_of(specification);
    if (!may_take(algorithm, ranks, *codec)) continue;
    const auto bound = (*Coding::make(specification))->error_bound(Collective::kAllReduce, DataType::kFloat32, ranks);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    const Outcome outcome = perform(local, plans, codec.get(), inputs);
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(outcome, specification));
    const Errors errors = errors_of(outcome.results[0], sum);
    EXPECT_LE(errors.largest, bound->relative * largest_magnitude(inputs) + bound->absolute) << specification;
  }
}

INSTANTIATE_TEST_SUITE_P(Once, EveryCodec,
                         testing::Combine(testing::ValuesIn(kOnce), testing::Values(2, 3, 5, 8, 16, 64)));
INSTANTIATE_TEST_SUITE_P(ByHops, EveryCodec, testing::Combine(testing::ValuesIn(kByHops), testing::Values(2, 3, 5, 8)));

// Owners have more others than a step has destinations.
TEST(Coded, ManyRanksHaveAPlanAndABound) {
  const auto codec = codec_of("int8:round=stochastic");
  for (const Rank ranks : {64, 65, 130, 256}) {
    const std::vector<Plan> plans = build(coded_builder(Collective::kAllReduce, ranks)->name, ranks);
    for (const Plan& plan : plans) ASSERT_TRUE(check(plan).ok()) << check(plan).message();
    const auto bound =
        (*Coding::make("int8:round=stochastic"))->error_bound(Collective::kAllReduce, DataType::kFloat32, ranks);
    ASSERT_TRUE(bound.ok()) << ranks << ": " << bound.status().message();
    if (ranks > 65) continue;
    const auto inputs = gaussian_inputs(ranks, count_for(plans, 1));
    const Outcome outcome = perform(plans, codec.get(), inputs);
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(outcome, "stochastic"));
    EXPECT_LE(errors_of(outcome.results[0], exact_sum(inputs)).largest, bound->relative * largest_magnitude(inputs));
  }
}

// Never farther off than without hosts, which is what hocketCodecErrorBound says.
TEST(Coded, BetweenHostsOnly) {
  const std::vector<std::vector<Rank>> shapes = {{2, 2}, {3, 1}, {1, 4, 2}, {4, 4}, {2, 2, 2, 2}, {5, 3}};
  for (const char* specification : {"int8", "int4:round=stochastic", "fp16", "topk:ratio=0.1"}) {
    const auto codec = codec_of(specification);
    for (const std::vector<Rank>& hosts : shapes) {
      const std::vector<Plan> plans = build_over(hosts);
      const auto ranks = static_cast<Rank>(plans.size());
      const std::string what = fmt::format("{}, {} hosts, {} ranks", specification, hosts.size(), ranks);
      const auto proof = prove(plans);
      ASSERT_TRUE(proof.ok()) << what << ": " << proof.status().message();
      const auto effect = prove_coded(plans, coding_errors(*codec, DataType::kFloat32));
      ASSERT_TRUE(effect.ok()) << what << ": " << effect.status().message();
      EXPECT_LE(effect->relative,
                prove_coded(build("two_shot", ranks), coding_errors(*codec, DataType::kFloat32))->relative)
          << what;
      const auto inputs = gaussian_inputs(ranks, count_for(plans, 2) + 77);
      const Outcome outcome = perform(plans, codec.get(), inputs);
      expect_same_bits(outcome, what);
      const Errors errors = errors_of(outcome.results[0], exact_sum(inputs));
      EXPECT_LE(errors.largest, effect->relative * largest_magnitude(inputs) + effect->absolute) << what;
    }
  }
}

constexpr std::pair<Collective, std::string_view> kBetweenHosts[] = {
    {Collective::kReduceScatter, "hierarchical"}, {Collective::kAllGather, "hierarchical"},
    {Collective::kBroadcast, "hierarchical"},     {Collective::kReduce, "hierarchical"},
    {Collective::kAllToAll, "hierarchical"},      {Collective::kAllToAll, "direct"}};

// No step sends both within a host and between hosts: its messages are encoded or not.
TEST(Coded, StepsStayWithinHostsOrLeaveThem) {
  for (const std::vector<Rank>& hosts :
       std::vector<std::vector<Rank>>{{2, 2}, {3, 1}, {1, 4, 2}, {7, 7, 7}, {16, 16}}) {
    std::vector<size_t> host_of;
    for (size_t host = 0; host < hosts.size(); ++host)
      host_of.insert(host_of.end(), static_cast<size_t>(hosts[host]), host);
    std::vector<Plan> plans = build_over(hosts);
    for (const auto& [collective, algorithm] : kBetweenHosts) {
      const std::vector<Plan> more = build_over(hosts, collective, algorithm);
      plans.insert(plans.end(), more.begin(), more.end());
    }
    for (const Plan& plan : plans) {
      for (const Lane& lane : plan.lanes) {
        for (const Step& step : lane.steps) {
          for (const auto* places : {&step.sources, &step.destinations}) {
            for (const Place& place : *places) {
              if (!is_message(place) || place.regions.empty()) continue;
              const bool within = host_of[static_cast<size_t>(place.peer)] == host_of[static_cast<size_t>(plan.rank)];
              EXPECT_EQ(within, step.plain) << "rank " << plan.rank << " of " << plan.ranks;
            }
          }
        }
      }
    }
  }
}

// What each rank is to end with.
std::vector<std::vector<double>> wanted_of(const Plan& plan, const std::vector<std::vector<float>>& inputs) {
  const size_t ranks = inputs.size(), count = inputs[0].size(), part = count / ranks;
  const std::vector<double> sum = exact_sum(inputs);
  std::vector<std::vector<double>> wanted(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<double>& own = wanted[rank];
    const auto append = [&](const auto& from, size_t first, size_t some) {
      own.insert(own.end(), from.begin() + static_cast<ptrdiff_t>(first),
                 from.begin() + static_cast<ptrdiff_t>(first + some));
    };
    if (plan.collective == Collective::kReduceScatter) append(sum, rank * part, part);
    if (plan.collective == Collective::kBroadcast) append(inputs[static_cast<size_t>(plan.root)], 0, count);
    if (plan.collective == Collective::kReduce && rank == static_cast<size_t>(plan.root)) append(sum, 0, count);
    for (const std::vector<float>& theirs : inputs) {
      if (plan.collective == Collective::kAllGather) append(theirs, 0, count);
      if (plan.collective == Collective::kAllToAll) append(theirs, rank * part, part);
    }
  }
  return wanted;
}

// The other collectives likewise: never farther off than by the plan without hosts, nothing lost inside of a host, all
// ranks with the same bits where they end with the same, and fewer bytes than are encoded without hosts.
TEST(Coded, OtherCollectivesBetweenHostsOnly) {
  constexpr size_t kCount = 6 * 5 * 7 * 8 * kBlock / 8 + 8 * 3 * 5 * 7;  // parts for 2 to 8 ranks, not of whole blocks
  for (const std::vector<Rank>& hosts :
       std::vector<std::vector<Rank>>{{2, 2}, {3, 1}, {1, 4, 2}, {4, 4}, {2, 2, 2, 2}, {5, 3}, {1, 1, 2}}) {
    for (const auto& [collective, algorithm] : kBetweenHosts) {
      const std::vector<Plan> plans = build_over(hosts, collective, algorithm);
      const auto ranks = static_cast<Rank>(plans.size());
      const std::string what = fmt::format("{} {} {}", name(collective), algorithm, testing::PrintToString(hosts));
      const auto proof = prove(plans, {.equal_chunks = find_builder(collective, algorithm)->equal_chunks_only});
      ASSERT_TRUE(proof.ok()) << what << ": " << proof.status().message();
      LocalRanks local(ranks, kMaxMessage);
      const auto inputs = gaussian_inputs(ranks, kCount / static_cast<size_t>(ranks) * static_cast<size_t>(ranks));
      const auto wanted = wanted_of(plans[0], inputs);
      for (const char* specification : {"int8", "int4:scale=minmax,round=stochastic", "fp16", "topk:ratio=0.1"}) {
        const auto codec = codec_of(specification);
        const auto effect = prove_coded(plans, coding_errors(*codec, DataType::kFloat32));
        ASSERT_TRUE(effect.ok()) << what << ": " << effect.status().message();
        EXPECT_EQ(1, effect->encodings) << what;
        const auto bound = (*Coding::make(specification))->error_bound(collective, DataType::kFloat32, ranks);
        ASSERT_TRUE(bound.ok()) << bound.status().message();
        EXPECT_LE(effect->relative, bound->relative * (1 + 1e-9)) << what;
        const Outcome outcome = perform(local, plans, codec.get(), inputs);
        ASSERT_EQ("", outcome.failure) << what;
        const bool agree = collective == Collective::kAllGather || collective == Collective::kBroadcast;
        if (agree) expect_same_bits(outcome, what);
        for (size_t rank = 0; rank < wanted.size(); ++rank) {
          if (wanted[rank].empty()) continue;
          const Errors errors = errors_of(outcome.results[rank], wanted[rank]);
          EXPECT_LE(errors.largest, effect->relative * largest_magnitude(inputs) + effect->absolute) << what << rank;
        }
      }
    }
  }
}

// Of an all-to-all what stays on a host arrives as it is; a reduce-scatter encodes one sum for each rank elsewhere.
TEST(Coded, WhatStaysOnAHostIsNotEncoded) {
  const auto codec = codec_of("int4");
  for (const char* algorithm : {"hierarchical", "direct"}) {
    const std::vector<Plan> plans = build_over({2, 3}, Collective::kAllToAll, algorithm);
    const auto inputs = gaussian_inputs(5, 5 * kBlock);
    const Outcome outcome = perform(plans, codec.get(), inputs);
    ASSERT_EQ("", outcome.failure);
    for (size_t to = 0; to < 5; ++to) {
      for (size_t from = 0; from < 5; ++from) {
        const bool is_same =
            std::memcmp(&outcome.results[to][from * kBlock], &inputs[from][to * kBlock], kBlock * sizeof(float)) == 0;
        EXPECT_EQ((to < 2) == (from < 2), is_same) << algorithm << ": from " << from << " to " << to;
      }
    }
  }
  const std::vector<Plan> plans = build_over({2, 3}, Collective::kReduceScatter);
  const auto inputs = gaussian_inputs(5, 5 * kBlock);
  CodedTraffic traffic;
  LocalRanks local(5, kMaxMessage);
  ASSERT_EQ("", perform(local, plans, codec.get(), inputs, 1, nullptr, &traffic).failure);
  EXPECT_EQ(5 * kBlock * sizeof(float), traffic.value_bytes());
}

// The result, and all that was lost on the way, are the contributions, whatever the plan.
void expect_nothing_lost(LocalRanks& local, const std::vector<Plan>& plans, const std::string& specification) {
  const std::string what = fmt::format("{}, {}, {} ranks", specification, plans[0].algorithm, plans.size());
  const auto codec = codec_of(specification);
  const auto inputs = gaussian_inputs(static_cast<Rank>(plans.size()), count_for(plans, 1) - 77);
  std::vector<std::vector<float>> losses;
  const Outcome outcome = perform(local, plans, codec.get(), inputs, 1, &losses);
  ASSERT_NO_FATAL_FAILURE(expect_same_bits(outcome, what));
  losses.push_back(outcome.results[0]);
  const std::vector<double> wanted = exact_sum(inputs), found = exact_sum(losses);
  const double slack = 1e-6 * static_cast<double>(plans.size()) * largest_magnitude(inputs);
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(wanted[i], found[i], slack) << what << ", element " << i;
}

TEST(Coded, WhatIsLostIsKept) {
  for (const Rank ranks : {2, 3, 5, 8}) {
    LocalRanks local(ranks, kMaxMessage);
    const auto expect_of = [&](std::string_view algorithm, bool by_hops) {
      const std::vector<Plan> plans = build(algorithm, ranks);
      for (const std::string& specification : all_specifications()) {
        const auto codec = codec_of(specification);
        // Who may lose more than there is takes no key: from hop to hop it grows beyond what float32 tells apart.
        if (!may_take(algorithm, ranks, *codec) || (by_hops && !contracts(*codec))) continue;
        ASSERT_NO_FATAL_FAILURE(expect_nothing_lost(local, plans, specification));
      }
    };
    for (const std::string_view algorithm : kOnce) ASSERT_NO_FATAL_FAILURE(expect_of(algorithm, false));
    for (const std::string_view algorithm : kByHops) ASSERT_NO_FATAL_FAILURE(expect_of(algorithm, true));
  }
}

TEST(Coded, WhatIsLostBetweenHostsIsKept) {
  for (const std::vector<Rank>& hosts :
       std::vector<std::vector<Rank>>{{2, 2}, {3, 1}, {1, 4, 2}, {2, 2, 2, 2}, {5, 3}}) {
    const std::vector<Plan> plans = build_over(hosts);
    LocalRanks local(static_cast<Rank>(plans.size()), kMaxMessage);
    for (const char* specification : {"int8", "int4:scale=minmax,round=stochastic", "sign", "topk:ratio=0.1"}) {
      ASSERT_NO_FATAL_FAILURE(expect_nothing_lost(local, plans, specification));
    }
  }
}

TEST(Coded, WhatManyRanksLoseIsKept) {
  const Rank ranks = 65;
  LocalRanks local(ranks, kMaxMessage);
  expect_nothing_lost(local, build(coded_builder(Collective::kAllReduce, ranks)->name, ranks), "int4:rotate=1");
}

// All-reduces without windows that codecs may take which change nothing: all there are.
std::vector<const Builder*> all_reduces(Rank ranks) {
  std::vector<const Builder*> result;
  for (const Builder& builder : builders()) {
    const bool is_one = builder.collective == Collective::kAllReduce && !builder.uses_windows();
    if (is_one && builder.fits({.ranks = ranks, .coded = true})) result.push_back(&builder);
  }
  return result;
}

TEST(Coded, LosslessChangesNoBitOfAnyPlan) {
  const auto codec = codec_of("lossless");
  for (const Rank ranks : {2, 5, 8}) {
    EXPECT_LT(14U, all_reduces(ranks).size());
    for (const Builder* builder : all_reduces(ranks)) {
      const std::vector<Plan> plans = build(builder->name, ranks);
      const std::string what = fmt::format("{}, {} ranks", builder->name, ranks);
      EXPECT_TRUE(may_take(builder->name, ranks, *codec)) << what;
      const auto effect = prove_coded(plans, coding_errors(*codec, DataType::kFloat32));
      EXPECT_TRUE(effect.ok()) << what << ": " << effect.status().message();
      const auto inputs = gaussian_inputs(ranks, count_for(plans, 3) + 5);
      const Outcome plain = perform(plans, nullptr, inputs), coded = perform(plans, codec.get(), inputs);
      expect_same_bits(coded, what);
      EXPECT_EQ(plain.results, coded.results) << what;
    }
  }
}

// Whole numbers at a share of the places, others for each rank; and never a negative zero.
std::vector<std::vector<float>> sparse_inputs(Rank ranks, size_t count, double density) {
  std::vector<std::vector<float>> inputs(static_cast<size_t>(ranks), std::vector<float>(count));
  for (Rank rank = 0; rank < ranks; ++rank) {
    const DrawKey key(static_cast<uint64_t>(rank) + 1);
    std::vector<float>& own = inputs[static_cast<size_t>(rank)];
    for (size_t i = 0; i < count; ++i) {
      if (static_cast<double>(random_fraction(key, static_cast<uint32_t>(i))) >= density) continue;
      own[i] = static_cast<float>(rank % 2 == 0 ? rank % 7 + 1 : -(rank % 5) - 1);
    }
  }
  return inputs;
}

// Sums of few elements are sent as such, each in the shortest form: so recursive doubling, which adds sums to sums,
// sends no more than as many dense messages and their heads, of any number of ranks; and where all ranks' elements
// together are as few as vectors that go by a plan (codec/programs/sparse_sum.h), no plan sends more than a dense
// two-shot.
TEST(Coded, SparseSumsByAnyPlanAreExactAndNeverLonger) {
  constexpr size_t kCount = 3000, kBytes = kCount * sizeof(float), kHead = 5;
  const auto codec = sparse_codec(0.01);
  for (const Rank ranks : {2, 3, 4, 5, 7, 8, 12, 16, 33, 64}) {
    LocalRanks local(ranks, kMaxMessage);
    for (const double density : {0.0, 0.0003, 0.001, 0.01, 0.1, 0.5, 1.0}) {
      const auto inputs = sparse_inputs(ranks, kCount, density);
      const std::vector<double> sum = exact_sum(inputs);
      size_t most = 0;
      for (const auto& input : inputs)
        most = std::max(most, kCount - static_cast<size_t>(std::ranges::count(input, 0)));
      const bool is_few = (9 + most * 8) * static_cast<size_t>(ranks) <= kBytes;
      for (const Builder* builder : all_reduces(ranks)) {
        const bool doubles = builder->name == "recursive_doubling";
        if (!doubles && (!is_few || ranks > 16)) continue;
        const std::string what = fmt::format("{}, {} ranks, density {}", builder->name, ranks, density);
        const std::vector<Plan> plans = build(builder->name, ranks);
        const auto effect = prove_coded(plans, coding_errors(*codec, DataType::kFloat32));
        ASSERT_TRUE(effect.ok()) << what << ": " << effect.status().message();
        CodedTraffic traffic;
        const Outcome outcome = perform(local, plans, codec.get(), inputs, 1, nullptr, &traffic);
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(outcome, what));
        EXPECT_TRUE(std::ranges::equal(sum, outcome.results[0])) << what;
        const auto sent = static_cast<double>(traffic.message_bytes());
        const auto messages = static_cast<double>(traffic.value_bytes()) / kBytes;
        if (doubles) {
          EXPECT_LE(sent, messages * (kBytes + kHead)) << what;
        }
        if (is_few) {
          EXPECT_LE(sent, 1.01 * 2.0 * (ranks - 1) * kBytes + 4.0 * ranks * (ranks - 1) * kHead) << what;
        }
      }
    }
  }
}

TEST(Coded, DrawsRepeat) {
  const auto codec = codec_of("int4:round=stochastic");
  const std::vector<Plan> plans = build("two_shot", 3);
  const auto inputs = gaussian_inputs(3, count_for(plans, 2));
  const Outcome first = perform(plans, codec.get(), inputs, 1);
  EXPECT_EQ(first.results, perform(plans, codec.get(), inputs, 1).results);
  EXPECT_NE(first.results, perform(plans, codec.get(), inputs, 2).results);
}

TEST(Coded, SlicesAreAsLongAsTheirMessagesAllow) {
  EXPECT_EQ(1024u, coded_slice(*codec_of("fp16"), DataType::kFloat32, 2048));
  // 255 blocks of 256 elements take 68 bytes for every 64; what does not fill a block is left out.
  EXPECT_EQ(0u, coded_slice(*codec_of("int8"), DataType::kFloat32, 1000) % kBlock);
  EXPECT_LE(
      codec_of("int8")->max_encoded_bytes(coded_slice(*codec_of("int8"), DataType::kFloat32, 1000), DataType::kFloat32),
      1000u);
  EXPECT_EQ(0u, coded_slice(*codec_of("topk"), DataType::kFloat32, 5));
  EXPECT_EQ(1u, coded_slice(*codec_of("topk"), DataType::kFloat32, 9));
}

// Of any length of messages, not only those of today's transports: where results are encoded again, passes and messages
// are whole blocks, or the plan is refused.
TEST(Coded, WhatIsEncodedAgainIsWholeBlocks) {
  const Builder& builder = *find_builder(Collective::kAllReduce, "rabenseifner");
  size_t allowed_cuts = 0, refused_cuts = 0;
  for (const std::string& specification : all_specifications()) {
    const auto codec =
        codec_of(specification + (specification.find(':') != std::string::npos ? "," : ":") + "encodings=64");
    const size_t block = codec->block() * sizeof(float);
    if (!encodes_again_alike(*codec, DataType::kFloat32) || codec->describe(DataType::kFloat32).lossless) continue;
    for (Rank ranks = 2; ranks <= 512; ranks *= 2) {
      for (size_t message = 64; message <= size_t{1} << 18; message += message < 4096 ? 64 : 4032) {
        const Question question{.ranks = ranks, .coded = true, .coding = cost_of(*codec, DataType::kFloat32)};
        if (!obstacle(builder, question, message).empty()) {
          ++refused_cuts;
          continue;
        }
        ++allowed_cuts;
        const Cut plain = cut(1, ranks, message);
        const CallCut coded =
            coded_cut(*codec, DataType::kFloat32, {plain.slice_bytes, plain.window_bytes / sizeof(float)}, message);
        const size_t slice = slice_of_blocks(*codec, DataType::kFloat32, coded.slice_bytes);
        ASSERT_EQ(0U, coded.window * sizeof(float) % block) << specification << ", " << ranks << ", " << message;
        ASSERT_EQ(0U, slice * sizeof(float) % block) << specification << ", " << ranks << ", " << message;
        ASSERT_LT(0U, coded.window * slice) << specification << ", " << ranks << ", " << message;
      }
    }
  }
  EXPECT_LT(1000U, allowed_cuts);
  EXPECT_LT(1000U, refused_cuts);
}

TEST(Coded, ShortMessagesCarryTwiceAsMuch) {
  constexpr CallCut kPlain{.slice_bytes = 4096, .window = 2048};
  const auto cut_of = [&](const std::string& codec, size_t max_message) {
    return coded_cut(*codec_of(codec), DataType::kFloat32, kPlain, max_message);
  };
  EXPECT_EQ(4096U, cut_of("int8", 65536).slice_bytes);
  EXPECT_EQ(2048U, cut_of("int8", 65536).window);
  for (const char* codec : {"topk", "threshold", "sign"}) {
    EXPECT_EQ(8192U, cut_of(codec, 65536).slice_bytes) << codec;
    EXPECT_EQ(6144U, cut_of(codec, 6144).slice_bytes) << codec;
  }
  EXPECT_EQ(4096U, cut_of("sign", 65536).window);
  // No pass has more than the two messages of a plain one, though a sparse message may carry a head and all values.
  const CallCut sparse = cut_of("topk", 65536);
  EXPECT_LE(sparse.window, 2 * coded_slice(*codec_of("topk"), DataType::kFloat32, sparse.slice_bytes));
  EXPECT_EQ(0U, coded_cut(*codec_of("topk"), DataType::kFloat32, {.slice_bytes = 2, .window = 1}, 4).window);
}

}  // namespace
}  // namespace hocket::test
