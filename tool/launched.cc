// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "launched.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>

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

bool Launched::is_first_of_host() const {
  return std::ranges::find(hosts_, hosts_[static_cast<size_t>(rank_)]) - hosts_.begin() == rank_;
}

int Launched::hosts() const { return static_cast<int>(std::set(hosts_.begin(), hosts_.end()).size()); }

Status Launched::check(hocketResult_t result) const {
  if (result == hocketSuccess) return {};
  return {Code::kRemote, hocketGetLastError(comm_)};
}

Status Launched::tell_hosts() {
  std::array<char, kLetters> own{};
  const char* played = std::getenv("HOCKET_HOST_ID");
  if (played != nullptr) {
    std::string_view(played).copy(own.data(), own.size() - 1);
  } else {
    gethostname(own.data(), own.size() - 1);
  }
  hosts_.resize(static_cast<size_t>(count_));
  return check(hocketAllGather(own.data(), hosts_.data(), own.size(), hocketUint8, comm_, nullptr));
}

}  // namespace hocket::tool
