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
#ifdef HOCKET_WITH_UCX
#include "transports/ucx/ucx.h"
#endif
#ifdef HOCKET_WITH_VERBS
#include "transports/verbs/verbs.h"
#endif

namespace hocket {
namespace {

// All that any build has; a name keeps its place for ever.
constexpr std::array<std::string_view, 5> kNumbered = {"local", "shm", "tcp", "verbs", "ucx"};

// Two hosts with RDMA devices, or with UCX, need not reach each other by them, and such a pipe that finds no way does
// not go another.
constexpr std::string_view kDefault = "local,shm,tcp";

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
  static const auto kTransports = std::to_array<const Transport*>({
      &local_transport(),
      &shm_transport(),
#ifdef HOCKET_WITH_VERBS
      &verbs_transport(),
#endif
#ifdef HOCKET_WITH_UCX
      &ucx_transport(),
#endif
      &tcp_transport(),
  });
  return kTransports;
}

uint8_t number_of(const Transport& transport) {
  return static_cast<uint8_t>(std::find(kNumbered.begin(), kNumbered.end(), transport.name()) - kNumbered.begin());
}

const Transport* transport_of(uint8_t number) { return number < kNumbered.size() ? find(kNumbered[number]) : nullptr; }

Result<std::vector<const Transport*>> choose_transports(std::string_view names) {
  if (names.empty()) names = kDefault;
  std::vector<const Transport*> chosen;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    const Transport* transport = find(name);
    if (transport == nullptr && std::find(kNumbered.begin(), kNumbered.end(), name) != kNumbered.end()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("transport '{}' is not in this build; there are {}", name, known_names()));
    }
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
