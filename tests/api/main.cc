// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/api/ranks.h"

int main(int argc, char** argv) { return hocket::test::run_program(argc, argv); }
