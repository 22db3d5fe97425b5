// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/regions.h"
#include "plan/text.h"

namespace hocket::proving {
namespace {

using Values = std::vector<Value>;
using State = Terms::State;

constexpr size_t kBuffers = 3;

// The memory of one rank; a buffer comes to be when it is first written.
struct Memory {
  std::array<Values, kBuffers> written;
};

struct Queue {
  std::vector<Values> messages;
  size_t taken = 0;
};

class Interpreter {
 public:
  Interpreter(const Network& network, const Contract& contract, const ProveOptions& options)
      : network_(network),
        contract_(contract),
        options_(options),
        terms_(static_cast<Rank>(network.plans().size())),
        memories_(network.plans().size()),
        queues_(network.pipes().size()),
        sent_(network.plans().size(), 0) {}

  Status perform(size_t lane, size_t step) {
    const Network::Lane& here = network_.lanes()[lane];
    plan_ = &network_.plans()[static_cast<size_t>(here.rank)];
    const Step& code = network_.step(here, step);
    Status status = run(code, network_.received(here, step), network_.sent(here, step));
    if (status.ok()) return status;
    return {Code::kInternal, fmt::format("{}: {}", Network::where(here, step), status.message())};
  }

  Status check_results() {
    for (const Plan& plan : network_.plans()) {
      plan_ = &plan;
      for (int32_t chunk = 0; chunk < plan.recv_chunks; ++chunk) HOCKET_TRY(check_result(chunk));
    }
    return {};
  }

  void report(Proof* proof) const {
    const Plan& plan = network_.plans()[0];
    const double whole = std::max(plan.send_chunks, plan.recv_chunks);
    proof->longest_message = longest_;
    proof->share_sent = static_cast<double>(*std::ranges::max_element(sent_)) / whole;
    proof->in_rank_order = contract_.reduces() && in_rank_order_;
    proof->same_association = contract_.reduces() && same_association_;
  }

 private:
  static Status fault(std::string reason) { return {Code::kInternal, std::move(reason)}; }

  Status run(const Step& code, std::span<const uint32_t> received, std::span<const uint32_t> sent) {
    extent_ = 0;
    for (const auto* side : {&code.sources, &code.destinations}) {
      for (const Place& place : *side) {
        if (place.names_chunks()) extent_ = static_cast<size_t>(chunk_count(place.regions));
      }
    }
    if (options_.in_place) HOCKET_TRY(check_overlaps(code));
    Values result;
    for (size_t i = 0; i < code.sources.size(); ++i) {
      Values operand;
      HOCKET_TRY(fetch(code.sources[i], received, &operand));
      if (i == 0) {
        result = std::move(operand);
      } else {
        HOCKET_TRY(combine(&result, operand));
      }
    }
    if (code.last) HOCKET_TRY(finish(&result));
    for (const Place& place : code.destinations) HOCKET_TRY(put(place, result, sent));
    return {};
  }

  // In place, a step may overwrite what it reads only chunk by chunk.
  Status check_overlaps(const Step& code) const {
    for (const Place& written : code.destinations) {
      if (!written.names_chunks()) continue;
      const std::vector<Cell> targets = cells(written);
      for (const Place& read : code.sources) {
        if (!read.names_chunks() || read.buffer == written.buffer) continue;  // check() saw the latter
        if (owner(read) != owner(written)) continue;
        if (read.buffer == Buffer::kScratch || written.buffer == Buffer::kScratch) continue;
        const std::vector<Cell> sources = cells(read);
        const auto same = [](const Cell& a, const Cell& b) { return a.buffer == b.buffer && a.chunk == b.chunk; };
        if (std::ranges::equal(sources, targets, same)) continue;
        for (size_t i = 0; i < targets.size(); ++i) {
          for (size_t j = 0; j < sources.size(); ++j) {
            if (i != j && same(targets[i], sources[j])) {
              return fault(fmt::format("in place, {} overlaps {}", to_text(read), to_text(written)));
            }
          }
        }
      }
    }
    return {};
  }

  std::vector<Cell> cells(const Place& place) const {
    std::vector<Cell> result;
    for_each_chunk(place.regions, chunks_of(*plan_, place.buffer),
                   [&](int32_t chunk) { result.push_back(contract_.cell(owner(place), place.buffer, chunk)); });
    return result;
  }

  Rank owner(const Place& place) const { return place.owner(plan_->rank); }

