#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# gpu.sh pack BUILD FOLDER: what the checks need, gathered for a machine that can install nothing, also as FOLDER.tar.xz. NCCL_TESTS names the folder of
# the sources of NVIDIA's nccl-tests, NCCL a libnccl.so.2 of its own from 2.30.3 on, which lets ranks share a device: what is not named is not run.
# gpu.sh run FOLDER RESULTS [PART]...: the checks that need a GPU, or some of them; each appends lines of JSON. Whatever one does, the next
# runs. Parts that time nothing run side by side, and those that do after them, one by one. Beside RESULTS: what programs complained of.
set -euo pipefail
readonly beside="sanitizer nccl_tests torch backend grid arrays faults locks"
readonly alone="joint codecs packets collectives windows pipe_bits pipes backend_times nccl nccl_times"
readonly nccl_programs="all_reduce all_gather reduce_scatter broadcast reduce alltoall gather scatter sendrecv hypercube"

pack() {
  local build folder=$2 library
  build=$(realpath "$1")
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
  [[ -z ${NCCL_TESTS:-} ]] || pack_nccl_tests "$build" "$folder/nccl_tests"
  if [[ -n ${NCCL:-} ]]; then
    mkdir "$folder/nccl"
    python3 perf/one_arch.py "$NCCL" 90 "$folder/nccl/libnccl.so.2"
  fi
  tar -C "$(dirname "$folder")" -c "$(basename "$folder")" | xz -T0 -3 >"$folder.tar.xz"
  touch "$folder"
}

unpack() { # FOLDER, if what was packed is newer
  [[ $1.tar.xz -nt $1 ]] || return 0
  rm -rf "$1"
  python3 -m tarfile -e "$1.tar.xz" "$(dirname "$1")"
  touch "$1"
}

pack_nccl_tests() { # BUILD FOLDER
  local work=$1/nccl-tests cuda=${CUDA_HOME:-/usr/local/cuda}
  mkdir -p "$work/nccl/lib" "$2"
  ln -sfn "$PWD/include/nccl" "$work/nccl/include"
  ln -sf "$1/src/nccl/lib/libnccl.so.2" "$work/nccl/lib/libnccl.so"
  make -s -C "$NCCL_TESTS/src" DSO=1 MPI=0 NCCL_HOME="$work/nccl" BUILDDIR="$work/out" CUDA_HOME="$cuda" \
    NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90 -cudart shared"
  cp -L "$work"/out/*_perf "$work/out/verifiable/libverifiable.so.0" "$cuda"/lib64/libcudart.so.[0-9]* "$2/"
  cc -O1 -shared -fPIC perf/one_device.c -o "$2/one_device.so"
  strip --strip-debug "$2"/*
}

program() { # NAME RANKS COMMAND...: what it prints is appended when it has ended, so that programs may run beside each other
  local status=0 printed begin=$SECONDS
  printed=$(mktemp "$results.XXXXXX")
  timeout -k 2 "$limit" "${@:3}" >"$printed" 2>"$printed.errors" </dev/null || status=$?
  printf '{"program": "%s", "ranks": %s, "status": %s, "seconds": %s}\n' "$1" "$2" "$status" $((SECONDS - begin)) >>"$printed"
  cat "$printed" >>"$results"
  [[ ! -s $printed.errors ]] || { printf -- '---- %s, %s ranks\n' "$1" "$2" && cat "$printed.errors"; } >>"$results.errors"
  rm "$printed" "$printed.errors"
}

ranks() { # NAME RANKS [OPTION OF hocket run]... python3 PROGRAM...
  program "$1" "$2" "$folder/bin/hocket" run -n "$2" --plain "${@:3}"
}

threads() { # NAME RANKS PROGRAM...: ranks of one process. A kernel that is loaded at its first launch waits for streams that wait for ranks
  THREADS=$2 CUDA_MODULE_LOADING=EAGER program "$1, threads" "$2" python3 "${@:3}"
}

not_run() { # NAME WHY
  printf '{"program": "%s", "not run": "%s"}\n' "$1" "$2" >>"$results"
}

# ---- What times nothing

sanitizer() { # the library's kernels on small buffers; what the driver refuses is the library's to judge
  local tool
  for tool in memcheck racecheck; do
    program "compute-sanitizer $tool" 1 "$folder/bin/hocket" run -n 1 --plain --nccl compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --report-api-errors no --kernel-name kernel_substring=hocket_ --log-file "$results.$tool" \
      python3 perf/gpu_small.py "$folder/lib/kernels.fatbin" &
  done
  wait
}

# One rank, and ranks of one thread. Not ranks as threads: theirs wait for the whole device, and so for each other's calls. Steps of hypercube come
# together in one group there, though each needs the one before.
nccl_tests() {
  [[ -e $folder/nccl_tests ]] || { not_run nccl_tests "pack had no NCCL_TESTS" && return; }
  local way name
  for way in "-t 1 -g 1" "-t 1 -g 2" "-t 1 -g 4"; do
    for name in $nccl_programs; do
      [[ $name == hypercube && $way == *4 ]] || nccl_test "$name" "$folder/lib/hocket" "$way -f 2 -n 2 -w 1"
    done &
  done
  wait
}

nccl_test() { # PROGRAM FOLDER_OF_LIBRARY OPTIONS [times]: whether all elements are right by its own judgement, and the table of what is out of place
  local output status=0
  # shellcheck disable=SC2086 # the options are several words
  output=$(LD_PRELOAD=$folder/nccl_tests/one_device.so LD_LIBRARY_PATH=$folder/nccl_tests:$2:$LD_LIBRARY_PATH \
    timeout -k 2 "$limit" "$folder/nccl_tests/$1_perf" $3 -p 1 -b 8 -e 64M -c 1 2>&1 </dev/null) || status=$?
  printf '%s\n' "$1 $3 of $2, status $status" "$output" >>"$results.nccl_tests"
  awk -v name="nccl-tests $1" -v options="$3" -v library="${2##*/}" -v status="$status" -v times="${4:-}" '
    BEGIN { line = "{\"check\": \"" name "\", \"library\": \"" library "\", \"options\": \"" options "\"" }
    times != "" && $1 ~ /^[0-9]+$/ { printf "%s, \"bytes\": %s, \"us\": \"%s\", \"busbw\": \"%s\", \"wrong\": \"%s\"}\n", line, $1, $6, $8, $9 }
    /Out of bounds values : 0 OK/ { right = 1 }
    END { printf "%s, \"status\": %d, \"right\": %s}\n", line, status, right && status == 0 ? "true" : "false" }' <<<"$output" >>"$results"
}

