// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How communicators come to be: by unique id, from a launcher's environment, out of others (derived.cc). All of it
// blocks until the other ranks have come; opening.h says on which thread.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "api/session.h"
#include "base/status.h"
#include "hocket/hocket.h"

namespace hocket {

using Created = Result<std::shared_ptr<Communicator>>;

Result<std::string> make_unique_id();
Created create_by_id(const std::string& unique_id, int rank, int ranks, const CommunicatorOptions& options);
Created create_from_environment(const CommunicatorOptions& options);
// The communicator of the rank of a mesh.
std::shared_ptr<Communicator> create_on(std::shared_ptr<Mesh> mesh, CommunicatorOptions options);

// Collective; null for HOCKET_SPLIT_NOCOLOR.
Created split(Session& session, int color, int key, const CommunicatorOptions& options);
// Collective over the ranks that are neither lost nor gone nor excluded.
Created shrink(Session& session, const std::set<Rank>& excluded, const CommunicatorOptions& options);
// Collective over all ranks of the parent; one of them brings the unique id with which newcomers join.
Created grow(Session& session, int ranks, const hocketUniqueId* id, const CommunicatorOptions& options);

}  // namespace hocket