  Status fetch(const Place& place, std::span<const uint32_t>& received, Values* operand) {
    if (place.kind == Place::Kind::kMessage) {
      Queue& queue = queues_[received.front()];
      received = received.subspan(1);
      *operand = std::move(queue.messages[queue.taken++]);
      if (queue.taken == queue.messages.size()) queue = {};
      if (operand->size() == extent_) return {};
      return fault(fmt::format("{} chunks come from rank {}, not {}", operand->size(), place.peer, extent_));
    }
    if (!contract_.has(owner(place), place.buffer))
      return fault(fmt::format("reads {}, which {} rank has not", to_text(place), whose(place)));
    Status status;
    operand->reserve(extent_);
    for_each_chunk(place.regions, chunks_of(*plan_, place.buffer), [&](int32_t chunk) {
      Value value = load(owner(place), contract_.cell(owner(place), place.buffer, chunk));
      if (status.ok()) status = enter(place, chunk, &value);
      operand->push_back(value);
    });
    return status;
  }

  // Applies the mark of a source.
  Status enter(const Place& place, int32_t chunk, Value* value) const {
    if (!value->defined())
      return fault(fmt::format("reads chunk {} of {}, which holds nothing yet", chunk, to_text(place)));
    if (!place.first) return {};
    if (!contract_.reduces()) return fault("a source is marked first where nothing is reduced");
    if (terms_.state(*value) != State::kRaw || value->shift != owner(place)) {
      return fault(fmt::format("{} holds more than a new contribution of {} rank", to_text(place), whose(place)));
    }
    *value = Terms::primed(*value);
    return {};
  }

  Status combine(Values* result, const Values& operand) {
    if (operand.empty()) return {};  // signals
    if (!contract_.reduces()) return fault("combines where nothing is reduced");
    for (size_t i = 0; i < operand.size(); ++i) {
      const Value& left = (*result)[i];
      const Value& right = operand[i];
      if (left.chunk != right.chunk)
        return fault(fmt::format("combines chunk {} with chunk {}", left.chunk, right.chunk));
      for (const Value& value : {left, right}) {
        if (terms_.state(value) == State::kRaw)
          return fault(fmt::format("the contribution of rank {} misses its mark first", value.shift));
        if (terms_.state(value) == State::kFinished) return fault("combines a result that is already complete");
      }
      Rank common = -1;
      const Value both = terms_.combined(left, right, &common);
      if (!both.defined())
        return fault(fmt::format("counts the contribution of rank {} to chunk {} twice", common, left.chunk));
      (*result)[i] = both;
    }
    return {};
  }

  Status finish(Values* result) {
    if (!contract_.reduces() || contract_.scans())
      return fault("a step is marked last where no result has an epilogue");
    for (Value& value : *result) {
      if (terms_.state(value) == State::kRaw)
        return fault(fmt::format("the contribution of rank {} misses its mark first", value.shift));
      if (terms_.state(value) == State::kFinished)
        return fault(fmt::format("the result of chunk {} meets the mark last twice", value.chunk));
      if (!terms_.holds_first(value, plan_->ranks)) {
        return fault(fmt::format("the step is marked last, but rank {} is missing in chunk {}", terms_.missing(value),
                                 value.chunk));
      }
      value = terms_.finished(value);
    }
    return {};
  }

  Status put(const Place& place, const Values& values, std::span<const uint32_t>& sent) {
    if (place.kind == Place::Kind::kMessage) {
      queues_[sent.front()].messages.push_back(values);
      sent = sent.subspan(1);
      sent_[static_cast<size_t>(plan_->rank)] += static_cast<int64_t>(values.size());
      longest_ = std::max(longest_, static_cast<int32_t>(values.size()));
      return {};
    }
    if (place.buffer == Buffer::kSend) return fault(fmt::format("writes {}, which is the caller's", to_text(place)));
    if (!contract_.has(owner(place), place.buffer))
      return fault(fmt::format("writes {}, which {} rank has not", to_text(place), whose(place)));
    Status status;
    size_t position = 0;
    for_each_chunk(place.regions, chunks_of(*plan_, place.buffer), [&](int32_t chunk) {
      const Value& value = values[position++];
      if (contract_.length(owner(place), place.buffer, chunk) != contract_.length(value)) {
        status = fault(fmt::format("chunk {} of {} need not be as long as chunk {} of rank {}, which goes there", chunk,
                                   to_text(place), value.chunk, value.shift));
      }
      store(owner(place), contract_.cell(owner(place), place.buffer, chunk), value);
    });
    return status;
  }

  static std::string_view whose(const Place& place) { return place.kind == Place::Kind::kWindow ? "that" : "this"; }

  Value load(Rank owner, Cell cell) const {
    const Values& values = memories_[static_cast<size_t>(owner)].written[static_cast<size_t>(cell.buffer)];
    const Value value = values.empty() ? Value{} : values[static_cast<size_t>(cell.chunk)];
    return value.defined() || cell.buffer == Buffer::kScratch ? value : contract_.before(owner, cell);
  }

  void store(Rank owner, Cell cell, const Value& value) {
    Values& values = memories_[static_cast<size_t>(owner)].written[static_cast<size_t>(cell.buffer)];
    if (values.empty()) values.resize(static_cast<size_t>(chunks_of(*plan_, cell.buffer)));
    values[static_cast<size_t>(cell.chunk)] = value;
  }

