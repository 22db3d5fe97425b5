#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/shaped.sh BUILD [RANKS [RATE [OPTION...]]]: what the model says of all-reduces over shaped links, and what it
# chooses, against every algorithm's time. Each of RANKS (4) ranks has a network namespace, whose link carries RATE
# (1gbit) each way; they share this machine's cores and know it. The options are `hocket tune`'s: `--out FILE` fits costs and writes
# them, `--check --out FILE` tells how well those say what is measured now. Needs root.
set -euo pipefail
readonly build=$1 ranks=${2:-4} rate=${3:-1gbit}
options=("${@:4}")
port=${rate/gbit/Gbit/s}
port=${port/mbit/Mbit/s}
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=hkb$$
trap '"$here/tests/netns/hosts.sh" down "$prefix" "$ranks"' EXIT

"$here/tests/netns/hosts.sh" up "$prefix" "$ranks"
"$here/tests/netns/hosts.sh" shape "$prefix" "$ranks" "$rate" 128kb
for ((rank = ranks - 1; rank >= 0; rank--)); do
  env HOCKET_RANK=$rank HOCKET_SIZE="$ranks" HOCKET_ADDRESS=10.77.0.1:4488 HOCKET_SECRET=shaped \
    ip netns exec "$prefix$rank" "$build/tool/hocket" tune --launched --transports tcp --socket \
    --port "$port" "${options[@]}" &
done
wait
