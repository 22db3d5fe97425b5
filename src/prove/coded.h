// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What encoding every message of a plan does to its results: proves that all ranks end with the same bits, and computes
// the error from the plan. Knows of a codec only how much it changes what it encodes.
//
// Units. Contributions are at most 1 in magnitude. A value of k contributions is at most k, and off by at most
// relative + absolute; encoding it adds relative_error * (k + relative) and relative_error * absolute + absolute_error.
// For independent contributions of unit variance, encoding adds k to the value's noise, in units of eps^2, where eps is
// the relative error, as a root mean square, of encoding once.
#pragma once

#include <span>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

struct CodingErrors {
  double relative_error = 0;  // of one encoding, to the largest magnitude
  double absolute_error = 0;
  double rounding = 0;          // of one addition in the values' type, to the result
  bool idempotent = false;      // encoding what was decoded changes nothing; chunks are whole blocks of the codec
  bool adds_as_stored = false;  // codec/codec.h
  bool lossless = false;        // encoding changes nothing at all, and adding a message is adding what it was made of
};

struct CodingEffect {
  double relative = 0;  // the most that a result is off, where no contribution is above 1 ...
  double absolute = 0;  // ... and what comes on top, whatever their size
  double noise = 0;     // of the worst result: its relative error is eps * sqrt(noise)
  int encodings = 0;    // that a contribution passes at most
};

// Of reductions and copies that are proved right without a codec (prove.h).
Result<CodingEffect> prove_coded(std::span<const Plan> plans, const CodingErrors& errors);

}  // namespace hocket
