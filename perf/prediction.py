#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""prediction.py BUILD: how well all-reduces are foretold and chosen on this machine, in pieces.

Virtual machines are moved about, and times of one latency mode say nothing of the other. So this measures in pieces of
a few seconds, each by a communicator that calibrates itself and then by `hocket tune`, keeps those pieces during which
the cores stayed near each other or far and others took little of the processors' time, and merges the times of each
mode. What is built in, and every calibration of the mode, are checked against them (medians over the calibrations).
What was the fastest of fifteen in one piece is not in the next: chosen is told over the fastest of the same times, which
is the luckiest, and over what every second piece says is the fastest, by the times of the others. --keep FOLDER
collects: a later run adds to what an earlier one measured.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

FAR_NS = 100  # from one core to the other
MOST_OTHERS = 0.05  # of the processors' time


class Others:
    """What others take of the processors' time, as a share of all, while the children of this process run."""

    def __init__(self):
        self.begin = self._now()

    @staticmethod
    def _now():
        with open("/proc/stat", encoding="ascii") as stat:
            busy = [int(word) for word in stat.readline().split()[1:9]]
        own = os.times()
        ticks = sum(busy) - busy[3] - busy[4]  # neither idle nor waiting for a disk
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), own.children_user + own.children_system

    def share(self):
        wall, busy, own = (now - then for now, then in zip(self._now(), self.begin))
        return max(0, busy - own) / (wall * os.cpu_count())


def measure(hocket, args, ranks, folder, number):
    """One piece: a calibration's file and times, in the folder of its mode."""
    (folder / "calibrated").unlink(missing_ok=True)  # of a run that was stopped
    environment = dict(os.environ, HOCKET_TUNING_FILE=str(folder / "calibrated"), HOCKET_LOG="info")
    if args.transports:
        environment["HOCKET_TRANSPORTS"] = args.transports
    others = Others()
    said = subprocess.run([hocket, "run", "-n", str(ranks), hocket, "topo", "--measure"], env=environment, check=True,
                          capture_output=True, text=True)
    took = re.search(r"measured for (\d+) ms", said.stdout + said.stderr)
    shares = [others.share()]
    others = Others()
    command = [hocket, "tune", "--ranks", str(ranks), "--to", args.to, "--factor", "4", "--seconds", str(args.seconds)]
    if args.transports:
        command += ["--transports", args.transports, "--socket"]
    report = subprocess.run(command + ["--check", "--save", str(folder / "times")], check=True, capture_output=True,
                            text=True).stdout
    apart = [int(ns) for ns in re.findall(r"are (\d+) ns apart", report)]
    modes = {"far" if ns > FAR_NS else "near" for ns in apart}
    shares.append(others.share())
    mode = "disturbed" if max(shares) > MOST_OTHERS else modes.pop() if len(modes) == 1 else "moved"
    place = folder / mode
    place.mkdir(exist_ok=True)
    name = f"{ranks}-{time.time_ns()}"
    (folder / "calibrated").rename(place / f"{name}.tuning")
    (folder / "times").rename(place / f"{name}.csv")
    print(f"{ranks} ranks, piece {number}: {mode}, {apart} ns, calibrated in {took.group(1) if took else '?'} ms, "
          f"others {100 * shares[0]:.0f} and {100 * shares[1]:.0f} %", flush=True)


def check(hocket, times, judge, tuning, cores, socket):
    """By a file or by what is built in: percent off in the median, what is chosen over the fastest, and by how much the
    judge's times differ from these in the median, in percent."""
    command = [hocket, "tune", "--check", "--samples", str(times), "--judge", str(judge), "--cores", str(cores)]
    if socket:
        command.append("--socket")
    if tuning:
        command += ["--out", str(tuning)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(re.search(pattern, report).group(1)) for pattern in
            (r"off by ([\d.]+) %", r"with this tuning: ([\d.]+)", r"differ from these by ([\d.]+) %")]


def merge(into, pieces):
    into.write_text("".join(piece.read_text() for piece in pieces))
    return into


def check_all(hocket, args, files, times, judge):
    """What check() says of what is built in, and the medians of what it says of each file."""
    built_in, *found = (check(hocket, times, judge, file, args.cores, args.transports) for file in [None, *files])
    return built_in, [statistics.median(column) for column in zip(*found)]


def report(hocket, args, folder):
    for mode in ("near", "far"):
        for ranks in args.ranks:
            pieces = sorted((folder / mode).glob(f"{ranks}-*.csv"))
            if not pieces:
                continue
            everything, even, odd = (merge(folder / f"{mode}-{ranks}-{name}.csv", part) for name, part in
                                     (("all", pieces), ("even", pieces[::2]), ("odd", pieces[1::2])))
            files = [piece.with_suffix(".tuning") for piece in pieces]
            built_in, found = check_all(hocket, args, files, everything, everything)
            text = f"{mode}, {ranks} ranks, {len(pieces)} pieces: built in {built_in[0]:.1f} % off, chosen {built_in[1]:.3f}"
            text += f"; calibrated {found[0]:.1f} % off, chosen {found[1]:.3f}"
            if len(pieces) > 1:
                halves = [check_all(hocket, args, files, *both) for both in ((even, odd), (odd, even))]
                chosen, calibrated = (statistics.geometric_mean(half[1] for half in kind) for kind in zip(*halves))
                text += f"; by what the other half says: chosen {chosen:.3f}, calibrated {calibrated:.3f}, " \
                        f"times {statistics.mean(half[0][2] for half in halves):.1f} % apart"
            print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--pieces", type=int, default=6, help="for each number of ranks; 0: report only")
    parser.add_argument("--seconds", type=float, default=5, help="of a piece, beside its calibration")
    parser.add_argument("--to", default="64M", help="the longest calls")
    parser.add_argument("--transports", default="", help="tcp, where messages shall go through sockets")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--keep", help="the folder that collects pieces")
    args = parser.parse_args()
    hocket = str(pathlib.Path(args.build, "tool", "hocket").resolve())
    with tempfile.TemporaryDirectory() as passing:
        folder = pathlib.Path(args.keep or passing)
        folder.mkdir(parents=True, exist_ok=True)
        for ranks in args.ranks:
            for number in range(args.pieces):
                measure(hocket, args, ranks, folder, number)
        report(hocket, args, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
