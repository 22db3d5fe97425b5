#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Instructions of one repeated 8-byte all-reduce between 2 ranks, on one rank, under callgrind: the software's share of
the latency, which no noise of the machine touches.

A rank that waits looks for its message again and again, as often as chance has it. A look costs always the same, so a
straight line through runs with different numbers of looks tells what a call costs beside them.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

CALLS = 2000  # of each rank
RUNS = 4
ATTEMPTS = 3
LOOK = "hocket::RingReceiver::peek()"
CALL = "hocketAllReduce"


def profile(program, calls, *arguments):
    """What callgrind writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        # Fair scheduling: else a rank that looks for a message keeps the other from sending it.
        subprocess.run(["valgrind", "--tool=callgrind", "--fair-sched=yes", f"--callgrind-out-file={out}",
                        f"--toggle-collect={CALL}", program, str(calls), *arguments], check=True, capture_output=True, timeout=120,
                       env={**os.environ, "HOCKET_SPIN": "1000000"})
        return out.read_text(encoding="utf-8", errors="replace")


def run(program, calls, *arguments):
    """(calls, instructions within them, looks) of both ranks."""
    return read(profile(program, calls, *arguments))


def read(text):
    names = {}
    counts = {CALL: 0, LOOK: 0}
    callee = None
    for line in text.splitlines():
        named = re.match(r"c?fn=\((\d+)\)(?: (.*))?", line)
        if named:
            name = names.setdefault(named[1], named[2])
            callee = name if line.startswith("cfn") else None
        elif line.startswith("calls=") and callee in counts:
            counts[callee] += int(line[6:].split()[0])
    total = int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[1])
    return counts[CALL], total, counts[LOOK]


def instructions(few, many):
    """(of a call with the one look that finds its message, of a further look); what only first calls cost falls out."""
    look = statistics.linear_regression([looks for _, _, looks in many], [total for _, total, _ in many]).slope

    def beside_looks(runs):
        return statistics.mean(total - (looks - calls) * look for calls, total, looks in runs)

    return (beside_looks(many) - beside_looks(few)) / (many[0][0] - few[0][0]), look


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program", type=pathlib.Path, help="build/perf/repeat")
    parser.add_argument("--most", type=float, help="exit with 1 if each of three attempts is above this")
    options = parser.parse_args()
    # A busy machine bends the line now and then; a call that has become longer is so each time.
    for _ in range(ATTEMPTS):
        few, many = ([run(options.program, calls) for _ in range(RUNS)] for calls in (CALLS // 10, CALLS))
        count, look = instructions(few, many)
        print(f"{count:.0f} instructions a call, {look:.1f} for each further look for its message")
        if not options.most or count <= options.most:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
