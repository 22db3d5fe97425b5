// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/predict.h"

#include <algorithm>

#include "choose/cut.h"
#include "plan/short_calls.h"

namespace hocket {
namespace {

// Beyond this nothing changes but the scale.
constexpr int64_t kMostBytes = int64_t{1} << 34;
constexpr int64_t kThousand = 1000;
constexpr int kShift = 12;  // pages
// To read again what is still in a cache costs this part of what it cost before: of plans that move the same bytes
// through memory, the one that keeps and sends a sum at once is faster by so little. Over sockets it is not.
constexpr Femtoseconds kRereadPart = 6;

// The product may be large; the result has room.
Picoseconds time_of(int64_t bytes, Femtoseconds byte) {
  return bytes < int64_t{1} << 20 ? bytes * byte / kThousand : bytes / kThousand * byte;
}

// What one message of a chain waits for, by how often the ranks send on each level.
Picoseconds mean_latency(const Demand& demand, const NetworkModel& model) {
  Picoseconds sum = 0;
  int64_t messages = 0;
  for (size_t level = 0; level < model.levels.size(); ++level) {
    sum += demand.average.levels[level].messages_sent * model.levels[level].cost.latency;
    messages += demand.average.levels[level].messages_sent;
  }
  return messages > 0 ? sum / messages : 0;
}

class Predictor {
 public:
  Predictor(const Demand& demand, const NetworkModel& model, Rank ranks, const Sizes& sizes)
      : demand_(demand), model_(model), ranks_(ranks), sizes_(sizes) {
    const int64_t bytes = std::min(sizes.bytes, kMostBytes);
    const int64_t parts = demand.divides ? demand.chunks : demand.parts;
    chunk_ = (bytes + parts - 1) / parts;
    passes_ = std::max<int64_t>(1, chunk_ / sizes.window + (chunk_ % sizes.window != 0 ? 1 : 0));
    is_bound_ = may_be_bound();
    const int64_t buffers = 2 * std::min(chunk_ * demand.chunks, kMostBytes);
    core_bytes_ = of_core(buffers);
    const Femtoseconds cold_byte = share_beyond(model.local.cold_byte, core_bytes_, model.local.cache_bytes);
    place_byte_ = model.local.place_byte + cold_byte;
    reread_byte_ = in_memory() ? model.local.place_byte / kRereadPart : 0;
    if (sizes.window >= int64_t{kWhole}) reread_byte_ += cold_byte;
    if (!is_crowded()) return;
    // Of what all send before anybody takes it.
    int64_t chunks = 0;
    for (const RankDemand::Traffic& traffic : demand.average.levels) chunks += traffic.chunks_sent;
    const int64_t on_way = chunks * std::min(chunk_, sizes.window) / std::max(1, demand.ranks_seen * demand.rounds);
    message_byte_ = share_beyond(model.local.cold_byte, of_core(on_way), model.local.cache_bytes);
  }

  Prediction run() const {
    Prediction result;
    result.latency = demand_.rounds * mean_latency(demand_, model_);
    for (size_t level = 0; level < model_.levels.size(); ++level) {
      const Picoseconds port = port_time(level);
      const Picoseconds connection = time_of(sent(level, demand_.busiest.levels[level].chunks_of_pipe * chunk_),
                                             model_.levels[level].cost.flow_byte);
      if (std::max(port, connection) <= result.wire) continue;
      result.wire = std::max(port, connection);
      result.busiest_level = level;
      result.by_connection = connection > port;
    }
    const Picoseconds link = time_of(sizes_.coding.sent(std::min(sizes_.bytes, kMostBytes)), sizes_.link_byte);
    result.by_link = link > result.wire;
    result.wire = std::max(result.wire, link);
    const Crowd crowd = this->crowd();
    for (const RankDemand& rank : demand_.heavy) {
      const Picoseconds held_up = fill(rank);
      const Picoseconds processor = busy(rank, crowd, held_up) + crowd.turns + model_.local.call * demand_.lanes;
      if (processor + held_up < result.processor + result.fill) continue;
      result.processor = processor;
      result.fill = held_up;
    }
    return result;
  }

