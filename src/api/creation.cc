// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/creation.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/settings.h"
#include "comm/launch.h"
#include "comm/process_flight.h"
#include "comm/service.h"
#include "comm/unique_id.h"

namespace hocket {

Result<hocketComm_t> open_session(std::shared_ptr<Mesh> mesh, CommunicatorOptions options) {
  options.flight = process_flight();
  auto communicator = std::make_shared<Communicator>(real_system(), std::move(mesh), std::move(options));
  void* handle = sessions().add(std::make_unique<Session>(std::move(communicator)));
  if (handle == nullptr) {
    return Status(Code::kInvalidUsage, fmt::format("more than {} communicators in one process", sessions().kCapacity));
  }
  return static_cast<hocketComm_t>(handle);
}

Result<std::string> make_unique_id() { return hocket::make_unique_id(process_service()); }

Result<hocketComm_t> create_by_id(const std::string& unique_id, int rank, int ranks,
                                  const CommunicatorOptions& options) {
  JoinOptions join;
  join.unique_id = unique_id;
  join.rank = rank;
  join.ranks = ranks;
  join.operation_timeout = options.operation_timeout;
  const Result<UniqueId> decoded = decode_unique_id(unique_id);
  if (!decoded.ok()) return decoded.status();
  Result<std::shared_ptr<Mesh>> mesh = join_mesh(process_service(), join);
  if (!mesh.ok()) return mesh.status();
  CommunicatorOptions complete = options;
  complete.key = decoded->key;
  return open_session(std::move(*mesh), std::move(complete));
}

Result<hocketComm_t> create_from_environment(const CommunicatorOptions& options) {
  const Result<Launch> launch = detect_launch(process_environment());
  if (!launch.ok()) return launch.status();
  if (launch->ranks > 1) set_log_rank(launch->rank);
  const Result<std::string> id = unique_id_from_environment(process_service(), *launch);
  if (!id.ok()) return id.status();
  return create_by_id(*id, launch->rank, launch->ranks, options);
}

Result<CommunicatorOptions> options_from(const hocketConfig_t* config) {
  const Result<Settings>& all = settings();
  if (!all.ok()) return all.status();
  CommunicatorOptions options;
  options.operation_timeout = all->operation_timeout;
  options.spin = all->spin;
  Result<Forced> forced = Forced::parse(all->algorithm);
  if (!forced.ok()) return forced.status();
  options.forced = std::move(*forced);
  if (config == nullptr) return options;
  if (config->size < sizeof(size_t) || config->size > size_t{1} << 16) {
    return Status(Code::kInvalidArgument,
                  fmt::format("config: size is {}: initialise it with HOCKET_CONFIG_INITIALIZER", config->size));
  }
  const auto has = [&](size_t end) { return config->size >= end; };
  if (has(offsetof(hocketConfig_t, commName) + sizeof(config->commName)) && config->commName != nullptr) {
    options.name = config->commName;
  }
  if (has(sizeof(hocketConfig_t)) && config->operationTimeoutMs != 0) {
    constexpr int64_t kLongest = kLongestDuration / std::chrono::milliseconds(1);
    if (config->operationTimeoutMs < 0 || config->operationTimeoutMs > kLongest) {
      return Status(Code::kInvalidArgument, fmt::format("config: operationTimeoutMs: {}: it must be 0 to {}",
                                                        config->operationTimeoutMs, kLongest));
    }
    options.operation_timeout = std::chrono::milliseconds(config->operationTimeoutMs);
  }
  return options;
}

}  // namespace hocket
