// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/coding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "choose/choose.h"
#include "choose/cut.h"
#include "codec/whole.h"
#include "kernels/convert.h"
#include "kernels/random.h"
#include "plan/coded.h"

namespace hocket {
namespace {

// Of one addition, to the result.
double rounding_of(DataType type) {
  if (type == DataType::kFloat32) return 0x1p-24;
  return type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

bool sums(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

// Makes an average or a scaled sum a sum of contributions that are multiplied by this: so all that encodings lose,
// wherever they are made, is of the result, and comes back with the next contribution.
float take_scale(Request& request, Rank ranks) {
  Reduction& reduction = request.reduction;
  float scale = 1;
  if (reduction.scaled) widen(request.facts.type, reduction.scalar, &scale, 1);
  if (reduction.average) scale = 1 / static_cast<float>(ranks);
  reduction.scaled = reduction.average = false;
  return scale;
}

// Of calls that have such plans.
Result<CodingEffect> effect_of(const Builder& builder, Rank ranks, const Codec& codec, DataType type) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    plans.push_back(build(builder, {.rank = rank, .ranks = ranks, .coded = true}));
  }
  return prove_coded(plans, coding_errors(codec, type));
}

void raise(CodingEffect& most, const CodingEffect& other) {
  most.relative = std::max(most.relative, other.relative);
  most.absolute = std::max(most.absolute, other.absolute);
  most.noise = std::max(most.noise, other.noise);
  most.encodings = std::max(most.encodings, other.encodings);
}

// Over some medium: whether passes are whole blocks depends on how long its slices are.
bool may_be_anywhere(const Builder& builder, const Question& question) {
  return std::ranges::any_of(std::array{Medium::kMemory, Medium::kSocket, Medium::kNetwork},
                             [&](Medium medium) { return obstacle(builder, question, longest_slice(medium)).empty(); });
}

}  // namespace

CodingErrors coding_errors(const Codec& codec, DataType type) {
  const CodecDescription description = codec.describe(type);
  return {.relative_error = description.relative_error,
          .absolute_error = description.absolute_error,
          .rounding = rounding_of(type),
          .idempotent = encodes_again_alike(codec, type),
          .adds_as_stored = adds_as_stored(codec, type),
          .lossless = description.lossless && adds_as_stored(codec, type)};
}

Result<std::unique_ptr<Coding>> Coding::make(std::string_view specification) {
  Result<Compression> made = make_compression(specification);
  HOCKET_TRY(made.status());
  return std::unique_ptr<Coding>(new Coding(std::move(*made)));
}

Coding::Coding(Compression compression)
    : codecs_(std::move(compression.codecs)),
      program_(std::move(compression.program)),
      specification_(std::move(compression.specification)),
      digest_(digest_of(specification_)),
      feedback_(Feedback::Kind::kResidual, specification_),
      states_(specification_) {}

CodecDescription Coding::describe(DataType type) const {
  if (codecs_.empty()) return program_->describe();
  CodecDescription description = describe_all(codecs_, type);
  description.specification = specification_;
  return description;
}

bool Coding::supports(DataType type) const {
  if (!codecs_.empty()) return std::ranges::all_of(codecs_, [&](const auto& codec) { return codec->supports(type); });
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

Status Coding::check(const Request& request) const {
  const DataType type = request.facts.type;
  const Reduction& reduction = request.reduction;
  if (!supports(type)) {
    return {Code::kInvalidArgument, fmt::format("datatype: codec {} does not take {}", specification_, name(type))};
  }
  const bool adds = reduction.op == ReduceOp::kSum && reduction.user == nullptr;
  if (adds || (!codecs_.empty() && describe(type).lossless)) return {};
  return {Code::kInvalidArgument,
          fmt::format("op: codec {} knows sum and avg only, not {}", specification_, op_name(request.facts.op))};
}

void Coding::mark(Request& request, const std::shared_ptr<const Codec>& codec, uint32_t digest) const {
  request.facts.coding = digest;
  request.facts.encodes = codec != nullptr;
  if (codec == nullptr) return;
  request.codec = codec;
  request.traffic = traffic_;
}

Status Coding::attach(Request& request, const std::shared_ptr<const Codec>& codec) {
  HOCKET_TRY(check(request));
  mark(request, codec, digest_);
  request.draw = calls_.fetch_add(1);
  return {};
}

Status Coding::correct(std::string_view key, Request& request, Rank ranks, const std::shared_ptr<const Codec>& codec) {
  HOCKET_TRY(check(request));
  const DataType type = request.facts.type;
  const size_t count = request.facts.count;
  if (!std::ranges::all_of(codecs_, [](const auto& each) { return contracts(*each); })) {
    return {
        Code::kInvalidArgument,
        fmt::format("key: codec {} is right on average only, and may lose more than there is: what is kept would grow",
                    specification_)};
  }
  const float scale = describe(type).lossless ? 1 : take_scale(request, ranks);
  HOCKET_TRY(feedback_.correct(key, {type, static_cast<const std::byte*>(request.send), count}, corrected_, scale));
  const uint64_t draw = mix(feedback_.steps(key) + digest_of(key));
  const bool selects = codec != nullptr && codec->block() == 0;
  if (selects) HOCKET_TRY(through(*codec, corrected_, draw, decoded_));
  const std::vector<float>* sent = selects ? &decoded_ : &corrected_;
  request.send = sent->data();
  if (type != DataType::kFloat32) {
    // What a narrower type rounds off is lost, too, and kept.
    values_.resize(count * element_bytes(type));
    narrow(type, sent->data(), values_.data(), count);
    decoded_.resize(count);
    widen(type, values_.data(), decoded_.data(), count);
    sent = &decoded_;
    request.send = values_.data();
  }
  if (sent == &corrected_) {
    feedback_.kept().assign(count, 0);  // nothing is lost so far
  } else {
    feedback_.keep(corrected_, *sent);
  }
  if (codec != nullptr && !selects) request.losses = feedback_.kept().data();
  // Another call than one without a key.
  mark(request, codec == nullptr ? nullptr : wire_of(codec), digest_ ^ 0x40000000u);
  request.draw = draw;
  return {};
}

Status Coding::check_program(const char* key, const Request& request) const {
  HOCKET_TRY(check(request));
  if (request.facts.collective != Collective::kAllReduce) {
    return {Code::kInvalidUsage, fmt::format("codec {} compresses all_reduce only", specification_)};
  }
  if (request.reduction.scaled) {
    return {Code::kInvalidArgument,
            fmt::format("op: codec {} knows sum and avg only, not {}", specification_, op_name(request.facts.op))};
  }
  if (program_->needs_state() && key == nullptr) {
    return {Code::kInvalidArgument,
            fmt::format("key: codec {} keeps something of each tensor: it needs one", specification_)};
  }
  return {};
}

Result<States::Tensor*> Coding::open(const char* key, const Request& request, const std::vector<size_t>& lengths) {
  if (key != nullptr) return states_.open(key, request.facts.type, request.facts.count, lengths);
  passing_ = {};
  passing_.steps = calls_.fetch_add(1);
  passing_.now.resize(lengths.size());
  passing_.next.resize(lengths.size());
  return &passing_;
}

Status Coding::run_program(const char* key, const Request& request, Rank rank, Rank ranks, ProgramCalls::Run run) {
  HOCKET_TRY(check_program(key, request));
  const std::lock_guard lock(mutex_);
  const uint32_t of_averages = request.reduction.average ? 1U << 31 : 0;  // a sum elsewhere does not match
  ProgramCalls calls(rank, ranks, digest_ ^ of_averages, traffic_, std::move(run));
  const DataType type = request.facts.type;
  const size_t count = request.facts.count;
  const Result<States::Tensor*> state = open(key, request, program_->lengths(count, calls));
  HOCKET_TRY(state.status());
  corrected_.resize(count);
  widen(type, static_cast<const std::byte*>(request.send), corrected_.data(), count);
  const uint64_t uncounted = traffic_->value_bytes();
  const uint64_t draw = mix((*state)->steps + (key == nullptr ? 0 : digest_of(key)));
  HOCKET_TRY(program_->run({calls, **state, corrected_, draw}));
  if (traffic_->value_bytes() == uncounted) traffic_->add(calls.sent_bytes(count * element_bytes(type)), 0);
  if (request.reduction.average) {
    for (float& value : corrected_) value /= static_cast<float>(ranks);
  }
  narrow(type, corrected_.data(), static_cast<std::byte*>(request.recv), count);
  if (key != nullptr) states_.commit(key, {type, static_cast<const std::byte*>(request.recv), count});
  return {};
}

std::string Coding::save() const {
  const std::lock_guard lock(mutex_);
  return program_ != nullptr ? states_.save() : feedback_.save();
}

Status Coding::load(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  return program_ != nullptr ? states_.load(bytes) : feedback_.load(bytes);
}

void Coding::reset() {
  const std::lock_guard lock(mutex_);
  feedback_.reset();
  states_.reset();
}

void Coding::reset(std::string_view key) {
  const std::lock_guard lock(mutex_);
  feedback_.reset(key);
  states_.reset(key);
}

Result<CodingEffect> Coding::error_bound(Collective collective, DataType type, Rank ranks) const {
  if (!supports(type)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("datatype: codec {} does not take {}", specification_, name(type)));
  }
  if (ranks < 1 || ranks > kMaxBoundRanks) {
    return Status(Code::kInvalidArgument, fmt::format("ranks: {} is not from 1 to {}", ranks, kMaxBoundRanks));
  }
  if (codecs_.empty()) return program_bound(collective, type, ranks);
  CodingEffect worst;
  for (const auto& codec : codecs_) {
    const Question question{.collective = collective, .ranks = ranks, .coded = true, .coding = cost_of(*codec, type)};
    for (const Builder& builder : builders()) {
      if (builder.collective != collective || !may_be_anywhere(builder, question) ||
          !builder.fits({.ranks = ranks, .coded = true}))
        continue;
      const Result<CodingEffect> effect = effect_of(builder, ranks, *codec, type);
      HOCKET_TRY(effect.status());
      raise(worst, *effect);
    }
  }
  // What a host's ranks have is added, and so rounded, before it is encoded (docs/decisions/0115).
  if (sums(collective)) worst.relative *= 1 + rounding_of(type) * ranks;
  return worst;
}

Result<CodingEffect> Coding::program_bound(Collective collective, DataType type, Rank ranks) const {
  const auto error = program_->relative_error(ranks);
  if (collective != Collective::kAllReduce) {
    return Status(Code::kInvalidUsage, fmt::format("codec {} compresses all_reduce only", specification_));
  }
  if (!error) {
    return Status(Code::kInvalidUsage,
                  fmt::format("codec {}: how far a sum is off depends on the values", specification_));
  }
  const double rounding = type == DataType::kFloat32 ? 0 : rounding_of(type) * ranks * (1 + *error);
  return CodingEffect{.relative = *error + rounding,
                      .absolute = ranks * program_->describe().absolute_error,
                      .noise = 1,
                      .encodings = 1};
}

}  // namespace hocket
