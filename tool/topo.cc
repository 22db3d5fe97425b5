// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket topo: what the machine looks like.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "topology/machine.h"

namespace hocket::tool {

Command topo(CLI::App& program) {
  CLI::App* words = program.add_subcommand("topo", "Show what this process sees of the machine");
  return {words, [] {
            fmt::print("{}", describe(machine()));
            return Status();
          }};
}

}  // namespace hocket::tool