 private:
  // Of a level's messages of so many bytes of values.
  int64_t sent(size_t level, int64_t bytes) const {
    return level < demand_.plain_levels ? bytes : sizes_.coding.sent(bytes);
  }

  // Calls in one lane that are not cut are bound once, and then take the fast path; so do those that are, but that
  // spares their messages nothing (docs/decisions/0156).
  bool may_be_bound() const {
    return demand_.may_be_bound && demand_.lanes == 1 && sizes_.coding == CodingCost{} &&
           chunk_ <= std::min({kLongestBound, sizes_.slice, sizes_.window});
  }

  // Messages travel as whole slices, and every pass sends its own.
  int64_t slices(int64_t messages, int64_t chunks) const {
    return std::max(messages * passes_, chunks * chunk_ / sizes_.slice);
  }

  // Of a cost that hardly anything pays whose bytes fit into a cache, and nearly all of it with more bytes.
  static Femtoseconds share_beyond(Femtoseconds byte, int64_t bytes, int64_t cache) {
    const int64_t used = std::min(bytes, kMostBytes) >> kShift;
    const int64_t room = std::min(cache, kMostBytes) >> kShift;
    return byte * (kThousand * used * used / (used * used + room * room + 1)) / kThousand;
  }

  int64_t neighbours() const { return std::min(ranks_, model_.levels[0].children); }
  bool in_memory() const { return model_.levels[0].in_memory; }
  bool is_crowded() const { return model_.cores > 0 && neighbours() > model_.cores; }

  // Caches are cores': of so many bytes of a rank, those that share its core have as many each.
  int64_t of_core(int64_t bytes) const {
    const int64_t own = std::min(bytes, kMostBytes);
    return is_crowded() ? own * neighbours() / model_.cores : own;
  }

  // Of ranks that share a core, one finds in its cache what another has sent.
  Femtoseconds near(Femtoseconds byte, const MessageCost& cost) const {
    if (cost.near_bytes == 0 || !is_crowded()) return byte;
    return share_beyond(byte, core_bytes_, cost.near_bytes);
  }

  // Lines that a message's reader still holds are taken from it before they are written. Where it sends as much back,
  // it writes there itself (docs/decisions/0081). Between cores of their own that is a third, measured near and far:
  // messages take turns through more memory there, or go past the caches (docs/decisions/0141).
  Femtoseconds held_byte(const MessageCost& cost) const {
    const Femtoseconds held = cost.held_byte - share_beyond(cost.held_byte, core_bytes_, cost.held_bytes);
    return is_crowded() ? held : held / 3;
  }

  Picoseconds work(const RankDemand& rank) const {
    const LocalCost& local = model_.local;
    Picoseconds sum = rank.steps * passes_ * local.step + time_of(rank.chunks_placed * chunk_, place_byte_) +
                      time_of(rank.chunks_reread * chunk_, reread_byte_) +
                      time_of(rank.chunks_combined * chunk_, local.combine_byte) +
                      time_of(rank.chunks_encoded * chunk_, sizes_.coding.encode_byte) +
                      time_of(rank.chunks_decoded * chunk_, sizes_.coding.decode_byte);
    for (size_t level = 0; level < model_.levels.size(); ++level) {
      const RankDemand::Traffic& traffic = rank.levels[level];
      const MessageCost& cost = model_.levels[level].cost;
      const Picoseconds more = is_bound_ ? 0 : cost.unbound;
      sum += slices(traffic.messages_sent, traffic.chunks_sent) * (cost.send + more);
      sum += slices(traffic.messages_received, traffic.chunks_received) * (cost.receive + more);
      sum += time_of(sent(level, traffic.chunks_sent * chunk_), near(cost.send_byte, cost));
      sum += time_of(sent(level, traffic.chunks_one_way * chunk_), near(held_byte(cost), cost));
      sum += time_of(sent(level, traffic.chunks_received * chunk_), near(cost.receive_byte, cost) + message_byte_);
    }
    return sum;
  }

