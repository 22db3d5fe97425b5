// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One function per program. What is wrong with the options stays in the specification.
#pragma once

#include <memory>

#include "codec/feedback.h"
#include "codec/programs/program.h"
#include "codec/specification.h"

namespace hocket::programs {

using MadeProgram = std::unique_ptr<const Program>;

MadeProgram make_shared_scale(Specification& specification);  // shared
MadeProgram make_powersgd(Specification& specification);      // powersgd
MadeProgram make_dgc(Specification& specification);           // dgc
// Error feedback on both ways: of what each rank sends, and of what the sum's owner sends back.
MadeProgram make_two_sided(std::shared_ptr<const Codec> codec, FeedbackKind kind);

}  // namespace hocket::programs
