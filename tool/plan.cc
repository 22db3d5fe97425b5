// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket plan: the plans of an algorithm, or those of a file, proved, as our text or as MSCCL's XML.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "choose/choose.h"
#include "commands.h"
#include "files.h"
#include "on_topology.h"
#include "plan/check.h"
#include "plan/msccl.h"
#include "plan/text.h"
#include "prove/load.h"

namespace hocket::tool {
namespace {

constexpr Rank kDefaultRanks = 8;
constexpr Rank kMaxProved = 1024;

struct Words {
  std::string collective = "all_reduce";
  std::string algorithm;
  std::optional<Rank> ranks;
  std::optional<Rank> rank;
  Rank root = 0;
  Rank per_host = 0;
  int32_t lanes = 1;
  bool in_place = false;
  std::string topology;
  std::string file;
  std::string format = "text";
  std::string out;
};

// What options point into.
class Plans {
 public:
  explicit Plans(const Words& words) : words_(words) {}

  Status run() {
    if (words_.rank && words_.format == "msccl") {
      return {Code::kInvalidArgument,
              "--rank: MSCCL's XML holds the plans of all ranks, or cannot be read: leave it out"};
    }
    HOCKET_TRY(words_.file.empty() ? build() : load());
    Result<std::string> text = this->text();
    if (!text.ok()) return text.status();
    if (!words_.out.empty()) return write_file("--out", words_.out, *text);
    fmt::print("{}", *text);
    return {};
  }

 private:
  Status load() {
    const Result<std::string> text = read_file("--file", words_.file);
    HOCKET_TRY(text.status());
    const size_t begin = text->find_first_not_of(" \t\r\n");
    const bool is_json = begin != std::string::npos && (*text)[begin] == '{';
    Result<Loaded> loaded = is_json ? load_mscclpp(*text) : load_msccl(*text);
    if (!loaded.ok()) return {loaded.status().code(), fmt::format("{}: {}", words_.file, loaded.status().message())};
    plans_ = std::move(loaded->plans);
    return keep_one(static_cast<Rank>(plans_.size()));
  }

  Status keep_one(Rank ranks) {
    if (!words_.rank) return {};
    if (*words_.rank >= ranks) return no_such_rank(ranks);
    Plan one = std::move(plans_[static_cast<size_t>(*words_.rank)]);
    plans_.clear();
    plans_.push_back(std::move(one));
    return {};
  }

  Status no_such_rank(Rank ranks) const {
    return {Code::kInvalidArgument, fmt::format("--rank: {} is none of {} ranks", *words_.rank, ranks)};
  }

  Status build() {
    const Result<const Builder*> builder = find();
    if (!builder.ok()) return builder.status();
    BuildOptions options;
    HOCKET_TRY(fill(options));
    if (!(*builder)->fits(options)) {
      return {Code::kInvalidArgument, fmt::format("{} by {} of {} ranks: {}", words_.collective, words_.algorithm,
                                                  options.ranks, (*builder)->needs)};
    }
    if (options.ranks > kMaxChunks / options.lanes) {
      return {Code::kInvalidArgument, fmt::format("--ranks: {} times {} lanes are more than {} chunks", options.ranks,
                                                  options.lanes, kMaxChunks)};
    }
    if (words_.rank) {
      if (*words_.rank >= options.ranks) return no_such_rank(options.ranks);
      options.rank = *words_.rank;
      plans_.push_back((*builder)->build(options));
      return check(plans_.back());
    }
    if (options.ranks > kMaxProved) {
      return {Code::kInvalidArgument,
              fmt::format("--ranks: more than {} are not proved at once; --rank prints one's plan", kMaxProved)};
    }
    for (options.rank = 0; options.rank < options.ranks; ++options.rank) plans_.push_back((*builder)->build(options));
    options.rank = 0;
    return prove(**builder, options).status();
  }

