# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Kernels of the library's image, launched one by one."""
import ctypes

import torch

BLOCK_THREADS = 256


class Image:
    def __init__(self, path):
        torch.zeros(1, device="cuda")  # makes the context
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.library = ctypes.c_void_p()
        self.checked("cuLibraryLoadFromFile", ctypes.byref(self.library), path.encode(), None, None, 0, None, None, 0)

    def checked(self, function, *arguments):
        result = getattr(self.driver, function)(*arguments)
        if result != 0:
            raise RuntimeError(f"{function}: {result}")

    def find(self, symbol):
        kernel = ctypes.c_void_p()
        self.checked("cuLibraryGetKernel", ctypes.byref(kernel), self.library, symbol.encode())
        return kernel

    def launch_blocks(self, kernel, blocks, work):
        """On torch's current stream."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(work))
        self.checked("cuLaunchKernel", kernel, blocks, 1, 1, BLOCK_THREADS, 1, 1, 0,
                     ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), arguments, None)
