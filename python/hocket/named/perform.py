# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Carries out what all ranks agreed on, on one communicator. Knows no negotiation."""
import math

import hocket
from hocket.named import adasum as adasum_
from hocket.named.call import Call


def substitute(request, arrays):
    """The call of a joined rank, which contributes nothing."""
    if request.kind == "barrier":
        return Call(request)
    shape = (0, *request.shape[1:]) if request.kind == "allgather" else request.shape
    zeros = arrays.empty(shape, request.datatype)
    arrays.fill(zeros, 0)
    codec = hocket.Codec(request.codec) if request.codec else None
    return Call(request, arrays, zeros, None if request.kind == "allgather" else zeros, codec)


def scattered_rows(rows, size):
    """How many rows of a reducescatter each rank gets: the first ones get one more."""
    return [rows // size + (rank < rows % size) for rank in range(size)]


class Performer:
    """`ranks`: of the communicator's ranks, the numbers that requests name as root."""

    def __init__(self, communicator, ranks, timeline):
        self._communicator = communicator
        self._ranks = ranks
        self._timeline = timeline
        self._whole = {}  # (arrays, datatype) -> fusion buffer

    def perform(self, entries, calls):
        """Ends each of the calls; `calls` fit the entries."""
        getattr(self, "_" + entries[0].request.kind)(entries, calls)

    # ---- One function for each kind

    def _allreduce(self, entries, calls):
        request = entries[0].request
        if request.op == "adasum":
            adasum_.check_ranks(self._communicator.size, request)
        if len(calls) == 1 and request.op != "adasum":
            self._reduce_alone(request, calls[0])
            return
        arrays = calls[0].arrays
        counts = [entry.request.count for entry in entries]
        whole = self._fusion_buffer(arrays, request.datatype, sum(counts))
        keys = [entry.key for entry in entries]
        with self._timeline.phase(keys, "MEMCPY_IN_FUSION_BUFFER"):
            arrays.pack([call.send for call in calls], whole)
        with self._timeline.phase(keys, "HOCKET_ALLREDUCE"):
            self._scaled(arrays, whole, request, lambda: self._reduce_whole(arrays, whole, counts, request))
        targets = [self._target(call, call.request.shape) for call in calls]
        with self._timeline.phase(keys, "MEMCPY_OUT_FUSION_BUFFER"):
            arrays.unpack(whole, targets)
        for call, target in zip(calls, targets):
            call.complete(target)

    def _reduce_whole(self, arrays, whole, counts, request):
        if request.op == "adasum":
            adasum_.adasum(self._communicator, arrays, whole, counts)
        else:
            self._communicator.all_reduce(whole, op=request.op)

    def _reduce_alone(self, request, call):
        target = self._target(call, request.shape)
        with self._timeline.phase([request.key], "HOCKET_ALLREDUCE"):
            if request.prescale == 1:
                source = call.send
            else:
                source = self._copied(call, target)
            self._scaled(call.arrays, target, request, lambda: self._all_reduce(source, target, request, call.codec))
        call.complete(target)

    def _all_reduce(self, source, target, request, codec):
        feeds_back = codec is not None and request.feedback
        self._communicator.all_reduce(source, target, op=request.op, codec=codec, key=request.key if feeds_back else None)

    def _allgather(self, entries, calls):
        (entry,), (call,) = entries, calls
        rest = entry.request.shape[1:]
        rows = [entry.requests[rank].shape[0] if rank in entry.requests else 0 for rank in range(len(self._ranks))]
        rows[self._communicator.rank] = call.arrays.shape(call.send)[0]
        target = self._target(call, (sum(rows), *rest))
        with self._timeline.phase([entry.key], "HOCKET_ALLGATHER"):
            self._communicator.all_gather_v(call.send, target, [each * math.prod(rest) for each in rows])
        call.complete(target)

    def _broadcast(self, entries, calls):
        (entry,), (call,) = entries, calls
        root = self._ranks.index(entry.request.root)
        target = self._target(call, entry.request.shape)
        with self._timeline.phase([entry.key], "HOCKET_BCAST"):
            if self._communicator.rank == root:
                self._copied(call, target)
            self._communicator.broadcast(target, root)
        call.complete(target)

    def _alltoall(self, entries, calls):
        (entry,), (call,) = entries, calls
        rank = self._communicator.rank
        rest = entry.request.shape[1:]
        received = [entry.requests[each].numbers[rank] for each in range(len(self._ranks))]
        target = self._target(call, (sum(received), *rest))
        row = math.prod(rest)
        with self._timeline.phase([entry.key], "HOCKET_ALLTOALL"):
            self._communicator.all_to_all_v(call.send, [row * each for each in entry.requests[rank].numbers], target,
                                            [row * each for each in received])
        call.complete((target, received))

    def _reducescatter(self, entries, calls):
        (entry,), (call,) = entries, calls
        request = entry.request
        rows = scattered_rows(request.shape[0], len(self._ranks))
        target = self._target(call, (rows[self._communicator.rank], *request.shape[1:]))
        source = call.send
        with self._timeline.phase([entry.key], "HOCKET_REDUCESCATTER"):
            if request.prescale != 1:
                source = self._copied(call, call.arrays.empty(request.shape, request.datatype))
                call.arrays.scale(source, request.prescale)
            self._communicator.reduce_scatter_v(source, target, [each * math.prod(request.shape[1:]) for each in rows],
                                                op=request.op)
            if request.postscale != 1:
                call.arrays.scale(target, request.postscale)
        call.complete(target)

    def _barrier(self, entries, calls):  # that all ranks have called it is what was negotiated
        del entries
        calls[0].complete(None)

    # ---- What they share

    @staticmethod
    def _target(call, shape):
        return call.arrays.empty(shape, call.request.datatype) if call.recv is None else call.recv

    @staticmethod
    def _copied(call, target):
        if target is not call.send:
            call.arrays.pack([call.send], call.arrays.part(target, 0, math.prod(call.arrays.shape(target))))
        return target

    @staticmethod
    def _scaled(arrays, target, request, reduce):
        if request.prescale != 1:
            arrays.scale(target, request.prescale)
        reduce()
        if request.postscale != 1:
            arrays.scale(target, request.postscale)

    def _fusion_buffer(self, arrays, datatype, count):
        whole = self._whole.get((arrays, datatype))
        if whole is None or math.prod(arrays.shape(whole)) < count:
            whole = self._whole[arrays, datatype] = arrays.empty((count,), datatype)
        return arrays.part(whole, 0, count)