  Result<const Builder*> find() const {
    for (const Builder& builder : builders()) {
      if (name(builder.collective) != words_.collective) continue;
      if (const Builder* found = find_builder(builder.collective, words_.algorithm)) return found;
      return Status(Code::kInvalidArgument, fmt::format("--algorithm: {} has no '{}', but {}", words_.collective,
                                                        words_.algorithm, algorithm_names(builder.collective)));
    }
    return Status(Code::kInvalidArgument, fmt::format("no collective is named '{}'", words_.collective));
  }

  Status fill(BuildOptions& options) {
    options.ranks = words_.ranks.value_or(kDefaultRanks);
    if (!words_.topology.empty()) {
      const Result<topology::Reading> reading = read_topology("--topology", words_.topology);
      HOCKET_TRY(reading.status());
      options.ranks = static_cast<Rank>(reading->topology.seats().size());
      if (words_.ranks && *words_.ranks != options.ranks) {
        return {Code::kInvalidArgument,
                fmt::format("--ranks: the topology has {} seats for {} ranks", options.ranks, *words_.ranks)};
      }
      found_ = search(reading->topology);
    }
    if (words_.per_host > 0) found_.hierarchy = hierarchy_of({.ranks = options.ranks, .per_host = words_.per_host});
    found_.offer(options);
    if (words_.root >= options.ranks)
      return {Code::kInvalidArgument, fmt::format("--root: {} is none of {} ranks", words_.root, options.ranks)};
    options.root = words_.root;
    options.lanes = words_.lanes;
    options.in_place = words_.in_place;
    return {};
  }

  Result<std::string> text() const {
    if (words_.format == "msccl") return export_msccl(plans_);
    std::string all;
    for (const Plan& plan : plans_) all += (all.empty() ? "" : "\n") + to_text(plan);
    return all;
  }

  const Words& words_;
  OnTopology found_;
  std::vector<Plan> plans_;
};

}  // namespace

Command plan(CLI::App& program) {
  CLI::App* app = program.add_subcommand("plan", "Print the plans of an algorithm, or of a file, proved");
  const auto words = std::make_shared<Words>();
  app->add_option("collective", words->collective, "all_reduce, broadcast, ...")->capture_default_str();
  CLI::Option* algorithm = app->add_option("--algorithm", words->algorithm, "Whose plans: ring, circulant, ...");
  CLI::Option* ranks = app->add_option(
      "--ranks", words->ranks,
      fmt::format("Number of ranks; not given: {}, or one on each seat of the topology", kDefaultRanks));
  ranks->check(CLI::Range(1, 1 << 20));
  CLI::Option* rank = app->add_option("--rank", words->rank, "Only this one's plan, which alone proves nothing");
  rank->check(CLI::Range(0, 1 << 20));
  app->add_option("--root", words->root, "Of rooted collectives")->check(CLI::Range(0, 1 << 20));
  app->add_option("--lanes", words->lanes, "Parts that run side by side")->check(CLI::Range(1, kMaxLanes));
  app->add_flag("--in-place", words->in_place, "The caller's two buffers are one");
  CLI::Option* topology =
      app->add_option("--topology", words->topology, "What the search finds here: for routed and hierarchical plans");
  topology->check(names_a_file);
  app->add_option("--per-host", words->per_host, "Ranks on one host, for hierarchical plans")
      ->check(CLI::Range(1, 1 << 20))
      ->excludes(topology);
  app->add_option("--file", words->file, "Plans that others made instead: MSCCL's XML, or MSCCL++'s JSON")
      ->check(names_a_file)
      ->excludes(algorithm)
      ->excludes(ranks)
      ->excludes(topology);
  app->add_option("--format", words->format, "text (ours) or msccl (its XML)")
      ->check(CLI::IsMember({"text", "msccl"}))
      ->capture_default_str();
  app->add_option("--out", words->out, "Write them into this file")->check(names_a_file);
  return {app, [words] { return Plans(*words).run(); }};
}

}  // namespace hocket::tool
