// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/choosing.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "base/log.h"
#include "topology/machine.h"

namespace hocket {
namespace {

bool shares_memory(const PeerInfo& a, const PeerInfo& b) {
  const auto allowed = choose_transports(a.transports);
  if (!allowed.ok()) return false;
  const auto best = std::find_if(allowed->begin(), allowed->end(),
                                 [&](const Transport* transport) { return transport->reaches(a, b); });
  return best != allowed->end() && (*best)->carrier() != Transport::Carrier::kSocket;
}

}  // namespace

Placement placement(const Mesh& mesh) {
  Placement result{.ranks = mesh.ranks(), .per_host = 1, .memory = true};
  std::map<std::string_view, std::pair<Rank, Rank>> hosts;  // first rank, and how many there are
  bool decided = false;
  for (Rank rank = 0; rank < mesh.ranks(); ++rank) {
    const PeerInfo& peer = mesh.peer(rank);
    auto& [first, count] = hosts.try_emplace(peer.host_identity, rank, 0).first->second;
    result.per_host = std::max(result.per_host, ++count);
    if (count != 2 || decided) continue;
    result.memory = shares_memory(mesh.peer(first), peer);
    decided = true;
  }
  return result;
}

Tuning tuning(const Mesh& mesh) {
  const std::string& text = mesh.peer(0).tuning;
  if (text.empty()) return built_in_tuning();
  Result<Tuning> parsed = parse_tuning(text);
  return parsed.ok() ? std::move(*parsed) : built_in_tuning();
}

std::string read_tuning_file(const std::string& path) {
  if (path.empty()) return {};
  std::string text(kMaxTuningText + 1, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const Result<Tuning> parsed = parse_tuning(text);
  const std::string here = fingerprint(machine());
  if (!parsed.ok()) {
    log_warn("tuning file '{}' is ignored: {}", path,
             file.is_open() ? parsed.status().message() : "it cannot be opened");
  } else if (parsed->machine != here) {
    log_warn("tuning file '{}' is ignored: it is of the machine '{}', not of '{}'", path, parsed->machine, here);
  } else {
    return text;
  }
  return {};
}

}  // namespace hocket
