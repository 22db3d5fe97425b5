// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How communicators come to be: by unique id, from a launcher's environment, out of others (derived.cc).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "api/group.h"
#include "api/session.h"
#include "base/status.h"
#include "hocket/hocket.h"

namespace hocket {

Result<std::string> make_unique_id();
// Blocks until all ranks have come; returns the new handle.
Result<hocketComm_t> create_by_id(const std::string& unique_id, int rank, int ranks,
                                  const CommunicatorOptions& options);
Result<hocketComm_t> create_from_environment(const CommunicatorOptions& options);
// A handle for the rank of a mesh.
Result<hocketComm_t> open_session(std::shared_ptr<Mesh> mesh, CommunicatorOptions options);

// Collective; NULL for HOCKET_SPLIT_NOCOLOR.
Result<hocketComm_t> split(Session& session, int color, int key, const CommunicatorOptions& options);
// Collective over the ranks that are neither lost nor gone nor excluded.
Result<hocketComm_t> shrink(Session& session, const std::set<Rank>& excluded, const CommunicatorOptions& options);
// Collective over all ranks of the parent; one of them brings the unique id with which newcomers join.
Result<hocketComm_t> grow(Session& session, int ranks, const hocketUniqueId* id, const CommunicatorOptions& options);

// The options of a config (NULL: defaults), completed from the settings.
Result<CommunicatorOptions> options_from(const hocketConfig_t* given);

// Runs make(Session&) with the session of the handle out of which a communicator is made; its failure stays with it.
template <typename Make>
Result<hocketComm_t> with_parent(hocketComm_t parent, const Make& make) {
  const auto pin = sessions().pin(parent);
  if (!pin) return no_communicator();
  Result<hocketComm_t> made = make(*pin);
  if (!made.ok()) remember(*pin, made.status());
  return made;
}

// Runs a creating job now or at the end of the group, and writes the handle when it has succeeded.
template <typename Check, typename Create>
hocketResult_t create(hocketComm_t* comm, const hocketConfig_t* config, Check check, Create make,
                      hocketComm_t parent = nullptr) noexcept {
  return guarded([&] {
    const auto run = [&]() -> Status {
      if (comm == nullptr) return null_pointer("comm");
      HOCKET_TRY(check());
      Result<CommunicatorOptions> options = options_from(config);
      if (!options.ok()) return options.status();
      return run_or_defer(parent, [comm, make, chosen = std::move(*options)]() -> Status {
        Result<hocketComm_t> made = make(chosen);
        if (!made.ok()) return made.status();
        *comm = *made;
        return {};
      });
    };
    const Status status = run();
    if (!status.ok()) group_failed(status);
    return report(status);
  });
}

}  // namespace hocket
