// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

namespace hocket::perf {
namespace {

constexpr int kMost = 1 << 20;  // of anything countable

// What the flags are read into before it is checked as a whole.
struct Raw {
  Options options;
  std::string minimum = "32M", maximum = "32M", step = "1M";
  int factor = 1;
  int average = 1;
  int blocking = 0;
  std::string op = "sum", type = "float", root = "0";
  int graph = 0, device = 0;
  int stream_null = 0, registered = 0, policy = 0, device_blocks = 0;
};

CLI::Validator size_syntax() {
  return {
      [](std::string& text) { return parse_size(text) ? "" : "not a size: '" + text + "' (e.g. 8, 64K, 1.5M, 2G)"; },
      "SIZE"};
}

template <typename T>
std::string names_of(std::span<const T> entries) {
  std::string names;
  for (const T& entry : entries) names += std::string(entry.name) + ", ";
  return names + "all";
}

// Only the names are listed here; `choose_from` turns them into entries.
template <typename T>
CLI::Validator one_of(std::span<const T> entries, const char* what) {
  return {[entries, what](std::string& text) {
            for (const T& entry : entries) {
              if (entry.name == text) return std::string();
            }
            return text == "all" ? "" : fmt::format("no {} is named '{}'; there are {}", what, text, names_of(entries));
          },
          names_of(entries)};
}

template <typename T>
std::vector<const T*> choose_from(std::span<const T> entries, const std::string& name) {
  std::vector<const T*> chosen;
  for (const T& entry : entries) {
    if (name == "all" || entry.name == name) chosen.push_back(&entry);
  }
  return chosen;
}

void add_ranks(CLI::App& app, Raw& raw) {
  Options& options = raw.options;
  const CLI::Range several(1, 4096);
  app.add_option("--ranks", options.processes,
                 "Start this many processes on this host, on a core each if there are as many")
      ->check(several);
  app.add_option("-t,--nthreads", options.threads, "Threads in each process, each with ranks of its own")
      ->check(several);
  app.add_option("-g,--ngpus", options.ranks_per_thread, "Ranks that each thread drives, through groups")
      ->check(several);
  app.add_option("-p,--parallel_init", options.parallel_init, "Create each thread's ranks in that thread");
  app.add_option("-T,--timeout", options.timeout_seconds, "Seconds to wait for a rank that lives but does not come")
      ->check(CLI::Range(0, kMost));
}

void add_sizes(CLI::App& app, Raw& raw) {
  app.add_option("-b,--minbytes", raw.minimum, "Smallest size")->check(size_syntax())->capture_default_str();
  app.add_option("-e,--maxbytes", raw.maximum, "Largest size")->check(size_syntax())->capture_default_str();
  app.add_option("-i,--stepbytes", raw.step, "Step between sizes")->check(size_syntax())->capture_default_str();
  app.add_option("-f,--stepfactor", raw.factor, "Factor between sizes, instead of -i")->check(CLI::Range(1, kMost));
  app.add_option("-u,--unalign", raw.options.unalign, "Buffers begin with this element")->check(CLI::Range(0, 4096));
  app.add_option("-R,--local_register", raw.registered,
                 "Memory of hocketMemAlloc, 1: registered; 2: registered under the newer name")
      ->check(CLI::Range(0, 2));
  app.add_flag("--cold", raw.options.cold,
               "Walk through buffers of -e bytes, as nccl-tests does; else reuse the same ones");
}

void add_timing(CLI::App& app, Raw& raw) {
  Options& options = raw.options;
  app.add_option("-n,--iters", options.iterations, "Iterations")->check(CLI::Range(1, kMost))->capture_default_str();
  app.add_option("-w,--warmup_iters", options.warmup, "Iterations before the first row")->check(CLI::Range(0, kMost));
  app.add_option("-m,--agg_iters", options.aggregate, "Calls in one group, timed together")
      ->check(CLI::Range(1, kMost));
  app.add_option("-N,--run_cycles", options.cycles, "Repetitions of the whole table; 0: for ever")
      ->check(CLI::Range(0, kMost));
  app.add_option("-a,--average", raw.average, "Time of a row: 0 rank 0's, 1 mean, 2 minimum, 3 maximum over ranks")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_option("-z,--blocking", raw.blocking,
                 "1: barrier after each call; 2: wait after each call; 3: barrier after each iteration, not timed")
      ->check(CLI::Range(0, 3));
  app.add_flag("--queue", options.queue, "Issue the calls to an asynchronous queue");
  app.add_option("-C,--report_cputime", options.cpu_time, "Report the time that issuing the calls takes");
}

void add_workload(CLI::App& app, Raw& raw, const Collective& collective) {
  app.add_option("-o,--op", raw.op, "Reduction operation")->check(one_of(reduce_ops(), "operation"));
  app.add_option("-d,--datatype", raw.type, "Element type")->check(one_of(element_types(), "element type"));
  app.add_option("-r,--root", raw.root, "Root rank, or all");
  app.add_option("-c,--check", raw.options.checks, "Calls of which every element is checked; 0: none")
      ->check(CLI::Range(0, kMost));
  if (&collective == &kAllToAllV) {
    app.add_option("--spread", raw.options.traffic.spread, "0: equal traffic to all ranks, 1: the more the farther")
        ->check(CLI::Range(0.0, 1.0))
        ->envname("NCCL_TESTS_ALLTOALLV_SPREAD");
  }
  if (&collective == &kAllReduce) {
    app.add_option("--codec", raw.options.codec,
                   "Encode all messages: a codec's specification, as int4:block=64. Elements that are off by more than "
                   "it promises count as wrong");
  }
  app.add_flag("--list-algorithms", raw.options.list_algorithms, "List what HOCKET_ALGORITHM can name, and end");
}

void add_reports(CLI::App& app, Raw& raw) {
  Options& options = raw.options;
  app.add_option("-I,--per_iter_timing", options.per_iteration, "Time each iteration: columns i_min i_max i_p99 i_cv%");
  app.add_option("-K,--per_iter_skip", options.skip, "Leading iterations that these columns leave out")
      ->check(CLI::Range(0, kMost));
  app.add_flag("--percentiles", options.percentiles, "Time each iteration: columns p50 p90 p99");
  app.add_option("-S,--report_timestamps", options.timestamps, "End each row with the time of day");
  app.add_option("-M,--memory", options.memory, "Report the memory that the run took");
  app.add_option("-J,--output_file", options.json_file, "Write the results to this .json file too");
  app.add_option("--csv", options.csv_file, "Write the results to this CSV file too");
}

void add_device_flags(CLI::App& app, Raw& raw) {
  app.add_option("-y,--stream_null", raw.stream_null, "Ignored: means nothing for host memory");
  app.add_option("-x,--cta_policy", raw.policy, "Ignored: means nothing for host memory");
  app.add_option("-V,--device_cta_count", raw.device_blocks, "Ignored: means nothing for host memory");
  app.add_option("-G,--cudagraph", raw.graph, "Refused unless 0: host calls have no graphs");
  app.add_option("-D,--device_implementation", raw.device, "Refused unless 0: there is no device code");
}

Outcome usage(std::string message) { return {kExitUsage, std::move(message)}; }

Outcome take_sizes(const Raw& raw, Options& options) {
  // The command line's own checks have seen that these are sizes. NOLINTBEGIN(bugprone-unchecked-optional-access)
  options.sweep = {.first = *parse_size(raw.minimum),
                   .last = *parse_size(raw.maximum),
                   .step = *parse_size(raw.step),
                   .factor = static_cast<size_t>(raw.factor)};
  // NOLINTEND(bugprone-unchecked-optional-access)
  const Sweep& sweep = options.sweep;
  if (sweep.first > sweep.last) {
    return usage(fmt::format("-b {} is more than -e {}", raw.minimum, raw.maximum));
  }
  if (sweep.first < sweep.last && sweep.factor == 1 && sweep.step == 0) return usage("-i 0 never reaches -e");
  if (sweep.first == 0 && sweep.last > 0 && sweep.factor > 1) {
    return usage("-b 0 times -f never reaches -e: begin with a larger size or step with -i");
  }
  return {};
}

Outcome take_names(const Raw& raw, const Collective& collective, Options& options) {
  options.types = choose_from(element_types(), raw.type);
  options.ops = choose_from(reduce_ops(), raw.op);
  if (collective.reduces && raw.op != "all" && options.ops[0]->integers_only && raw.type != "all" &&
      options.types[0]->kind == Kind::kFloat) {
    return usage(fmt::format("-o {} is for integers, and -d {} is none", raw.op, raw.type));
  }
  if (!options.codec.empty() && options.checks > 0 && raw.type != "float" && !options.codec.starts_with("lossless")) {
    return usage(fmt::format("--codec {} with -d {} needs -c 0: only float results are held to its promise",
                             options.codec, raw.type));
  }
  if (raw.root == "all") {
    options.root = -1;
    return {};
  }
  if (!CLI::detail::lexical_cast(raw.root, options.root) || options.root < -1) {
    return usage(fmt::format("-r {}: neither a rank nor 'all'", raw.root));
  }
  return {};
}

Outcome take_reports(Options& options) {
  if (options.skip >= options.iterations) {
    return usage(fmt::format("-K {} leaves none of {} iterations", options.skip, options.iterations));
  }
  if (options.skip > 0 && !options.times_each_iteration()) return usage("-K needs -I 1 or --percentiles");
  const std::string& json = options.json_file;
  if (!json.empty() && !json.ends_with(".json")) {
    return usage(fmt::format("-J {}: only .json files are written (CSV: --csv FILE)", json));
  }
  return {};
}

void note_ignored(const CLI::App& app, Options& options) {
  for (const char* flag : {"-y", "-x", "-V"}) {
    if (app.get_option(flag)->count() > 0) options.ignored.emplace_back(flag);
  }
}

Outcome take(const CLI::App& app, Raw& raw, const Collective& collective) {
  Options& options = raw.options;
  if (raw.graph != 0) return usage("-G: calls on host memory cannot be captured in graphs");
  if (raw.device != 0) return usage("-D: there is no device code to run on host memory");
  HOCKET_PERF_TRY(take_sizes(raw, options));
  HOCKET_PERF_TRY(take_names(raw, collective, options));
  HOCKET_PERF_TRY(take_reports(options));
  options.average = static_cast<Average>(raw.average);
  options.blocking = static_cast<Blocking>(raw.blocking);
  options.registration = static_cast<Registration>(raw.registered);
  note_ignored(app, options);
  return {};
}

}  // namespace

Parsed parse_options(const Collective& collective, int argc, const char* const* argv) {
  const std::string program(collective.program);
  CLI::App app("Times " + program.substr(0, program.size() - std::string_view("_perf").size()) +
                   " and checks every element. Flags and table are those of nccl-tests.",
               program);
  app.option_defaults()->always_capture_default(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Raw raw;
  raw.options.arguments.assign(argv, argv + argc);
  add_ranks(app, raw);
  add_sizes(app, raw);
  add_timing(app, raw);
  add_workload(app, raw, collective);
  add_reports(app, raw);
  add_device_flags(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {{}, {kExitOk, app.help()}};
  } catch (const CLI::ParseError& error) {
    return {{}, usage(error.what())};
  }
  if (Outcome outcome = take(app, raw, collective); !outcome.ok()) return {{}, outcome};
  return {std::move(raw.options), {}};
}

}  // namespace hocket::perf
