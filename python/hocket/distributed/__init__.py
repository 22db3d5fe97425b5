# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The backend of torch.distributed: init_process_group("hocket").

`import torch` registers it by itself once the package is installed; from a source tree, import this module.
"""
from hocket import _interrupt
from hocket_entry import register


def create(options):
    """The backend for one process group, of torch's DistributedBackendOptions."""
    from hocket.distributed import _plugin
    plugin = _plugin.load()
    _interrupt.listen(plugin.interrupt)
    return plugin.Backend(options.store, options.group_rank, options.group_size, options.timeout,
                          options.group_id or "group")


register()
