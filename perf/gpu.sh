#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# gpu.sh pack BUILD FOLDER: what the checks need, gathered for a machine that can install nothing.
# gpu.sh run FOLDER RESULTS [PART]...: the checks that need a GPU, or some of them; each appends a line of JSON. Whatever one does,
# the next runs.
set -euo pipefail
readonly limit=60 # seconds for one program
readonly parts="joint codecs collectives windows packets grid pipes faults torch backend sanitizer"

pack() {
  local build=$1 folder=$2 library
  rm -rf "$folder"
  mkdir -p "$folder/bin" "$folder/lib/hocket"
  cp "$build/tool/hocket" "$folder/bin/"
  cp -L "$build/src/api/libhocket.so.0" "$folder/lib/"
  cp -L "$build/src/nccl/lib/libnccl.so.2" "$folder/lib/hocket/"
  cp "$build/kernels/cuda/kernels.fatbin" "$folder/lib/"
  # All but what belongs to the C library and the compiler, of which the other machine's are newer or as new.
  while read -r library; do cp -L "$library" "$folder/lib/"; done < <(
    ldd "$build/tool/hocket" "$build/src/api/libhocket.so.0" | awk '$3 ~ /^\// { print $3 }' | sort -u |
      grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libhocket)\.so')
  strip --strip-debug "$folder"/bin/* "$folder"/lib/*.so* "$folder"/lib/hocket/*
}

program() { # NAME RANKS COMMAND...
  local status=0
  timeout -k 2 "$limit" "${@:3}" >>"$results" </dev/null || status=$?
  printf '{"program": "%s", "ranks": %s, "status": %s}\n' "$1" "$2" "$status" >>"$results"
}

ranks() { # NAME RANKS [OPTION OF hocket run]... python3 PROGRAM...
  program "$1" "$2" "$folder/bin/hocket" run -n "$2" --plain "${@:3}"
}

joint() { # all ranks in one process
  ranks joint 1 --nccl python3 perf/gpu_joint.py
}

codecs() {
  HOCKET_DEVICE_CODECS=on HOCKET_COMPRESSION=always ranks codecs 2 python3 perf/gpu_codecs.py "$folder/lib/kernels.fatbin"
}

collectives() {
  local count
  for count in 1 2 4 8; do ranks "collectives --nccl" "$count" --nccl python3 perf/gpu_checks.py collectives; done
}

windows() { # kernels reach memory that is no window, or not; and what takes a device for each rank: without and with packets, and by multicast
  local devices packets
  for count in 2 4; do HOCKET_DEVICE_PEERS=on ranks "windows, peers on" "$count" --nccl python3 perf/gpu_windows.py; done
  HOCKET_DEVICE_PEERS=off ranks "windows, peers off" 2 --nccl python3 perf/gpu_windows.py
  devices=$(nvidia-smi --list-gpus | wc -l)
  if ((devices < 2)); then
    printf '{"program": "ranks on devices of their own", "not run": "there is one device"}\n' >>"$results"
    return
  fi
  for packets in off on; do
    HOCKET_DEVICE_LOW_LATENCY=$packets ranks "windows, apart, packets $packets" "$devices" --nccl python3 perf/gpu_windows.py apart
  done
  HOCKET_DEVICE_MULTICAST=on ranks "windows, apart, multicast" "$devices" --nccl python3 perf/gpu_windows.py apart
}

packets() {
  program packets 8 python3 perf/gpu_packets.py "$folder/lib/kernels.fatbin"
}

grid() { # by kernels in each other's memory, and staged
  local peers
  for peers in on off; do
    HOCKET_DEVICE_PEERS=$peers HOCKET_REPRODUCIBILITY=ordered ranks "grid, peers $peers" 2 python3 perf/gpu_grid.py
  done
}

pipes() { # kernels in the memory of pipes: the host's bits; and their times, against staging
  local transport count pipes
  local -x HOCKET_DEVICE_PEERS=off HOCKET_TRANSPORTS HOCKET_DEVICE_PIPES
  for transport in shm:512 tcp:64; do
    HOCKET_TRANSPORTS=${transport%:*} HOCKET_DEVICE_PIPES=on
    HOCKET_REPRODUCIBILITY=ordered ranks "grid, pipes over $HOCKET_TRANSPORTS" 2 python3 perf/gpu_grid.py
    HOCKET_DEVICE_CODECS=on HOCKET_COMPRESSION=always ranks "codecs, pipes over $HOCKET_TRANSPORTS" 2 python3 perf/gpu_codecs.py "$folder/lib/kernels.fatbin"
    for count in 2 4; do
      for pipes in on off; do
        HOCKET_DEVICE_PIPES=$pipes
        ranks "pipes $pipes over $HOCKET_TRANSPORTS" "$count" python3 perf/gpu_pipes.py "${transport#*:}"
      done
    done
  done
}

faults() {
  HOCKET_TIMEOUT=5 ranks faults 2 --min 1 --restarts 0 python3 perf/gpu_faults.py
}

torch() { # PyTorch's NCCL backend
  local count
  for count in 1 2; do ranks "graph --nccl" "$count" --nccl python3 perf/gpu_checks.py graph; done
  ranks "train of its own" 1 python3 perf/gpu_checks.py train # by NCCL: its losses must be those of the next
  ranks "train --nccl" 1 --nccl python3 perf/gpu_checks.py train
  python3 perf/gpu_checks.py compare "$results" >>"$results"
  ranks "train --nccl" 4 --nccl python3 perf/gpu_checks.py train
}

backend() { # torch's backend `hocket`
  ranks "backend hocket" 2 python3 perf/gpu_backend.py
}

sanitizer() { # the kernels on small buffers
  local tool
  for tool in memcheck racecheck; do
    program "compute-sanitizer $tool" 1 "$folder/bin/hocket" run -n 1 --plain --nccl compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --kernel-name-exclude kernel_substring=at:: --log-file "$results.$tool" python3 perf/gpu_small.py "$folder/lib/kernels.fatbin"
  done
}

run() { # FOLDER RESULTS [PART]...
  folder=$1 results=$2
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PYTHONPATH=python HOCKET_DEVICE_PEERS=on
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader |
    awk -F', ' '{ printf "{\"device\": \"%s\", \"driver\": \"%s\"}\n", $1, $2 }' >>"$results"
  local part
  shift 2
  for part in ${*:-$parts}; do "$part"; done
  cat "$results"
}

case ${1:-} in
pack | run) "$@" ;;
*) sed -n 's/^# //p' "$0" | tail -n 3 && exit 2 ;;
esac
