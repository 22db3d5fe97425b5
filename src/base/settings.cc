// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The table of all settings, and what reads it.
#include "base/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

extern char** environ;  // NOLINT(readability-redundant-declaration): absent from unistd.h without extensions

namespace hocket {
namespace {

// Fills one member, or says what was expected.
using Parse = std::string (*)(std::string_view text, Settings& settings);

struct Setting {
  std::string_view name;
  std::string_view type;
  std::string_view default_text;  // parsed like any other; empty: not set
  std::string_view help;
  Parse parse;
};

std::string read_duration(std::string_view text, Duration& into) {
  constexpr std::string_view kExpected = "expected a duration like 500ms, 5s or 10min, above 0 and at most 1000h";
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const double nanoseconds = unit == "us"                  ? 1e3
                             : unit == "ms"                ? 1e6
                             : unit == "s" || unit.empty() ? 1e9
                             : unit == "min"               ? 60e9
                             : unit == "h"                 ? 3600e9
                                                           : 0;
  const double value = number * nanoseconds;
  if (error != std::errc() || !std::isfinite(value) || value < 1 ||
      value > static_cast<double>(kLongestDuration.count()))
    return std::string(kExpected);
  into = Duration(static_cast<int64_t>(std::llround(value)));
  return {};
}

std::string read_number(std::string_view text, int32_t smallest, int32_t& into, int32_t largest = INT32_MAX) {
  int32_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < smallest || number > largest) {
    return fmt::format("expected a number from {} to {}", smallest, largest);
  }
  into = number;
  return {};
}

template <Duration Settings::* member>
std::string duration(std::string_view text, Settings& settings) {
  return read_duration(text, settings.*member);
}

template <int32_t Settings::* member, int32_t smallest, int32_t largest = INT32_MAX>
std::string number(std::string_view text, Settings& settings) {
  return read_number(text, smallest, settings.*member, largest);
}

template <std::string Settings::* member>
std::string text(std::string_view text, Settings& settings) {
  settings.*member = text;
  return {};
}

template <bool Settings::* member>
std::string on_or_off(std::string_view text, Settings& settings) {
  settings.*member = text == "on";
  return text == "on" || text == "off" ? "" : "expected on or off";
}

std::string sample_every(std::string_view text, Settings& settings) {
  constexpr int32_t kMost = 1 << 20;
  const std::string problem = read_number(text, 1, settings.sample_every);
  const bool is_power = (settings.sample_every & (settings.sample_every - 1)) == 0;
  if (problem.empty() && is_power && settings.sample_every <= kMost) return {};
  return fmt::format("expected a power of two from 1 to {}", kMost);
}

std::string spin(std::string_view text, Settings& settings) {
  int32_t microseconds = 0;
  std::string problem = read_number(text, -1, microseconds);
  settings.spin = std::chrono::microseconds(microseconds);
  return problem;
}

// One of the words, each of which stands for the value of its number.
template <typename Choice, size_t count>
std::string choice(std::string_view text, const std::string_view (&words)[count], Choice& into) {
  const auto* const found = std::find(std::begin(words), std::end(words), text);
  if (found == std::end(words)) {
    return fmt::format("expected {} or {}", fmt::join(std::begin(words), std::end(words) - 1, ", "), words[count - 1]);
  }
  into = static_cast<Choice>(found - std::begin(words));
  return {};
}

std::string log_level(std::string_view text, Settings& settings) {
  return choice(text, {"error", "warn", "info", "debug"}, settings.log);
}

std::string reproducibility(std::string_view text, Settings& settings) {
  return choice(text, {"fast", "ordered", "exact"}, settings.reproducibility);
}

std::string compression(std::string_view text, Settings& settings) {
  return choice(text, {"auto", "always", "never"}, settings.compression);
}

constexpr Setting kSettings[] = {
    {"HOCKET_TIMEOUT", "duration", "5s",
     "How long a peer may be silent before it counts as dead. Every process sends heartbeats, also while its program "
     "computes, so this bounds how long the loss of a process or host stays unnoticed, not how long a program may "
     "take. Below a second, a network that loses packets can raise false alarms: the kernel repeats a lost question "
     "for a neighbour's address only after a second. Give a number with `us`, `ms`, `s`, `min` or `h`; without a unit "
     "it counts seconds. Must be equal on all ranks.",
     duration<&Settings::timeout>},
    {"HOCKET_OPERATION_TIMEOUT", "duration", "10min",
     "How long a call waits for a rank that lives but does not come: it has not joined, or not made the same call.",
     duration<&Settings::operation_timeout>},
    {"HOCKET_LOG", "level", "warn",
     "What is written to stderr: `error`, `warn`, `info` or `debug`, each with all before it.", log_level},
    {"HOCKET_TRANSPORTS", "list", "",
     "The transports that may be used, best first, divided by commas. Each pair of ranks takes the first that reaches. "
     "Not set: all but those for RDMA, which have to be named (docs/rdma.md). A name that does not exist is answered "
     "with those that do. Must be equal on all ranks.",
     text<&Settings::transports>},
    {"HOCKET_CHECKSUM", "on or off", "on",
     "Whether data that goes over TCP to another host carries a CRC-32C, which the receiver checks before it uses it. "
     "Without it, only headers and control messages do, and data rests on TCP's own 16-bit sum. Each sender decides "
     "for itself.",
     on_or_off<&Settings::checksum>},
    {"HOCKET_ENCRYPT", "on or off", "off",
     "Whether all that goes over TCP is encrypted (AES-256-GCM, with keys made of the communicator's for each "
     "connection), between processes of one host, too. What goes through shared memory and unix sockets is not. Must "
     "be equal on all ranks.",
     on_or_off<&Settings::encrypt>},
    {"HOCKET_INTERFACE", "list", "",
     "The network interfaces that may be used, by the beginnings of their names, divided by commas: `eth,ib`. With `^` "
     "before the list, all but those; with `=`, whole names. Of several that are named, the others carry on when the "
     "first is lost. Not set: the first that leads to other hosts.",
     text<&Settings::interface>},
    {"HOCKET_RDMA_SERVICE_LEVEL", "number", "0",
     "The service level (0 to 15) of RDMA connections (docs/rdma.md): on InfiniBand it chooses the lane, on RoCE the "
     "priority, if the network was told to keep them apart. Each sender decides for itself.",
     number<&Settings::rdma_service_level, 0, 15>},
    {"HOCKET_RDMA_TRAFFIC_CLASS", "number", "0",
     "The traffic class (0 to 255; its upper six bits are the DSCP) of RDMA connections over RoCE, by which switches "
     "choose a queue. Each sender decides for itself.",
     number<&Settings::rdma_traffic_class, 0, 255>},
    {"HOCKET_ALGORITHM", "list", "",
     "Forces algorithms, for one collective or for all that have it: `ring`, or `all_reduce=ring,broadcast=chain`. "
     "Their "
     "names: `hocketGetAlgorithms`, or `--list-algorithms` of the perf programs. Not set: chosen by size and number of "
     "ranks. Must be equal on all ranks.",
     text<&Settings::algorithm>},
    {"HOCKET_LANES", "number", "",
     "Over how many lanes (64 at most) long calls are split: each has a connection of its own to every peer. More help "
     "where one "
     "connection does not fill the link, and only there. A call of fewer than 64 KiB for each lane takes one. Not set: "
     "chosen, and one where nothing says that a connection is slower than the link. Must be equal on all ranks.",
     number<&Settings::lanes, 1, 64>},
    {"HOCKET_PIPE_MEMORY", "MiB", "",
     "How much memory the pipes of one rank of a communicator should hold (docs/memory.md): it grows when calls are "
     "first large. With less, ranks that send to many others cut what they send into shorter messages. What the "
     "process of a communicator's rank 0 was told counts for all. Not set: 4 for each time that the number of ranks "
     "doubles (4 of 2 ranks, 24 of 64).",
     number<&Settings::pipe_memory, 1, 1 << 20>},
    {"HOCKET_COMPRESSION", "choice", "auto",
     "Which calls with a codec encode what they send: `auto`, those that are expected to take a tenth less time with "
     "it "
     "(docs/codecs.md); `always`; `never`, to see what it changes. Must be equal on all ranks.",
     compression},
    {"HOCKET_DEVICE_CODECS", "on or off", "off",
     "Whether compressed calls on CUDA memory encode and decode on the device, by kernels that are launched while the "
     "caller's stream waits for the call; on streams that the default stream does not wait for, and not in graphs. "
     "Off, since programs that free memory of the device meanwhile, or whose streams share one queue "
     "(`CUDA_DEVICE_MAX_CONNECTIONS=1`), may hold each other up for ever (decision 0034).",
     on_or_off<&Settings::device_codecs>},
    {"HOCKET_DEVICE_PIPES", "on or off", "off",
     "Whether calls on CUDA memory that are not compressed, and that no kernels do in other ranks' memory, are done by "
     "kernels that read and write the messages in the memory of the pipes, over any transport (decision 0125); with "
     "`HOCKET_DEVICE_CODECS`, too, compressed ones; on the same streams. RDMA devices read and write registered memory "
     "where it lies (decision 0135). Off, since where processes share a device it is slower than copies to the host "
     "and back, and for the reason of `HOCKET_DEVICE_CODECS`. Ranks may differ.",
     on_or_off<&Settings::device_pipes>},
    {"HOCKET_DEVICE_PEERS", "on or off", "off",
     "Whether kernels reach the device memory of other ranks of the host wherever the driver lets them (decision "
     "0068). Off until ranks with a device each have run it. Off on any rank: device memory that is no window is "
     "copied to the host and back.",
     on_or_off<&Settings::device_peers>},
    {"HOCKET_DEVICE_LOW_LATENCY", "on or off", "off",
     "Whether small collectives on windows of device memory go by packets, where every rank has a device of its own: "
     "one kernel for each rank, which waits for those of the others on the device (decision 0088). Off until devices "
     "have run it. Off on any rank: the hosts let the kernels go.",
     on_or_off<&Settings::device_low_latency>},
    {"HOCKET_DEVICE_MULTICAST", "on or off", "off",
     "Whether collectives on windows of device memory let the switch between the devices add up and write everywhere "
     "(multimem), where every rank has a device of its own and the memory is hocketMemAllocDevice's (decision 0130). "
     "Off until devices have run it. Off on any rank: kernels read and write each device's memory. Never for sums of "
     "floats with `HOCKET_REPRODUCIBILITY` other than `fast`.",
     on_or_off<&Settings::device_multicast>},
    {"HOCKET_PLANS", "list", "",
     "Files with algorithms of others, divided by commas: MSCCL's XML or MSCCL++'s JSON. Each is proved when it is "
     "read, and a wrong one is an error. Calls of its collective by as many ranks take it, if their chunks are as the "
     "algorithm needs them. Must be equal on all ranks.",
     text<&Settings::plans>},
    {"HOCKET_REPRODUCIBILITY", "mode", "fast",
     "What reductions of floats promise: `fast`, nothing; `ordered`, the same bits on the same number of ranks, "
     "whatever the size and the algorithm; `exact`, the correctly rounded sum, so the same bits in whatever order the "
     "ranks are. `ordered` and `exact` cost time (docs/reproducibility.md). Must be equal on all ranks.",
     reproducibility},
    {"HOCKET_TUNING_FILE", "path", "",
     "What `hocket tune` wrote of this machine: costs, and which algorithms were fastest. Rank 0's counts for all. One "
     "that is damaged or of another machine is ignored with a warning. One that does not exist is written by the first "
     "communicator whose ranks share a host or have one each: when it is created, it measures for a moment what "
     "messages cost. Not set: what is built in.",
     text<&Settings::tuning_file>},
    {"HOCKET_EXPLORE", "percent", "0",
     "Online tuning: how much of the time of calls that are repeated, 50 at most, may go into trying other algorithms "
     "for them. "
     "After "
     "five rounds of trials the fastest is kept, and rank 0 adds it to its tuning file. `ordered` and `exact` "
     "reductions "
     "are left alone. `0`: off. Must be equal on all ranks.",
     number<&Settings::explore, 0, 50>},
    {"HOCKET_SPIN", "microseconds", "-1",
     "How long a waiting call looks again at once before it lets other threads run. More gives shorter latency where "
     "every rank has its own core, and longer where ranks share one. `-1`: chosen by how many ranks share the cores. "
     "Given, connections to other hosts also look into their network card's queue (`SO_BUSY_POLL`), where the process "
     "may (`CAP_NET_ADMIN`, or `net.core.busy_read` is as long).",
     spin},
    {"HOCKET_SAMPLE_EVERY", "number", "64",
     "One call in so many (a power of two, 1048576 at most) is timed, for `hocket metrics` and `hocket trace`. `1`: "
     "all.",
     sample_every},
    {"HOCKET_RANK", "number", "", "The rank of this process, where no launcher tells it. Needs `HOCKET_SIZE`.",
     number<&Settings::rank, 0>},
    {"HOCKET_SIZE", "number", "", "How many ranks there are. Needs `HOCKET_RANK`.", number<&Settings::size, 1>},
    {"HOCKET_LOCAL_RANK", "number", "", "The number of this process among those on its host, from 0.",
     number<&Settings::local_rank, 0>},
    {"HOCKET_LOCAL_SIZE", "number", "", "How many ranks are on this host.", number<&Settings::local_size, 1>},
    {"HOCKET_ADDRESS", "host:port", "",
     "Where rank 0 is reached and the ranks meet: `node-a:4411` or `[fd00::1]:4411`. Several hosts (`10.0.0.1,10.1.0.1:"
     "4411`) are addresses of the same rank 0, by several interfaces. Also goes before the address that a launcher "
     "tells.",
     text<&Settings::address>},
    {"HOCKET_SECRET", "text", "",
     "The secret that admits ranks that meet without a unique id. Without it, their job's name does, which others on "
     "the same machines may know. Must be equal on all ranks.",
     text<&Settings::secret>},
    {"HOCKET_ELASTIC", "path", "",
     "Set by `hocket run --min`: the folder in which newcomers and those who are at work find each other.",
     text<&Settings::elastic>},
    {"HOCKET_NEWCOMER", "text", "",
     "Set by `hocket run --min`: the name of a process that was started after another had died. It waits to be taken "
     "in.",
     text<&Settings::newcomer>},
    {"HOCKET_HOST_ID", "text", "",
     "Ranks with different texts treat each other as on different hosts. For tests, which play several hosts on one.",
     text<&Settings::host_id>},
};

size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<size_t> row(right.size() + 1);
  for (size_t j = 0; j <= right.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= left.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= right.size(); ++j) {
      const size_t replaced = diagonal + (left[i - 1] == right[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view name) {
  return std::min_element(std::begin(kSettings), std::end(kSettings),
                          [&](const Setting& left, const Setting& right) {
                            return edit_distance(name, left.name) < edit_distance(name, right.name);
                          })
      ->name;
}

Status check_names(const Environment& environment) {
  constexpr std::string_view kPrefix = "HOCKET_";
  for (auto each = environment.lower_bound(kPrefix); each != environment.end() && each->first.starts_with(kPrefix);
       ++each) {
    const std::string& name = each->first;
    const bool known = std::any_of(std::begin(kSettings), std::end(kSettings),
                                   [&](const Setting& setting) { return setting.name == name; });
    if (!known) {
      return {Code::kInvalidUsage,
              fmt::format("the environment has {}, which is no setting: did you mean {}?", name, nearest_name(name))};
    }
  }
  return {};
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry(*each);
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos) environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

Result<Settings> parse_settings(const Environment& environment) {
  HOCKET_TRY(check_names(environment));
  Settings settings;
  for (const Setting& setting : kSettings) {
    const auto found = environment.find(setting.name);
    const bool given = found != environment.end() && !found->second.empty();
    const std::string_view value = given ? std::string_view(found->second) : setting.default_text;
    const std::string problem = value.empty() ? "" : setting.parse(value, settings);
    if (!problem.empty()) {
      return Status(Code::kInvalidUsage, fmt::format("{}='{}' in the environment: {}", setting.name, value, problem));
    }
  }
  return settings;
}

const Result<Settings>& settings() {
  // Never destroyed: threads may log while the process ends.
  static const Result<Settings>& parsed = *new Result<Settings>(parse_settings(process_environment()));
  return parsed;
}

std::string settings_markdown() {
  std::string page =
      "<!-- Printed from the table in src/base/settings.cc by tests/base/print_settings; do not edit. -->\n"
      "# Settings\n\n"
      "Hocket reads these variables from the environment, once per process. An empty variable counts as not set; an\n"
      "unknown variable that begins with `HOCKET_` is an error.\n\n"
      "| Variable | Type | Default | Meaning |\n"
      "|---|---|---|---|\n";
  for (const Setting& each : kSettings) {
    const std::string default_cell = each.default_text.empty() ? "not set" : fmt::format("`{}`", each.default_text);
    page += fmt::format("| `{}` | {} | {} | {} |\n", each.name, each.type, default_cell, each.help);
  }
  return page;
}

}  // namespace hocket
