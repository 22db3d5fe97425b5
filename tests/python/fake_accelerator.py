# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Makes a torch that was built without CUDA have two CUDA devices: fake_accelerator.cc, on the stand-in for the driver that
FAKE_DRIVER names."""
import ctypes
import hashlib
import os
import pathlib
import sys
import types

import torch

from hocket.distributed import _plugin

_HERE = pathlib.Path(__file__).parent
_ROOT = _HERE.parents[1]
_SOURCES = [_HERE / "fake_accelerator.cc", _ROOT / "tests/cuda/fake_driver.h", _ROOT / "src/cuda/driver.h"]


def _load():
    driver = os.environ["FAKE_DRIVER"]
    ctypes.CDLL(driver, ctypes.RTLD_GLOBAL)
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES)).hexdigest()[:12]

    def build(target):
        print(f"building {target}", file=sys.stderr, flush=True)
        _plugin.compile_module(target, _SOURCES[:1], driver, _ROOT, _ROOT / "src")

    path = _plugin.cached(f"fake_accelerator-{torch.__version__}-{digest}.so", build)
    return _plugin.import_file("_fake_accelerator", path)


torch.cuda._lazy_init = lambda: None  # pylint: disable=protected-access
torch.cuda.get_device_capability = lambda device=None: (9, 0)
_module = _load()
torch.accelerator.is_available = lambda: True
torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
torch.cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=_module.stream_handle(device.index))
busy = _module.busy
is_idle = _module.is_idle
use_device = _module.use_device
use_new_stream = _module.use_new_stream
