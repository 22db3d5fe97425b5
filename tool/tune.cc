// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket tune: measures every algorithm on this machine, writes what was best and what messages cost, and tells how
// well the model says what was measured; or only tells how well what is in use does.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>

#include "choose/cut.h"
#include "choose/fit.h"
#include "commands.h"
#include "files.h"
#include "launched.h"
#include "numbers.h"
#include "plan/builders.h"
#include "team.h"
#include "timetable.h"
#include "topology/pair.h"
#include "tuning_file.h"

namespace hocket::tool {
namespace {

// Where the search for costs begins that were measured elsewhere.
constexpr MessageCost kFastNetwork{.latency = 500'000,
                                   .send = 2'600'000,
                                   .receive = 2'600'000,
                                   .send_byte = 84'000,
                                   .receive_byte = 84'000,
                                   .wire_byte = 80'000,   // 12.5 GB/s
                                   .unbound = 2'000'000,  // asked for before it is sent
                                   .incast = 100};
constexpr int64_t kLeastBytes = 4;

struct Words {
  std::vector<int32_t> ranks = {2, 4, 8};
  std::vector<std::string> collectives = {"all_reduce"};
  std::string from = "1K";
  std::string to = "64M";
  int32_t factor = 8;
  double seconds = 30;
  std::string transports;
  bool socket = false;
  bool launched = false;
  bool check = false;
  bool whole = false;
  std::string samples;
  std::string judge;
  int32_t cores = 0;
  std::string port;
  std::string connection;
  std::string save;
  std::string out;
};

class Tuner {
 public:
  explicit Tuner(const Words& words)
      : words_(words), timetable_(medium(words), words.whole), judge_(medium(words), words.whole) {}

  Status run() {
    HOCKET_TRY(check_is_ours("--out", words_.out));
    HOCKET_TRY(read_rate("--port", words_.port, port_));
    HOCKET_TRY(read_rate("--connection", words_.connection, connection_));
    if (!words_.judge.empty()) HOCKET_TRY(read_times("--judge", words_.judge, judge_));
    HOCKET_TRY(words_.samples.empty() ? measure_here() : read_samples());
    if (launched_ != nullptr && launched_->rank() != 0) return {};
    HOCKET_TRY(save());
    if (words_.check) {
      HOCKET_TRY(read_what_is_checked());
      print_report();
      return {};
    }
    forget_what_is_measured();
    tuning_ = fit_best(beginnings(), timetable_.samples(), timetable_.max_message());
    for (MeasuredChoice& choice : timetable_.best()) tuning_.best.push_back(std::move(choice));
    print_report();
    if (launched_ == nullptr) set_rate(port_, tuning_.network.wire_byte);
    set_rate(connection_, tuning_.network.flow_byte);
    return write();
  }

 private:
  void print_report() const {
    fmt::print("{}{}", timetable_.report(tuning_, judge_.empty() ? timetable_ : judge_), apart_);
  }

  Status read_what_is_checked() {
    if (words_.out.empty()) return {};
    const Result<std::string> text = read_file("--out", words_.out);
    HOCKET_TRY(text.status());
    Result<Tuning> tuning = parse_tuning(*text);
    if (!tuning.ok()) return {tuning.status().code(), fmt::format("{}: {}", words_.out, tuning.status().message())};
    tuning_ = std::move(*tuning);
    return {};
  }

  static Medium medium(const Words& words) {
    if (!words.samples.empty() && words.cores == 0) return Medium::kNetwork;
    return words.socket ? Medium::kSocket : Medium::kMemory;
  }

  Status measure_here() {
    HOCKET_TRY(read_words());
    if (words_.launched) HOCKET_TRY(join());
    HOCKET_TRY(check_what_is_written());
    for (const Collective collective : collectives_) {
      for (const int32_t ranks : ranks_) HOCKET_TRY(measure(collective, ranks));
    }
    look_at_cores("at the end");
    tuning_ = tuning_to_extend(words_.out);  // what it says of other ranks, collectives and transports stays
    tuning_.machine = fingerprint(machine());
    tuning_.cores = machine().usable_cpus();
    if (launched_ != nullptr && port_) expect_port();
    return {};
  }

  // Before the time that measuring takes. Rank 0 alone writes.
  Status check_what_is_written() const {
    if (launched_ != nullptr && launched_->rank() != 0) return {};
    if (!words_.save.empty()) HOCKET_TRY(check_is_writable("--save", words_.save));
    return words_.out.empty() || words_.check ? Status() : check_is_writable("--out", words_.out);
  }

