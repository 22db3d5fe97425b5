// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/builders.h"
#include "plan/msccl.h"
#include "plan/msccl_blocks.h"
#include "plan/regions.h"
#include "plan/text.h"

namespace hocket {
namespace {

using msccl::Action;
using msccl::kNobody;
using msccl::Move;
using msccl::Run;
using msccl::ThreadBlocks;
using Position = ThreadBlocks::Position;

// A step of ours on runs of chunks that are the same everywhere: all its chunks, or one after the other.
struct Operands {
  std::vector<Rank> from;
  std::vector<Run> sources;
  std::vector<Rank> to;
  std::vector<Run> targets;
};

class GpuWriter {
 public:
  GpuWriter(const Plan& plan, bool by_chunk) : plan_(plan), by_chunk_(by_chunk), scratch_(plan.scratch_chunks) {}

  Status run() {
    done_.resize(plan_.lanes.size());
    ended_.resize(plan_.lanes.size());
    begins_.resize(plan_.lanes.size());
    for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) open_pass(lane);
    // Lanes go on as their waits let them, so that what is awaited has been written.
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) {
        while (done_[lane] < plan_.lanes[lane].steps.size() && may_go(plan_.lanes[lane].steps[done_[lane]])) {
          HOCKET_TRY(write_step(lane, plan_.lanes[lane].steps[done_[lane]]));
          ended_[lane].push_back(last_);
          ++done_[lane];
          moved = true;
          if (done_[lane] == plan_.lanes[lane].steps.size()) close_pass(lane);
        }
      }
    }
    return {};
  }

  std::string text() const {
    return fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n{}  </gpu>\n", plan_.rank,
                       plan_.send_chunks, plan_.recv_chunks, scratch_, blocks_.text());
  }

 private:
  bool may_go(const Step& step) const {
    return std::ranges::all_of(step.after, [&](const After& after) {
      return done_[static_cast<size_t>(after.lane)] > static_cast<size_t>(after.step);
    });
  }

  // Scratch is the same in every pass. A lane's blocks would run ahead of each other into the next one; a block of its
  // own that begins and ends its passes holds them together.
  bool uses_scratch(const Lane& lane) const {
    return plan_.scratch_chunks > 0 || std::ranges::any_of(lane.steps, [](const Step& step) {
             const auto is_chunk = [](const Place& place) { return place.kind == Place::Kind::kChunk; };
             return std::ranges::none_of(step.destinations, is_chunk) && !std::ranges::all_of(step.sources, is_chunk);
           });
  }

  void open_pass(size_t lane) {
    if (!plan_.lanes[lane].steps.empty() && uses_scratch(plan_.lanes[lane]))
      begins_[lane] = blocks_.put(blocks_.open(lane), {}, {});
  }

  void close_pass(size_t lane) {
    const std::optional<Position> begin = begins_[lane];
    if (begin.has_value()) put_in(begin->block, {});
  }

  Status write_step(size_t lane, const Step& step) {
    lane_ = lane;
    last_ = done_[lane] > 0 ? ended_[lane].back() : begins_[lane];
    waits_.clear();
    for (const After& after : step.after) {
      const auto& end = ended_[static_cast<size_t>(after.lane)][static_cast<size_t>(after.step)];
      if (end) waits_.push_back(*end);
    }
    const int64_t length = length_of(step);
    if (length == 0)
      return {Code::kInvalidArgument,
              fmt::format("msccl: rank {} lane {}: '{}' moves nothing, which the format cannot say", plan_.rank, lane,
                          to_text(step))};
    for (int64_t chunk = 0; chunk < (by_chunk_ ? length : 1); ++chunk) write(operands(step, chunk));
    return {};
  }

  static int64_t length_of(const Step& step) {
    for (const auto* side : {&step.sources, &step.destinations}) {
      for (const Place& place : *side) {
        if (place.kind == Place::Kind::kChunk) return chunk_count(place.regions);
      }
    }
    return 0;
  }

  Operands operands(const Step& step, int64_t chunk) const {
    Operands result;
    for (const Place& place : step.sources) {
      if (place.kind == Place::Kind::kMessage) {
        result.from.push_back(place.peer);
      } else {
        result.sources.push_back(run_of(place, chunk));
      }
    }
    for (const Place& place : step.destinations) {
      if (place.kind == Place::Kind::kMessage) {
        result.to.push_back(place.peer);
      } else {
        result.targets.push_back(run_of(place, chunk));
      }
    }
    return result;
  }

  Run run_of(const Place& place, int64_t chunk) const {
    if (!by_chunk_) return {place.buffer, place.regions[0].first, place.regions[0].block};
    Run run{place.buffer, 0, 1};
    int64_t position = 0;
    for_each_chunk(place.regions, chunks_of(plan_, place.buffer), [&](int32_t number) {
      if (position++ == chunk) run.first = number;
    });
    return run;
  }

  // In one move where the format has one for it, else by a sum that grows in a place of ours.
  void write(const Operands& step) {
    if (fused(step)) return;
    const int32_t count = !step.sources.empty()  ? step.sources[0].count
                          : step.targets.empty() ? 1
                                                 : step.targets[0].count;
    if (step.from.empty() && step.sources.size() == 1) return spread(step, step.sources[0]);
    const Run sum = !step.targets.empty() ? step.targets[0] : fresh_scratch(count);
    std::vector<Run> locals = step.sources;
    std::vector<Rank> messages = step.from;
    if (const auto own = std::ranges::find(locals, sum); own != locals.end()) {
      locals.erase(own);
    } else if (!locals.empty()) {
      put({Action::kCopy, locals[0], sum});
      locals.erase(locals.begin());
    } else {
      put({Action::kRecv, sum, sum, messages[0]});
      messages.erase(messages.begin());
    }
    for (const Run& local : locals) put({Action::kReduce, local, sum});
    for (const Rank peer : messages) put({Action::kRecvReduceCopy, sum, sum, peer});
    spread(step, sum);
  }

  void spread(const Operands& step, const Run& value) {
    for (const Run& target : step.targets) {
      if (target != value) put({Action::kCopy, value, target});
    }
    for (const Rank peer : step.to) put({Action::kSend, value, value, kNobody, peer});
  }

  bool fused(const Operands& step) {
    if (step.from.size() != 1 || step.sources.size() > 1 || step.to.size() > 1 || step.targets.size() > 1) return false;
    const bool reduces = !step.sources.empty();
    const bool sends = !step.to.empty();
    const bool writes = !step.targets.empty();
    if (!writes && !reduces) return false;  // passing on alone: the format wants to keep a copy
    const Run& target = writes ? step.targets[0] : step.sources[0];
    const Action action = !reduces ? (sends ? Action::kRecvCopySend : Action::kRecv)
                          : !sends ? Action::kRecvReduceCopy
                          : writes ? Action::kRecvReduceCopySend
                                   : Action::kRecvReduceSend;
    const Move move{action, reduces ? step.sources[0] : target, target, step.from[0], sends ? step.to[0] : kNobody};
    const size_t block = blocks_.with_ends(lane_, move.send, move.recv);
    if (block == ThreadBlocks::kNone) return false;
    put_in(block, move);
    return true;
  }

  Run fresh_scratch(int32_t count) {
    const Run run{Buffer::kScratch, scratch_, count};
    scratch_ += count;
    return run;
  }

  // A move of one end always finds a block.
  void put(const Move& move) { put_in(blocks_.with_ends(lane_, move.send, move.recv), move); }

  // The steps of a lane follow each other.
  void put_in(size_t block, const Move& move) {
    if (last_.has_value()) waits_.push_back(*last_);
    last_ = blocks_.put(block, move, std::exchange(waits_, {}));
  }

  const Plan& plan_;
  const bool by_chunk_;
  int32_t scratch_;
  ThreadBlocks blocks_;
  std::vector<size_t> done_;                                 // steps of each lane
  std::vector<std::optional<Position>> begins_;              // of each lane's passes, where these must not overlap
  std::vector<std::vector<std::optional<Position>>> ended_;  // where each step's last move is
  size_t lane_ = 0;
  std::optional<Position> last_;  // the lane's last move
  std::vector<Position> waits_;   // of the next move
};

