#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/rdma.sh BUILD [ROUNDS [PART...]]: what RDMA does beside others, on Soft-RoCE in guests (tests/rdma/guest.sh).
# Parts: perftest (beside verbs pipes), ucx (ucx_perftest beside UCX pipes) and mpi (all-reduce and all-gather, Open MPI
# over UCX beside verbs: what it has measured in the guest at its first call, `hocket`, what the built-in `model`
# chooses, and buffers that are `registered`): two processes or threads of one guest; the sides take turns, ROUNDS (3)
# times, and medians are printed. ports: two ranks on two guests, one of whose two ports is lost. All by default. A device
# in software on an emulated processor: the ratios count, and only where nothing else runs. Needs perftest, ucx-utils,
# openmpi-bin and libopenmpi-dev.
set -euo pipefail
build=$(realpath "$1")
readonly build rounds=${2:-3}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# ---- In the guest; every side prints "NAME VALUE" lines: MB/s (a million bytes), or microseconds

# both COMMAND...: a tool's server, and its client as soon as that has begun. Prints what the client says.
both() {
  "$@" >/dev/null 2>&1 &
  local server=$!
  until timeout 60 "$@" 127.0.0.1 2>/dev/null || ! kill -0 "$server"; do sleep 0.1; done
  wait "$server" || true
}

# pipes TRANSPORT: messages from and to memory of the program's own, and memory that lasts.
pipes() {
  local bench=$build/perf/pipe_bench
  "$bench" --slice 65536 --total 16384000 "$1" | awk -v n="$1" '$1 == 65536 { print n "-pipe-64KiB-MB/s", $5 * 1000 }'
  "$bench" --slice 262144 --total 16777216 --lasting "$1" |
    awk -v n="$1" '$1 == 262144 { print n "-pipe-256KiB-lasting-MB/s", $6 * 1000 }'
  "$bench" --latency 8 --rounds 1000 "$1" | awk -v n="$1" '$1 == 8 { print n "-pipe-8B-us", $2 / 1000 }'
}

beside_perftest() {
  both ib_write_bw -d rxe0 -x 1 -F -s 65536 -n 250 | awk '$1 == 65536 { print "ib_write_bw-64KiB-MB/s", $4 * 1.048576 }'
  both ib_write_bw -d rxe0 -x 1 -F -s 262144 -n 64 | awk '$1 == 262144 { print "ib_write_bw-256KiB-MB/s", $4 * 1.048576 }'
  both ib_send_lat -d rxe0 -x 1 -F -s 8 -n 1000 |
    awk '$1 == 8 { print "ib_send_lat-8B-mean-us", $6; print "ib_send_lat-8B-median-us", $5 }'
  pipes verbs
}

beside_ucx() {
  export UCX_TLS=rc,self UCX_NET_DEVICES=rxe0:1
  both ucx_perftest -f -v -t ucp_am_bw -s 65536 -n 250 | awk -F, '$1 + 0 > 0 { print "ucx_perftest-am-64KiB-MB/s", $6 * 1.048576 }'
  both ucx_perftest -f -v -t ucp_am_lat -s 8 -n 1000 | awk -F, '$1 + 0 > 0 { print "ucx_perftest-am-8B-us", $4 }'
  pipes ucx
}

# open_mpi COLLECTIVE BYTES:CALLS...
open_mpi() {
  mpirun --allow-run-as-root --oversubscribe -n 2 --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any \
    -x UCX_TLS=rc,self -x UCX_NET_DEVICES=rxe0:1 "$build/perf/rdma_mpi" "$@" |
    awk -F, -v n="$1" 'NF == 3 { print n "-" $1 "-open_mpi-us", $2 }'
}

# ours NAME COLLECTIVE BYTES:CALLS [OPTION...]: in place, as NAME, and out of place. As many calls go before as are
# measured, as the other side does it: emulated processors take several times as long for what they meet first.
ours() {
  local name=$1 collective=$2 size=$3
  HOCKET_TRANSPORTS=verbs "$build/perf/${collective}_perf" --ranks 2 -b "${size%:*}" -e "${size%:*}" -n "${size#*:}" -w "${size#*:}" "${@:4}" |
    awk -v c="$collective" -v n="$name" '$1 ~ /^[0-9]+$/ { print c "-" $1 "-" n "-us", $10; print c "-" $1 "-" n "-out-us", $6 }'
}

beside_mpi() {
  local size
  open_mpi all_reduce 8:200 65536:50 1048576:10
  for size in 8:200 65536:50 1048576:10; do
    HOCKET_TUNING_FILE=/tmp/tuning ours hocket all_reduce "$size"
    ours model all_reduce "$size"
  done
  ours registered all_reduce 1048576:10 -R 1
  open_mpi all_gather 1048576:10
  ours model all_gather 1048576:10
  ours registered all_gather 1048576:10 -R 1
}

# ---- On the host

# Of the values of each name.
medians() {
  grep -E '^[^ ]+(us|MB/s) [0-9.e+]+$' | sort -k1,1 -k2,2g | awk '
    function tell() { if (n) printf "%-32s %10.4g   (%.4g to %.4g)\n", name, values[int((n + 1) / 2)], values[1], values[n] }
    $1 != name { tell(); name = $1; n = 0 }
    { values[++n] = $2 }
    END { tell() }'
}

measure() {
  case $1 in
    ports)
      "$here/tests/rdma/guest.sh" -n 2 -p 2 "$build" tests/rdma/rdma_test --gtest_filter='PortLoss.*' |
        tee "$build/rdma_ports.txt" | grep MB/s
      ;;
    *) "$here/tests/rdma/guest.sh" "$build" "$here/perf/rdma.sh" "$build" "$rounds" "$1" | tee "$build/rdma_$1.txt" | medians ;;
  esac
}

if [[ -n ${GUEST_ID:-} ]]; then
  for ((round = 0; round < rounds; round++)); do "beside_$1"; done
  exit
fi
mpicc -O2 -std=c11 "$here/perf/compare/bench.c" "$here/perf/compare/mpi_calls.c" -o "$build/perf/rdma_mpi"
if (($# == 0)); then set -- perftest ucx mpi ports; fi
for part in "$@"; do measure "$part"; done
