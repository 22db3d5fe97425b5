// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the option --network means, wherever it is given.
#pragma once

#include <string_view>

#include "base/status.h"
#include "topology/network_model.h"

namespace hocket::tool {

inline constexpr std::string_view kExampleNetwork = "8@200GB/s/1us,1024@50GB/s/3us";
inline constexpr std::string_view kNetworkHelp =
    "Levels, innermost first: RANKS@PORT/LATENCY,HOSTS@PORT/LATENCY,... Or 'here': the ranks on this machine's cores, "
    "by what was measured";

Result<NetworkModel> network_option(std::string_view text);

}  // namespace hocket::tool
