// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Interfaces come in the order in which the system prefers them; a selection keeps that order.
#include "comm/service_interfaces.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace hocket {
namespace {

struct Selection {
  bool exclude = false;
  bool whole = false;
  std::vector<std::string_view> names;
};

Selection parse(std::string_view text) {
  Selection selection;
  if (text.starts_with('^')) selection.exclude = true, text.remove_prefix(1);
  if (text.starts_with('=')) selection.whole = true, text.remove_prefix(1);
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    if (!name.empty()) selection.names.push_back(name);
    text.remove_prefix(std::min(text.size(), name.size() + 1));
  }
  return selection;
}

bool selects(const Selection& selection, const InterfaceAddress& address) {
  const bool named = std::any_of(selection.names.begin(), selection.names.end(), [&](std::string_view name) {
    return name == address.host || (selection.whole ? name == address.interface : address.interface.starts_with(name));
  });
  return named != selection.exclude;
}

bool joins_containers(const InterfaceAddress& address) {
  static constexpr std::string_view kBeginnings[] = {"docker", "virbr",   "br-",  "veth",
                                                     "cni",    "flannel", "cali", "podman"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view beginning) { return address.interface.starts_with(beginning); });
}

bool is_link_local(const InterfaceAddress& address) {
  return address.host.starts_with("fe80:") || address.host.starts_with("169.254.");
}

int reluctance(const InterfaceAddress& address) {
  return (address.loopback ? 4 : 0) + (joins_containers(address) ? 2 : 0) + (is_link_local(address) ? 1 : 0);
}

// Of those that were asked for by name.
void add_spares(const std::vector<InterfaceAddress>& candidates, std::vector<InterfaceAddress>& chosen) {
  for (const InterfaceAddress& each : candidates) {
    const bool is_new = std::none_of(chosen.begin(), chosen.end(),
                                     [&](const InterfaceAddress& other) { return other.interface == each.interface; });
    if (is_new && each.ipv6 == chosen.front().ipv6 && reluctance(each) <= reluctance(chosen.front()))
      chosen.push_back(each);
  }
}

std::string names_of(const std::vector<InterfaceAddress>& all) {
  std::string names;
  for (const InterfaceAddress& address : all) {
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", address.interface, address.host);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

Result<std::vector<InterfaceAddress>> choose_interface(const std::vector<InterfaceAddress>& all,
                                                       std::string_view text) {
  const Selection selection = parse(text);
  std::vector<InterfaceAddress> candidates;
  std::copy_if(all.begin(), all.end(), std::back_inserter(candidates),
               [&](const InterfaceAddress& address) { return text.empty() || selects(selection, address); });
  if (candidates.empty()) {
    return Status(
        Code::kInvalidUsage,
        fmt::format("HOCKET_INTERFACE='{}' selects no network interface of this host: it has {}", text, names_of(all)));
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const InterfaceAddress& left, const InterfaceAddress& right) { return reluctance(left) < reluctance(right); });
  const InterfaceAddress& first = candidates.front();
  std::vector<InterfaceAddress> chosen = {first};
  const auto other = std::find_if(candidates.begin() + 1, candidates.end(), [&](const InterfaceAddress& address) {
    return address.interface == first.interface && address.ipv6 != first.ipv6 && !is_link_local(address);
  });
  if (other != candidates.end()) chosen.push_back(*other);
  if (!selection.names.empty() && !selection.exclude) add_spares(candidates, chosen);
  return chosen;
}

size_t interface_count(const std::vector<std::string>& interfaces) {
  return std::set<std::string_view>(interfaces.begin(), interfaces.end()).size();
}

}  // namespace hocket