torch() { # PyTorch's NCCL backend
  ranks "train of its own" 1 python3 perf/gpu_checks.py train & # by NCCL: its losses must be those of the next
  ranks "train, graph --nccl" 1 --nccl python3 perf/gpu_checks.py train graph &
  ranks "graph --nccl" 2 --nccl python3 perf/gpu_checks.py graph &
  ranks "train --nccl" 4 --nccl python3 perf/gpu_checks.py train &
  wait
  # shellcheck disable=SC2094 # it reads all before it writes
  python3 perf/gpu_checks.py compare "$results" >>"$results"
}

backend() { # torch's backend `hocket`
  ranks "backend hocket" 2 python3 perf/gpu_backend.py training &
  HOCKET_COMPRESSION=always ranks "backend hocket, hooks" 2 python3 perf/gpu_backend.py hooks &
  HOCKET_TIMEOUT=10 ranks "backend hocket, failures" 2 --min 1 --restarts 0 python3 perf/gpu_backend.py failures &
  wait
}

grid() { # by kernels in each other's memory, and staged
  local peers
  for peers in on off; do
    HOCKET_DEVICE_PEERS=$peers HOCKET_REPRODUCIBILITY=ordered ranks "grid, peers $peers" 2 python3 perf/gpu_grid.py &
  done
  wait
}

arrays() { # the package hocket on torch's, CuPy's and other arrays, in their streams
  ranks arrays 2 python3 perf/gpu_arrays.py
}

faults() {
  HOCKET_TIMEOUT=10 ranks faults 2 --min 1 --restarts 0 python3 perf/gpu_faults.py
}

locks() { # what waits within the driver, and whether others can launch meanwhile
  program locks 1 python3 perf/gpu_locks.py "$folder/lib/kernels.fatbin"
}

# ---- What is timed

joint() { # all ranks in one process
  ranks joint 1 --nccl python3 perf/gpu_joint.py
}

