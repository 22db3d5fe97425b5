// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The text of a tuning:
//   hocket-tuning 9
//   machine AMD_EPYC-2-2-23
//   cores 2
//   rank 250000 60000 40 10 2000000 30 16777216   call, step, place_byte, combine_byte, turn, cold_byte, cache_bytes
//   memory 150000 60000 60000 60 60 0 290000 390000 90 600000 0  latency, send, receive, send_byte, receive_byte,
//   socket 3000000 1500000 1500000 100 100 0 0 0 0 0 0           wire_byte, unbound, near_bytes, held_byte,
//   network 20000000 1500000 1500000 100 100 80000 0 0 0 0 300   held_bytes, incast
//   flow 1600000                            flow_byte of the network, where it is known
//   ring 0 1 3 2                            an order of the ranks, as a topology's search found it
//   tree 0 0 1 1                            every rank's parent
//   rails 0 1 1 0                           every rank's, where the topology has several hosts
//   load all_reduce ring 6666               for which a byte occupies the busiest link
//   best all_reduce 4 memory 8192 one_shot
//   end 1a2b3c4d                            the checksum of all before
// Times are picoseconds, those of bytes femtoseconds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "choose/tuning.h"
#include "plan/builders.h"

namespace hocket {
namespace {

constexpr std::string_view kVersion = "hocket-tuning 9";
constexpr std::array<std::string_view, 3> kMedia = {"memory", "socket", "network"};
constexpr size_t kMaxMachine = 256;
constexpr int64_t kMaxCost = int64_t{1} << 40;  // of a message: a second
constexpr int64_t kMaxByte = int64_t{1} << 30;  // about 1 MB/s
constexpr int64_t kMaxBytes = int64_t{1} << 60;
constexpr int64_t kMaxIncast = 10'000;  // eleven times as long
constexpr int32_t kMaxCores = 1 << 20;
constexpr size_t kMaxRoutes = 64;  // rings, or trees
constexpr size_t kMaxLoads = 128;

uint32_t checksum(std::string_view text) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash;
}

std::string line(std::string_view word, const MessageCost& cost) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}\n", word, cost.latency, cost.send, cost.receive,
                     cost.send_byte, cost.receive_byte, cost.wire_byte, cost.unbound, cost.near_bytes, cost.held_byte,
                     cost.held_bytes, cost.incast);
}

std::string line(std::string_view word, const std::vector<Rank>& route) {
  return fmt::format("{} {}\n", word, fmt::join(route, " "));
}

