// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/choosing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "choose/cut.h"
#include "comm/crowd.h"
#include "topology/machine.h"
#include "transports/ring_layout.h"

namespace hocket {
namespace {

static_assert(kMessagesInPipe == kPipeDepth && kShortInPipe == Ring::kBulkOffset, "what cuts knows no transport");

// Null: none.
const Transport* transport_between(const PeerInfo& a, const PeerInfo& b) {
  const auto allowed = choose_transports(a.transports);
  if (!allowed.ok()) return nullptr;
  const auto best = std::find_if(allowed->begin(), allowed->end(),
                                 [&](const Transport* transport) { return transport->reaches(a, b); });
  return best == allowed->end() ? nullptr : *best;
}

bool shares_memory(const PeerInfo& a, const PeerInfo& b) {
  const Transport* const between = transport_between(a, b);
  return between != nullptr && between->carrier() != Transport::Carrier::kSocket;
}

}  // namespace

std::vector<int32_t> rails_of(const std::vector<std::string_view>& interfaces,
                              const std::vector<std::vector<Rank>>& hosts) {
  const auto of = [&](Rank rank) { return interfaces[static_cast<size_t>(rank)]; };
  const bool has_rails = std::ranges::any_of(hosts, [&](const std::vector<Rank>& host) {
    return std::ranges::any_of(host, [&](Rank rank) { return of(rank) != of(host[0]); });
  });
  if (!has_rails) return {};
  const std::set<std::string_view> names(interfaces.begin(), interfaces.end());
  std::vector<int32_t> rails;
  for (const std::string_view name : interfaces)
    rails.push_back(static_cast<int32_t>(std::distance(names.begin(), names.find(name))));
  return rails;
}

size_t longest_uncut(Rank ranks, const std::function<const PeerInfo&(Rank)>& peer, size_t most) {
  size_t longest = 0;
  for (Rank rank = 1; rank < ranks; ++rank) {
    const Transport* const between = transport_between(peer(rank - 1), peer(rank));
    if (between != nullptr && between->carrier() == Transport::Carrier::kSocket)
      longest = std::max(longest, std::min(between->uncut_message(), most));
  }
  return longest == 0 ? most : longest;
}

size_t longest_message(const Mesh& mesh, const Placement& placement) {
  const std::optional<Medium> medium = medium_of(placement);
  const size_t most = std::min(mesh.max_message(), longest_slice(medium));
  if (medium == Medium::kMemory) return most;
  const auto peer = [&](Rank rank) -> const PeerInfo& { return mesh.peer(rank); };
  return longest_uncut(mesh.ranks(), peer, most);
}

Placement placement(const Mesh& mesh) {
  Placement result{.ranks = mesh.ranks(), .per_host = 1, .memory = true};
  std::map<std::string_view, size_t> numbers;  // of the hosts
  std::vector<std::string_view> interfaces;
  bool decided = false;
  for (Rank rank = 0; rank < mesh.ranks(); ++rank) {
    const PeerInfo& peer = mesh.peer(rank);
    interfaces.push_back(peer.interfaces.empty() ? std::string_view() : std::string_view(peer.interfaces.front()));
    const auto [entry, is_new] = numbers.try_emplace(peer.host_identity, result.hosts.size());
    if (is_new) result.hosts.emplace_back();
    std::vector<Rank>& host = result.hosts[entry->second];
    host.push_back(rank);
    result.per_host = std::max(result.per_host, static_cast<Rank>(host.size()));
    if (host.size() != 2 || decided) continue;
    result.memory = shares_memory(mesh.peer(host[0]), peer);
    decided = true;
  }
  result.rails = rails_of(interfaces, result.hosts);
  return result;
}

Tuning tuning(const Mesh& mesh) {
  const PeerInfo& first = mesh.peer(0);
  Result<Tuning> parsed = parse_tuning(first.tuning);
  Tuning result = parsed.ok() ? std::move(*parsed) : built_in_tuning();
  result.cores = crowd(mesh, 0).cores;  // these ranks'; those that measured may have been bound to others
  return result;
}

std::string read_tuning_file(const std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::string(kUncalibrated);
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

bool write_tuning_file(const std::string& path, const std::string& text) {
  const std::string unfinished = fmt::format("{}.{}", path, ::getpid());
  std::ofstream out(unfinished, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(unfinished, path, error);
  if (out && !error) return true;
  std::filesystem::remove(unfinished, error);
  return false;
}

std::string tuning_to_tell(const std::string& read) {
  return read == kUncalibrated && settings().ok() ? read_tuning_file(settings()->tuning_file) : read;
}

}  // namespace hocket
