// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/call_places.h"

#include "comm/binding.h"
#include "plan/joint.h"

namespace hocket {

bool tells_places(const Mesh& mesh, const Request& request) {
  const CallFacts& facts = request.facts;
  if (request.told || !mesh.reaches_devices() || facts.own || facts.v_form || facts.count == 0) return false;
  if (facts.coding != 0 || is_exact(facts) || is_in_window(facts)) return false;
  if (request.reduction.scaled || request.reduction.user != nullptr) return false;
  BuildOptions options{.rank = mesh.rank(), .ranks = mesh.ranks(), .root = facts.root};
  // Of others it is a rank's own affair.
  options.in_place = facts.collective == Collective::kAllToAll && is_in_place(request, mesh.rank());
  return fits_joint(facts.collective, options);
}

Request telling_of(const CallFacts& precedes, const CallPlaces& ours, std::vector<CallPlaces>& all) {
  CallArguments arguments;
  arguments.collective = Collective::kAllGather;
  arguments.type = DataType::kUint8;
  arguments.count = sizeof(CallPlaces);
  Request request(arguments, &ours, all.data());
  request.facts.own = true;
  request.told = true;
  request.precedes = &precedes;
  return request;
}

}  // namespace hocket
