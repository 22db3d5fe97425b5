// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/coded.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "plan/regions.h"
#include "prove/network.h"

namespace hocket {
namespace {

using proving::Network;
using proving::Run;

// What a chunk holds: equal versions are equal bits.
struct Coded {
  uint64_t version = 0;
  double contributions = 0;
  double relative = 0;
  double absolute = 0;
  double noise = 0;  // of all contributions together
  int encodings = 0;
  bool decoded = false;  // and nothing was added since
  bool stored = false;   // and so it was rounded, if that changes what is added
};
using Values = std::vector<Coded>;

// All ranks are to end with the same.
bool ranks_agree(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
         collective == Collective::kBroadcast;
}

class Interpreter {
 public:
  Interpreter(const Network& network, const CodingErrors& errors)
      : network_(network), errors_(errors), memories_(network.plans().size()), queues_(network.pipes().size()) {
    for (const Plan& plan : network.plans()) {
      auto& memory = memories_[static_cast<size_t>(plan.rank)];
      for (Buffer buffer : {Buffer::kSend, Buffer::kRecv, Buffer::kScratch}) {
        memory[static_cast<size_t>(buffer)].resize(static_cast<size_t>(chunks_of(plan, buffer)));
      }
      for (Coded& value : memory[0]) value = {.version = next_version_++, .contributions = 1};
    }
  }

  void perform(size_t lane, size_t step) {
    const Network::Lane& here = network_.lanes()[lane];
    const Plan& plan = network_.plans()[static_cast<size_t>(here.rank)];
    const Step& code = network_.step(here, step);
    Values result = combined(plan, code, network_.received(here, step));
    const bool forwards = code.sources.size() == 1 && is_message(code.sources[0]);
    const auto sent = network_.sent(here, step);
    if (!sent.empty() && !forwards && !code.plain) {
      for (Coded& value : result) encode(value);
    }
    auto pipe = sent.begin();
    for (const Place& place : code.destinations) {
      if (is_message(place)) {
        queues_[*pipe++].push_back(result);
        continue;
      }
      size_t i = 0;
      for_each_chunk(place.regions, chunks_of(plan, place.buffer),
                     [&](int32_t chunk) { store(result[i++], cell(plan, place, chunk)); });
    }
  }

  Result<CodingEffect> effect() const {
    CodingEffect worst;
    const Plan& first = network_.plans()[0];
    for (const Plan& plan : network_.plans()) {
      for (int32_t chunk = 0; chunk < plan.recv_chunks; ++chunk) {
        const Coded& value = result(plan, chunk);
        if (ranks_agree(first.collective) && value.version != result(first, chunk).version) {
          return Status(Code::kInternal,
                        fmt::format("coded, rank {} ends with other bits in recv[{}] than rank 0", plan.rank, chunk));
        }
        worst.relative = std::max(worst.relative, value.relative);
        worst.absolute = std::max(worst.absolute, value.absolute);
        worst.noise = std::max(worst.noise, value.noise / std::max(1.0, value.contributions));
        worst.encodings = std::max(worst.encodings, value.encodings);
      }
    }
    return worst;
  }

 private:
  const Coded& result(const Plan& plan, int32_t chunk) const {
    return memories_[static_cast<size_t>(plan.rank)][1][static_cast<size_t>(chunk)];
  }

  Coded& cell(const Plan& plan, const Place& place, int32_t chunk) {
    auto& memory = memories_[static_cast<size_t>(place.owner(plan.rank))];
    return memory[static_cast<size_t>(place.buffer)][static_cast<size_t>(chunk)];
  }

  Values combined(const Plan& plan, const Step& code, std::span<const uint32_t> received) {
    Values result;
    auto pipe = received.begin();
    for (size_t s = 0; s < code.sources.size(); ++s) {
      const Place& place = code.sources[s];
      Values operand;
      if (is_message(place)) {
        operand = std::move(queues_[*pipe].front());
        queues_[*pipe++].pop_front();
      } else {
        for_each_chunk(place.regions, chunks_of(plan, place.buffer),
                       [&](int32_t chunk) { operand.push_back(cell(plan, place, chunk)); });
      }
      if (s == 0) {
        result = std::move(operand);
        if (code.sources.size() > 1) {
          for (Coded& value : result) store(Coded(value), value);
        }
      } else {
        for (size_t i = 0; i < result.size(); ++i) add(result[i], operand[i]);
      }
    }
    return result;
  }

  // Of the same two in the same order: the same bits, whoever makes it of them.
  uint64_t version_of(uint64_t left, uint64_t right) {
    const auto [known, is_new] = made_.try_emplace({left, right}, next_version_);
    if (is_new) ++next_version_;
    return known->second;
  }

  void store(const Coded& value, Coded& to) {
    to = value;
    if (errors_.adds_as_stored || !value.decoded || value.stored) return;
    to.version = version_of(value.version, 0);
    to.stored = true;
  }

  void add(Coded& sum, const Coded& operand) {
    sum.version = version_of(sum.version, operand.version);
    sum.decoded = sum.stored = false;
    sum.contributions += operand.contributions;
    sum.relative += operand.relative;
    sum.relative += errors_.rounding * (sum.contributions + sum.relative);
    sum.absolute += operand.absolute;
    sum.noise += operand.noise;
    sum.encodings = std::max(sum.encodings, operand.encodings);
  }

  void encode(Coded& value) {
    if (value.decoded && errors_.idempotent) return;
    ++value.encodings;
    if (errors_.lossless) return;
    value.decoded = true;
    value.stored = false;
    value.version = next_version_++;
    value.relative += errors_.relative_error * (value.contributions + value.relative);
    value.absolute += errors_.relative_error * value.absolute + errors_.absolute_error;
    value.noise += value.contributions;
  }

  const Network& network_;
  const CodingErrors& errors_;
  std::vector<std::array<Values, 3>> memories_;
  std::vector<std::deque<Values>> queues_;
  uint64_t next_version_ = 1;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> made_;  // versions, of sums and of what was stored
};

}  // namespace

Result<CodingEffect> prove_coded(std::span<const Plan> plans, const CodingErrors& errors) {
  Result<Network> network = Network::make(plans);
  HOCKET_TRY(network.status());
  Interpreter interpreter(*network, errors);
  Run run(*network, Run::kUnbounded);
  const bool ended = run.go([&](size_t lane, size_t step, size_t) {
    interpreter.perform(lane, step);
    return true;
  });
  if (!ended) return Status(Code::kInternal, "coded, " + run.waits());
  return interpreter.effect();
}

}  // namespace hocket
