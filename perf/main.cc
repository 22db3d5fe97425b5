// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Compiled once for each perf program, with HOCKET_PERF_COLLECTIVE naming its collective.
#include "program.h"

int main(int argc, char** argv) { return hocket::perf::run_program(hocket::perf::HOCKET_PERF_COLLECTIVE, argc, argv); }
