// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The program `hocket`: sees the machine, explains and measures. Knows no command but by its place in the list.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <system_error>

#include "commands.h"

namespace {

// What cannot be written is noticed as late as at the end, or thrown by fmt::print.
hocket::Status run(const hocket::tool::Command& command) try {
  HOCKET_TRY(command.run());
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return {hocket::Code::kSystem, "the standard output cannot be written"};
} catch (const std::system_error& error) {
  return {hocket::Code::kSystem, error.what()};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Hocket: sees the machine, explains its choices, measures", "hocket");
  program.require_subcommand(1);
  const std::array commands = {hocket::tool::explain(program),    hocket::tool::metrics(program),
                               hocket::tool::plan(program),       hocket::tool::run(program),
                               hocket::tool::simulate(program),   hocket::tool::status(program),
                               hocket::tool::synthesise(program), hocket::tool::topo(program),
                               hocket::tool::trace(program),      hocket::tool::tune(program)};
  CLI11_PARSE(program, argc, argv);
  for (const hocket::tool::Command& command : commands) {
    if (!command.words->parsed()) continue;
    const hocket::Status status = run(command);
    if (status.ok()) return command.exit_status ? command.exit_status() : EXIT_SUCCESS;
    fmt::print(stderr, "hocket {}: {}\n", command.words->get_name(), status.message());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
