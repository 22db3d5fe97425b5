// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/creation.h"

#include <utility>

#include "base/log.h"
#include "comm/calibrate.h"
#include "comm/launch.h"
#include "comm/process_flight.h"
#include "comm/service.h"
#include "comm/unique_id.h"

namespace hocket {

std::shared_ptr<Communicator> create_on(std::shared_ptr<Mesh> mesh, CommunicatorOptions options) {
  options.flight = process_flight();
  return std::make_shared<Communicator>(real_system(), std::move(mesh), std::move(options));
}

Result<std::string> make_unique_id() { return hocket::make_unique_id(process_service()); }

Created create_by_id(const std::string& unique_id, int rank, int ranks, const CommunicatorOptions& options) {
  JoinOptions join;
  join.unique_id = unique_id;
  join.rank = rank;
  join.ranks = ranks;
  join.operation_timeout = options.operation_timeout;
  join.context = options.context;
  const Result<UniqueId> decoded = decode_unique_id(unique_id);
  if (!decoded.ok()) return decoded.status();
  Result<std::shared_ptr<Mesh>> mesh = join_mesh(process_service(), join);
  if (!mesh.ok()) return mesh.status();
  CommunicatorOptions complete = options;
  complete.key = decoded->key;
  Created made = create_on(std::move(*mesh), std::move(complete));
  if (made.ok()) HOCKET_TRY(calibrate_if_wished(**made));
  return made;
}

Created create_from_environment(const CommunicatorOptions& options) {
  const Result<Launch> launch = detect_launch(process_environment());
  if (!launch.ok()) return launch.status();
  if (launch->ranks > 1) set_log_rank(launch->rank);
  const Result<std::string> id = unique_id_from_environment(process_service(), *launch);
  if (!id.ok()) return id.status();
  return create_by_id(*id, launch->rank, launch->ranks, options);
}

}  // namespace hocket
