// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket explain: what would be chosen for a call, why, what bounds its time, and what would make it faster.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <span>

#include "choose/choose.h"
#include "codec/programs/program.h"
#include "commands.h"
#include "files.h"
#include "network_option.h"
#include "topology/discover_devices.h"

namespace hocket::tool {
namespace {

struct Words {
  std::string collective = "all_reduce";
  Rank ranks = 8;
  Rank per_host = 0;
  std::string bytes = "1M";
  std::string network;
  std::string tuning;
  std::string algorithm;
  std::string codec;
  int32_t lanes = 0;
  int32_t pipe_memory = 0;  // MiB
  bool socket = false;
};

double microseconds(Picoseconds time) { return static_cast<double>(time) / 1e6; }

Result<Collective> parse_collective(std::string_view text) {
  for (const Builder& builder : builders()) {
    if (name(builder.collective) == text) return builder.collective;
  }
  return Status(Code::kInvalidArgument, fmt::format("no collective is named '{}'", text));
}

Result<Tuning> read_tuning(const std::string& path) {
  if (path.empty()) return built_in_tuning();
  const Result<std::string> text = read_file("--tuning", path);
  HOCKET_TRY(text.status());
  Result<Tuning> tuning = parse_tuning(*text);
  if (tuning.ok()) return tuning;
  return Status(tuning.status().code(), fmt::format("{}: {}", path, tuning.status().message()));
}

std::string_view why(Choice::Reason reason) {
  switch (reason) {
    case Choice::Reason::kForced:
      return "it is forced";
    case Choice::Reason::kInWindow:
      return "the buffers lie in windows";
    case Choice::Reason::kMeasured:
      return "the tuning file says that it was the fastest for such calls";
    case Choice::Reason::kPredicted:
      return "the model finds it the fastest";
    case Choice::Reason::kPossible:
      break;
  }
  return "it is the first that can do it";
}

std::string how(const Builder& builder, int32_t lanes, size_t slice_bytes) {
  std::string text(builder.name);
  if (lanes > 1) text += fmt::format(" over {} lanes", lanes);
  if (slice_bytes <= kShortSlice) text += fmt::format(" by {} KiB", slice_bytes >> 10);
  return text;
}

void print_candidates(const std::vector<Candidate>& candidates, const NetworkModel& network, const Choice& chosen) {
  fmt::print("{:<36}{:>12} {:>12} {:>12} {:>12} {:>12}  {}\n", "algorithm", "predicted us", "latency", "processor",
             "wire", "fill", "bound by");
  std::set<const Builder*> shown;
  for (const Candidate& candidate : candidates) {
    const bool is_chosen = candidate.builder == chosen.builder && candidate.lanes == chosen.lanes &&
                           candidate.cut.slice_bytes == chosen.slice_bytes;
    // Of an algorithm over several numbers of lanes or by several lengths of slices, the best.
    if (!shown.insert(candidate.builder).second && !is_chosen) continue;
    const Prediction& time = candidate.prediction;
    fmt::print("{} {:<34}{:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f}  {}\n", is_chosen ? '>' : ' ',
               how(*candidate.builder, candidate.lanes, candidate.cut.slice_bytes), microseconds(time.total()),
               microseconds(time.latency), microseconds(time.processor), microseconds(time.wire),
               microseconds(time.fill), time.limit(network));
  }
}

// The groups across hosts of hierarchical plans, where ranks have rails.
void print_rails(const Hierarchy* hierarchy, const Placement& placement) {
  if (hierarchy == nullptr || placement.rails.empty()) return;
  const std::vector<Hierarchy::Group>& hosts = hierarchy->levels[0];
  fmt::print("Rails join, between hosts:");
  const size_t places = std::ranges::min(hosts, {}, &Hierarchy::Group::size).size();
  for (size_t place = 0; place < places; ++place) {
    std::vector<Rank> members;
    for (const Hierarchy::Group& host : hosts) members.push_back(host[place]);
    fmt::print(" {{{}}}", fmt::join(members, " "));
  }
  fmt::print("\n\n");
}

struct Change {
  std::string_view what;
  void (*make)(Tuning& tuning);
};

void half(std::initializer_list<int64_t*> costs) {
  for (int64_t* cost : costs) *cost /= 2;
}

void half(Tuning& tuning, std::initializer_list<int64_t MessageCost::*> parts) {
  for (MessageCost* cost : {&tuning.memory, &tuning.socket, &tuning.network}) {
    for (const auto part : parts) cost->*part /= 2;
  }
}

constexpr std::array kChanges = {
    Change{"half the latency", [](Tuning& t) { half(t, {&MessageCost::latency}); }},
    Change{"twice the port bandwidth", [](Tuning& t) { half(t, {&MessageCost::wire_byte}); }},
    Change{"connections that carry twice as much", [](Tuning& t) { half(t, {&MessageCost::flow_byte}); }},
    Change{"ports that many may send to at once", [](Tuning& t) { t.network.incast = 0; }},
    Change{"messages that cost their ends half the time",
           [](Tuning& t) {
             half(t, {&MessageCost::send, &MessageCost::receive, &MessageCost::send_byte, &MessageCost::receive_byte});
           }},
    Change{"memory that is twice as fast",
           [](Tuning& t) { half({&t.local.place_byte, &t.local.combine_byte, &t.local.cold_byte}); }},
    Change{"a core for every rank", [](Tuning& t) { t.cores = 0; }},
};

class Explanation {
 public:
  Explanation(const Words& words, Tuning tuning) : words_(words), tuning_(std::move(tuning)) {
    placement_ = {.ranks = words.ranks,
                  .per_host = words.per_host > 0 ? std::min(words.per_host, words.ranks) : words.ranks,
                  .memory = !words.socket};
  }

