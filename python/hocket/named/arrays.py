# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What the shared part needs of a framework's tensors; and that for NumPy. hocket.torch has the one for torch."""
import math
import typing


class Arrays(typing.Protocol):
    """Called on the engine's thread. Arrays are contiguous and in host memory, so that hocket.Communicator takes them."""

    def datatype(self, array) -> str:
        """As hocket.TYPES names it, or another name of the framework's own, such as bool."""

    def shape(self, array) -> tuple:
        """Its lengths."""

    def empty(self, shape, datatype: str):
        """A new one."""

    def pack(self, parts, whole):
        """Writes the elements of all parts, one after the other, into the flat `whole`."""

    def unpack(self, whole, parts):
        """The reverse."""

    def part(self, array, first, count):
        """A flat view of some elements."""

    def fill(self, array, value):
        """Sets all elements."""

    def scale(self, array, factor: float):
        """Multiplies all elements; whole numbers are truncated."""

    def adasum(self, lower, upper, into):
        """into = the Adasum of two flat arrays; `into` may be either of them."""


class NumpyArrays:
    """Arrays for numpy.ndarray."""

    def __init__(self):
        import numpy  # pylint: disable=import-outside-toplevel
        self._numpy = numpy

    def datatype(self, array):
        return array.dtype.name

    def shape(self, array):
        return array.shape

    def empty(self, shape, datatype):
        return self._numpy.empty(shape, datatype)

    def pack(self, parts, whole):
        self._numpy.concatenate([part.reshape(-1) for part in parts], out=whole)

    def unpack(self, whole, parts):
        first = 0
        for part in parts:
            part.reshape(-1)[:] = whole[first:first + part.size]
            first += part.size

    def part(self, array, first, count):
        return array.reshape(-1)[first:first + count]

    def fill(self, array, value):
        array[...] = value

    def scale(self, array, factor):
        array[...] = (array * factor).astype(array.dtype)

    def adasum(self, lower, upper, into):
        lower_share, upper_share = adasum_shares(*(float((a.astype("float64") * b).sum())
                                                   for a, b in ((lower, upper), (lower, lower), (upper, upper))))
        into[...] = lower_share * lower + upper_share * upper


def adasum_shares(product, lower_square, upper_square):
    """How much of each of two vectors their Adasum has: less of what both have (arXiv 2006.02924)."""
    def share(square):
        return 1 - product / (2 * square) if square > 0 and math.isfinite(square) else 1.0

    return share(lower_square), share(upper_square)
