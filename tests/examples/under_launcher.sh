#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# under_launcher.sh LAUNCHER PROGRAM: runs the C example with four ranks and compares what it prints. Exit status 77:
# the launcher is not here.
set -euo pipefail
launcher=$1 program=$2

start_by_hand() {
  local rank pids=() port=$((20000 + $$ % 20000)) # below the range from which the kernel hands out ports
  for rank in 0 1 2 3; do
    HOCKET_RANK=$rank HOCKET_SIZE=4 HOCKET_ADDRESS=127.0.0.1:$port "$program" &
    pids+=($!)
  done
  for rank in 0 1 2 3; do wait "${pids[rank]}"; done
}

run() {
  case $launcher in
    none) "$program" ;;
    variables) start_by_hand ;;
    mpirun)
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 4 "$program"
      ;;
    mpiexec.hydra) mpiexec.hydra -n 4 "$program" ;;
    srun) "$(dirname "$0")/slurm.sh" srun --nodes 2 --ntasks 4 --overcommit "$program" ;;
    srun_pmi2) "$(dirname "$0")/slurm.sh" srun --mpi=pmi2 --nodes 2 --ntasks 4 --overcommit "$program" ;;
    torchrun) torchrun --nproc-per-node 4 --no-python "$program" ;;
  esac
}

is_here() {
  case $launcher in
    none | variables) ;;
    mpirun) mpirun --version 2>/dev/null | grep -q 'Open MPI' ;;
    srun | srun_pmi2) ((EUID == 0)) && command -v slurmctld >/dev/null && command -v munged >/dev/null ;;
    torchrun) torchrun --help >/dev/null 2>&1 ;;
    *) command -v "$launcher" >/dev/null ;;
  esac
}

is_here || {
  echo "$launcher is not installed here"
  exit 77
}
case $launcher in
  none) expected="rank 0 of 1: 0 1 2" ;;
  *) expected=$(printf 'rank %d of 4: 6 10 14\n' 0 1 2 3) ;;
esac
printed=$(run </dev/null)
if [[ $(sort <<<"$printed") != "$expected" ]]; then
  printf 'expected:\n%s\nprinted:\n%s\n' "$expected" "$printed"
  exit 1
fi
