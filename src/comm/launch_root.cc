// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// From a launcher's words to a unique id that is the same on all ranks. On one host the ranks meet at an abstract unix
// name made from the job's key, which cannot be taken by chance; otherwise at one of a few agreed ports of rank 0's
// host, where the handshake tells which one is ours.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/socket_address.h"
#include "comm/handshake_crypto.h"
#include "comm/launch.h"
#include "comm/launch_variables.h"
#include "comm/rendezvous.h"
#include "comm/service.h"
#include "comm/unique_id.h"

namespace hocket {
namespace {

std::string with_port(const std::string& host, uint32_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Address unix_name(const std::string& job_key) {
  std::string name = "unix:hocket-job-";
  for (const char byte : public_id_of(job_key)) name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name;
}

struct NamedHost {
  std::string name;
  std::vector<std::string> numeric;  // its addresses, without port
};

// Of names and addresses that are divided by commas. Fails when none of them leads anywhere.
Result<std::vector<NamedHost>> look_up_hosts(const std::string& names) {
  std::vector<NamedHost> hosts;
  std::vector<Status> failures;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    NamedHost host{names.substr(begin, end - begin), {}};
    const Result<std::vector<SocketAddress>> found = resolve(with_port(without_brackets(host.name), 0));
    if (!found.ok()) failures.push_back(found.status());
    if (found.ok()) {
      for (const SocketAddress& each : *found) host.numeric.push_back(host_text(each.get()));
      hosts.push_back(std::move(host));
    }
    begin = end + 1;
  }
  if (hosts.empty()) return failures.front();
  for (const Status& each : failures) log_warn("of the hosts {} one is left out: {}", names, each.message());
  return hosts;
}

bool is_here(Service& service, const std::string& host) {
  if (host.starts_with("127.")) return true;
  const auto all = service.system().network.interfaces();
  return all.ok() &&
         std::any_of(all->begin(), all->end(), [&](const InterfaceAddress& each) { return each.host == host; });
}

// Rank 0: where guests may look for it, whatever the name means to them.
std::vector<std::string> hosts_to_listen_at(Service& service, const std::vector<NamedHost>& named) {
  std::vector<std::string> hosts;
  const auto add = [&](const std::string& host) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  };
  for (const NamedHost& host : named) {
    bool leads_here = false;
    for (const std::string& numeric : host.numeric) {
      if (!is_here(service, numeric)) continue;
      add(numeric);
      leads_here = true;
    }
    if (!leads_here) {
      log_warn("rank 0 runs on {}, but the others will look for it at {} ({})", service.self().host_name, host.name,
               host.numeric.front());
    }
  }
  for (const InterfaceAddress& each : service.interface()) add(each.host);
  return hosts;
}

Status listen_at_first_free_port(Service& service, const Launch& launch, const std::vector<std::string>& hosts) {
  Status failure;
  for (uint32_t i = 0; i < launch.ports; ++i) {
    failure = {};
    for (const std::string& host : hosts) {
      const Result<Address> bound = service.listen(with_port(host, launch.port + i));
      if (!bound.ok()) failure = bound.status();
    }
    if (failure.ok()) return {};
  }
  return failure;
}

Result<std::vector<Address>> meeting_place(Service& service, const Launch& launch, const std::string& job_key) {
  const bool by_name = launch.one_host() && !launch.exact;
  if (by_name) {
    const Address name = unix_name(job_key);
    if (launch.rank == 0) HOCKET_TRY(service.listen(name).status());
    return std::vector{name};
  }
  if (launch.host.empty()) {
    return Status(Code::kInvalidUsage,
                  fmt::format("{} starts {} ranks on several hosts but does not tell where rank 0 is: set "
                              "HOCKET_ADDRESS=host:port, equal on all ranks, to a free port on the host of rank 0 (or "
                              "HOCKET_LOCAL_RANK and HOCKET_LOCAL_SIZE, if all are on one host)",
                              launch.launcher, launch.ranks));
  }
  const Result<std::vector<NamedHost>> named = look_up_hosts(launch.host);
  if (!named.ok()) return named.status();
  if (launch.rank == 0) {
    HOCKET_TRY(listen_at_first_free_port(service, launch, hosts_to_listen_at(service, *named)));
  }
  std::vector<Address> addresses;
  for (const NamedHost& host : *named) {
    for (const std::string& numeric : host.numeric) {
      const Address address = with_port(numeric, launch.port);
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
    }
  }
  return addresses;
}

}  // namespace

Result<std::string> unique_id_from_environment(Service& service, const Launch& launch) {
  HOCKET_TRY(service.ready());
  if (launch.ranks == 1) return make_unique_id(service);
  const std::string& secret = service.options().secret;
  if (secret.empty() && launch.job.empty()) {
    return Status(Code::kInvalidUsage,
                  "the environment tells no name of the job: set HOCKET_SECRET, equal on all ranks");
  }
  const std::string job_key = derive_key(secret, "job " + launch.job);
  UniqueId id;
  id.key = derive_key(job_key, fmt::format("communicator {}", service.next_sequence()));
  id.root_may_be_late = true;
  id.ports = launch.ports;
  Result<std::vector<Address>> addresses = meeting_place(service, launch, job_key);
  if (!addresses.ok()) return addresses.status();
  id.addresses = *addresses;
  if (launch.rank == 0) HOCKET_TRY(open_root(service, id.key));
  return encode_unique_id(id);
}

}  // namespace hocket
