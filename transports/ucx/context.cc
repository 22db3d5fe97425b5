// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/context.h"

#include <fmt/format.h>

namespace hocket {
namespace {

constexpr unsigned kMajor = 1;
// Older ones lack what keeps the data of a message in its place.
constexpr unsigned kOldest = 13;
// Before, with a keepalive, the request to connect goes where it may not be given up: the process would end when the
// peer is lost meanwhile (decision 0120). That a peer is gone the sockets say.
constexpr unsigned kKeepsAlive = 14;

// Of version 1.x the x.
Result<unsigned> version_of(const UcxTable& table) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  table.get_version(&major, &minor, &release);
  if (major == kMajor && minor >= kOldest) return minor;
  return Status(Code::kSystem, fmt::format("UCX is of version {}.{}; {}.{} or a newer {}.x is needed", major, minor,
                                           kMajor, kOldest, kMajor));
}

ucs_status_t change(const UcxTable& table, unsigned version, ucp_config_t* config, const std::string& tls) {
  ucs_status_t status = UCS_OK;
  if (!tls.empty()) status = table.config_modify(config, "TLS", tls.c_str());
  if (status != UCS_OK || version >= kKeepsAlive) return status;
  return table.config_modify(config, "KEEPALIVE_INTERVAL", "inf");
}

}  // namespace

Status ucx_failure(const UcxTable& table, std::string_view what, ucs_status_t status) {
  const bool by_peer = status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT ||
                       status == UCS_ERR_UNREACHABLE || status == UCS_ERR_NOT_CONNECTED || status == UCS_ERR_REJECTED ||
                       status == UCS_ERR_CANCELED;
  return Status(by_peer ? Code::kRemote : Code::kSystem, fmt::format("{}: {}", what, table.status_string(status)));
}

Result<std::shared_ptr<const UcxContext>> UcxContext::open(const UcxTable& table, const std::string& tls) {
  const Result<unsigned> version = version_of(table);
  if (!version.ok()) return version.status();
  ucp_config_t* config = nullptr;
  ucs_status_t status = table.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return ucx_failure(table, "cannot read the settings of UCX", status);
  status = change(table, *version, config, tls);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // communicators are used from threads of their own
  ucp_context_h handle = nullptr;
  if (status == UCS_OK) status = table.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &handle);
  table.config_release(config);
  if (status != UCS_OK) return ucx_failure(table, "cannot begin with UCX", status);
  return std::shared_ptr<const UcxContext>(new UcxContext(table, handle));
}

UcxContext::~UcxContext() { table_.cleanup(handle_); }

}  // namespace hocket
