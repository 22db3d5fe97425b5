// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The transports, written out in order of preference: within a process, within a host, everywhere.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "transports/local/local.h"
#include "transports/pipe.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace hocket {
namespace {

const Transport* find(std::string_view name) {
  const auto all = transports();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Transport* t) { return t->name() == name; });
  return found == all.end() ? nullptr : *found;
}

std::string known_names() {
  std::string names;
  for (const Transport* transport : transports()) {
    if (!names.empty()) names += ", ";
    names += transport->name();
  }
  return names;
}

}  // namespace

std::span<const Transport* const> transports() {
  static const std::array<const Transport*, 3> kTransports = {&local_transport(), &shm_transport(), &tcp_transport()};
  return kTransports;
}

Result<std::vector<const Transport*>> choose_transports(std::string_view names) {
  if (names.empty()) return std::vector<const Transport*>(transports().begin(), transports().end());
  std::vector<const Transport*> chosen;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    const Transport* transport = find(name);
    if (transport == nullptr) {
      return Status(Code::kInvalidArgument,
                    fmt::format("no transport is called '{}'; there are {}", name, known_names()));
    }
    if (std::find(chosen.begin(), chosen.end(), transport) != chosen.end()) {
      return Status(Code::kInvalidArgument, fmt::format("transport '{}' is listed twice in '{}'", name, names));
    }
    chosen.push_back(transport);
    begin = end + 1;
  }
  return chosen;
}

}  // namespace hocket
