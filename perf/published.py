#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Published measurements against the model: does it rank algorithms as they turned out?

published.py FOLDER HOCKET [-v]: FOLDER is a copy of github.com/HLC-Lab/pico, HOCKET the program `hocket`. For each machine
and library, the times of the algorithms that we have too become samples, and `hocket tune --samples` fits the costs of a
machine to them and tells how the model ranks them. Says which archives of FOLDER/results are not there or cannot be read.
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


class Results:
    """What lies in FOLDER/results: for each machine a list of tests, and an archive of each day's."""

    def __init__(self, folder):
        self.folder = folder / "results"
        self.read = 0
        self.lacking = []  # what is not there, or cannot be read, and why

    def machines(self):
        """(machine, tests)"""
        for metadata in sorted(self.folder.glob("*_metadata.csv")):
            try:
                yield metadata.name.removesuffix("_metadata.csv"), tests_of(metadata)
            except KeyError as column:
                self.lacking.append(f"{metadata.name}: {'Git LFS has it' if is_pointer(metadata) else f'no column {column}'}")

    def files_of(self, machine, tests):
        """(test, name, open file) of the archives that can be read"""
        for timestamp in sorted({timestamp for timestamp, _ in tests}):
            archive = self.folder / machine / f"{timestamp}.tar.gz"
            if not archive.exists() or is_pointer(archive):
                self.lacking.append(f"{machine}/{archive.name}: {'Git LFS has it' if archive.exists() else 'not there'}")
                continue
            try:
                with tarfile.open(archive) as tar:
                    for member in tar:
                        path = pathlib.PurePosixPath(member.name)
                        if member.isfile() and path.suffix == ".csv" and (timestamp, path.parent.name) in tests:
                            yield tests[timestamp, path.parent.name], path.stem, tar.extractfile(member)
                self.read += 1
            except (tarfile.TarError, EOFError, OSError) as error:
                self.lacking.append(f"{machine}/{archive.name}: {error}")

    def report(self, verbose):
        print(f"{self.read} archives in {self.folder} were read, {len(self.lacking)} were not"
              f"{':' if verbose and self.lacking else ' (-v tells which).' if self.lacking else '.'}")
        if verbose:
            print("\n".join(f"  {line}" for line in self.lacking))


def is_pointer(path):
    """What Git leaves in place of a large file."""
    with open(path, "rb") as file:
        return file.read(64).startswith(b"version https://git-lfs")


def samples(results):
    """(machine, library) -> {call and algorithm: times in us}, of one task a node"""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for machine, tests in results.machines():
        for (nodes, tasks, collective), stem, data in results.files_of(machine, tests):
            name = split_name(stem)
            ours, names = NAMES.get(collective, ("", {}))
            if name is None or tasks != 1 or nodes < 2 or name[1] not in names:
                continue
            size, theirs, library = name
            time = median_us(data)
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
        told = subprocess.run([hocket, "tune", "--whole", "--samples", file.name], capture_output=True, text=True,
                              check=True).stdout
    print(f"== {machine}, {library}: {len(lines)} times")
    print(told if "-v" in sys.argv else told[told.index("\nThe model"):].strip(), flush=True)
    ranked = re.search(r"Of (\d+) pairs .* it ranks ([\d.]+) % right", told)
    return int(ranked[1]), round(int(ranked[1]) * float(ranked[2]) / 100)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    results = Results(pathlib.Path(sys.argv[1]))
    found = samples(results)
    results.report("-v" in sys.argv)
    if not found:
        sys.exit(f"published.py: no times of ours in {results.folder}: is {sys.argv[1]} a copy of github.com/HLC-Lab/pico "
                 "with its large files (git lfs pull)?")
    counts = [report(machine, library, times, sys.argv[2]) for (machine, library), times in sorted(found.items())]
    pairs, right = (sum(column) for column in zip(*counts))
    print(f"All: of {pairs} pairs {right} ({100 * right / max(pairs, 1):.1f} %) are ranked right.")


if __name__ == "__main__":
    main()
