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
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

_HERE = pathlib.Path(__file__).parent
_SOURCES = sorted((_HERE / "plugin").glob("*.cc"))
_MODULE = "_hocket_torch"
_WHAT = "the PyTorch backend of Hocket"


def _include():
    """Where hocket.h is: in the package (a wheel), or in the source tree."""
    for folder in (_HERE.parent / "include", _HERE.parents[2] / "include"):
        if (folder / "hocket" / "hocket.h").exists():
            return folder
    raise ImportError(f"hocket/hocket.h is neither in {_HERE.parent / 'include'} nor in the source tree")


def file_name():
    """Of the plug-in for this Python, this torch, these sources and this way to compile them."""
    import torch
    digest = hashlib.sha256(str(torch.compiled_with_cxx11_abi()).encode())
    for source in (pathlib.Path(__file__), *_SOURCES, *sorted((_HERE / "plugin").glob("*.h")), _include() / "hocket" / "hocket.h"):
        digest.update(source.read_bytes())
    return f"{_MODULE}-{torch.__version__}-{digest.hexdigest()[:12]}{sysconfig.get_config_var('EXT_SUFFIX')}"


def _flags():
    import torch
    from torch.utils import cpp_extension
    folders = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    return ["-std=c++20", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{_include()}",
            *(f"-isystem{folder}" for folder in folders)]


def _standard_library():
    """Torch's, to be linked with before the compiler's own, which some compilers link statically: streams of the one do not know
    the locales of the other, and who writes a number then crashes."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        mapped = (line.rstrip("\n").split(maxsplit=5)[-1] for line in maps)
        return [path for path in mapped if os.path.basename(path).startswith("libstdc++.so")][:1]


def _run(commands):
    """Runs them at once; what a failed one says becomes the error."""
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for command in commands]
    said = [process.communicate()[0] for process in started]
    for process, text in zip(started, said):
        if process.returncode != 0:
            raise ImportError(f"{_WHAT} cannot be built: {shlex.join(process.args)}\n{text}")


def _compiler():
    """The command, of which CXX may be another. What it needs is looked for first: its own words would be hard to read."""
    command = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if shutil.which(command[0]) is None:
        raise ImportError(f"{_WHAT} has to be compiled for this torch, once, and there is no C++ compiler '{command[0]}': "
                          "install one (Debian, Ubuntu: g++), or name it in CXX")
    headers = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(headers, "Python.h")):
        raise ImportError(f"{_WHAT} has to be compiled for this torch, once, and there is no Python.h in {headers}: install "
                          "Python's headers (Debian, Ubuntu: python3-dev)")
    return command


def build(target, library):
    """Compiles the plug-in to the path `target`, for the Hocket at the path `library`."""
    compile_module(target, _SOURCES, library)


def compile_module(target, sources, library, *folders):
    """Compiles a module of Python that uses torch and a library, with headers in the folders. Nearly all of that is torch's
    headers, so there are only as many pieces as cores, of several sources each."""
    from torch.utils import cpp_extension
    compiler = _compiler()
    flags = [*_flags(), *(f"-I{folder}" for folder in folders)]
    pieces = min(len(sources), len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(dir=pathlib.Path(target).parent, prefix="build-") as scratch:
        jobs = []
        for number in range(pieces):
            piece = pathlib.Path(scratch) / f"{number}.cc"
            piece.write_text("".join(f'#include "{source}"\n' for source in sources[number::pieces]), encoding="utf-8")
            jobs.append([*compiler, *flags, "-c", str(piece), "-o", str(piece.with_suffix(".o"))])
        _run(jobs)
        libraries = [*_standard_library(), *(f"-L{folder}" for folder in cpp_extension.library_paths())]
        linked = os.path.join(scratch, "linked")
        _run([[*compiler, "-shared", "-o", linked, *(job[-1] for job in jobs), *libraries, "-lc10", "-ltorch_cpu",
               "-ltorch_python", str(library)]])
        os.replace(linked, target)


def cached(name, make):
    """The path of a file that make(path) makes, once, in whichever process comes first; the others wait for it."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "hocket"
    target = folder / name
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / f"{name}.lock", "w", encoding="ascii")  # pylint: disable=consider-using-with
    except OSError as error:
        raise ImportError(f"{_WHAT} has to be compiled for this torch, once, and cannot be kept in {folder} ({error.strerror}): "
                          "name another place in XDG_CACHE_HOME") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            make(target)
    return target


def _build_once(target):
    from hocket import _library
    print(f"hocket: compiling the backend for this torch, once; other ranks wait for it: {target}", file=sys.stderr, flush=True)
    begin = time.monotonic()
    build(target, _library.path())
    print(f"hocket: that took {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


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


def build_beside():
    """Into the package, for all who use it: the path."""
    target = _HERE / file_name()
    if not target.exists():
        try:
            _build_once(target)
        except OSError as error:
            raise ImportError(f"{_WHAT} cannot be put into {_HERE} ({error.strerror or error}): whoever installed Hocket may do so; for "
                              "all others the first process group keeps one in their cache") from error
    return target


if __name__ == "__main__":  # _plugin.py FOLDER LIBRARY: for who builds the package, of which nothing is there yet
    build(pathlib.Path(sys.argv[1]) / file_name(), sys.argv[2])
