// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans for whoever has the buffers of all ranks at hand: all ranks meet, each does its steps, and they meet again.
// That such plans are free of races (prove/) means that all steps of all ranks may run at the same time, as one. They
// reach into those buffers of others that lie in windows where there are any (comm/call_windows.cc), and into the
// root's of gather and into all of scatter.
#pragma once

#include "plan/builders.h"

namespace hocket {

// Not in place: an all-to-all. Never: scans, transfers, barriers, more ranks than a step has sources.
bool fits_joint(Collective collective, const BuildOptions& options);
Plan joint_plan(Collective collective, const BuildOptions& options);

// For whoever makes the whole collective by other means: all ranks meet, and each does its part, one step.
Plan meeting_plan(Collective collective, const BuildOptions& options);

}  // namespace hocket
