# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Sparse tensors, COO or CSR, and their sums (docs/codecs.md)."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

from hocket import _library
from hocket._buffers import buffer_of, same_type
from hocket._errors import Refusal, attributed
from hocket._library import call, handle_of, size_of
from hocket._operations import Op, operation_code

_COO, _CSR = 0, 1


class Sparse:
    """A tensor of rows * columns elements: `values` at `indices`, the others zero. COO: indices are row * columns + column,
    rising. CSR, with `offsets`: indices are columns, and those of a row begin at offsets[row]. Indices and offsets are of
    uint64 or int64. `nonzeros` (as many as there are indices, unless given) is how many are used; of a result it is set, and
    the arrays are the room."""

    def __init__(self, rows: int, columns: int, indices: Any, values: Any, offsets: Any = None,
                 nonzeros: Optional[int] = None) -> None:
        self.rows, self.columns = rows, columns
        self.indices, self.values, self.offsets = indices, values, offsets
        self.nonzeros = buffer_of("indices", indices).count if nonzeros is None else nonzeros


def _places(name, value, needed, writable):
    places = buffer_of(name, value, writable)
    if places.datatype not in ("uint64", "int64"):
        raise Refusal(f"{name}: elements of {places.datatype}, not uint64 or int64")
    if places.count < needed:
        raise Refusal(f"{name}: {places.count} elements, {needed} are needed")
    return places


def _raw(name, tensor, writable):
    """A tensor as C takes it, the buffer of its values, and what holds the rest of its memory."""
    if not isinstance(tensor, Sparse):
        raise Refusal(f"{name}: {type(tensor).__name__} is no hocket.Sparse")
    for part in ("rows", "columns", "nonzeros"):
        size_of(f"{name}.{part}", getattr(tensor, part))
    values = buffer_of(f"{name}.values", tensor.values, writable)
    indices = _places(f"{name}.indices", tensor.indices, tensor.nonzeros, writable)
    if values.count < tensor.nonzeros:
        raise Refusal(f"{name}.values: {values.count} elements, {tensor.nonzeros} are needed")
    offsets = None
    if tensor.offsets is not None:
        offsets = _places(f"{name}.offsets", tensor.offsets, tensor.rows + 1, writable)
    raw = _library.Sparse(ctypes.sizeof(_library.Sparse), _COO if offsets is None else _CSR, tensor.rows, tensor.columns,
                          min(values.count, indices.count) if writable else tensor.nonzeros,
                          offsets and offsets.address, indices.address, values.address)
    return raw, values, (indices, offsets)


class SparseSums:
    """Part of Communicator. Knows its handle and its place only."""

    handle: Any = None
    rank: int
    size: int

    @attributed
    def all_reduce_sparse(self, send: Sparse, recv: Sparse, op: Op = "sum") -> Sparse:
        """recv = the "sum" or "avg" of all ranks' sends. Where its room is too small the error says what is needed, and
        recv.nonzeros too."""
        raw, values, _send = _raw("send", send, False)
        result, room, _recv = _raw("recv", recv, True)
        same_type(values, room)
        try:
            call("AllReduceSparse", ctypes.byref(raw), ctypes.byref(result), values.code, operation_code(op), handle_of(self))
        finally:
            recv.nonzeros = result.nonzeros
        return recv

    @attributed
    def all_reduce_sparse_to_dense(self, send: Sparse, recv: Any, op: Op = "sum") -> Any:
        """The same with all elements: recv has rows * columns."""
        raw, values, _send = _raw("send", send, False)
        target = buffer_of("recv", recv, writable=True)
        same_type(values, target)
        if target.count != send.rows * send.columns:
            raise Refusal(f"recv: {target.count} elements, not {send.rows} rows of {send.columns}")
        call("AllReduceSparseToDense", ctypes.byref(raw), target.address, values.code, operation_code(op), handle_of(self))
        return recv

    @attributed
    def all_gather_sparse(self, send: Sparse, recv: Sequence[Sparse]) -> Sequence[Sparse]:
        """recv[i] = the send of rank i."""
        raw, values, _send = _raw("send", send, False)
        if not isinstance(recv, Sequence):
            raise Refusal(f"recv: {type(recv).__name__} is no list of tensors")
        if len(recv) != self.size:
            raise Refusal(f"recv: {len(recv)} tensors, there must be {self.size}, one for each rank")
        results = [_raw(f"recv[{rank}]", tensor, True) for rank, tensor in enumerate(recv)]
        for _, room, _ in results:
            same_type(values, room)
        array = (_library.Sparse * self.size)(*[result for result, _, _ in results])
        try:
            call("AllGatherSparse", ctypes.byref(raw), array, values.code, handle_of(self))
        finally:
            for tensor, result in zip(recv, array):
                tensor.nonzeros = result.nonzeros
        return recv
