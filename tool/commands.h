// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The commands of the program `hocket`, one file each. A command adds its words to the command line and tells what to
// do when they have been given; main.cc parses, runs the one command and prints its failure.
#pragma once

#include <functional>

#include "base/status.h"

namespace CLI {
class App;
}

namespace hocket::tool {

struct Command {
  CLI::App* words = nullptr;
  std::function<Status()> run;
  std::function<int()> exit_status{};  // of the program after run() went well; none: success
};

Command explain(CLI::App& program);
Command plan(CLI::App& program);
Command run(CLI::App& program);
Command simulate(CLI::App& program);
Command metrics(CLI::App& program);
Command status(CLI::App& program);
Command synthesise(CLI::App& program);
Command topo(CLI::App& program);
Command trace(CLI::App& program);
Command tune(CLI::App& program);

}  // namespace hocket::tool
