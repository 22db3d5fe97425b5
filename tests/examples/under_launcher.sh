#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# under_launcher.sh LAUNCHER ANSWER PROGRAM...: runs an example with four ranks, each of which shall print "rank I of 4: ANSWER";
# without a launcher "rank 0 of 1: ANSWER". Exit status 77: the launcher is not here. TOOL: the program `hocket`.
set -euo pipefail
launcher=$1 answer=$2
program=("${@:3}")
# Open MPI 5, which starts its ranks by PMIx.
pmix_mpirun=$(dirname "$0")/../../build/peers/openmpi/bin/mpirun

# Ranks that know each other by variables: of our own, or as Kubeflow's jobs set them.
variables_of() {
  local rank=$1 port=$2 workers
  case $launcher in
    variables) echo "HOCKET_RANK=$rank HOCKET_SIZE=4 HOCKET_ADDRESS=127.0.0.1:$port" ;;
    pytorchjob) echo "RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port" ;;
    trainjob) echo "PET_NODE_RANK=$rank PET_NNODES=4 PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT=$port" ;;
    tfjob)
      workers='"worker":["127.0.0.1:1","127.0.0.1:2","127.0.0.1:3"]'
      local task='"type":"chief","index":0'
      ((rank == 0)) || task='"type":"worker","index":'$((rank - 1))
      echo "TF_CONFIG={\"cluster\":{\"chief\":[\"127.0.0.1:$port\"],$workers},\"task\":{$task}}"
      ;;
  esac
}

start_by_hand() {
  local rank pids=() port=$((20000 + $$ % 12000)) # below the range from which the kernel hands out ports
  for rank in 0 1 2 3; do
    # shellcheck disable=SC2046 # several variables
    env $(variables_of "$rank" "$port") "${program[@]}" &
    pids+=($!)
  done
  for rank in 0 1 2 3; do wait "${pids[rank]}"; done
}

run() {
  case $launcher in
    none) "${program[@]}" ;;
    variables | pytorchjob | tfjob | trainjob) start_by_hand ;;
    mpirun)
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 4 "${program[@]}"
      ;;
    mpirun_pmix)
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$pmix_mpirun" --oversubscribe -n 4 "${program[@]}"
      ;;
    prterun) "${pmix_mpirun%mpirun}prterun" --personality ompi --allow-run-as-root --map-by :OVERSUBSCRIBE -n 4 "${program[@]}" ;;
    mpiexec.hydra) mpiexec.hydra -n 4 "${program[@]}" ;;
    srun) "$(dirname "$0")/slurm.sh" srun --nodes 2 --ntasks 4 --overcommit "${program[@]}" ;;
    srun_pmi2) "$(dirname "$0")/slurm.sh" srun --mpi=pmi2 --nodes 2 --ntasks 4 --overcommit "${program[@]}" ;;
    srun_pmix) "$(dirname "$0")/slurm.sh" srun --mpi=pmix --nodes 2 --ntasks 4 --overcommit "${program[@]}" ;;
    torchrun) torchrun --nproc-per-node 4 --no-python "${program[@]}" ;;
    hocket_run) "$TOOL" run -n 4 --plain "${program[@]}" ;;
  esac
}

is_here() {
  case $launcher in
    none | variables | pytorchjob | tfjob | trainjob | hocket_run) ;;
    mpirun) mpirun --version 2>/dev/null | grep -q 'Open MPI' ;;
    mpirun_pmix | prterun) [[ -x $pmix_mpirun ]] ;;
    srun | srun_pmi2) ((EUID == 0)) && command -v slurmctld >/dev/null && command -v munged >/dev/null ;;
    srun_pmix) compgen -G '/usr/lib/*/slurm*/mpi_pmix*.so' >/dev/null && launcher=srun is_here ;;
    torchrun) torchrun --help >/dev/null 2>&1 ;;
    *) command -v "$launcher" >/dev/null ;;
  esac
}

is_here || {
  echo "$launcher is not installed here"
  exit 77
}
case $launcher in
  none) expected="rank 0 of 1: $answer" ;;
  *) expected=$(printf "rank %d of 4: $answer\n" 0 1 2 3) ;;
esac
printed=$(run </dev/null)
if [[ $(sort <<<"$printed") != "$expected" ]]; then
  printf 'expected:\n%s\nprinted:\n%s\n' "$expected" "$printed"
  exit 1
fi
