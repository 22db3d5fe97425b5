// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/drafting.h"

#include <fmt/format.h>

#include <algorithm>

#include "topology/speeds.h"

namespace hocket::topology {
namespace {

std::string word(std::string text) {
  text.resize(std::min(text.size(), kMaxVertexName - 8));
  std::ranges::replace_if(text, [](char c) { return c <= ' ' || c >= 127 || c == '#'; }, '_');
  return text;
}

}  // namespace

int32_t Draft::add(Vertex::Kind kind, std::string name, std::string model, int32_t host, std::string bus) {
  name = word(std::move(name));
  if (const int before = taken_[name]++; before > 0) name += fmt::format("~{}", before + 1);
  if (model.starts_with('@')) model[0] = '_';
  vertices.push_back({kind, std::move(name), word(std::move(model)), host, word(std::move(bus))});
  return static_cast<int32_t>(vertices.size()) - 1;
}

void Draft::join(int32_t from, int32_t to, Link::Kind kind, int32_t count, double gb_per_s) {
  const auto [entry, is_new] = known_.try_emplace({from, to, kind}, links.size());
  if (is_new) {
    links.push_back({kind, from, to, count, gb_per_s, latency_us(kind)});
    return;
  }
  Link& link = links[entry->second];
  link.count += count;
  link.gb_per_s += gb_per_s;
}

Result<Reading> Draft::done() {
  Result<Topology> made = Topology::make(std::move(vertices), std::move(links));
  if (!made.ok()) return made.status();
  return Reading{std::move(*made), std::move(remarks)};
}

}  // namespace hocket::topology
