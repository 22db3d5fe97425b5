#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# gpu.sh pack BUILD FOLDER: what the checks need, gathered for a machine that can install nothing.
# gpu.sh run FOLDER RESULTS: the checks that need a GPU; each appends a line of JSON. Whatever one does, the next runs.
set -euo pipefail
readonly limit=60 # seconds for one program

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

run() {
  local folder=$1 results=$2 ranks status
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export HOCKET_DEVICE_PEERS=on
  check() { # RANKS CHECK [--nccl]
    local status=0
    timeout "$limit" "$folder/bin/hocket" run -n "$1" --plain ${3:+"$3"} python3 perf/gpu_checks.py "$2" >>"$results" || status=$?
    printf '{"program": "%s %s", "ranks": %s, "status": %s}\n' "$2" "${3:-of its own}" "$1" "$status" >>"$results"
  }
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader |
    awk -F', ' '{ printf "{\"device\": \"%s\", \"driver\": \"%s\"}\n", $1, $2 }' >>"$results"
  for ranks in 1 2 4 8; do check "$ranks" collectives --nccl; done
  status=0
  timeout "$limit" "$folder/bin/hocket" run -n 1 --plain --nccl python3 perf/gpu_joint.py >>"$results" || status=$?
  printf '{"program": "joint", "ranks": 8, "status": %s}\n' "$status" >>"$results"
  status=0
  PYTHONPATH=python HOCKET_COMPRESSION=always timeout "$limit" "$folder/bin/hocket" run -n 2 --plain \
    python3 perf/gpu_codecs.py "$folder/lib/kernels.fatbin" >>"$results" || status=$?
  printf '{"program": "codecs", "ranks": 2, "status": %s}\n' "$status" >>"$results"
  windows() { # RANKS on|off: kernels reach memory that is no window
    status=0
    HOCKET_DEVICE_PEERS=$2 timeout "$limit" "$folder/bin/hocket" run -n "$1" --plain --nccl python3 perf/gpu_windows.py >>"$results" || status=$?
    printf '{"program": "windows, peers %s", "ranks": %s, "status": %s}\n' "$2" "$1" "$status" >>"$results"
  }
  apart() { # what takes a device for each rank: without and with packets
    local devices packets
    devices=$(nvidia-smi --list-gpus | wc -l)
    ((devices > 1)) || printf '{"program": "ranks on devices of their own", "not run": "there is one device"}\n' >>"$results"
    for packets in off on; do
      ((devices > 1)) || return 0
      status=0
      HOCKET_DEVICE_LOW_LATENCY=$packets timeout "$limit" "$folder/bin/hocket" run -n "$devices" --plain --nccl \
        python3 perf/gpu_windows.py apart >>"$results" || status=$?
      printf '{"program": "windows, apart, packets %s", "ranks": %s, "status": %s}\n' "$packets" "$devices" "$status" >>"$results"
    done
  }
  for ranks in 2 4; do windows "$ranks" on; done
  windows 2 off
  status=0
  timeout "$limit" python3 perf/gpu_packets.py "$folder/lib/kernels.fatbin" >>"$results" || status=$?
  printf '{"program": "packets", "ranks": 8, "status": %s}\n' "$status" >>"$results"
  apart
  for ranks in 1 2; do check "$ranks" graph --nccl; done
  check 1 train # by NCCL: its losses must be those of the next
  check 1 train --nccl
  python3 perf/gpu_checks.py compare "$results" >>"$results"
  check 4 train --nccl
  cat "$results"
}

case ${1:-} in
pack | run) "$@" ;;
*) sed -n 's/^# //p' "$0" | tail -n 2 && exit 2 ;;
esac
