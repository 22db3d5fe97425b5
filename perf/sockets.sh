#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/sockets.sh BUILD: ways to move bytes through a TCP connection (socket_bench.cc), on this host's loopback and
# between two guests (tests/rdma/guest.sh), whose virtual cards take long packets from where they lie and cut them, as
# real ones do. On emulated processors: the ratios count, and only where nothing else runs. Needs root, for the guests'
# cards hang on a bridge of this host, and liburing-dev when Hocket is built.
set -euo pipefail
build=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly build here bench=$build/perf/socket_bench name=hks$$

echo "Loopback:"
taskset -c 0 "$bench" --listen 127.0.0.1 --sizes 8,65536,1048576,4194304 &
taskset -c 1 "$bench" --connect 127.0.0.1 --sizes 8,65536,1048576,4194304
wait

take_down() {
  local link
  for link in "${name}t0" "${name}t1" "$name"; do ip link delete "$link" 2>/dev/null || true; done
}
trap take_down EXIT
ip link add "$name" mtu 9000 type bridge
ip link set "$name" up
for guest in 0 1; do
  ip tuntap add "${name}t$guest" mode tap
  ip link set "${name}t$guest" mtu 9000 master "$name" up
done
# shellcheck disable=SC2016 # the guest's variable
GUEST_TAPS=${name}t "$here/tests/rdma/guest.sh" -n 2 "$build" bash -c '
  if ((GUEST_ID == 0)); then '"$bench"' --listen 10.77.0.1; else '"$bench"' --connect 10.77.0.1; fi'