nccl() { # the same by NCCL's own library, which lets ranks share a device: its kernels wait for each other, and must not queue behind each other
  [[ -e $folder/nccl ]] || { not_run nccl "pack had no NCCL" && return; }
  local limit=40 # it may hang
  local -x NCCL_MULTI_RANK_GPU_ENABLE=1 CUDA_DEVICE_MAX_CONNECTIONS=32 NCCL_MAX_CTAS=16 # eight ranks' blocks have room at once
  local -x NCCL_DEBUG=WARN NCCL_DEBUG_FILE=$results.nccl
  LD_PRELOAD=$folder/nccl/libnccl.so.2 program "joint, NCCL" 1 python3 perf/gpu_joint.py
}

codecs() {
  HOCKET_DEVICE_CODECS=on HOCKET_COMPRESSION=always ranks codecs 2 python3 perf/gpu_codecs.py "$folder/lib/kernels.fatbin"
}

packets() {
  program packets 8 python3 perf/gpu_packets.py "$folder/lib/kernels.fatbin"
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
    not_run "ranks on devices of their own" "there is one device"
    return
  fi
  for packets in off on; do
    HOCKET_DEVICE_LOW_LATENCY=$packets ranks "windows, apart, packets $packets" "$devices" --nccl python3 perf/gpu_windows.py apart
  done
  HOCKET_DEVICE_MULTICAST=on ranks "windows, apart, multicast" "$devices" --nccl python3 perf/gpu_windows.py apart
}

pipe_bits() { # kernels in the memory of pipes: the host's bits
  local transport
  local -x HOCKET_DEVICE_PEERS=off HOCKET_TRANSPORTS HOCKET_DEVICE_PIPES=on
  for transport in shm tcp; do
    HOCKET_TRANSPORTS=$transport
    HOCKET_REPRODUCIBILITY=ordered threads "grid, pipes over $transport" 2 perf/gpu_grid.py
    HOCKET_DEVICE_CODECS=on HOCKET_COMPRESSION=always threads "codecs, pipes over $transport" 2 perf/gpu_codecs.py
  done
}

pipes() { # kernels in the memory of pipes, against staging
  local transport pipes
  local -x HOCKET_DEVICE_PEERS=off HOCKET_TRANSPORTS HOCKET_DEVICE_PIPES
  for transport in shm:512 tcp:64; do
    for pipes in on off; do
      HOCKET_TRANSPORTS=${transport%:*} HOCKET_DEVICE_PIPES=$pipes
      threads "pipes $pipes over $HOCKET_TRANSPORTS" 4 perf/gpu_pipes.py "${transport#*:}"
    done
  done
}

backend_times() {
  ranks "backend hocket, times" 2 python3 perf/gpu_backend.py times
}

nccl_times() { # nccl-tests' all-reduce by Hocket and by NCCL's own library
  [[ -e $folder/nccl_tests ]] || { not_run nccl_times "pack had no NCCL_TESTS" && return; }
  local way library limit=15 # NCCL may hang
  local -x NCCL_MULTI_RANK_GPU_ENABLE=1 CUDA_DEVICE_MAX_CONNECTIONS=32 NCCL_DEBUG=WARN
  for way in "-t 1 -g 1" "-t 1 -g 2" "-t 1 -g 4"; do
    for library in lib/hocket nccl; do
      [[ ! -e $folder/$library ]] || nccl_test all_reduce "$folder/$library" "$way -f 2 -n 10 -w 2" times
    done
  done
}

run() { # FOLDER RESULTS [PART]...
  unpack "$1"
  folder=$(realpath "$1") results=$(realpath "$2") limit=120 # seconds for one program
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PYTHONPATH=python HOCKET_DEVICE_PEERS=on HOCKET_TIMEOUT=30
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader |
    awk -F', ' '{ printf "{\"device\": \"%s\", \"driver\": \"%s\"}\n", $1, $2 }' >>"$results"
  local part parts="${*:3}" timed=()
  for part in ${parts:-$beside $alone}; do
    [[ " $beside $alone " == *" $part "* ]] || { echo "no part $part: $beside $alone" >&2 && exit 2; }
    if [[ " $alone " == *" $part "* ]]; then timed+=("$part"); else { ("$part") || not_run "$part" "it failed"; } & fi
  done
  wait
  limit=60
  for part in "${timed[@]}"; do ("$part") || not_run "$part" "it failed"; done # what one exports is not the next one's
  cat "$results"
  echo "What is not right:"
  grep -E '"right": false|"failed"|"status": [1-9]' "$results" || echo nothing
}

case ${1:-} in
pack | run) "$@" ;;
*) sed -n 's/^# //p' "$0" | sed -n 3,6p && exit 2 ;;
esac
