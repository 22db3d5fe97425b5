#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What HOCKET_REPRODUCIBILITY costs: all-reduce between processes of this host in its three modes, in turns.

The fastest tenth of the calls of all rounds ends at the times that are shown: what is slower, something else on the
machine made slower. Needs build/perf/all_reduce_perf.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/perf/all_reduce_perf"
MODES = ("fast", "ordered", "exact")
TYPES = ("half", "bfloat16", "float", "double")


def times(mode, kind, ranks, size, calls):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [PROGRAM, "-b", size, "-e", size, "-n", str(calls), "-w", "2", "-c", "0", "-I", "1", "-d", kind, "-J",
                   str(report)]
        more = {"HOCKET_SIZE": str(ranks), "HOCKET_ADDRESS": "127.0.0.1:4497", "HOCKET_SECRET": "exact",
                "HOCKET_REPRODUCIBILITY": mode}
        processes = [subprocess.Popen(command, env=os.environ | more | {"HOCKET_RANK": str(rank)},
                                      stdout=subprocess.DEVNULL) for rank in range(ranks)]
        if any([process.wait(timeout=120) for process in processes]):
            sys.exit("a rank failed")
        rows = json.loads(report.read_text())["results"]
    return [time for row in rows for time in row["out_of_place_per_iter"]["times_us"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2)
    wish = parser.parse_args()
    print(f"| all-reduce, {wish.ranks} ranks | {' | '.join(f'{mode}, us' for mode in MODES)} |")
    print("|---|" + "---:|" * len(MODES))
    for kind in TYPES:
        for size, calls in (("1K", 1000), ("1M", 20)):
            taken = {mode: [] for mode in MODES}
            for _ in range(wish.rounds):
                for mode, all_times in taken.items():
                    all_times += times(mode, kind, wish.ranks, size, calls)
            cells = (f"{statistics.quantiles(all_times, n=10)[0]:.1f}" for all_times in taken.values())
            print(f"| {kind}, {size} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