  // Where the search for what a port costs begins.
  void expect_port() {
    MessageCost& cost = cost_of(tuning_, timetable_.medium());
    cost.incast = std::max(cost.incast, tuning_.network.incast);
    set_rate(port_, cost.wire_byte);
  }

  // What goes between hosts cannot be told apart from what stays inside.
  Status join() {
    if (!words_.transports.empty()) setenv("HOCKET_TRANSPORTS", words_.transports.c_str(), 1);
    Result<std::unique_ptr<Launched>> joined = Launched::join();
    HOCKET_TRY(joined.status());
    launched_ = std::move(*joined);
    ranks_ = {launched_->count()};
    if (ranks_[0] < 2) return {Code::kInvalidUsage, "--launched: no launcher has started several ranks"};
    const int hosts = launched_->hosts();
    if (hosts == ranks_[0]) timetable_.set_medium(Medium::kNetwork);
    if (hosts == 1 || hosts == ranks_[0]) return {};
    return {Code::kInvalidUsage,
            fmt::format("--launched: {} ranks on {} hosts: start one on each, or all on one", ranks_[0], hosts)};
  }

  Status read_words() {
    const Result<int64_t> from = parse_size(words_.from);
    if (!from.ok()) return from.status();
    const Result<int64_t> to = parse_size(words_.to);
    if (!to.ok()) return to.status();
    if (*to < std::max(*from, kLeastBytes)) {
      return {Code::kInvalidArgument, fmt::format("--to: {} is less than {}", words_.to, words_.from)};
    }
    for (int64_t bytes = std::max(*from, kLeastBytes); bytes <= *to && bytes_.size() < kMaxTeamSizes;
         bytes *= words_.factor) {
      bytes_.push_back(bytes);
    }
    for (const std::string& text : words_.collectives) {
      const auto found = std::find_if(builders().begin(), builders().end(),
                                      [&](const Builder& builder) { return name(builder.collective) == text; });
      if (found == builders().end() || !can_time(found->collective)) {
        return {Code::kInvalidArgument, fmt::format("--collectives: '{}' cannot be measured", text)};
      }
      collectives_.push_back(found->collective);
    }
    return {};
  }

  // Virtual machines are moved about: times of cores that are near each other say nothing of those that are far. Ranks
  // of a launcher would be in the way.
  void look_at_cores(std::string_view when) {
    const CpuList& cpus = machine().cpus;
    if (launched_ != nullptr || cpus.size() < 2) return;
    const std::optional<topology::CorePair> pair = topology::measure_pair(cpus[0], cpus[1]);
    if (pair)
      apart_ += fmt::format("Cores {} and {} are {:.0f} ns apart {}.\n", cpus[0], cpus[1], pair->one_way_ns, when);
  }

  Status measure(Collective collective, int32_t ranks) {
    look_at_cores(fmt::format("before {} ranks", ranks));
    TeamWork work{.collective = collective,
                  .algorithms = {},
                  .transports = words_.transports,
                  .ranks = ranks,
                  .bytes = bytes_,
                  .seconds = words_.seconds / static_cast<double>(collectives_.size() * ranks_.size())};
    for (const Builder& builder : builders()) {
      BuildOptions options;
      options.ranks = ranks;
      if (builder.collective != collective || builder.uses_windows() || !builder.fits(options)) continue;
      work.algorithms.emplace_back(builder.name);
    }
    const Result<std::vector<Timing>> timings =
        launched_ == nullptr ? time_calls(work) : time_calls(work, launched_->rank(), launched_->comm());
    if (!timings.ok()) return timings.status();
    for (const Timing& timing : *timings) {
      timetable_.add({collective, ranks, bytes_[timing.size]}, work.algorithms[timing.algorithm], timing.microseconds);
    }
    return {};
  }

  // Of networks nobody knows where the search should begin.
  std::vector<Tuning> beginnings() const {
    if (timetable_.medium() != Medium::kNetwork) return host_beginnings(tuning_, timetable_.medium());
    std::vector<Tuning> result{tuning_};
    for (const auto& [times_slower, incast] : {std::pair{1, 1000}, {10, 100}, {10, 1000}}) {
      Tuning& other = result.emplace_back(tuning_);
      other.network.latency *= times_slower;
      other.network.incast = incast;
    }
    return result;
  }

  void forget_what_is_measured() {
    std::erase_if(tuning_.best, [&](const MeasuredChoice& choice) {
      return choice.medium == timetable_.medium() &&
             std::find(collectives_.begin(), collectives_.end(), choice.collective) != collectives_.end() &&
             std::find(ranks_.begin(), ranks_.end(), choice.ranks) != ranks_.end();
    });
  }

