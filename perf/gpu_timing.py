# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""How long work on a device takes: shared by the GPU checks (perf/gpu.sh)."""
import functools
import statistics

import torch

WARM_UP, ROUNDS, SAMPLES = 2, 5, 3  # the same for all ranks: they make the same calls


@functools.cache
def wake():
    """An idle device's clocks take some 50 ms to rise."""
    source, target = torch.empty(2, 512 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(200):
        target.copy_(source)
    torch.cuda.current_stream().synchronize()


def sample_ms(body, stream):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record(stream)
    for _ in range(ROUNDS):
        body()
    end.record(stream)
    end.synchronize()
    return begin.elapsed_time(end) / ROUNDS


def device_ms(body, stream=None):
    """Of one round on the device, the median of some samples; `body` works on `stream`, or else on torch's current one. Waits for
    no other stream: another rank's, of this process, may have gone on and wait for this one."""
    wake()
    for _ in range(WARM_UP):
        body()
    (stream or torch.cuda.current_stream()).synchronize()
    return statistics.median(sample_ms(body, stream) for _ in range(SAMPLES))
