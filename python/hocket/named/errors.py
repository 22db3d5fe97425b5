# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What calls by name raise, beside hocket.Error. The names are those that Horovod's users catch."""
from hocket._errors import InvalidArgument, InvalidUsage


class HorovodInternalError(RuntimeError):
    """The ranks can no longer work together: one died, left, or shut down. elastic.run goes on without it."""


class Mismatch(HorovodInternalError, InvalidUsage):
    """Ranks gave one name to different calls, or one rank gave it twice. All ranks raise; everything stays of use."""


class NotInitialized(ValueError):
    """A call before init()."""

    def __init__(self):
        super().__init__("Horovod has not been initialized; use hvd.init().")


class HostsUpdatedInterrupt(RuntimeError):
    """Newcomers wait; elastic.run takes them in. `skip_sync`: the state need not be synchronized afterwards."""

    def __init__(self, skip_sync=False):
        super().__init__("newcomers wait")
        self.skip_sync = skip_sync


__all__ = ["HorovodInternalError", "HostsUpdatedInterrupt", "InvalidArgument", "Mismatch", "NotInitialized"]
