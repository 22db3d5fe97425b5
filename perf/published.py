#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Published measurements against the model: does it rank algorithms as they turned out?

published.py FOLDER HOCKET: FOLDER is a copy of github.com/HLC-Lab/pico, HOCKET the program `hocket`. For each machine,
library and collective, the times of the algorithms that we have too become samples, and `hocket tune --samples` fits the
costs of a machine to them and tells how the model ranks them.
"""
import collections
import csv
import io
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile

# Their names for what we build; the library that they ran it in is another part of the name.
NAMES = {
    "ALLREDUCE": ("all_reduce", {"ring": "ring", "recursive_doubling": "recursive_doubling",
                                 "rabenseifner": "rabenseifner"}),
    "ALLGATHER": ("all_gather", {"ring": "ring", "recursive_doubling": "recursive_doubling", "bruck": "circulant"}),
    "REDUCE_SCATTER": ("reduce_scatter", {"ring": "ring", "recursive_halving": "recursive_halving"}),
    "BCAST": ("broadcast", {"binomial": "binomial", "chain": "chain", "pipeline": "chain", "linear": "direct"}),
    "REDUCE": ("reduce", {"binomial": "binomial", "chain": "chain", "pipeline": "chain", "linear": "direct"}),
    "ALLTOALL": ("all_to_all", {"linear": "direct", "pairwise": "pairwise", "bruck": "bruck"}),
    "GATHER": ("gather", {"binomial": "binomial", "linear": "direct"}),
    "SCATTER": ("scatter", {"binomial": "binomial", "linear": "direct"}),
}
LIBRARIES = ("ompi", "over", "mpich")
# They count what all ranks have together, we one rank's block.
BLOCKWISE = {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}


def tests_of(machine_metadata):
    """(timestamp, test) -> (nodes, tasks per node, collective)"""
    with open(machine_metadata, encoding="utf-8") as file:
        return {(row["timestamp"], row["test_id"]): (int(row["nnodes"]), int(row["tasks_per_node"]), row["collective_type"])
                for row in csv.DictReader(file)
                if row["nnodes"].isdigit() and row["tasks_per_node"].isdigit() and row["gpu_awareness"] == "no"}


def split_name(stem):
    """'131072_ring_ompi_int32' -> (131072, 'ring', 'ompi'); None for segmented ones and others that we have not."""
    parts = stem.split("_")
    if not parts[0].isdigit() or len(parts) < 4 or parts[-2] not in LIBRARIES or parts[-1] != "int32":
        return None
    return int(parts[0]), "_".join(parts[1:-2]), parts[-2]


def median_us(data):
    times = [int(line) for line in io.TextIOWrapper(data, encoding="utf-8") if line.strip().isdigit()]
    return statistics.median(times) / 1000 if times else None


def samples(folder):
    """(machine, library) -> lines for hocket, of one task a node"""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for metadata in sorted((folder / "results").glob("*_metadata.csv")):
        machine = metadata.name.removesuffix("_metadata.csv")
        tests = tests_of(metadata)
        for archive in sorted((folder / "results" / machine).glob("*.tar.gz")):
            with tarfile.open(archive) as tar:
                for member in tar:
                    path = pathlib.PurePosixPath(member.name)
                    name = split_name(path.stem)
                    if path.suffix != ".csv" or name is None or not member.isfile():
                        continue
                    timestamp = archive.name.removesuffix(".tar.gz")
                    nodes, tasks, collective = tests.get((timestamp, path.parent.name), (0, 0, ""))
                    ours, names = NAMES.get(collective, ("", {}))
                    size, theirs, library = name
                    if tasks != 1 or nodes < 2 or theirs not in names:
                        continue
                    time = median_us(tar.extractfile(member))
                    if time:
                        size = size // nodes if ours in BLOCKWISE else size
                        found[machine, library][ours, nodes, size, names[theirs]].append(time)
    return found


def report(machine, library, times, hocket):
    cells = collections.Counter((collective, ranks, size) for collective, ranks, size, _ in times)
    lines = [f"{collective},{algorithm},{ranks},{size},{statistics.median(values):.3f}"
             for (collective, ranks, size, algorithm), values in sorted(times.items())
             if cells[collective, ranks, size] > 1]
    if not lines:
        return 0, 0
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        told = subprocess.run([hocket, "tune", "--samples", file.name], capture_output=True, text=True,
                              check=True).stdout
    print(f"== {machine}, {library}: {len(lines)} times")
    print(told if "-v" in sys.argv else told[told.index("\nThe model"):].strip())
    ranked = re.search(r"Of (\d+) pairs .* it ranks ([\d.]+) % right", told)
    return int(ranked[1]), round(int(ranked[1]) * float(ranked[2]) / 100)


def main():
    counts = [report(machine, library, times, sys.argv[2])
              for (machine, library), times in sorted(samples(pathlib.Path(sys.argv[1])).items())]
    pairs, right = (sum(column) for column in zip(*counts))
    print(f"All: of {pairs} pairs {right} ({100 * right / pairs:.1f} %) are ranked right.")


if __name__ == "__main__":
    main()
