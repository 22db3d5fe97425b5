// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/coding.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "choose/choose.h"
#include "kernels/convert.h"
#include "kernels/random.h"
#include "plan/coded.h"

namespace hocket {
namespace {

// Elements that are encoded at once: whole blocks of every codec, and as a whole what selects among all.
size_t feedback_step(const Codec& codec, size_t count) {
  constexpr size_t kStep = size_t{1} << 16;
  return codec.block() == 0 ? std::max<size_t>(count, 1) : kStep;
}

uint32_t digest_of(std::string_view text) {
  uint64_t hash = 1;
  for (const char letter : text) hash = mix(hash ^ static_cast<unsigned char>(letter));
  return static_cast<uint32_t>(hash) | 1;
}

}  // namespace

Result<std::unique_ptr<Coding>> Coding::make(std::string_view specification) {
  Result<std::unique_ptr<const Codec>> made = make_codec(specification);
  HOCKET_TRY(made.status());
  std::shared_ptr<const Codec> codec = std::move(*made);
  // What was selected stays selected, in messages that carry all that is not zero.
  std::shared_ptr<const Codec> wire = codec;
  if (codec->block() == 0) wire = std::move(*make_codec("blocksparse:block=1"));
  return std::unique_ptr<Coding>(new Coding(std::move(codec), std::move(wire)));
}

Coding::Coding(std::shared_ptr<const Codec> codec, std::shared_ptr<const Codec> wire)
    : codec_(std::move(codec)),
      wire_(std::move(wire)),
      digest_(digest_of(codec_->describe(DataType::kFloat32).specification)),
      feedback_(Feedback::Kind::kResidual, codec_->describe(DataType::kFloat32).specification) {}

Status Coding::check(const Request& request) const {
  const DataType type = request.facts.type;
  const Reduction& reduction = request.reduction;
  const std::string specification = codec_->describe(DataType::kFloat32).specification;
  if (!codec_->supports(type)) {
    return {Code::kInvalidArgument, fmt::format("datatype: codec {} does not take {}", specification, name(type))};
  }
  const bool adds = reduction.op == ReduceOp::kSum && reduction.user == nullptr;
  const bool any = specification == "lossless";
  if (adds || any) return {};
  return {Code::kInvalidArgument,
          fmt::format("op: codec {} knows sum and avg only, not {}", specification, op_name(request.facts.op))};
}

Status Coding::attach(Request& request) {
  HOCKET_TRY(check(request));
  request.codec = codec_;
  request.facts.coding = digest_;
  request.facts
      .reproducibility = {};  // coded plans combine in one order anyway, and what a codec rounds is never exact
  request.draw = calls_.fetch_add(1);
  return {};
}

Status Coding::correct(std::string_view key, Request& request) {
  HOCKET_TRY(check(request));
  const DataType type = request.facts.type;
  const size_t count = request.facts.count;
  const bool repeatable = codec_->describe(DataType::kFloat32).idempotent || codec_->block() == 0;
  if (!repeatable) {
    return {Code::kInvalidArgument, fmt::format("key: codec {} would encode again what it has encoded, and differently",
                                                codec_->describe(type).specification)};
  }
  HOCKET_TRY(feedback_.correct(key, {type, static_cast<const std::byte*>(request.send), count}, corrected_));
  const size_t step = feedback_step(*codec_, count);
  const uint64_t draw = mix(feedback_.steps(key) + digest_of(key));
  decoded_.resize(count);
  message_.resize(codec_->max_encoded_bytes(std::min(step, count), DataType::kFloat32));
  for (size_t first = 0; first < count; first += step) {
    const size_t some = std::min(step, count - first);
    const auto* from = reinterpret_cast<const std::byte*>(corrected_.data() + first);
    const size_t bytes = codec_->encode({DataType::kFloat32, from, some}, draw + first, message_);
    auto* to = reinterpret_cast<std::byte*>(decoded_.data() + first);
    HOCKET_TRY(codec_->decode_reduce(std::span(message_).first(bytes), std::nullopt, {DataType::kFloat32, to, some}));
  }
  // What a narrower type rounds off is lost, too, and kept.
  values_.resize(count * element_bytes(type));
  narrow(type, decoded_.data(), values_.data(), count);
  widen(type, values_.data(), decoded_.data(), count);
  feedback_.keep(key, corrected_, decoded_);
  request.send = values_.data();
  request.codec = wire_;
  request.facts.reproducibility = {};
  request.facts.coding = digest_ ^ 0x40000000u;  // another call than one without a key
  request.draw = draw;
  return {};
}

std::string Coding::save() const {
  const std::lock_guard lock(mutex_);
  return feedback_.save();
}

Status Coding::load(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  return feedback_.load(bytes);
}

void Coding::reset() {
  const std::lock_guard lock(mutex_);
  feedback_.reset();
}

void Coding::reset(std::string_view key) {
  const std::lock_guard lock(mutex_);
  feedback_.reset(key);
}

Result<CodingEffect> Coding::error_bound(DataType type, Rank ranks) const {
  if (!codec_->supports(type)) {
    return Status(Code::kInvalidArgument, fmt::format("datatype: codec {} does not take {}",
                                                      codec_->describe(DataType::kFloat32).specification, name(type)));
  }
  if (ranks < 1 || ranks > kMaxBoundRanks) {
    return Status(Code::kInvalidArgument, fmt::format("ranks: {} is not from 1 to {}", ranks, kMaxBoundRanks));
  }
  const Builder* builder = coded_builder(Collective::kAllReduce);
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    BuildOptions options;
    options.rank = rank;
    options.ranks = ranks;
    plans.push_back(keep_what_is_sent(builder->build(options)));
  }
  const CodecDescription description = codec_->describe(type);
  const double rounding = type == DataType::kFloat32 ? 0x1p-24 : type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
  return prove_coded(plans, {.relative_error = description.relative_error,
                             .absolute_error = description.absolute_error,
                             .rounding = rounding});
}

}  // namespace hocket