  Status check_result(int32_t chunk) {
    const Promise promise = contract_.after(plan_->rank, chunk);
    if (promise.kind == Promise::Kind::kAnything) return {};
    const Cell cell = contract_.cell(plan_->rank, Buffer::kRecv, chunk);
    const Value value = load(plan_->rank, cell);
    const auto wrong = [&](std::string_view reason) {
      return fault(fmt::format("rank {} recv[{}]: {}", plan_->rank, chunk, reason));
    };
    if (promise.kind == Promise::Kind::kReduction && promise.contributors == 0) {
      return value == contract_.before(plan_->rank, cell) ? Status()
                                                          : wrong("holds something, though it must stay as it was");
    }
    if (!value.defined()) return wrong("the result never comes");
    if (promise.kind == Promise::Kind::kContribution) {
      if (value == promise.contribution) return {};
      return wrong(fmt::format("holds chunk {} of {}, not chunk {} of rank {}", value.chunk, terms_.contributors(value),
                               promise.contribution.chunk, promise.contribution.shift));
    }
    return check_reduction(promise, value, wrong);
  }

  template <typename Wrong>
  Status check_reduction(const Promise& promise, const Value& value, const Wrong& wrong) {
    if (value.chunk != promise.chunk)
      return wrong(fmt::format("holds chunk {}, not chunk {}", value.chunk, promise.chunk));
    if (!terms_.holds_first(value, promise.contributors)) {
      return wrong(fmt::format("holds the contributions of {}, not of ranks 0-{}", terms_.contributors(value),
                               promise.contributors - 1));
    }
    if (terms_.state(value) == State::kRaw) return wrong("the contribution misses its mark first");
    if (!contract_.scans() && terms_.state(value) != State::kFinished) return wrong("the result misses its mark last");
    in_rank_order_ = in_rank_order_ && terms_.in_rank_order(value);
    if (options_.ordered && !in_rank_order_) return wrong("its operands combine out of rank order");
    if (!any_result_.defined()) any_result_ = value;
    same_association_ = same_association_ && value.term == any_result_.term && value.shift == any_result_.shift;
    return {};
  }

  const Network& network_;
  const Contract& contract_;
  const ProveOptions options_;
  Terms terms_;
  std::vector<Memory> memories_;
  std::vector<Queue> queues_;
  std::vector<int64_t> sent_;  // chunks, per rank
  const Plan* plan_ = nullptr;
  size_t extent_ = 0;
  int32_t longest_ = 0;
  bool in_rank_order_ = true;
  bool same_association_ = true;
  Value any_result_;
};

}  // namespace

Status interpret(const Network& network, const Contract& contract, const ProveOptions& options, Proof* proof) {
  Interpreter interpreter(network, contract, options);
  Run run(network, Run::kUnbounded);
  Status status;
  run.go([&](size_t lane, size_t step, size_t) {
    status = interpreter.perform(lane, step);
    return status.ok();
  });
  HOCKET_TRY(status);
  HOCKET_TRY(interpreter.check_results());
  interpreter.report(proof);
  return {};
}

Status check_barrier(const Network& network) {
  const size_t ranks = network.plans().size();
  using Heard = std::vector<bool>;
  const auto add = [](Heard& all, const Heard& more) {
    for (size_t rank = 0; rank < all.size(); ++rank) all[rank] = all[rank] || more[rank];
  };
  std::vector<Heard> heard;
  for (const Network::Lane& lane : network.lanes()) {
    heard.emplace_back(ranks, false);
    heard.back()[static_cast<size_t>(lane.rank)] = true;
  }
  std::vector<std::vector<Heard>> messages(network.pipes().size());
  std::vector<size_t> taken(network.pipes().size(), 0);
  Run run(network, Run::kUnbounded);
  run.go([&](size_t lane, size_t step, size_t) {
    const Network::Lane& here = network.lanes()[lane];
    for (const uint32_t pipe : network.received(here, step)) add(heard[lane], messages[pipe][taken[pipe]++]);
    for (const uint32_t pipe : network.sent(here, step)) messages[pipe].push_back(heard[lane]);
    return true;
  });
  for (Rank rank = 0; static_cast<size_t>(rank) < ranks; ++rank) {
    Heard all(ranks, false);
    all[static_cast<size_t>(rank)] = true;
    const size_t first = network.lane_of(rank, 0);
    for (size_t lane = first; lane < first + network.lanes_of(rank); ++lane) add(all, heard[lane]);
    const auto unheard = std::ranges::find(all, false);
    if (unheard == all.end()) continue;
    return {Code::kInternal,
            fmt::format("rank {} may leave the barrier before rank {} has come", rank, unheard - all.begin())};
  }
  return {};
}

}  // namespace hocket::proving
