# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
#
# The best bus bandwidth in tables of the perf programs, each in a file named WORD-TRANSPORT-RANKS.log. The heading says
# which columns it stands in: options add others.
/^# +size +count / { many = 0; for (i = 2; i <= NF; ++i) if ($i == "busbw") columns[many++] = i - 1 }
/^ *[0-9]+ +[0-9]+ / {
  for (i = 0; i < many; ++i) if ($columns[i] + 0 > best) {
    best = $columns[i]; size = $1
    count = split(FILENAME, part, /[-.]/); transport = part[count - 2]; ranks = part[count - 1]
  }
}
END {
  if (!best) exit 1
  printf "Best bus bandwidth: %.2f GB/s (%d bytes, %d ranks, %s)\n", best, size, ranks, transport
}
