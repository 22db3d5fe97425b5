# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Ranks from within a program: run() does with a function what `hocket run` does with a program. Its parameters are those of
horovod.run()."""
import os
import pathlib
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Callable, Optional, Sequence

from hocket._errors import InvalidArgument

_CALL, _RESULT, _FAILURE = "call", "result", "failure"


def run(func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[dict[str, Any]] = None, num_proc: int = 1,
        min_num_proc: Optional[int] = None, max_num_proc: Optional[int] = None, slots: Any = None,
        reset_limit: Optional[int] = None, cooldown_range: Any = None, hosts: Optional[str] = None,
        hostfile: Optional[str] = None, start_timeout: Any = None, ssh_port: Any = None, ssh_identity_file: Any = None,
        disable_cache: Any = None, output_filename: Any = None, verbose: Any = None, use_gloo: Any = None,
        use_mpi: Any = None, mpi_args: Any = None, network_interface: Optional[str] = None,
        executable: Optional[str] = None, np: Optional[int] = None, min_np: Optional[int] = None,
        max_np: Optional[int] = None) -> list[Any]:
    """What func(*args, **kwargs) returns on each of `num_proc` ranks of this machine, in their order. RuntimeError tells what
    a rank raised.

    min_num_proc: as `hocket run --min`; then the results are those of the ranks that ended well, newcomers' last.
    reset_limit: as `hocket run --restarts`. hosts: may name this machine only, as "localhost:4". network_interface: as
    HOCKET_INTERFACE. executable: another Python. np, min_np, max_np: older names. What else Horovod takes is about its own
    launchers and does nothing here.
    """
    del slots, cooldown_range, start_timeout, ssh_port, ssh_identity_file, disable_cache, output_filename, verbose
    del use_gloo, use_mpi, mpi_args
    ranks = np if np is not None and num_proc == 1 else num_proc
    least = min_np if min_num_proc is None else min_num_proc
    most = max_np if max_num_proc is None else max_num_proc
    _check(ranks, most, hosts, hostfile)
    options = ["-n", str(ranks)]
    if least is not None:
        options += ["--min", str(least)]
        if reset_limit is not None:
            options += ["--restarts", str(reset_limit)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    if network_interface is not None:
        environment["HOCKET_INTERFACE"] = network_interface
    with tempfile.TemporaryDirectory(prefix="hocket-launch-") as name:
        folder = pathlib.Path(name)
        (folder / _CALL).write_bytes(_pickled((func, tuple(args), dict(kwargs or {}))))
        command = [_program(), "run", *options, executable or sys.executable, "-m", *_module(), name]
        status = subprocess.run(command, env=environment, check=False).returncode
        if status != 0:
            raise RuntimeError(f"hocket.launch.run: {_first_failure(folder) or f'the ranks ended with status {status}'}")
        return [pickle.loads(file.read_bytes()) for file in sorted(folder.glob(f"{_RESULT}.*"))]


def _check(ranks, most, hosts, hostfile):
    if ranks < 1:
        raise InvalidArgument(f"num_proc: {ranks}, and there must be one rank at least")
    if most is not None and most < ranks:
        raise InvalidArgument(f"max_num_proc: {most} is less than num_proc, {ranks}")
    if hostfile is not None:
        raise InvalidArgument(f"hostfile: '{hostfile}': ranks start on this machine only (docs/launching.md)")
    for host in hosts.split(",") if hosts else ():
        if host.partition(":")[0] not in ("localhost", "127.0.0.1", socket.gethostname()):
            raise InvalidArgument(f"hosts: '{host}' is another machine; ranks start on this one only (docs/launching.md)")


def _pickled(call):
    try:
        import cloudpickle  # functions of a notebook or of the program itself
    except ImportError:
        raise ImportError("hocket.launch.run needs cloudpickle: pip install cloudpickle") from None
    return cloudpickle.dumps(call)


def _module():
    """This one; where `import horovod` means Hocket it does in the ranks, too."""
    is_alias = getattr(sys.modules.get("horovod"), "run", None) is run
    return ["hocket.horovod_alias", __file__] if is_alias else ["hocket.launch"]


def _program():
    """The program `hocket`: beside this package (a wheel), or on the path."""
    beside = pathlib.Path(__file__).parent / "bin" / "hocket"
    found = str(beside) if beside.exists() else shutil.which("hocket")
    if found is None:
        raise FileNotFoundError("hocket.launch.run: the program `hocket` is neither in the package nor on the PATH")
    return found


def _first_failure(folder):
    """What the rank raised that failed first: it has often made others fail."""
    failures = sorted(folder.glob(f"{_FAILURE}.*"), key=lambda file: file.stat().st_mtime_ns)
    return failures[0].read_text() if failures else None


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
        told = traceback.format_exception_only(type(error), error)[-1].strip()
        _put(folder, _FAILURE, f"rank {os.environ.get('HOCKET_RANK', '(a newcomer)')}: {told}".encode())
        raise


if __name__ == "__main__":
    _be_a_rank(pathlib.Path(sys.argv[1]))