  Status print() {
    const Result<Collective> collective = parse_collective(words_.collective);
    if (!collective.ok()) return collective.status();
    const Result<int64_t> bytes = parse_size(words_.bytes);
    if (!bytes.ok()) return bytes.status();
    const Result<Forced> forced = Forced::parse(words_.algorithm, "--algorithm");
    if (!forced.ok()) return forced.status();
    question_.collective = *collective;
    question_.ranks = words_.ranks;
    question_.bytes = static_cast<size_t>(*bytes);

    const size_t budget =
        words_.pipe_memory > 0 ? static_cast<size_t>(words_.pipe_memory) << 20 : default_pipe_memory(words_.ranks);
    const size_t memory = slice_memory(budget, placement_.per_host < placement_.ranks);
    const SliceLimit limit(longest_slice(medium_of(placement_)), memory, placement_);
    Chooser chooser(*forced, tuning_, placement_, limit, words_.lanes);
    HOCKET_TRY(weigh_codec(chooser));
    const Result<Choice> choice = chooser.choose(question_);
    if (!choice.ok()) return choice.status();
    const std::vector<Candidate> candidates = chooser.candidates(question_);
    fmt::print("{}\n", describe(chooser.network()));
    print_rails(chooser.options_of(question_).hierarchy, chooser.placement());
    print_candidates(candidates, chooser.network(), *choice);
    fmt::print("\nChosen: {}, because {}.\n", how(*choice->builder, choice->lanes, choice->slice_bytes),
               why(choice->reason));
    print_encodings(*choice->builder);
    if (!candidates.empty()) print_advice(chooser, candidates, *choice);
    return {};
  }

 private:
  // Says whether it, or the fastest of several, pays; if so, it is the coded call that is explained.
  Status weigh_codec(Chooser& chooser) {
    if (words_.codec.empty()) return {};
    const Result<Compression> made = make_compression(words_.codec);
    HOCKET_TRY(made.status());
    if (made->codecs.empty()) {
      return {Code::kInvalidUsage, fmt::format("codec {} is a program of several collectives", words_.codec)};
    }
    std::vector<CodingCost> costs;
    for (const auto& codec : made->codecs) costs.push_back(cost_of(*codec, DataType::kFloat32));
    const Weighed weighed = chooser.weigh(question_, costs);
    const Result<Prediction> without = chooser.expect(question_);
    const Result<Prediction> with = chooser.expect(weighed.coded);
    HOCKET_TRY(with.status());
    HOCKET_TRY(without.status());
    const std::string codec =
        costs.size() == 1 ? words_.codec : made->codecs[weighed.best]->describe(DataType::kFloat32).specification;
    if (weighed.coded.coding.ratio == 0) {
      fmt::print("Codec {}: how much it sends depends on the values; it is always used.\n\n", codec);
    } else {
      fmt::print("Codec {}: {:.2f} us with it, {:.2f} us without: {}.\n\n", codec, microseconds(with->total()),
                 microseconds(without->total()),
                 weighed.pays ? "it is used" : "it is left out, for it does not save a tenth (HOCKET_COMPRESSION)");
    }
    if (weighed.pays) question_ = weighed.coded;
    return {};
  }

  void print_encodings(const Builder& builder) const {
    const std::optional<int32_t> times = encodings(builder, question_.ranks);
    if (!question_.coded || !times) return;
    const int32_t most = question_.coding.encodings;
    fmt::print("What a rank contributes is encoded at most {} on its way{}.\n",
               *times == 1 ? "once" : fmt::format("{} times", *times),
               most < kMostEncodings ? fmt::format("; the codec may {} times (its option encodings)", most) : "");
  }

