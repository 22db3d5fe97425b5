#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# slurm.sh COMMAND...: runs a command inside a Slurm of our own with two nodes, n1 and n2, both this host (which does not
# know these names, so HOCKET_ADDRESS is set). Needs root, slurm-wlm and munge. Nothing of it is left afterwards.
set -euo pipefail
readonly folder=$(mktemp -d /tmp/hocket-slurm.XXXXXX)
readonly base=$((20000 + $$ % 10000)) # below the range from which the kernel hands out ports
host=$(hostname -s)

stop() {
  local tries
  pkill -f "$folder" || true
  for ((tries = 0; tries < 30; ++tries)); do
    pgrep -f "$folder" >/dev/null || break
    sleep 0.1
  done
  pkill -KILL -f "$folder" || true
  rm -rf "$folder"
}
trap stop EXIT

cat >"$folder/slurm.conf" <<EOF
ClusterName=hocket
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TmpFS=$folder/tmp.%n
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=$(nproc)
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=$(nproc)
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
EOF
mkdir "$folder/state" "$folder/tmp.n1" "$folder/tmp.n2"
dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 status=none
chmod 0700 "$folder"
chmod 0400 "$folder/munge.key"
munged --force --key-file "$folder/munge.key" --socket "$folder/munge.socket" --pid-file "$folder/munged.pid" \
  --log-file "$folder/munged.log" --seed-file "$folder/munged.seed" >/dev/null 2>&1
export SLURM_CONF=$folder/slurm.conf
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF" -N n1
slurmd -f "$SLURM_CONF" -N n2
for ((tries = 0; tries < 100; ++tries)); do
  [[ $(sinfo --noheader --states idle --format %D 2>/dev/null) == 2 ]] && break
  sleep 0.1
done
HOCKET_ADDRESS=127.0.0.1:$((base + 3)) "$@"
