#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/lanes.sh BUILD [CONNECTION [PORT]]: all-reduce of two ranks over TCP with 1, 2, 4 and 8 lanes, and with as many as
# the model chooses: over loopback, and between two network namespaces in which a connection carries CONNECTION
# (400mbit) and a port PORT (3200mbit). Needs root. Prints microseconds by size.
set -euo pipefail
readonly build=$1 connection=${2:-400mbit} port=${3:-3200mbit}
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=hkl$$
tuning=$(mktemp)
trap 'rm -f "$tuning"; "$here/tests/netns/hosts.sh" down "$prefix" 2' EXIT

# Connections are told apart by three bits of each of their ports: 64 classes, each as fast as one connection.
shape() {
  local out="ip netns exec $1 tc" low high
  $out qdisc add dev eth0 root handle 1: htb
  $out class add dev eth0 parent 1: classid 1:1000 htb rate "$port" quantum 60000
  for low in 0 1 2 3 4 5 6 7; do
    for high in 0 1 2 3 4 5 6 7; do
      local class
      class=$(printf '1:%x' $((low * 8 + high + 1)))
      $out class add dev eth0 parent 1:1000 classid "$class" htb rate "$connection" quantum 15000
      $out filter add dev eth0 parent 1: protocol ip u32 \
        match ip sport $((low * 2)) 0xe match ip dport $((high * 2)) 0xe flowid "$class"
    done
  done
}

# run NAME LAUNCHER...: rank is {} in the launcher's words.
run() {
  local name=$1 rank
  shift
  for rank in 1 0; do
    env HOCKET_RANK=$rank HOCKET_SIZE=2 HOCKET_TRANSPORTS=tcp HOCKET_SECRET=lanes "${@//\{\}/$rank}" \
      "$build/perf/all_reduce_perf" -b 1M -e 16M -f 4 -n 5 -w 1 >"/tmp/$prefix.$rank" 2>&1 &
  done
  wait
  awk -v name="$name" '$1 ~ /^[0-9]+$/ {printf "%s %s %s\n", name, $1, $6}' "/tmp/$prefix.0"
  rm -f "/tmp/$prefix".?
}

"$build/tool/hocket" tune --ranks 2 --transports tcp --socket --from 1M --to 1M --seconds 1 \
  --port "${port/mbit/Mbit/s}" --connection "${connection/mbit/Mbit/s}" --out "$tuning" >/dev/null
"$here/tests/netns/hosts.sh" up "$prefix" 2
for host in 0 1; do shape "$prefix$host" 2>/dev/null; done
for lanes in 1 2 4 8; do
  run "loopback-$lanes" env HOCKET_ADDRESS=127.0.0.1:4488 HOCKET_LANES=$lanes
  run "slow-connections-$lanes" env HOCKET_ADDRESS=10.77.0.1:4488 "HOCKET_HOST_ID=host-{}" HOCKET_LANES=$lanes \
    ip netns exec "$prefix{}"
done
run "slow-connections-chosen" env HOCKET_ADDRESS=10.77.0.1:4488 "HOCKET_HOST_ID=host-{}" \
  "HOCKET_TUNING_FILE=$tuning" ip netns exec "$prefix{}"
