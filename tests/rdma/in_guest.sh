#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# in_guest.sh NAME PROGRAM ARGUMENT...: runs a test's program, with a report of the name that ctest has for it. A run in
# which nothing ran is a failure. Of several guests the first one reports.
set -euo pipefail
readonly report=$PWD/reports/$1.xml
shift
mkdir -p reports
unset GTEST_OUTPUT
if ((GUEST_ID == 0)); then
  rm -f "$report"
  export GTEST_OUTPUT=xml:$report
fi
"$@" | tee /tmp/output
! grep -q '^\[==========\] 0 tests' /tmp/output