std::string_view word_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "allreduce";
    case Collective::kAllGather:
      return "allgather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllToAll:
      return "alltoall";
    default:
      return {};
  }
}

bool is_run(const Plan& plan, const Place& place) {
  if (place.kind == Place::Kind::kMessage) return true;
  return place.regions.size() == 1 && place.regions[0].count == 1 &&
         place.regions[0].first + place.regions[0].block <= chunks_of(plan, place.buffer);
}

bool has_runs_only(const Plan& plan) {
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      for (const auto* side : {&step.sources, &step.destinations}) {
        if (!std::ranges::all_of(*side, [&](const Place& place) { return is_run(plan, place); })) return false;
      }
    }
  }
  return true;
}

}  // namespace

Result<std::string> export_msccl(std::span<const Plan> plans) {
  if (plans.empty()) return Status(Code::kInvalidArgument, "msccl: no plans");
  const Plan& model = plans[0];
  const std::string_view collective = word_of(model.collective);
  if (collective.empty())
    return Status(Code::kInvalidArgument, fmt::format("msccl: the format has no {}", name(model.collective)));
  // What is one message must be as many on both sides, however each side's chunks lie.
  const bool by_chunk = !std::ranges::all_of(plans, has_runs_only);
  std::string out = fmt::format(
      "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" "
      "inplace=\"0\" "
      "outofplace=\"1\" minBytes=\"0\" maxBytes=\"0\">\n",
      model.algorithm, model.lanes.size(), std::max(model.send_chunks, model.recv_chunks), model.ranks, collective);
  for (const Plan& plan : plans) {
    GpuWriter writer(plan, by_chunk);
    HOCKET_TRY(writer.run());
    out += writer.text();
  }
  return out + "</algo>\n";
}

}  // namespace hocket
