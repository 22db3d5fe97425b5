# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What is called by itself: by `import torch` (entry point torch.backends), to make the backend "hocket" known; and as the
program `hocket`. A package of its own, so that nobody loads the library who does not use it."""


def register():
    """Nothing is loaded before a process group is made."""
    import torch.distributed as dist
    if dist.is_available() and "hocket" not in dist.Backend.backend_list:
        dist.Backend.register_backend("hocket", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options, pg_options):
    import hocket.distributed
    return hocket.distributed.create(options, pg_options)


def program():
    """Becomes the program `hocket` that is in the package."""
    import importlib.util
    import os
    import sys
    path = os.path.join(os.path.dirname(importlib.util.find_spec("hocket").origin), "bin", "hocket")
    os.execv(path, [path, *sys.argv[1:]])
