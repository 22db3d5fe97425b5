#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/line_rate.sh BUILD [RATE]: all-reduce of RANKS (4) ranks in as many network namespaces, whose links carry RATE (1gbit)
# each way, beside the bound: 2 (p - 1) / p of the bytes at the goodput that iperf3 reaches between two of them.
# Needs root and iperf3.
set -euo pipefail
command -v iperf3 >/dev/null || { echo "line_rate.sh: iperf3 is missing (apt-get install iperf3)" >&2; exit 2; }
readonly build=$1 rate=${2:-1gbit} ranks=${RANKS:-4}
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=hkr$$
out=$(mktemp -d)
trap 'rm -rf "$out"; "$here/tests/netns/hosts.sh" down "$prefix" $ranks' EXIT

"$here/tests/netns/hosts.sh" up "$prefix" $ranks
"$here/tests/netns/hosts.sh" shape "$prefix" $ranks "$rate"

ip netns exec "${prefix}0" iperf3 -s -1 >/dev/null &
sleep 0.5
goodput=$(ip netns exec "${prefix}1" iperf3 -c 10.77.0.1 -t 5 -J |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 8)')
wait

for ((rank = ranks - 1; rank >= 0; --rank)); do
  env HOCKET_RANK=$rank HOCKET_SIZE=$ranks HOCKET_TRANSPORTS=tcp HOCKET_SECRET=rate HOCKET_ADDRESS=10.77.0.1:4488 \
    HOCKET_HOST_ID="host-$rank" ip netns exec "$prefix$rank" \
    "$build/perf/all_reduce_perf" -b 4M -e 32M -f 8 -n 10 -w 2 >"$out/$rank" 2>&1 &
done
wait
awk -v goodput="$goodput" -v ranks=$ranks '
  BEGIN { printf "iperf3: %.1f MB/s\n", goodput / 1e6 }
  $1 ~ /^[0-9]+$/ {
    bound = 2 * (ranks - 1) / ranks * $1 / goodput * 1e6
    printf "%d bytes: %.0f us, the bound is %.0f: %.1f %% of it\n", $1, $6, bound, 100 * bound / $6
  }' "$out/0"
