#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# nccl_tests.sh BUILD HEADERS: NVIDIA's nccl-tests, unmodified, on Hocket's libnccl.so.2 and the stand-ins for CUDA's driver
# and runtime: every program with 1, 2 and 4 ranks as threads, as ranks of one thread, and as processes of MPI. They run
# without verifying (-c 0), which would take their kernels; that results are right is shown by tests of our own.
#
# NCCL_TESTS names the folder of their sources, which are not part of Hocket. Without it, the status is 77: skipped.
set -euo pipefail
readonly build=$1 headers=$2 limit=120 # seconds for one program
readonly mpi=/usr/lib/x86_64-linux-gnu/openmpi
readonly programs=(all_reduce all_gather broadcast reduce_scatter reduce alltoall scatter gather sendrecv hypercube)

skip() { echo "skipped: $1" && exit 77; }
[[ -n ${NCCL_TESTS:-} ]] || skip "NCCL_TESTS names no folder with the sources of nccl-tests"
command -v nvcc >/dev/null || skip "no nvcc"
command -v mpirun >/dev/null || skip "no mpirun"

work=$build/tests/nccl/nccl-tests
mkdir -p "$work/nccl/lib"
ln -sfn "$headers" "$work/nccl/include"
ln -sf "$build/src/nccl/lib/libnccl.so.2" "$work/nccl/lib/libnccl.so"
make -s -C "$NCCL_TESTS/src" MPI=1 MPI_HOME=$mpi NCCL_HOME="$work/nccl" BUILDDIR="$work" CUDA_HOME="$(dirname "$(dirname "$(command -v nvcc)")")" \
  NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90 -cudart shared"

export LD_LIBRARY_PATH=$build/tests/cuda/fake:$build/src/nccl/lib
runs=0
try() { # COMMAND of a program, with its arguments
  local output
  if ! output=$(timeout "$limit" "$@" -b 8 -e 256K -f 16 -n 2 -w 1 -c 0 2>&1) || [[ $output != *"Avg bus bandwidth"* ]]; then
    printf 'failed: %s\n%s\n' "$*" "$output" && exit 1
  fi
  runs=$((runs + 1))
}
for program in "${programs[@]}"; do
  for ways in "-t 1 -g 1" "-t 2 -g 1" "-t 4 -g 1" "-t 1 -g 4" "-t 2 -g 2"; do
    read -ra way <<<"$ways"
    try "$work/${program}_perf" "${way[@]}"
  done
  for ranks in 2 4; do
    try mpirun --allow-run-as-root --oversubscribe -np "$ranks" "$work/${program}_perf" -t 1 -g 1
  done
done
echo "$runs runs"
