// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/exploring.h"

#include <algorithm>
#include <optional>

namespace hocket {
namespace {

constexpr size_t kMostKinds = 64;

// All that bears on it is equal on all ranks. Where results have to have the same bits every time, the algorithm stays.
bool may_explore(const Request& request, const Question& question) {
  const CallFacts& facts = request.facts;
  return !facts.own && !facts.v_form && facts.coding == 0 && facts.count > 0 &&
         facts.reproducibility == Reproducibility::kFast && !question.ordered && !question.send_window &&
         !question.recv_window;
}

// What the choice is made of; nothing where the model knows no time of it, or another algorithm may not make the call.
std::optional<Candidate> candidate_of(const Result<Choice>& choice, std::span<const Candidate> all) {
  if (!choice.ok() || choice->reason == Choice::Reason::kForced) return std::nullopt;
  const auto found = std::ranges::find_if(all, [&](const Candidate& candidate) {
    return candidate.builder == choice->builder && candidate.lanes == choice->lanes &&
           candidate.cut.slice_bytes == choice->slice_bytes;
  });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

Explored* Exploring::of(const Request& request, const Question& question, Chooser& chooser) {
  if (!is_on() || !may_explore(request, question)) return nullptr;
  const auto found = std::ranges::find_if(kinds_, [&](const auto& kind) { return kind->facts == request.facts; });
  if (found != kinds_.end()) return found->get();
  if (kinds_.size() == kMostKinds) return nullptr;
  const std::vector<Candidate> all = chooser.candidates(question);
  const std::optional<Candidate> chosen = candidate_of(chooser.choose(question), all);
  if (!chosen.has_value()) return nullptr;
  kinds_.push_back(
      std::make_unique<Explored>(request.facts, question, Exploration(worth_trying(*chosen, all), percent_)));
  return kinds_.back().get();
}

bool Exploring::remember(Chooser& chooser) const {
  bool any = false;
  for (const auto& kind : kinds_) {
    if (!kind->exploration.is_settled()) continue;
    chooser.remember(kind->question, *kind->exploration.best().builder);
    any = true;
  }
  return any;
}

Request agreement_on(Explored& explored) {
  const std::span<int64_t> times = explored.exploration.times();
  Request request;
  request.facts.collective = Collective::kAllReduce;
  request.facts.type = DataType::kInt64;
  request.facts.op = static_cast<int32_t>(ReduceOp::kMax);
  request.facts.count = times.size();
  request.facts.own = true;
  request.reduction.op = ReduceOp::kMax;
  request.send = request.recv = times.data();
  return request;
}

}  // namespace hocket
