#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Every measure of speed that is promised on hosts (docs/measures-speed.md), in one run of three quarters of an hour:

    perf/cells.py FOLDER

Runs ./dev compare on all cells, the types by turns, line rate, creation and memory, of the library in build/, keeps what they print in FOLDER,
and says of each measure what was asked and what came. What is in FOLDER already is not measured again. Needs root, a quiet machine of two cores
and nothing else that runs. Ratios are Hocket's time by the other's. Exits with 1 when a measure is not reached.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
KIB, MIB = 1 << 10, 1 << 20
SIZES = [4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 32 * MIB]
OTHERS = ["broadcast", "all_gather", "reduce_scatter", "alltoall"]
MORE = ["reduce", "sendrecv"]  # of which no figure is asked
ALL_PEERS = ["--rounds", "5", "--no-torch"]


def few_peers(rounds):
    """Without those that come to no end where ranks share cores."""
    return ["--rounds", str(rounds), "--leave-out", "MPICH,oneCCL", "--no-torch"]


def compared(transports, ranks, sizes, how, collectives=("all_reduce",)):
    return ["./dev", "compare", "--transports", transports, "--ranks", ranks, "--sizes", ",".join(map(str, sizes)), "--collectives", ",".join(collectives), *how]


COMPARES = {
    "two": compared("shm,window,tcp", "2", SIZES, ALL_PEERS),
    "others-of-two": compared("shm", "2", [64, 64 * KIB, 4 * MIB, 32 * MIB], ALL_PEERS, OTHERS + MORE),
    "many": compared("shm,window,tcp", "4,8", SIZES, few_peers(3)),
    "others-of-four": compared("shm", "4", [64, 64 * KIB, 4 * MIB, 32 * MIB], few_peers(7), OTHERS + MORE),  # their times depend on who runs when
    "longest": compared("shm,window,tcp", "2,4,8", [128 * MIB], few_peers(3)),
    "sixteen": compared("shm", "16", [4, 64 * KIB], few_peers(1)),
    "gloo": compared("tcp", "2,4", SIZES, ["--rounds", "3", "--leave-out", "MPICH,Intel,oneCCL,Open"]),
}
OUTPUTS = {
    "line-rate": ["perf/line_rate.sh", "build"],
    "init-2": ["build/tool/hocket", "run", "-n", "2", "build/perf/init_bench"],
    "init-64": ["build/tool/hocket", "run", "-n", "64", "build/perf/init_bench"],
    "instructions": ["python3", "perf/instructions.py", "build/perf/repeat"],
    **{f"memory-{ranks}": ["build/perf/alltoall_perf", "--ranks", str(ranks), "-b", "64M", "-e", "64M", "-n", "10", "-M", "1"] for ranks in (8, 16, 32, 64)},
}
TYPES = ["float", "bfloat16", "half"]
TURNS = 6