bool exists(Collective collective, std::string_view algorithm) {
  return find_builder(collective, algorithm) != nullptr;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Result<Tuning> parse() {
    if (rest_.size() > kMaxTuningText)
      return Status(Code::kInvalidArgument, fmt::format("longer than {} characters", kMaxTuningText));
    HOCKET_TRY(check_end());
    if (next_line() != kVersion) return fault(fmt::format("not '{}'", kVersion));
    while (!rest_.empty()) {
      words_ = next_line();
      HOCKET_TRY(parse_line());
    }
    HOCKET_TRY(check_routes());
    return std::move(tuning_);
  }

 private:
  Status fault(std::string_view reason) const {
    return {Code::kInvalidArgument, fmt::format("line {}: {}", number_, reason)};
  }

  // A text that was cut short or changed has another checksum, or none.
  Status check_end() {
    const size_t end = rest_.rfind("end ");
    if (end == std::string_view::npos || (end > 0 && rest_[end - 1] != '\n'))
      return {Code::kInvalidArgument, "the end is missing"};
    if (rest_.substr(end) != fmt::format("end {:08x}\n", checksum(rest_.substr(0, end)))) {
      return {Code::kInvalidArgument, "the checksum is wrong"};
    }
    rest_ = rest_.substr(0, end);
    return {};
  }

  std::string_view next_line() {
    ++number_;
    const size_t length = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = rest_.substr(0, length);
    rest_.remove_prefix(std::min(length + 1, rest_.size()));
    return line;
  }

  std::string_view next_word() {
    const size_t length = std::min(words_.find(' '), words_.size());
    const std::string_view word = words_.substr(0, length);
    words_.remove_prefix(std::min(length + 1, words_.size()));
    return word;
  }

  Status number(int64_t most, int64_t* value) {
    const std::string_view word = next_word();
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *value);
    if (error == std::errc() && end == word.data() + word.size() && *value >= 0 && *value <= most) return {};
    return fault(fmt::format("'{}' is no number from 0 to {}", word.substr(0, kMaxMachine), most));
  }

  Status parse_line() {
    const std::string_view kind = next_word();
    if (kind == "machine") return parse_machine();
    if (kind == "cores") return parse_cores();
    if (kind == "rank") return parse_local();
    if (kind == "memory") return parse_message(&tuning_.memory);
    if (kind == "socket") return parse_message(&tuning_.socket);
    if (kind == "network") return parse_message(&tuning_.network);
    if (kind == "flow") return parse_flow();
    if (kind == "ring") return parse_route(tuning_.routes.rings);
    if (kind == "tree") return parse_route(tuning_.routes.trees);
    if (kind == "rails") return parse_rails();
    if (kind == "load") return parse_load();
    if (kind == "best") return parse_best();
    return fault(fmt::format("'{}' is nothing that a tuning says", kind.substr(0, kMaxMachine)));
  }

  Status ended() const { return words_.empty() ? Status() : fault("the line is too long"); }

  Status parse_machine() {
    tuning_.machine = next_word().substr(0, kMaxMachine);
    return ended();
  }

  Status parse_cores() {
    int64_t cores = 0;
    HOCKET_TRY(number(kMaxCores, &cores));
    tuning_.cores = static_cast<int32_t>(cores);
    return ended();
  }

  Status parse_local() {
    LocalCost& local = tuning_.local;
    for (Picoseconds* cost : {&local.call, &local.step}) HOCKET_TRY(number(kMaxCost, cost));
    for (Femtoseconds* cost : {&local.place_byte, &local.combine_byte}) HOCKET_TRY(number(kMaxByte, cost));
    HOCKET_TRY(number(kMaxCost, &local.turn));
    HOCKET_TRY(number(kMaxByte, &local.cold_byte));
    HOCKET_TRY(number(kMaxBytes, &local.cache_bytes));
    return ended();
  }

  Status parse_message(MessageCost* cost) {
    for (Picoseconds* part : {&cost->latency, &cost->send, &cost->receive}) HOCKET_TRY(number(kMaxCost, part));
    for (Femtoseconds* part : {&cost->send_byte, &cost->receive_byte, &cost->wire_byte}) {
      HOCKET_TRY(number(kMaxByte, part));
    }
    HOCKET_TRY(number(kMaxCost, &cost->unbound));
    HOCKET_TRY(number(kMaxBytes, &cost->near_bytes));
    HOCKET_TRY(number(kMaxByte, &cost->held_byte));
    HOCKET_TRY(number(kMaxBytes, &cost->held_bytes));
    HOCKET_TRY(number(kMaxIncast, &cost->incast));
    return ended();
  }

  Status parse_flow() {
    HOCKET_TRY(number(kMaxByte, &tuning_.network.flow_byte));
    return ended();
  }

  Status parse_route(std::vector<std::vector<Rank>>& routes) {
    if (routes.size() == kMaxRoutes) return fault(fmt::format("more than {} of a kind", kMaxRoutes));
    return parse_numbers(routes.emplace_back());
  }

  Status parse_rails() {
    if (!tuning_.routes.rails.empty()) return fault("the rails are told twice");
    return parse_numbers(tuning_.routes.rails);
  }

  Status parse_numbers(std::vector<int32_t>& numbers) {
    while (!words_.empty()) {
      int64_t value = 0;
      HOCKET_TRY(number(static_cast<int64_t>(kMaxTuningText), &value));
      numbers.push_back(static_cast<int32_t>(value));
    }
    return {};
  }

  // As the plans that go along them ask for.
  Status check_routes() const {
    const Routes& routes = tuning_.routes;
    if (routes.rings.empty() && routes.trees.empty() && routes.loads.empty() && routes.rails.empty()) return {};
    BuildOptions options{.ranks = routes.rings.empty() ? 0 : static_cast<Rank>(routes.rings[0].size())};
    options.routes = routes.rings;
    options.trees = routes.trees;
    if (!find_builder(Collective::kAllReduce, "routed_rings")->fits(options))
      return {Code::kInvalidArgument, "the rings are no orders of the same ranks"};
    if (!routes.rails.empty() && routes.rails.size() != routes.rings[0].size())
      return {Code::kInvalidArgument, "the rails are not of the ranks of the rings"};
    if (routes.trees.empty() || find_builder(Collective::kAllReduce, "routed_trees")->fits(options)) return {};
    return {Code::kInvalidArgument, "the trees do not join the ranks of the rings"};
  }

  Status parse_load() {
    if (tuning_.routes.loads.size() == kMaxLoads) return fault(fmt::format("more than {} loads", kMaxLoads));
    LinkLoad load;
    const std::string_view collective = next_word();
    HOCKET_TRY(parse_algorithm(&load.collective, collective, next_word(), &load.algorithm));
    HOCKET_TRY(number(kMaxByte, &load.byte));
    tuning_.routes.loads.push_back(std::move(load));
    return ended();
  }

  Status parse_algorithm(Collective* collective, std::string_view of, std::string_view by, std::string* algorithm) {
    *algorithm = by;
    for (const Builder& builder : builders()) {
      if (name(builder.collective) == of) *collective = builder.collective;
    }
    if (name(*collective) == of && exists(*collective, by)) return {};
    return fault(fmt::format("there is no {} by '{}'", of.substr(0, kMaxMachine), by.substr(0, kMaxMachine)));
  }

  Status parse_best() {
    if (tuning_.best.size() == kMaxMeasuredChoices)
      return fault(fmt::format("more than {} choices", kMaxMeasuredChoices));
    MeasuredChoice choice;
    const std::string_view collective = next_word();
    int64_t ranks = 0;
    HOCKET_TRY(number(INT32_MAX, &ranks));
    choice.ranks = static_cast<Rank>(ranks);
    const std::string_view carrier = next_word();
    const auto medium = std::ranges::find(kMedia, carrier);
    if (medium == kMedia.end()) return fault("messages go through 'memory', a 'socket' or the 'network'");
    choice.medium = static_cast<Medium>(medium - kMedia.begin());
    HOCKET_TRY(number(kMaxBytes, &choice.bytes));
    HOCKET_TRY(parse_algorithm(&choice.collective, collective, next_word(), &choice.algorithm));
    tuning_.best.push_back(std::move(choice));
    return ended();
  }

  std::string_view rest_;
  std::string_view words_;  // of the line
  int number_ = 0;
  Tuning tuning_;
};

}  // namespace

