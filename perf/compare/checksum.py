#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What HOCKET_CHECKSUM (or another setting that is on or off) costs: all-reduce between two processes with and without
it, in turns.

Over loopback, as if it led to another host (within one host nothing carries one), and, as root, between two network
namespaces whose links carry 1 Gbit/s. The fastest tenth of the calls of all rounds ends at the times that are shown: what
is slower, something else on the machine made slower.
Needs build/perf/all_reduce_perf.
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
HOSTS = ROOT / "tests/netns/hosts.sh"
SETTING = ["HOCKET_CHECKSUM"]
PREFIX = f"hkc{os.getpid() % 10000}x"


def times_of(report):
    rows = json.loads(report.read_text())["results"]
    report.unlink()  # all_reduce_perf overwrites no file
    return [time for row in rows for half in ("out_of_place", "in_place") for time in row[f"{half}_per_iter"]["times_us"]]


def options(size, calls, report):
    return ["-b", size, "-e", size, "-n", str(calls), "-w", "2", "-c", "0", "-I", "1", "-J", str(report)]


def run(rank_command, address, setting, size, calls, report):
    """Times of one run with a rank on each of two hosts, real or played."""
    processes = []
    for number in range(2):
        more = {"HOCKET_RANK": str(number), "HOCKET_SIZE": "2", "HOCKET_ADDRESS": address, "HOCKET_SECRET": "checksum",
                "HOCKET_HOST_ID": f"host-{number}", SETTING[0]: setting}
        command = [*rank_command(number), PROGRAM, *options(size, calls, report)]
        processes.append(subprocess.Popen(command, env=os.environ | more, stdout=subprocess.DEVNULL))
    if any([process.wait(timeout=120) for process in processes]):
        sys.exit("a rank failed")
    return times_of(report)


def over_loopback(*case):
    return run(lambda number: ["env", "HOCKET_INTERFACE=lo"], "127.0.0.1:4498", *case)


def over_slow_links(*case):
    return run(lambda number: ["ip", "netns", "exec", f"{PREFIX}{number}"], "10.77.0.1:4498", *case)


def compare(name, measure, cases, rounds):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        for size, calls in cases:
            times = {"off": [], "on": []}
            for _ in range(rounds):
                for setting, taken in times.items():
                    taken += measure(setting, size, calls, report)
            without, with_it = (statistics.quantiles(times[setting], n=10)[0] for setting in ("off", "on"))
            print(f"{name}, {size}: {without:.1f} us without, {with_it:.1f} us with {SETTING[0]}: "
                  f"{100 * (with_it / without - 1):+.1f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--setting", default=SETTING[0])
    wish = parser.parse_args()
    SETTING[0] = wish.setting
    rounds = wish.rounds
    compare("loopback", over_loopback, [("1K", 3000), ("64K", 1000), ("1M", 200), ("32M", 10)], rounds)
    if os.geteuid() != 0:
        print("1 Gbit/s: left out, network namespaces need root")
        return
    subprocess.run([HOSTS, "up", PREFIX, "2"], check=True)
    try:
        for host in range(2):
            subprocess.run(["ip", "netns", "exec", f"{PREFIX}{host}", "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf",
                            "rate", "1gbit", "burst", "128kb", "latency", "20ms"], check=True)
        compare("1 Gbit/s", over_slow_links, [("1K", 1000), ("1M", 50), ("32M", 3)], rounds)
    finally:
        subprocess.run([HOSTS, "down", PREFIX, "2"], check=True)


if __name__ == "__main__":
    main()