def run(command, path):
    """What it prints, from the file where it was kept."""
    if not path.exists():
        print(f"cells: {' '.join(command)}", file=sys.stderr, flush=True)
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode > 1:
            raise SystemExit(f"cells: {' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        path.write_text(done.stdout, encoding="utf-8")
    return path.read_text(encoding="utf-8")


class Cells:
    """All rows of the compares, and who asks for some of them."""

    def __init__(self, folder):
        self.rows = []  # (run, transport, ranks, collective, row)
        for name, command in COMPARES.items():
            run([*command, "--json", str(folder / f"{name}.json")], folder / f"{name}.txt")
            for result in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["results"]:
                self.rows += [(name, result["transport"], result["ranks"], result["collective"], row) for row in result["rows"]]

    def of(self, transport, ranks, least, most=128 * MIB, collectives=("all_reduce",), runs=None):
        names = runs or [name for name in COMPARES if name != "gloo"]
        return [(rank, collective, row) for name, over, rank, collective, row in self.rows
                if name in names and over == transport and rank in ranks and least <= row["bytes"] <= most and collective in collectives]


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


def beyond(cells, ratio_of, limit):
    """The worst ratio, and the cells that are beyond the limit."""
    ratios = [(ratio_of(row), f"{collective} of {size_text(row['bytes'])}, {ranks} ranks: {ratio_of(row):.2f}") for ranks, collective, row in cells]
    missed = [text for ratio, text in sorted(ratios, reverse=True) if round(ratio, 2) > limit]
    worst = f"{len(ratios)} cells, worst {max(ratios)[0]:.2f}"
    return worst + (f"; beyond: {'; '.join(missed)}" if missed else ""), not missed


def to_fastest(row):
    return row["to_fastest"]


def by_hand(row):
    return row["by_hand"]["ratio"]


def mean(cells):
    return statistics.geometric_mean(to_fastest(row) for _, _, row in cells)


def judge_compares(cells):
    """(asked, what came, whether that is enough) of each."""
    def cell(asked, which, ratio_of, limit):
        return (asked, *beyond(which, ratio_of, limit))

    for ranks in (2, 4, 8):
        which = cells.of("shm", [ranks], KIB)
        yield cell(f"shared memory, {ranks} ranks, 1 KiB to 128 MiB: at most 0.83 of the fastest peer in every cell", which, to_fastest, 0.83)
        yield f"... in the geometric mean 0.56, {ranks} ranks", f"{mean(which):.2f}", mean(which) <= 0.56
    yield cell("16 ranks: (no figure asked)", cells.of("shm", [16], 4), to_fastest, 1)
    windows = cells.of("window", [2], 64 * KIB)
    yield cell("windows, 2 ranks from 64 KiB: at most 0.33 of the fastest", windows, to_fastest, 0.33)
    yield cell("... and 1.25 of by hand", windows, by_hand, 1.25)
    yield cell("windows, 4 and 8 ranks from 512 KiB: at most 0.5", cells.of("window", [4, 8], 512 * KIB), to_fastest, 0.5)
    short = cells.of("shm", [2], 4, 64)
    yield cell("2 ranks, 4 to 64 B: not slower", short, to_fastest, 1)
    over = [1000 * (row["hocket_us"] - row["by_hand"]["time_us"]) for _, _, row in short]
    yield "... within 80 ns of *oneshot* near, 1.5 of it far", f"{max(over):.0f} ns beyond, {max(by_hand(row) for *_, row in short):.2f}", \
        max(over) <= 80 or max(by_hand(row) for *_, row in short) <= 1.5
    yield cell("8 ranks to 1 KiB: at most 0.67", cells.of("shm", [8], 4, KIB), to_fastest, 0.67)
    for runs, peers in ((None, "MPI"), (["gloo"], "Gloo")):
        which = cells.of("tcp", [2, 4], 4, runs=runs)
        yield cell(f"TCP, 2 and 4 ranks beside {peers}: never slower", which, to_fastest, 1)
        yield f"... in the geometric mean 0.83, beside {peers}", f"{mean(which):.2f}", mean(which) <= 0.83
    yield cell("TCP, 4 B between 2: at most 1.15 of one socket by hand", cells.of("tcp", [2], 4, 4), by_hand, 1.15)
    yield cell("TCP between 2 from 4 MiB: at most 1.05 of the best by hand", cells.of("tcp", [2], 4 * MIB), by_hand, 1.05)
    for least, most, limit in ((64 * KIB, 128 * MIB, 0.83), (64, 64, 1)):
        yield cell(f"the others over shared memory, 2 and 4 ranks, {size_text(least)}{' on' if most > least else ''}: at most {limit}",
                   cells.of("shm", [2, 4], least, most, OTHERS), to_fastest, limit)
    yield "reduce, and sends with receives, over shared memory: (no figure asked)", beyond(cells.of("shm", [2, 4], 64, collectives=MORE), to_fastest, 1)[0], True


def types(folder):
    """Of each type, size and place the median over the turns of its time by float32's in that turn, as the cores are moved between turns."""
    ratios = {}
    for turn in range(TURNS):
        times = {}
        for kind in TYPES:
            text = run(["build/perf/all_reduce_perf", "--ranks", "2", "-b", "64K", "-e", "32M", "-f", "8", "-n", "200", "-d", kind], folder / f"{kind}-{turn}.txt")
            for fields in (line.split() for line in text.splitlines() if re.match(r" +\d+ ", line)):
                for place, column in (("out of place", 5), ("in place", 9)):
                    times[kind, int(fields[0]), place] = float(fields[column])
        for (kind, size, place), time in times.items():
            if kind != TYPES[0]:
                ratios.setdefault(f"{kind}, {size_text(size)} {place}", []).append(time / times[TYPES[0], size, place])
    return {name: statistics.median(of) for name, of in ratios.items()}


def judge_outputs(folder):
    texts = {name: run(command, folder / f"{name}.txt") for name, command in OUTPUTS.items()}
    shares = [float(share) for share in re.findall(r": ([\d.]+) % of it", texts["line-rate"])]
    yield "TCP, 4 namespaces at 1 Gbit/s, 4 and 32 MiB: 98 % of the bound", ", ".join(f"{share} %" for share in shares), min(shares) >= 98
    ratios = types(folder)
    missed = [f"{name}: {ratio:.2f}" for name, ratio in ratios.items() if round(ratio, 2) > 1.1]
    yield "bfloat16 and float16: at most 1.10 of float32's time for as many bytes", \
        f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f}" + (f"; beyond: {'; '.join(missed)}" if missed else ""), not missed
    for ranks, most in ((2, 5), (64, 1000)):
        created, idle = re.search(r"created in ([\d.]+) ms; .*?, (-?\d+) KiB after an all-reduce of 8", texts[f"init-{ranks}"]).groups()
        yield f"created by {ranks} ranks in {most} ms", f"{created} ms; {idle} KiB more with a short all-reduce", float(created) <= most
    unit = {"KB": 1 / 1024, "MB": 1, "GB": 1024}
    for ranks in (8, 16, 32, 64):
        held, held_unit, budget, budget_unit = re.search(r"Pipes ([\d.]+) (\wB) of ([\d.]+) (\wB)", texts[f"memory-{ranks}"]).groups()
        yield f"{ranks} ranks that all send to all: pipes within 4 MiB x log2(ranks)", f"{held} of {budget} MiB", \
            float(held) * unit[held_unit] <= float(budget) * unit[budget_unit]
    yield "instructions of an 8-byte all-reduce: reported, and held by a test", texts["instructions"].splitlines()[-1], True


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    measures = [*judge_compares(Cells(folder)), *judge_outputs(folder)]
    print("| asked | came | |\n|---|---|---|")
    for asked, came, enough in measures:
        print(f"| {asked} | {came} | {'' if enough else '**not reached**'} |")
    missed = sum(not enough for *_, enough in measures)
    print(f"\n{len(measures)} measures, {missed} not reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
