#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/sockets.sh BUILD: ways to move bytes through a TCP connection (socket_bench.cc), on this host's loopback and
# between two guests (tests/rdma/guest.sh), whose virtual cards take long packets from where they lie and cut them, as
# real ones do. On emulated processors: the ratios count, and only where nothing else runs. Needs root, and liburing-dev
# when Hocket is built.
set -euo pipefail
build=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly build here bench=$build/perf/socket_bench

echo "Loopback:"
sizes=8,16384,65536,1048576,4194304
taskset -c 0 timeout 120 "$bench" --listen 127.0.0.1 --sizes "$sizes" &
taskset -c 1 timeout 120 "$bench" --connect 127.0.0.1 --sizes "$sizes"
wait $!

# shellcheck disable=SC2016 # the guest's variable
"$here/tests/rdma/guest.sh" -c -n 2 "$build" bash -c '
  if ((GUEST_ID == 0)); then '"$bench"' --listen 10.77.0.1; else '"$bench"' --connect 10.77.0.1; fi'