  static Status read_times(std::string_view option, const std::string& file, Timetable& times) {
    const Result<std::string> text = read_file(option, file);
    HOCKET_TRY(text.status());
    std::istringstream in(*text);
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (times.add(line)) continue;
      return {Code::kInvalidArgument, fmt::format("{}: line {}: '{}' is no sample", file, number, line)};
    }
    if (times.empty()) return {Code::kInvalidArgument, fmt::format("{}: no samples", file)};
    return {};
  }

  Status read_samples() {
    HOCKET_TRY(read_times("--samples", words_.samples, timetable_));
    tuning_ = built_in_tuning();
    tuning_.machine = "samples";
    tuning_.cores = words_.cores;
    tuning_.network = kFastNetwork;
    return {};
  }

  // What cannot be measured on one host.
  static Status read_rate(std::string_view option, std::string_view text, std::optional<Femtoseconds>& byte) {
    if (text.empty()) return {};
    const Result<Femtoseconds> rate = parse_rate(text);
    if (!rate.ok()) return {rate.status().code(), fmt::format("{}: {}", option, rate.status().message())};
    byte = *rate;
    return {};
  }

  static void set_rate(const std::optional<Femtoseconds>& told, Femtoseconds& byte) { byte = told.value_or(byte); }

  Status save() const {
    if (words_.save.empty()) return {};
    return write_file("--save", words_.save, timetable_.lines());
  }

  Status write() const {
    if (words_.out.empty()) return {};
    HOCKET_TRY(write_file("--out", words_.out, to_text(tuning_)));
    fmt::print("Wrote {}: HOCKET_TUNING_FILE={} makes rank 0 use it.\n", words_.out, words_.out);
    return {};
  }

  const Words& words_;
  Timetable timetable_;
  Timetable judge_;                     // empty: it is the other one
  std::unique_ptr<Launched> launched_;  // none: the ranks are processes of ours
  std::vector<int32_t> ranks_ = words_.ranks;
  std::vector<Collective> collectives_;
  std::vector<int64_t> bytes_;
  std::optional<Femtoseconds> port_;  // what a byte takes there
  std::optional<Femtoseconds> connection_;
  Tuning tuning_;
  std::string apart_;  // for people: how far cores were from each other meanwhile
};

}  // namespace

Command tune(CLI::App& program) {
  CLI::App* app = program.add_subcommand("tune", "Measure all algorithms on this machine and write a tuning file");
  const auto words = std::make_shared<Words>();
  app->add_option("--ranks", words->ranks, "Numbers of ranks, divided by commas")
      ->delimiter(',')
      ->check(CLI::Range(2, kMaxTeamRanks))
      ->capture_default_str();
  app->add_option("--collectives", words->collectives,
                  "Out of all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all, divided by commas")
      ->delimiter(',')
      ->capture_default_str();
  app->add_option("--from", words->from, "Smallest size")->capture_default_str();
  app->add_option("--to", words->to, "Largest size")->capture_default_str();
  app->add_option("--factor", words->factor, "Between sizes")->check(CLI::Range(2, 1024))->capture_default_str();
  app->add_option("--seconds", words->seconds, "For all rounds, of which there is one at least")
      ->check(CLI::Range(0.0, 86400.0))
      ->check(refuse_nan)
      ->capture_default_str();
  app->add_option("--transports", words->transports, "As HOCKET_TRANSPORTS");
  app->add_flag("--socket", words->socket, "These transports go through sockets, not through memory");
  app->add_flag(
      "--launched", words->launched,
      "Measure between the ranks that a launcher started, one on each host or all on one, instead of --ranks");
  app->add_flag("--check", words->check, "Change nothing: how well does what --out says (or what is built in)?");
  app->add_option("--samples", words->samples,
                  "Do not measure: lines of collective,algorithm,ranks,bytes,microseconds");
  app->add_option("--judge", words->judge,
                  "Such lines of another run, which say what is the fastest: within one run that is the luckiest");
  app->add_option("--cores", words->cores, "That the ranks of the samples shared; 0: each had a host of its own")
      ->check(CLI::Range(0, 1 << 20));
  app->add_flag("--whole", words->whole, "The samples are of a library that sends messages whole, not in slices");
  app->add_option("--port", words->port, "Between hosts, or launched ranks: what a port carries, such as 12.5GB/s");
  app->add_option("--connection", words->connection, "Between hosts: what one connection carries, where it is less");
  app->add_option("--save", words->save, "Write what was measured as such lines");
  app->add_option("--out", words->out, "Write this file; what it holds of other calls stays");
  return {app, [words] { return Tuner(*words).run(); }};
}

}  // namespace hocket::tool