  // What ranks that share cores cost each other. Each message of the chain waits until its receiver has its turn, after
  // all others on its core; along rings and trees, where a rank waits for the same few all the time, some of its way is
  // often done in one turn: measured with 4 to 12 ranks on two cores, all algorithms (docs/choosing.md).
  struct Crowd {
    Picoseconds share = 0;   // of all work of a host on its cores
    Picoseconds beside = 0;  // of other ranks on a rank's core
    Picoseconds turns = 0;   // of the chain
  };
  Crowd crowd() const {
    if (!is_crowded()) return {};
    const Picoseconds one = work(demand_.average) / demand_.ranks_seen;
    const Picoseconds beside = (one + model_.local.call * demand_.lanes) * (neighbours() - model_.cores) / model_.cores;
    const Picoseconds turn = demand_.in_line ? model_.local.turn / 3 * 2 : model_.local.turn;
    return {one + beside, beside, demand_.rounds * neighbours() * turn / model_.cores};
  }

  // The first slice takes its way along the chain, or its share of a crowd's cores: while one rank waits, they do
  // others' work. The slices after it take what a core's own ranks ask of it: who waits looks as busy as who works, so
  // nobody moves them to where there is less to do. Over sockets, where the kernel does most of the work, the share of
  // all work on all cores is nearer to what was measured (docs/choosing.md).
  Picoseconds busy(const RankDemand& rank, const Crowd& crowd, Picoseconds held_up) const {
    const Picoseconds own = work(rank) + later_turns(rank);
    const int64_t count = std::max<int64_t>(1, chunk_ * demand_.message_chunks / std::max<int64_t>(1, first_slice()));
    const Picoseconds later = in_memory() ? own + crowd.beside : std::max(own, crowd.share);
    return std::max(crowd.share / count - held_up, own / count) + later / count * (count - 1);
  }

  // Of a message that is longer than a slice, a rank of a crowd finds little more than one whenever it has its turn:
  // its sender, and who shares a core with either, are no further.
  Picoseconds later_turns(const RankDemand& rank) const {
    if (!is_crowded()) return 0;
    int64_t later = 0;
    for (const RankDemand::Traffic& traffic : rank.levels)
      later += slices(traffic.messages_received, traffic.chunks_received) - traffic.messages_received;
    return later * model_.local.turn;
  }

  // Values in a message's first slice.
  int64_t first_slice() const {
    return std::min(sizes_.slice, std::min(chunk_, sizes_.window) * demand_.message_chunks);
  }

  // How many send to the busiest rank at once: in one round of the chain.
  int64_t senders(size_t level) const {
    const int64_t lanes = std::max<int64_t>(1, demand_.rounds * demand_.lanes);
    return (demand_.busiest.levels[level].messages_received + lanes - 1) / lanes;
  }

  // Their messages do not come evenly: while the last of them comes, others' ports rest.
  Femtoseconds wire_byte(size_t level) const {
    const MessageCost& cost = model_.levels[level].cost;
    const int64_t many = std::max<int64_t>(1, senders(level));
    return cost.wire_byte + cost.wire_byte * cost.incast / kThousand * (many - 1) / many;
  }

