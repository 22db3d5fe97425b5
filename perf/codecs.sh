#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# perf/codecs.sh BUILD [RATES [SIZES]]: compressed all-reduces of float32 (and lossless of bfloat16) between four network
# namespaces, against our own without a codec, whose turns come between. RATES (1gbit) of each namespace's link both
# ways and SIZES (32M) are lists of words; the rate "memory" stands for ranks of one host that share memory. Needs root,
# but for memory. Prints for each codec the time, the speed-up, what the bytes that were sent allow, and how much of
# that was reached. HOCKET_COMPRESSION=auto shows what the library does by itself; PER_HOST=2 puts two ranks into each
# of two namespaces; RANKS=2 takes two.
set -euo pipefail
readonly build=$1 rates=${2:-1gbit} sizes=${3:-32M} ranks=${RANKS:-4} rounds=${ROUNDS:-3} per_host=${PER_HOST:-1}
readonly hosts=$((ranks / per_host))
read -r -a codecs <<<"${CODECS:-fp16 int8 int4 topk:ratio=0.01 lossless/bfloat16}"
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=hkc$$
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# run RATE SIZE CODEC|"" TYPE: "microseconds bytes-sent", the median of a few calls.
run() {
  local rank host with=(-b "$2" -e "$2" -d "$4" -c 0 --percentiles)
  rm -f "$folder"/*
  [[ -z $3 ]] || with+=(--codec "$3")
  if [[ $1 == memory ]]; then
    "$build/perf/all_reduce_perf" --ranks "$ranks" "${with[@]}" -n 100 -w 10 --csv "$folder/0.csv" >"$folder/0" 2>&1
  else
    for ((rank = ranks - 1; rank >= 0; rank--)); do
      host=$((rank / per_host))
      env HOCKET_RANK=$rank HOCKET_SIZE=$ranks HOCKET_ADDRESS=10.77.0.1:4488 HOCKET_SECRET=codecs \
        HOCKET_HOST_ID=host-$host ip netns exec "$prefix$host" \
        "$build/perf/all_reduce_perf" "${with[@]}" -n 5 -w 1 --csv "$folder/$rank.csv" >"$folder/$rank" 2>&1 &
    done
    wait
  fi
  awk -F, '$6 == 0 {print $11, $14}' "$folder/0.csv" || { cat "$folder/0" >&2; return 1; }
}

export HOCKET_COMPRESSION=${HOCKET_COMPRESSION:-always}
if [[ $rates != memory ]]; then
  trap 'rm -rf "$folder"; "$here/tests/netns/hosts.sh" down "$prefix" "$hosts"' EXIT
  "$here/tests/netns/hosts.sh" up "$prefix" "$hosts"
fi
printf '%-10s %8s  %-18s %10s %9s %8s %8s\n' link size codec ms speed-up allowed reached
for rate in $rates; do
  [[ $rate == memory ]] || "$here/tests/netns/hosts.sh" shape "$prefix" "$hosts" "$rate"
  for size in $sizes; do
    for codec in "${codecs[@]}"; do
      type=float
      [[ $codec == */* ]] && type=${codec#*/}
      for ((round = 0; round < rounds; round++)); do
        echo "$(run "$rate" "$size" "" "$type") $(run "$rate" "$size" "${codec%/*}" "$type")"
      done | awk -v rate="$rate" -v size="$size" -v codec="$codec" -v ranks=$ranks \
        -v per_host=$per_host '
        function median(list, count,  i, j, x) {
          for (i = 2; i <= count; i++) for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
            x = list[j]; list[j] = list[j - 1]; list[j - 1] = x
          }
          return list[int((count + 1) / 2)]
        }
        {dense[NR] = $1; coded[NR] = $2; sent = $3}
        END {
          bytes = size * (size ~ /M$/ ? 1048576 : size ~ /K$/ ? 1024 : 1)
          won = median(dense, NR) / median(coded, NR)
          printf "%-10s %8s  %-18s %10.4f %9.3f", rate, size, codec, median(coded, NR) / 1000, won
          # With several ranks on a host the bytes of a rank do not say what crosses the link.
          may = sent > 0 ? 2 * (ranks - 1) / ranks * bytes / sent : 0
          if (per_host == 1 && may > 0) printf " %8.2f %7.0f%%", may, 100 * won / may
          print ""
        }'
    done
  done
done
