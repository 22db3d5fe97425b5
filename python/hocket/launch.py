# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Ranks from within a program: run() does with a function what `hocket run` does with a program. Its parameters are those of
horovod.run()."""
import contextlib
import importlib
import operator
import os
import pathlib
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Optional, Sequence

from hocket._errors import InvalidArgument, RemoteError

_CALL, _RESULT, _FAILURE, _CONSEQUENCE = "call", "result", "failure", "consequence"
_OTHERS_SECONDS = 1
_MOST_RANKS, _MOST_RESTARTS = 1024, 1 << 20  # of `hocket run`
_SAYS = b"hocket run: "
# Becomes `hocket run`, which the kernel ends with the thread that started it, and which then ends its ranks. In a process of
# its own, for in ours nothing can safely be done between fork and exec.
_LEASH = """import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[dict[str, Any]] = None, num_proc: int = 1,
        min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None, slots: Any = None,
        reset_limit: Optional[int] = None, cooldown_range: Any = None, hosts: Optional[str] = None,
        hostfile: Optional[str] = None, host_discovery_script: Optional[str] = None, start_timeout: Any = None,
        ssh_port: Any = None, ssh_identity_file: Any = None, disable_cache: Any = None, output_filename: Any = None,
        verbose: Any = None, use_gloo: Any = None, use_mpi: Any = None, mpi_args: Any = None,
        network_interface: Optional[str] = None, network_interfaces: Optional[Sequence[str]] = None,
        executable: Optional[str] = None, np: Optional[int] = None, min_np: Optional[int] = None,
        max_np: Optional[int] = None) -> list[Any]:
    """What func(*args, **kwargs) returns on each of `num_proc` ranks of this machine, in their order. RuntimeError tells what
    a rank raised, or which rank ended without a result.

    min_num_proc: as `hocket run --min`; then the results are those of the ranks that ended well, newcomers' last.
    reset_limit: as `hocket run --restarts`. hosts: may name this machine only, as "localhost:4". network_interfaces: as
    HOCKET_INTERFACE. executable: another Python. np, min_np, max_np, network_interface ("lo,eth0"): older names. What else
    Horovod takes is about its own launchers and does nothing here.
    """
    del slots, cooldown_range, start_timeout, ssh_port, ssh_identity_file, disable_cache, output_filename, verbose
    del use_gloo, use_mpi, mpi_args
    ranks = np if np is not None and num_proc == 1 else num_proc
    least = min_np if min_num_proc is None else min_num_proc
    most = max_np if max_num_proc is None else max_num_proc
    ranks = _whole("num_proc", ranks, 1, _MOST_RANKS)
    _check(ranks, least, most, reset_limit)
    _check_hosts(hosts, hostfile=hostfile, host_discovery_script=host_discovery_script)
    options = ["-n", str(ranks)]
    if least is not None:
        options += ["--min", str(least)]
        if reset_limit is not None:
            options += ["--restarts", str(reset_limit)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    interfaces = network_interface if network_interfaces is None else ",".join(network_interfaces)
    if interfaces is not None:
        environment["HOCKET_INTERFACE"] = interfaces
    with tempfile.TemporaryDirectory(prefix="hocket-launch-") as name:
        folder = pathlib.Path(name)
        (folder / _CALL).write_bytes(_pickled((func, tuple(args), dict(kwargs or {}))))
        python = executable or sys.executable
        status, said = _carried_out([python, "-I", "-S", "-c", _LEASH, str(os.getpid()), _program(), "run", *options, python,
                                     "-m", "hocket.launch", name, *_alias()], environment)
        if status != 0:
            raise RuntimeError(f"hocket.launch.run: {_first_failure(folder) or said or f'ended with status {status}'}")
        if least is None:
            _check_all_have_returned(folder, ranks)
        return [_result_of(file) for file in sorted(folder.glob(f"{_RESULT}.*"))]


def _whole(name, value, least, most):
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{name}: {value!r} is no whole number") from None
    if not least <= number <= most:
        raise InvalidArgument(f"{name}: {number} is not between {least} and {most}")
    return number


def _check(ranks, least, most, restarts):
    if least is not None:
        _whole("min_num_proc", least, 1, ranks)
    if most is not None and most < ranks:
        raise InvalidArgument(f"max_num_proc: {most} is less than num_proc, {ranks}")
    if restarts is not None:
        _whole("reset_limit", restarts, 0, _MOST_RESTARTS)
        if least is None:
            raise InvalidArgument(f"reset_limit: {restarts} needs min_num_proc; without it nothing is started again")


def _check_hosts(hosts, **ways_to_name_others):
    for name, value in ways_to_name_others.items():
        if value is not None:
            raise InvalidArgument(f"{name}: '{value}': ranks start on this machine only (docs/launching.md)")
    if hosts is not None and not isinstance(hosts, str):
        raise InvalidArgument(f"hosts: {hosts!r} is no text like 'localhost:4'")
    for host in hosts.split(",") if hosts else ():
        if host.partition(":")[0] not in ("localhost", "127.0.0.1", socket.gethostname()):
            raise InvalidArgument(f"hosts: '{host}' is another machine; ranks start on this one only (docs/launching.md)")


def _pickled(call):
    try:
        import cloudpickle  # functions of a notebook or of the program itself
    except ImportError:
        raise ImportError("hocket.launch.run needs cloudpickle: pip install cloudpickle") from None
    return cloudpickle.dumps(call)


def _alias():
    """Where `import horovod` means Hocket it does in the ranks, too: what they import before all else."""
    return ["hocket.horovod_alias"] if getattr(sys.modules.get("horovod"), "run", None) is run else []


def _program():
    """The program `hocket`: beside this package (a wheel), or on the path."""
    beside = pathlib.Path(__file__).parent / "bin" / "hocket"
    found = str(beside) if beside.exists() else shutil.which("hocket")
    if found is None:
        raise FileNotFoundError("hocket.launch.run: the program `hocket` is neither in the package nor on the PATH")
    return found


def _carried_out(command, environment):
    """Its exit status, and what `hocket run` said last: which rank ended how."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    said = b""
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        try:
            for line in process.stderr:
                said = line.removeprefix(_SAYS) if line.startswith(_SAYS) else said
                with contextlib.suppress(OSError):
                    os.write(2, line)
        except BaseException:
            process.terminate()
            raise
    return process.returncode, said.decode(errors="backslashreplace").strip()


def _check_all_have_returned(folder, ranks):
    missing = [str(rank) for rank in range(ranks) if not (folder / f"{_RESULT}.{rank:05}").exists()]
    if missing:
        raise RuntimeError(f"hocket.launch.run: no result of rank {', '.join(missing)}: it ended, with status 0, before the "
                           "function had returned")


def _result_of(file):
    place = file.name.partition(".")[2]
    try:
        return pickle.loads(file.read_bytes())
    except Exception as error:
        raise RuntimeError(f"hocket.launch.run: the result of rank {place.lstrip('0') or '0'} cannot be unpickled here: "
                           f"{type(error).__name__}: {error}") from error


def _first_failure(folder):
    """What the rank raised that failed first. It has often made others fail, and they may have told so earlier."""
    for kind in (_FAILURE, _CONSEQUENCE):
        failures = sorted(folder.glob(f"{kind}.*"), key=lambda file: file.stat().st_mtime_ns)
        if failures:
            return failures[0].read_text(encoding="utf-8")
    return None


def _put(folder, kind, content):
    """In one piece, as ranks are ended in the middle of it."""
    place = f"{int(os.environ['HOCKET_RANK']):05}" if "HOCKET_RANK" in os.environ else f"newcomer-{os.getpid()}"
    part = folder / f"part.{place}"
    part.write_bytes(content)
    part.rename(folder / f"{kind}.{place}")


def _be_a_rank(folder):
    try:
        func, args, kwargs = pickle.loads((folder / _CALL).read_bytes())
        _put(folder, _RESULT, _pickled(func(*args, **kwargs)))
    except BaseException as error:
        told = "".join(traceback.format_exception_only(type(error), error)).strip()
        told = f"rank {os.environ.get('HOCKET_RANK', '(a newcomer)')}: {told}"
        is_consequence = isinstance(error, RemoteError)
        _put(folder, _CONSEQUENCE if is_consequence else _FAILURE, told.encode(errors="backslashreplace"))
        if is_consequence:
            _let_others_tell(folder)
        raise


def _let_others_tell(folder):
    """When this rank ends, `hocket run` ends the others, and so the one that knows why, which may be slower to tell."""
    latest = time.monotonic() + _OTHERS_SECONDS
    while time.monotonic() < latest and not any(folder.glob(f"{_FAILURE}.*")):
        time.sleep(0.01)


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    _be_a_rank(pathlib.Path(sys.argv[1]))