std::string to_text(const Tuning& tuning) {
  constexpr size_t kEnd = 16;  // characters
  const LocalCost& local = tuning.local;
  std::string text = fmt::format("{}\nmachine {}\ncores {}\n", kVersion, tuning.machine, tuning.cores);
  text += fmt::format("rank {} {} {} {} {} {} {}\n", local.call, local.step, local.place_byte, local.combine_byte,
                      local.turn, local.cold_byte, local.cache_bytes);
  text += line("memory", tuning.memory) + line("socket", tuning.socket) + line("network", tuning.network);
  if (tuning.network.flow_byte > 0) text += fmt::format("flow {}\n", tuning.network.flow_byte);
  for (const auto& ring : tuning.routes.rings) text += line("ring", ring);
  for (const auto& tree : tuning.routes.trees) text += line("tree", tree);
  if (!tuning.routes.rails.empty()) text += line("rails", tuning.routes.rails);
  for (const LinkLoad& load : tuning.routes.loads)
    text += fmt::format("load {} {} {}\n", name(load.collective), load.algorithm, load.byte);
  for (const MeasuredChoice& choice : tuning.best) {
    const std::string row = fmt::format("best {} {} {} {} {}\n", name(choice.collective), choice.ranks,
                                        kMedia[static_cast<size_t>(choice.medium)], choice.bytes, choice.algorithm);
    if (text.size() + row.size() + kEnd > kMaxTuningText) break;
    text += row;
  }
  return text + fmt::format("end {:08x}\n", checksum(text));
}

Result<Tuning> parse_tuning(std::string_view text) { return Parser(text).parse(); }

}  // namespace hocket
