# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What `import torch` calls by itself (entry point torch.backends): it makes the backend "hocket" known. A package of its
own, so that torch does not load the library for those who never use it."""


def register():
    """Nothing is loaded before a process group is made."""
    import torch.distributed as dist
    if dist.is_available() and "hocket" not in dist.Backend.backend_list:
        dist.Backend.register_backend("hocket", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options, _):
    import hocket.distributed
    return hocket.distributed.create(options)