  // Of the busiest port of a level's children.
  Picoseconds port_time(size_t level) const {
    const Femtoseconds byte = wire_byte(level);
    if (byte == 0) return 0;
    if (level == 1 && demand_.host_chunks >= 0) return time_of(sent(level, demand_.host_chunks * chunk_), byte);
    int64_t width = 1;  // ranks behind the port
    for (size_t below = 0; below < level; ++below) width *= model_.levels[below].children;
    int64_t busiest = 0;
    int64_t average = 0;
    for (size_t above = level; above < model_.levels.size(); ++above) {
      const RankDemand::Traffic& most = demand_.busiest.levels[above];
      busiest += std::max(most.chunks_sent, most.chunks_received);
      average += demand_.average.levels[above].chunks_sent;
    }
    // Where all ranks send outside, all of them share the port; in a chain or ring only the last one does.
    const bool all_send = average / std::max(1, demand_.ranks_seen) * 2 > busiest;
    const int64_t ranks = level == 0 || !all_send ? 1 : std::min<int64_t>(width, ranks_);
    return time_of(sent(level, busiest * chunk_ * ranks), byte);
  }

  // What the longest chain asks of other ranks than this holds up the first slice.
  Picoseconds fill(const RankDemand& rank) const {
    int64_t sends = 0;
    int64_t receives = 0;
    Picoseconds send = 0;
    Picoseconds receive = 0;
    Picoseconds wire = 0;
    for (size_t level = 0; level < model_.levels.size(); ++level) {
      const MessageCost& cost = model_.levels[level].cost;
      const RankDemand::Traffic& traffic = rank.levels[level];
      if (traffic.messages_sent + traffic.messages_received == 0) continue;
      const int64_t bytes = sent(level, first_slice());
      sends += traffic.messages_sent;
      receives += traffic.messages_received;
      const Femtoseconds held = traffic.chunks_one_way > 0 ? held_byte(cost) : 0;
      send = std::max(send, cost.send + time_of(bytes, cost.send_byte + held));
      receive = std::max(receive, cost.receive + time_of(bytes, cost.receive_byte));
      wire = std::max(wire, time_of(bytes, cost.wire_byte));
    }
    // Of messages that a rank sends in one round, one is in the chain.
    const auto others = [&](int64_t own) {
      return demand_.rounds - std::min<int64_t>({own, demand_.rounds, demand_.rounds_of_rank});
    };
    return others(sends) * send + others(receives) * receive + others(std::max(sends, receives)) * wire +
           others(rank.steps) * model_.local.step;
  }

  const Demand& demand_;
  const NetworkModel& model_;
  Rank ranks_;
  const Sizes& sizes_;
  int64_t chunk_ = 0;  // bytes
  int64_t passes_ = 1;
  bool is_bound_ = false;  // takes the fast path, uncut
  // A rank's two buffers push each other out of its caches, the more the larger they are and the more ranks share them.
  Femtoseconds place_byte_ = 0;
  Femtoseconds reread_byte_ = 0;   // little: passes are so short that the byte is in a cache
  Femtoseconds message_byte_ = 0;  // more to read of messages that others' have pushed out
  int64_t core_bytes_ = 0;         // in buffers of the ranks of a core
};

}  // namespace

std::string Prediction::limit(const NetworkModel& model) const {
  if (latency + fill > std::max(processor, wire)) return "latency";
  if (processor >= wire) return "processor";
  if (by_link) return "links";
  return model.levels[busiest_level].name + (by_connection ? " connections" : " ports");
}

Prediction predict(const Demand& demand, const NetworkModel& model, Rank ranks, const Sizes& sizes) {
  return Predictor(demand, model, ranks, sizes).run();
}

// Each message of the chain takes its latency, and its ends' time, whichever ranks these are.
Picoseconds least_time(int32_t rounds, const NetworkModel& model) {
  const auto least = [&](Picoseconds MessageCost::* part) {
    const auto of = [&](const NetworkLevel& level) { return level.cost.*part; };
    return of(*std::ranges::min_element(model.levels, {}, of));
  };
  return rounds *
         (least(&MessageCost::latency) + least(&MessageCost::send) + least(&MessageCost::receive) + model.local.step);
}

}  // namespace hocket
