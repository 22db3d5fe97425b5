// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which of a host's addresses to listen at. A pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

// One IPv4 and one IPv6 address of one interface, if it has both, and one of each further interface that the selection
// names, to carry on when the first is lost. `selection` lists interface names, divided by commas,
// as NCCL_SOCKET_IFNAME does: beginnings ("eth"), after '=' whole names ("=eth0"), after '^' what not to take
// ("^docker"). A numeric address selects the interface that has it. Without a selection, networks that join containers
// of one host are taken only when nothing else is there, and the loopback only as the last.
Result<std::vector<InterfaceAddress>> choose_interface(const std::vector<InterfaceAddress>& all,
                                                       std::string_view selection);

// How many different ones, of those of a rank's addresses.
size_t interface_count(const std::vector<std::string>& interfaces);

}  // namespace hocket
