// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace hocket::simulate {
namespace {

double microseconds(Picoseconds time) { return static_cast<double>(time) / 1e6; }

}  // namespace

std::string summary(const Program& program, const Outcome& outcome) {
  std::string text = fmt::format("{}, {} ranks, {} bytes: ", program.name, program.ranks(), program.shape.bytes);
  if (outcome.finished) {
    text += fmt::format("{:.3f} us", microseconds(outcome.per_call()));
  } else {
    text += fmt::format("does not end; nothing happens after {:.3f} us", microseconds(outcome.end));
  }
  text += fmt::format(" ({} messages, {} slices, {} pass{})\n", outcome.messages, outcome.slices, program.passes,
                      program.passes == 1 ? "" : "es");
  for (const std::string& line : outcome.stuck) text += "  " + line + "\n";
  return text;
}

std::string link_table(const Fabric& fabric, const Outcome& outcome, size_t rows) {
  std::vector<LinkId> order(outcome.links.size());
  std::iota(order.begin(), order.end(), 0);
  rows = std::min(rows, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(rows), order.end(), [&](LinkId a, LinkId b) {
    const Picoseconds left = outcome.links[a].busy;
    const Picoseconds right = outcome.links[b].busy;
    return left != right ? left > right : a < b;
  });
  size_t width = 20;
  for (size_t row = 0; row < rows; ++row) width = std::max(width, fabric.link_name(order[row]).size());
  std::string text = fmt::format("{:<{}} {:>14} {:>12} {:>7}\n", "link", width, "bytes", "busy us", "busy");
  for (size_t row = 0; row < rows; ++row) {
    const LinkUse& use = outcome.links[order[row]];
    const double share = outcome.end > 0 ? 100.0 * static_cast<double>(use.busy) / static_cast<double>(outcome.end) : 0;
    text += fmt::format("{:<{}} {:>14} {:>12.3f} {:>6.1f}%\n", fabric.link_name(order[row]), width, use.bytes,
                        microseconds(use.busy), share);
  }
  if (rows < order.size()) text += fmt::format("... and {} more\n", order.size() - rows);
  return text;
}

}  // namespace hocket::simulate
