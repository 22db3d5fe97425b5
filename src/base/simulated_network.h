// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The network between simulated hosts: listeners, streams with latency and bounded buffers, and handles that pass along
// local ones. Each host has an address (10.0.0.1, 10.0.0.2, ... in the order of their making), a name, and a loopback.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/simulated_kernel.h"
#include "base/simulated_links.h"

namespace hocket {

class SimulatedListenerCore;

// What all networks of a simulation share.
struct SimulatedWorld {
  std::shared_ptr<SimulatedKernel> kernel;
  std::shared_ptr<SimulatedLinks> links = std::make_shared<SimulatedLinks>();
  std::map<std::string, std::string> host_of_address;                     // "10.0.0.2" and "b" -> "b"
  std::map<std::string, std::weak_ptr<SimulatedListenerCore>> listeners;  // "b 10.0.0.2:4411", "b unix:name"
  int next_port = 40000;
  int next_name = 0;
};

std::unique_ptr<Network> make_simulated_network(std::shared_ptr<SimulatedWorld> world, std::string host,
                                                std::string address);

}  // namespace hocket
