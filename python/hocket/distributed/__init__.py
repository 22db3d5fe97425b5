# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The backend of torch.distributed: init_process_group("hocket").

`import torch` registers it by itself once the package is installed; from a source tree, import this module. Where no launcher
has told torch who it is, hocket.distributed.init_process_group() finds out.
"""
import datetime

from hocket import _interrupt, _library
from hocket_entry import register


def options(*, reproducibility=None):
    """`pg_options` for init_process_group(), new_group() and their like. `reproducibility`: "fast", "ordered" or "exact"
    (docs/reproducibility.md); by default as HOCKET_REPRODUCIBILITY says. The same on all ranks."""
    return _options(_library.reproducibility_code(reproducibility))


def init_process_group(backend="hocket", **options):
    """torch.distributed.init_process_group() with its options, under every launcher that docs/launching.md names."""
    from hocket.distributed import meeting
    meeting.init_process_group(backend, **options)


def create(given, pg_options):
    """The backend for one process group, of torch's DistributedBackendOptions and of options()."""
    from hocket.distributed import _plugin
    plugin = _plugin.load()
    _interrupt.listen(plugin.interrupt)
    chosen = getattr(pg_options, "reproducibility", _library.REPRODUCIBILITY[None])
    return plugin.Backend(given.store, given.group_rank, given.group_size, _options(chosen, given.timeout),
                          given.group_id or "group")


def _options(reproducibility, timeout=datetime.timedelta(0)):
    from hocket.distributed import _plugin
    return _plugin.load().Options(timeout, reproducibility)


register()
