# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The backend of torch.distributed: init_process_group("hocket").

`import torch` registers it by itself once the package is installed; from a source tree, import this module.
"""


def register():
    """Makes "hocket" known to torch.distributed. Cheap: nothing is loaded before a process group is made."""
    import torch.distributed as dist
    if dist.is_available() and "hocket" not in dist.Backend.backend_list:
        dist.Backend.register_backend("hocket", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options, _):
    from hocket import _interrupt
    from hocket.distributed import _plugin
    plugin = _plugin.load()
    _interrupt.listen(plugin.interrupt)
    return plugin.Backend(options.store, options.group_rank, options.group_size, options.timeout,
                          options.group_id or "group")


register()
