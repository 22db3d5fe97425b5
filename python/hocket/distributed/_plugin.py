# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The compiled half of the backend. It fits one release of torch only, so it is built for the torch that is there: when
the package is installed, or, if torch came later or is another one now, at the first use."""
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shlex
import subprocess
import sys
import sysconfig

_HERE = pathlib.Path(__file__).parent
_SOURCES = sorted((_HERE / "plugin").glob("*.cc"))
_MODULE = "_hocket_torch"


def _include():
    """Where hocket.h is: in the package (a wheel), or in the source tree."""
    for folder in (_HERE.parent / "include", _HERE.parents[2] / "include"):
        if (folder / "hocket" / "hocket.h").exists():
            return folder
    raise ImportError(f"hocket/hocket.h is neither in {_HERE.parent / 'include'} nor in the source tree")


def file_name():
    """Of the plug-in for this Python, this torch and these sources."""
    import torch
    digest = hashlib.sha256(str(torch.compiled_with_cxx11_abi()).encode())
    for source in (*_SOURCES, *sorted((_HERE / "plugin").glob("*.h")), _include() / "hocket" / "hocket.h"):
        digest.update(source.read_bytes())
    return f"{_MODULE}-{torch.__version__}-{digest.hexdigest()[:12]}{sysconfig.get_config_var('EXT_SUFFIX')}"


def _flags():
    import torch
    from torch.utils import cpp_extension
    folders = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    return ["-std=c++20", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{_include()}",
            *(f"-isystem{folder}" for folder in folders)]


def _run(commands):
    """Runs them at once; what a failed one says becomes the error."""
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for command in commands]
    said = [process.communicate()[0] for process in started]
    for process, text in zip(started, said):
        if process.returncode != 0:
            raise ImportError(f"the PyTorch backend of Hocket cannot be built: {shlex.join(process.args)}\n{text}")


def build(target, library):
    """Compiles the plug-in to the path `target`, for the Hocket at the path `library`."""
    compile_module(target, _SOURCES, library)


def compile_module(target, sources, library, *folders):
    """Compiles a module of Python that uses torch and a library, with headers in the folders. CXX names another compiler."""
    from torch.utils import cpp_extension
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    target = pathlib.Path(target)
    scratch = target.with_suffix(f".{os.getpid()}")
    scratch.mkdir(parents=True)
    flags = [*_flags(), *(f"-I{folder}" for folder in folders)]
    jobs = [[*compiler, *flags, "-c", str(source), "-o", str(scratch / f"{source.stem}.o")] for source in sources]
    cores = len(os.sched_getaffinity(0))
    for first in range(0, len(jobs), cores):
        _run(jobs[first:first + cores])
    libraries = [f"-L{folder}" for folder in cpp_extension.library_paths()]
    _run([[*compiler, "-shared", "-o", str(scratch / "linked"), *(job[-1] for job in jobs), *libraries, "-lc10",
           "-ltorch_cpu", "-ltorch_python", str(library)]])
    (scratch / "linked").rename(target)
    for file in scratch.iterdir():
        file.unlink()
    scratch.rmdir()


def cached(name, make):
    """The path of a file that make(path) makes, once, in whichever process comes first."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hocket"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    if target.exists():
        return target
    with open(folder / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            make(target)
    return target


def _build_once(target):
    from hocket import _library
    print(f"hocket: building the backend for this torch, once: {target}", file=sys.stderr, flush=True)
    build(target, _library.path())


def import_file(name, path):
    """The compiled module of that name, from a path that need not have it."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def load():
    """The module."""
    if _MODULE in sys.modules:
        return sys.modules[_MODULE]
    name = file_name()
    beside = _HERE / name
    return import_file(_MODULE, beside if beside.exists() else cached(name, _build_once))


if __name__ == "__main__":  # _plugin.py FOLDER LIBRARY: for who builds the package, of which nothing is there yet
    build(pathlib.Path(sys.argv[1]) / file_name(), sys.argv[2])
