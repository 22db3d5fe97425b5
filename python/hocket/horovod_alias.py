# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Scripts that say `import horovod.torch as hvd` run on Hocket unmodified:

    hocket run -n 4 python -m hocket.horovod_alias train.py --its --arguments

or `import hocket.horovod_alias` before the first import of horovod.
"""
import importlib
import os
import runpy
import sys
import types

from hocket import launch

VERSION = "0.28.1"  # of Horovod: whose names these are
_MODULES = {"horovod.torch": "hocket.torch", "horovod.torch.elastic": "hocket.torch.elastic",
            "horovod.torch.compression": "hocket.torch.compression",
            "horovod.torch.mpi_ops": "hocket.torch", "horovod.torch.functions": "hocket.torch.objects",
            "horovod.torch.sync_batch_norm": "hocket.torch.sync_batch_norm",
            "horovod.torch.optimizer": "hocket.torch.optimizer", "horovod.torch.elastic.sampler": "hocket.torch.elastic",
            "horovod.torch.elastic.state": "hocket.torch.elastic", "horovod.common.exceptions": "hocket.named.errors",
            "horovod.common.elastic": "hocket.named.elastic",
            "horovod.common.process_sets": "hocket.torch.basics", "horovod.common.util": "hocket.torch.basics",
            "horovod.runner": "hocket.launch"}


class _Finder:
    """Imports of horovod.* become ours; none of them imports torch before the script does."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """As the import system asks."""
        del path, target
        if name in _MODULES or name in ("horovod", "horovod.common"):
            return importlib.machinery.ModuleSpec(name, _Finder, is_package=True)
        return None

    @staticmethod
    def create_module(spec):
        """The real module, or a package for the names below it."""
        if spec.name not in _MODULES:
            module = types.ModuleType(spec.name)
            module.__version__ = VERSION
            module.run = launch.run
            return module
        return _facade(spec.name, importlib.import_module(_MODULES[spec.name]))

    @staticmethod
    def exec_module(module):
        """It has run under its own name."""


def _facade(name, real):
    # The import system writes its own attributes into what it gets: the real module must not be that.
    module = types.ModuleType(name, real.__doc__)
    module.__dict__.update({key: value for key, value in vars(real).items() if not key.startswith("__")})
    return module


def install():
    """From now on `import horovod` means Hocket, also in processes that multiprocessing spawns, which begin with our path."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
        sys.path.insert(1, os.path.join(os.path.dirname(__file__), "spawned"))


install()

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m hocket.horovod_alias SCRIPT [ARGUMENT...]")
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))  # as `python SCRIPT` has it
    runpy.run_path(sys.argv[0], run_name="__main__")
