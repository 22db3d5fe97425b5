#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# hosts.sh up|down PREFIX COUNT: network namespaces PREFIX0, PREFIX1, ... on one bridge, each with an address
# 10.77.0.1, 10.77.0.2, ... and fd77::1, fd77::2, ...; on another bridge with 10.78.0.1, ... as eth1. Needs root. `down`
# also clears away what a failed `up` left. hosts.sh shape PREFIX COUNT RATE bounds what the first bridge carries from
# and to each.
set -euo pipefail
readonly task=$1 prefix=$2 count=$3

down() {
  local i
  for ((i = 0; i < count; i++)); do
    ip netns del "$prefix$i" 2>/dev/null || true
    ip link del "${prefix}v$i" 2>/dev/null || true
    ip link del "${prefix}w$i" 2>/dev/null || true
  done
  ip link del "${prefix}br" 2>/dev/null || true
  ip link del "${prefix}bs" 2>/dev/null || true
}

up() {
  local i
  ip link add "${prefix}br" type bridge
  ip link set "${prefix}br" up
  ip link add "${prefix}bs" type bridge
  ip link set "${prefix}bs" up
  for ((i = 0; i < count; i++)); do
    ip netns add "$prefix$i"
    # What is cut off and comes back has its addresses still.
    ip netns exec "$prefix$i" sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/keep_addr_on_down'
    ip link add "${prefix}v$i" type veth peer name eth0 netns "$prefix$i"
    ip link set "${prefix}v$i" master "${prefix}br" up
    ip -n "$prefix$i" addr add "10.77.0.$((i + 1))/24" dev eth0
    ip -n "$prefix$i" addr add "fd77::$((i + 1))/64" dev eth0 nodad
    ip -n "$prefix$i" link set lo up
    ip -n "$prefix$i" link set eth0 up
    ip link add "${prefix}w$i" type veth peer name eth1 netns "$prefix$i"
    ip link set "${prefix}w$i" master "${prefix}bs" up
    ip -n "$prefix$i" addr add "10.78.0.$((i + 1))/24" dev eth1
    ip -n "$prefix$i" link set eth1 up
  done
}

# What leaves a namespace is shaped within it, what enters it on the bridge's side.
shape() { # RATE
  local i
  for ((i = 0; i < count; i++)); do
    ip netns exec "$prefix$i" tc qdisc replace dev eth0 root tbf rate "$1" burst "${2:-256kb}" limit 2500kb
    tc qdisc replace dev "${prefix}v$i" root tbf rate "$1" burst "${2:-256kb}" limit 2500kb
  done
}

case $task in
  up)
    trap 'down' ERR
    up
    ;;
  down) down ;;
  shape) shape "${@:4}" ;;
  *) exit 2 ;;
esac
