// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All settings of the library: one table (in settings.cc) from which they are parsed, checked and documented. They are
// read from HOCKET_* in the environment, once per process. What a text means beyond its form, its reader knows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "base/system.h"

namespace hocket {

inline constexpr Duration kLongestDuration = std::chrono::hours(1000);

// What of a reduction's result is the same whenever it is made of the same contributions.
enum class Reproducibility : uint8_t {
  kFast,     // whatever the algorithm gives that suits best
  kOrdered,  // the bits, on equally many ranks: combined in rank order, whatever the algorithm and the size
  kExact,    // the bits, in every order of the ranks: the correctly rounded sum
};

// Which calls that have a codec use it.
enum class Encoding : uint8_t { kWherePays, kAlways, kNever };

// HOCKET_FOO_BAR is foo_bar. The defaults are in the table.
struct Settings {
  Duration timeout{};
  Duration operation_timeout{};
  Duration spin{};  // negative: chosen
  LogLevel log = LogLevel::kWarn;
  bool checksum = true;
  bool encrypt = false;
  Reproducibility reproducibility = Reproducibility::kFast;
  std::string transports;  // empty: all
  std::string interface;   // empty: chosen
  int32_t rdma_service_level = 0;
  int32_t rdma_traffic_class = 0;
  std::string algorithm;    // empty: chosen
  int32_t lanes = 0;        // 0: chosen
  int32_t pipe_memory = 0;  // MiB; 0: by the number of ranks
  Encoding compression = Encoding::kWherePays;
  bool device_codecs = false;
  bool device_pipes = false;
  bool device_peers = false;
  bool device_low_latency = false;
  bool device_multicast = false;
  int32_t explore = 0;      // percent; 0: off
  std::string plans;        // empty: none
  std::string tuning_file;  // empty: what is built in

  // What a launcher says. Negative or empty: it does not.
  int32_t rank = -1;
  int32_t size = -1;
  int32_t local_rank = -1;
  int32_t local_size = -1;
  std::string address;
  std::string secret;
  std::string elastic;
  std::string newcomer;
  std::string host_id;
  int32_t sample_every = 1;
};

using Environment = std::map<std::string, std::string, std::less<>>;
Environment process_environment();

// Names the variable that is wrong, also when it is one that does not exist. An empty variable counts as not set.
Result<Settings> parse_settings(const Environment& environment);

// Those of this process, parsed at the first call.
const Result<Settings>& settings();

// docs/settings.md
std::string settings_markdown();

}  // namespace hocket
