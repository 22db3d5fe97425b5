// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// GOAL, the text in which LogGOPSim and its kin take their work: operations of ranks (send, recv, calc) and what each
// requires. Programs are written so that those can check our simulator; what others wrote runs here.
#pragma once

#include <ostream>
#include <string_view>

#include "base/status.h"
#include "simulate/program.h"

namespace hocket::simulate {

// Every step of a pass becomes one recv for each message that it takes, a calc, and one send for each that it sends;
// the tag is the lane.
void write_goal(const Program& program, const LocalCost& local, std::ostream& out);

// Sends and receives of the same ranks and tag match in the order of the text. `cpu` and `nic` are read and passed
// over: a rank has one thread. Wildcards and `irequires` are refused. Failures name the line.
Result<Program> read_goal(std::string_view text);

inline constexpr int32_t kMaxGoalRanks = 1 << 18;
inline constexpr size_t kMaxGoalOperations = size_t{1} << 24;
inline constexpr size_t kMaxGoalLabel = 64;  // characters

}  // namespace hocket::simulate
