# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What `import horovod` finds in a process that was spawned where it means Hocket: the same."""
from hocket.horovod_alias import VERSION as __version__
from hocket.launch import run
