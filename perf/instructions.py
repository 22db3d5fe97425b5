#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Instructions of one repeated all-reduce of one element between 2 ranks, on one rank, under callgrind: the software's
share of the latency, which no noise of the machine touches.

The ranks take turns: who finds no message gives way, so that each call looks for its message about twice, however the
machine is. What only first calls cost falls out of the difference between many calls and few.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CALLS = 2000  # of each rank
ATTEMPTS = 5
CALL = "hocketAllReduce*"  # also the compressed one


def profile(program, calls, *arguments):
    """What callgrind writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        subprocess.run(["valgrind", "--tool=callgrind", "--fair-sched=yes", f"--callgrind-out-file={out}",
                        f"--toggle-collect={CALL}", program, str(calls), *arguments], check=True, capture_output=True, timeout=120,
                       env={**os.environ, "HOCKET_SPIN": "0"})
        return out.read_text(encoding="utf-8", errors="replace")


def total(text):
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[1])


def instructions(program, *arguments):
    """Of a repeated call; and the profile of many."""
    few, many = (profile(program, calls, *arguments) for calls in (CALLS // 10, CALLS))
    return (total(many) - total(few)) / (2 * (CALLS - CALLS // 10)), many


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program", type=pathlib.Path, help="build/perf/repeat")
    parser.add_argument("--codec", help="of calls with this codec, which does not pay between threads")
    parser.add_argument("--most", type=float, help=f"exit with 1 if each of {ATTEMPTS} attempts is above this")
    options = parser.parse_args()
    # Now and then a busy machine keeps a rank from its turn; a call that has become longer is so each time.
    for _ in range(ATTEMPTS):
        count, _ = instructions(options.program, *(["4", options.codec] if options.codec else []))
        print(f"{count:.0f} instructions a call")
        if not options.most or count <= options.most:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
