// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a flight recorder holds, as Prometheus text: for a file that node_exporter's textfile collector reads. Labels
// are those of NCCL's Inspector.
#pragma once

#include <string>
#include <vector>

#include "observe/flight.h"

namespace hocket {

// Where the processes run.
struct MetricsPlace {
  std::string version;
  std::string node;
  std::string job;  // Slurm's; may be empty
};

// Two looks at one process.
struct MetricsLook {
  FlightCopy now;
  FlightCopy earlier;
  Duration between{};
  Time time{};  // of the second one
};

// At most some hundred lines for each communicator: percentiles are of the calls that were timed last.
std::string metrics_text(const std::vector<MetricsLook>& looks, const MetricsPlace& place);

}  // namespace hocket
