# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""hocket.named.Arrays for torch tensors in host memory."""
import torch

from hocket.named.arrays import adasum_shares


class TorchArrays:
    """One object for all calls: fusion buffers are kept by it."""

    def datatype(self, array):
        return str(array.dtype).removeprefix("torch.")

    def shape(self, array):
        return tuple(array.shape)

    def empty(self, shape, datatype):
        return torch.empty(shape, dtype=getattr(torch, datatype))

    def pack(self, parts, whole):
        with torch.no_grad():
            torch.cat([part.detach().reshape(-1) for part in parts], out=whole)

    def unpack(self, whole, parts):
        first = 0
        with torch.no_grad():
            for part in parts:
                part.view(-1).copy_(whole[first:first + part.numel()])
                first += part.numel()

    def part(self, array, first, count):
        return array.detach().view(-1)[first:first + count]

    def fill(self, array, value):
        array.fill_(value)

    def scale(self, array, factor):
        with torch.no_grad():
            if array.is_floating_point():
                array.mul_(factor)
            else:
                array.copy_(array.double().mul_(factor))

    def adasum(self, lower, upper, into):
        a, b = lower.double(), upper.double()
        lower_share, upper_share = adasum_shares(*(float(torch.dot(*each)) for each in ((a, b), (a, a), (b, b))))
        into.copy_(a.mul_(lower_share).add_(b.mul_(upper_share)))


ARRAYS = TorchArrays()
