# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""How long work on a device takes: shared by the GPU checks (perf/gpu.sh)."""
import torch

WARM_UP, ROUNDS = 2, 5


def device_ms(body, stream=None):
    """Of one round on the device, on average; `body` works on `stream`, or else on torch's current one."""
    for _ in range(WARM_UP):
        body()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record(stream)
    for _ in range(ROUNDS):
        body()
    end.record(stream)
    end.synchronize()
    return begin.elapsed_time(end) / ROUNDS
