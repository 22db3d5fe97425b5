#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_small.py IMAGE: the library's kernels on small buffers of device 0, for compute-sanitizer: combines by ranks of one process,
and codecs, encoding and decoding.

Started by `hocket run -n 1 --nccl compute-sanitizer ... python3` (perf/gpu.sh); IMAGE is the file with the kernels. Prints a line of
JSON for each part: whether what came out is right.
"""
import sys

import torch

import gpu_codecs
from gpu_joint import FLOAT16, FLOAT32, Team

COUNTS = (1, 1003, 20001)
ELEMENTS = 100003


def check_combines():
    right = True
    for ranks in (1, 2, 4):
        team = Team(ranks)
        for dtype, torch_dtype in ((FLOAT32, torch.float32), (FLOAT16, torch.float16)):
            for count in COUNTS:
                # The second time off the line, and each rank elsewhere.
                for shift in (0, 1):
                    whole = [torch.full((count + ranks,), rank + 1, dtype=torch_dtype, device="cuda") for rank in range(ranks)]
                    tensors = [tensor[shift * rank:][:count] for rank, tensor in enumerate(whole)]
                    torch.cuda.synchronize()
                    team.all_reduce(tensors, dtype)()
                    torch.cuda.synchronize()
                    right = right and all(bool((tensor == ranks * (ranks + 1) // 2).all()) for tensor in tensors)
        team.close()
    gpu_codecs.tell(check="combines, small", right=right)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.cuda.set_device(0)
    check_combines()
    gpu_codecs.KERNEL_ELEMENTS = ELEMENTS
    gpu_codecs.check_all(gpu_codecs.Kernels(sys.argv[1]))


if __name__ == "__main__":
    main()