  void print_advice(const Chooser& chooser, const std::vector<Candidate>& candidates, const Choice& chosen) const {
    const Candidate& best = candidates[0];
    const auto is_as_good = [&](const Candidate& candidate) {
      return candidate.builder == chosen.builder && candidate.prediction.total() == best.prediction.total();
    };
    if (std::ranges::none_of(candidates, is_as_good)) {
      fmt::print("The model finds {} faster{}: HOCKET_ALGORITHM={}={} tries it, 'hocket tune' measures all.\n",
                 best.builder->name, best.many_pipes ? ", which opens too many pipes to be taken unasked" : "",
                 name(question_.collective), best.builder->name);
    }
    fmt::print("What would help, by the model's best:\n");
    for (const Change& change : kChanges) {
      Tuning changed = tuning_;
      change.make(changed);
      const Candidate faster = chooser.with(changed).candidates(question_)[0];
      if (faster.prediction.total() > best.prediction.total() / 100 * 99) continue;  // not worth a line
      fmt::print("  {:<46}{:>12.2f} us by {}, instead of {:.2f} us\n", change.what,
                 microseconds(faster.prediction.total()), how(*faster.builder, faster.lanes, faster.cut.slice_bytes),
                 microseconds(best.prediction.total()));
    }
  }

  const Words& words_;
  Tuning tuning_;
  Placement placement_;
  Question question_;
};

// By which of its addresses each RDMA port of this host is reached, unless a peer has none that fits it.
void print_ports(std::span<const topology::RdmaPort> ports) {
  if (ports.empty()) return;
  fmt::print("RDMA ports of this host:\n");
  for (const topology::RdmaPort& port : ports) {
    fmt::print(
        "  {:<20}{:>5.0f} Gbit/s, {}\n", port.name, 8 * port.gb_per_s,
        port.gid ? fmt::format("reached at {}: {}", port.gid->text(), why(*port.gid)) : "not reached: no address");
  }
}

// Costs of the levels of --network instead of the tuning's.
Status apply_network(std::string_view text, Words& words, Tuning& tuning) {
  if (text.empty()) return {};
  const Result<NetworkModel> model = network_option(text);
  if (!model.ok()) return model.status();
  if (model->levels.size() > 2) {
    return {Code::kInvalidArgument,
            fmt::format("--network: {} levels; only hosts and what joins them can be explained", model->levels.size())};
  }
  if (words.per_host == 0 && model->levels.size() > 1) words.per_host = model->levels[0].children;
  tuning.memory = tuning.socket = model->levels[0].cost;
  tuning.network = model->levels.back().cost;
  tuning.local = model->local;
  tuning.cores = model->cores;
  tuning.machine = "network";  // nobody measured it: the model chooses
  tuning.best.clear();
  return {};
}

Status run(Words words) {
  Result<Tuning> tuning = read_tuning(words.tuning);
  if (!tuning.ok()) return tuning.status();
  if (tuning->cores == 0) tuning->cores = machine().usable_cpus();
  HOCKET_TRY(apply_network(words.network, words, *tuning));
  HOCKET_TRY(Explanation(words, std::move(*tuning)).print());
  print_ports(topology::rdma_ports());
  return {};
}

}  // namespace

Command explain(CLI::App& program) {
  CLI::App* app = program.add_subcommand("explain", "Say what is chosen for a call, why, and what bounds its time");
  const auto words = std::make_shared<Words>();
  app->add_option("collective", words->collective, "all_reduce, broadcast, ...")->capture_default_str();
  app->add_option("--bytes", words->bytes, "As callers count them: of the buffer, or of one rank's block")
      ->capture_default_str();
  app->add_option("--ranks", words->ranks, "Number of ranks")->check(CLI::Range(2, 1 << 20))->capture_default_str();
  app->add_option("--per-host", words->per_host, "Ranks on one host; not given: all")->check(CLI::Range(1, 1 << 20));
  app->add_flag("--socket", words->socket, "Ranks of one host do not share memory");
  app->add_option("--tuning", words->tuning, "What 'hocket tune' wrote; not given: what is built in");
  app->add_option("--network", words->network, std::string(kNetworkHelp));
  app->add_option("--algorithm", words->algorithm, "As HOCKET_ALGORITHM");
  app->add_option("--codec", words->codec, "Of float32: its specification, as int8:block=128; says whether it pays");
  app->add_option("--lanes", words->lanes, "As HOCKET_LANES")->check(CLI::Range(1, kMaxLanes));
  app->add_option("--pipe-memory", words->pipe_memory, "MiB, as HOCKET_PIPE_MEMORY")->check(CLI::Range(1, 1 << 20));
  return {app, [words] { return run(*words); }};
}

}  // namespace hocket::tool
