#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/torch_network.sh BUILD [RATE [PROGRAM [OPTION...]]]: a program of this folder (torch_network_bench.py) with two ranks in
# two network namespaces whose ports carry RATE (1gbit). Needs root.
set -euo pipefail
build=$(realpath "$1")
readonly build rate=${2:-1gbit} program=${3:-torch_network_bench.py} options=("${@:4}")
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=hkt$$
trap '"$here/tests/netns/hosts.sh" down "$prefix" 2' EXIT

"$here/tests/netns/hosts.sh" up "$prefix" 2
for host in 0 1; do
  ip netns exec "$prefix$host" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 20ms
done
for host in 1 0; do
  ip netns exec "$prefix$host" env RANK=$host WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=4499 "HOCKET_HOST_ID=host-$host" \
    GLOO_SOCKET_IFNAME=eth0 HOCKET_INTERFACE=eth0 PYTHONPATH="$here/python" LD_LIBRARY_PATH="$build/src/api" \
    "${TORCH_PYTHON:-$build/torch/bin/python}" "$here/perf/$program" "${options[@]}" &
done
wait
