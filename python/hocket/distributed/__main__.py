# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""python -m hocket.distributed: compiles the backend for the torch that is there, into the package, so that the first process
group need not. For images, and for torch that came after Hocket."""
import sys

from hocket.distributed import _plugin

try:
    print(_plugin.build_beside())
except ImportError as error:
    sys.exit(f"hocket: {error}")
