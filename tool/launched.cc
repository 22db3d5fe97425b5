// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "launched.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "base/real_system.h"
#include "base/system.h"

namespace hocket::tool {

Result<std::unique_ptr<Launched>> Launched::join() {
  std::unique_ptr<Launched> ranks(new Launched);
  HOCKET_TRY(ranks->check(hocketCommInitFromEnvironment(&ranks->comm_, nullptr)));
  HOCKET_TRY(ranks->check(hocketCommCount(ranks->comm_, &ranks->count_)));
  HOCKET_TRY(ranks->check(hocketCommUserRank(ranks->comm_, &ranks->rank_)));
  HOCKET_TRY(ranks->tell_hosts());
  return ranks;
}

Launched::~Launched() {
  if (comm_ != nullptr) hocketCommDestroy(comm_);
}

int Launched::hosts() const {
  std::set<std::string_view> identities;
  for (const Host& host : hosts_) identities.insert(host.identity.data());
  return static_cast<int>(identities.size());
}

Status Launched::check(hocketResult_t result) const {
  if (result == hocketSuccess) return {};
  return {Code::kRemote, hocketGetLastError(comm_)};
}

// What the library takes for hosts: network namespaces of one machine are several.
Status Launched::tell_hosts() {
  Host own{};
  const char* played = std::getenv("HOCKET_HOST_ID");
  const std::string_view id = played != nullptr ? played : "";
  if (id.empty()) gethostname(own.name.data(), own.name.size() - 1);
  id.substr(0, own.name.size() - 1).copy(own.name.data(), own.name.size());
  const std::string identity = real_network().host_identity() + std::string(id);
  identity.copy(own.identity.data(), own.identity.size() - 1);
  hosts_.resize(static_cast<size_t>(count_));
  return check(hocketAllGather(&own, hosts_.data(), sizeof own, hocketUint8, comm_, nullptr));
}

}  // namespace hocket::tool
