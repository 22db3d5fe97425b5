// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// dgc: Deep Gradient Compression (Lin and others, 2018). Each rank keeps its own momentum u := m u + x and what it has
// not sent yet, v := v + u; the largest elements of v are sent, and forgotten in both (factor masking). The first
// `warmup` calls send more: a quarter at first, then ever less, by the same factor from call to call.
//
// Something infinite or NaN is sent before anything else, and nothing of the call is kept.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/dense.h"
#include "codec/programs/programs.h"
#include "codec/select.h"
#include "codec/whole.h"

namespace hocket::programs {
namespace {

constexpr double kFirstRatio = 0.25;

class Dgc final : public Program {
 public:
  Dgc(std::string specification, double ratio, double momentum, int64_t warmup)
      : specification_(std::move(specification)),
        ratio_(ratio),
        momentum_(static_cast<float>(momentum)),
        warmup_(warmup),
        wire_(nonzero_codec()) {}

  CodecDescription describe() const override {
    return {.specification = specification_,
            .ratio = std::min(1.0, 2 * ratio_),
            .relative_error = 1,
            .range = largest_value(DataType::kFloat32)};
  }
  std::optional<double> relative_error(int) const override { return std::nullopt; }
  bool needs_state() const override { return true; }
  std::vector<size_t> lengths(size_t count, const Collectives&) const override { return {count, count}; }

  Status run(const ProgramCall& call) const override {
    accumulate(call);
    std::vector<float>& momentum = call.state.next[0];
    std::vector<float>& unsent = call.state.next[1];
    const size_t count = unsent.size();
    const auto most = static_cast<size_t>(std::ceil(ratio_at(call.state.steps) * static_cast<double>(count)));
    const auto chosen =
        select::largest({DataType::kFloat32, reinterpret_cast<const std::byte*>(unsent.data()), count}, most);
    std::fill(call.values.begin(), call.values.end(), 0.0f);
    for (const uint32_t i : chosen.indices) {
      call.values[i] = unsent[i];
      unsent[i] = momentum[i] = 0;
    }
    return call.collectives.sum({wire_}, {DataType::kFloat32, reinterpret_cast<std::byte*>(call.values.data()), count});
  }

 private:
  void accumulate(const ProgramCall& call) const {
    const size_t count = call.values.size();
    for (size_t part = 0; part < 2; ++part) {
      call.state.next[part] = call.state.now[part];
      call.state.next[part].resize(count);
    }
    float* momentum = call.state.next[0].data();
    float* unsent = call.state.next[1].data();
    for (size_t i = 0; i < count; ++i) {
      momentum[i] = momentum_ * momentum[i] + call.values[i];
      unsent[i] += momentum[i];
    }
  }

  double ratio_at(uint64_t step) const {
    if (step >= static_cast<uint64_t>(warmup_) || ratio_ >= kFirstRatio) return ratio_;
    return kFirstRatio * std::pow(ratio_ / kFirstRatio, static_cast<double>(step) / static_cast<double>(warmup_));
  }

  std::string specification_;
  double ratio_;
  float momentum_;
  int64_t warmup_;
  std::shared_ptr<const Codec> wire_;
};

}  // namespace

MadeProgram make_dgc(Specification& specification) {
  const double ratio = specification.real("ratio", 0.01, 1e-6, 1);
  const double momentum = specification.real("momentum", 0.9, 0, 0.9999);
  const int64_t warmup = specification.integer("warmup", 0, 0, 1'000'000'000);
  return std::make_unique<Dgc>(specification.canonical(), ratio, momentum, warmup);
}

}  // namespace hocket::programs
