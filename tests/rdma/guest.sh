#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# guest.sh [-c] [-n GUESTS] [-p PORTS] [-t SECONDS] FOLDER COMMAND...: runs a command in one or more virtual machines that have
# one or two RDMA devices (Soft-RoCE, each over a network of its own) and see the files of this host: FOLDER, where the command runs, can be
# written. Prints what the command printed; exits with its largest exit status, or with 77 where there can be no guests, or they do not boot.
# What fails, or gives no answer in time, is tried once more, and that is said. Needs no root, but for -c: cards that take long packets from where
# they lie and cut them themselves, as real ones do.
# In the guests: GUEST_ID is 0, 1, ..., GUEST_COUNT their number, GUEST_PORTS that of their devices (rxe0, rxe1), and
# 10.77.0.1, 10.77.0.2, ... are their addresses (of the second network: 10.78.0.1, ...).
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
all=("$@")
guests=1 ports=1 seconds=270 cut=
while getopts cn:p:t: option; do
  case $option in
    c) cut=1 ;;
    n) guests=$OPTARG ;;
    p) ports=$OPTARG ;;
    t) seconds=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
readonly here guests ports seconds cut
folder=$(realpath "$1")
shift
kernel=$("$here/prepare.sh" "${GUEST_FOLDER:-$folder/guest}") || exit $?
# Such cards hang on a bridge, in a network namespace that goes when its last process does.
if [[ $cut && -z ${GUEST_NAMESPACE:-} ]]; then
  if ! [[ -c /dev/net/tun ]] || ! unshare --net true 2>/dev/null; then
    echo "skipped: no network namespace, or no /dev/net/tun, is to be had here"
    exit 77
  fi
  GUEST_NAMESPACE=1 exec unshare --net "$0" "${all[@]}"
fi
place=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$place"' EXIT

# What the guest runs, with the environment that tests are told things by.
write_main() {
  local id=$1
  shift
  cat <<MAIN
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
export GUEST_ID=$id GUEST_COUNT=$guests GUEST_PORTS=$ports
export UCX_UD_VERBS_ETH_DGID_CHECK=n # Soft-RoCE gives UCX another GID than it looks for
touch /control/started
$(export -p | grep -E '^declare -x (GTEST_|GRID_|TEST_|HOCKET_)' || true)
hostname guest$id
ip link set lo up
for port in $(seq -s ' ' 0 $((ports - 1))); do
  ip link set eth\$port mtu 4200
  ip address add 10.\$((77 + port)).0.$((id + 1))/24 dev eth\$port
  ip link set eth\$port up
  rdma link add rxe\$port type rxe netdev eth\$port
done
mkdir -p "$folder"
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none,msize=512000 folder "$folder"
cd "$folder"
ulimit -l unlimited
status=0
( $(printf '%q ' "$@") ) >/control/output 2>&1 </dev/null || status=\$?
echo \$status >/control/status
MAIN
}

# QEMU's arguments for the network cards of a guest. Each hangs on one wire of all guests; a single guest needs none.
cards() {
  local id=$1 port wire
  for ((port = 0; port < ports; port++)); do
    wire=hubport,hubid=$port
    if ((guests > 1)); then
      wire=socket,mcast=239.$((77 + port)).$((number / 256 % 256)).$((number % 256)):$((20000 + number % 20000)),localaddr=127.0.0.1
    fi
    if [[ $cut ]]; then wire=tap,ifname=tap$port$id,script=no,downscript=no; fi
    echo "-netdev $wire,id=net$port"
    echo "-device virtio-net-pci,netdev=net$port,romfile=,mac=52:54:00:7$((7 + port)):00:0$((id + 1)),host_mtu=9000"
  done
}

# What such cards hang on.
make_bridges() {
  local id port
  for ((port = 0; port < ports; port++)); do
    ip link add bridge$port mtu 9000 type bridge
    ip link set bridge$port up
    for ((id = 0; id < guests; id++)); do
      ip tuntap add tap$port$id mode tap
      ip link set tap$port$id mtu 9000 master bridge$port up
    done
  done
}

# The guests' clock is the HPET: on a busy machine Linux measures the TSC's rate wrongly while it boots, and time went two
# to four times as fast in such a guest, and all its time limits with it.
start() {
  local id=$1
  timeout "$seconds" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 \
    -nodefaults -no-user-config -no-reboot -display none -kernel "$kernel/vmlinux" -initrd "$kernel/first.img" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off clocksource=hpet tsc=unstable no_timer_check nowatchdog" -serial "file:$place/$id/console" \
    -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=root,mount_tag=root \
    -fsdev "local,id=control,path=$place/$id/control,security_model=none" \
    -device virtio-9p-pci,fsdev=control,mount_tag=control \
    -fsdev "local,id=folder,path=$folder,security_model=none,multidevs=remap" \
    -device virtio-9p-pci,fsdev=folder,mount_tag=folder \
    $(cards "$id") -device virtio-rng-pci </dev/null >"$place/$id/qemu" 2>&1 &
  pids+=($!)
}

# Prints what became of a guest; its exit status goes to `worst`, and none makes `stalled` 1.
report() {
  local id=$1 status
  if ((guests > 1)); then echo "guest $id:"; fi
  cat "$place/$id/control/output" 2>/dev/null || true
  if [[ -s $place/$id/control/status ]]; then
    status=$(<"$place/$id/control/status")
    worst=$((status > worst ? status : worst))
  else
    stalled=1
    [[ -e $place/$id/control/started ]] || started=0
    echo "guest $id gave no answer within $seconds s; its console and QEMU say:"
    tail -n 20 "$place/$id/console" "$place/$id/qemu" 2>/dev/null || true
  fi
}

run() {
  local id
  rm -rf "${place:?}"/*
  pids=() number=$((RANDOM * 2 + $$ % 2)) stalled=0 started=1 worst=0
  for ((id = 0; id < guests; id++)); do
    mkdir -p "$place/$id/control"
    write_main "$id" "$@" >"$place/$id/control/main"
    start "$id"
  done
  for id in "${pids[@]}"; do wait "$id" || true; done
  for ((id = 0; id < guests; id++)); do report "$id"; done
}

if [[ $cut ]]; then make_bridges; fi
run "$@"
# One in about ten runs of Soft-RoCE under emulation stalls for no reason of ours: what fails twice has failed.
if ((stalled || worst)); then
  echo "RETRY: $* failed in its guests and is tried once more"
  run "$@"
fi
if ((!started)); then
  # A machine that is too busy to boot says nothing of what was to be run.
  echo "skipped: a guest did not start within $seconds s, twice"
  exit 77
fi
((!stalled)) || exit 1
exit "$worst"
