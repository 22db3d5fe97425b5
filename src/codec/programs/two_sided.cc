// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Error feedback on both ways. Each rank encodes its values and what was kept of them; the owner of a chunk adds what
// came, encodes the sum and what was kept of that, and sends it to all. Two kinds (feedback.h):
//   both   residuals, of codecs that select: the outputs and all that ranks and owners keep add up to the inputs
//   ef21   ranks and owners send what their estimates lack; what all know of the sum comes closer with each call
//
// Infinities and NaN are what the codec makes of them; nothing of such a call is kept.
#include <algorithm>
#include <numeric>

#include "codec/programs/programs.h"
#include "codec/whole.h"
#include "kernels/random.h"

namespace hocket::programs {
namespace {

// Elements that each rank owns: whole blocks of the codec.
std::vector<size_t> owned(size_t count, size_t block, int ranks) {
  const auto parts = static_cast<size_t>(ranks);
  const size_t blocks = (count + block - 1) / block;
  std::vector<size_t> counts(parts);
  size_t left = count;
  for (size_t part = 0; part < parts; ++part) {
    const size_t most = (blocks / parts + (part < blocks % parts ? 1 : 0)) * block;
    counts[part] = std::min(left, most);
    left -= counts[part];
  }
  return counts;
}

void add(float times, const std::vector<float>& from, std::vector<float>& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] += times * from[i];
}

class TwoSided final : public Program {
 public:
  // Parts of the state. Of kEf21 only: what has come together at the owner, and what all know of it.
  enum Part : size_t { kOwn, kOwner, kGathered, kKnown };

  TwoSided(std::shared_ptr<const Codec> codec, FeedbackKind kind)
      : codec_(std::move(codec)), wire_(wire_of(codec_)), kind_(kind) {}

  CodecDescription describe() const override { return codec_->describe(DataType::kFloat32); }
  std::optional<double> relative_error(int) const override { return std::nullopt; }
  bool needs_state() const override { return true; }
  std::vector<size_t> lengths(size_t count, const Collectives& collectives) const override {
    const size_t own = counts(count, collectives)[static_cast<size_t>(collectives.rank())];
    if (kind_ == FeedbackKind::kResidual) return {count, own};
    return {count, own, own, count};
  }

  Status run(const ProgramCall& call) const override {
    const std::vector<size_t> parts = counts(call.values.size(), call.collectives);
    const auto rank = static_cast<size_t>(call.collectives.rank());
    std::vector<float> sent, lost(call.values.size()), sums(parts[rank]);
    HOCKET_TRY(prepare(call, kOwn, call.values, sent));
    HOCKET_TRY(
        call.collectives.reduce_scatter({wire_, draw(call, kOwn), lost.data()}, sent.data(), sums.data(), parts));
    add(-1, lost, sent);
    keep(kind_, call.state.now[kOwn], call.values, sent, call.state.next[kOwn]);
    if (kind_ == FeedbackKind::kEf21) gather(call, kGathered, sums);
    HOCKET_TRY(prepare(call, kOwner, sums, sent));
    HOCKET_TRY(call.collectives.all_gather({wire_, draw(call, kOwner)}, sent.data(), call.values.data(), parts));
    const auto first = std::accumulate(parts.begin(), parts.begin() + call.collectives.rank(), ptrdiff_t{0});
    std::copy_n(call.values.begin() + first, sent.size(), sent.begin());
    keep(kind_, call.state.now[kOwner], sums, sent, call.state.next[kOwner]);
    if (kind_ == FeedbackKind::kEf21) gather(call, kKnown, call.values);
    return {};
  }

 private:
  std::vector<size_t> counts(size_t count, const Collectives& collectives) const {
    return owned(count, std::max<size_t>(codec_->block(), 1), collectives.ranks());
  }

  // Values, corrected by what was kept, as they are sent: what selects does so of all at once.
  Status prepare(const ProgramCall& call, Part part, std::vector<float>& values, std::vector<float>& sent) const {
    correct(kind_, call.state.now[part], values);
    if (codec_->block() == 0) return through(*codec_, values, draw(call, part), sent);
    sent = values;
    return {};
  }

  static uint64_t draw(const ProgramCall& call, Part part) {
    return mix(call.draw + part) + static_cast<uint64_t>(call.collectives.rank());
  }

  // What has come so far, and this.
  static void gather(const ProgramCall& call, Part part, std::vector<float>& values) {
    add(1, call.state.now[part], values);
    call.state.next[part] = values;
  }

  std::shared_ptr<const Codec> codec_, wire_;
  FeedbackKind kind_;
};

}  // namespace

MadeProgram make_two_sided(std::shared_ptr<const Codec> codec, FeedbackKind kind) {
  return std::make_unique<TwoSided>(std::move(codec), kind);
}

}  // namespace hocket::programs
