# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Communicators: the collectives on anything that holds elements in memory of the host or of a CUDA device."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Callable, Optional, Sequence

from hocket import _library
from hocket._buffers import TYPES, buffer_of, same_type
from hocket._codec import Codec
from hocket._errors import Refusal, attributed
from hocket._interrupt import Interruptible
from hocket._library import call, choice_of, handle_of, int_of, integer_of, ints, sizes, text_of
from hocket._operations import Op, Operation, operation_code
from hocket._queue import Order, hold, stream_of
from hocket._recovery import Recovery
from hocket._sparse import SparseSums
from hocket._windows import Windows

_SCALARS = {"int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "int32": ctypes.c_int32, "uint32": ctypes.c_uint32,
            "int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "float32": ctypes.c_float, "float64": ctypes.c_double}
_HOST_SCALAR = 1
_PIPE_BUDGET, _PIPE_MEMORY = 0, 1
NO_COLOR = -1
# torch tensors, arrays of NumPy and CuPy, and whatever has the buffer protocol, an array interface or DLPack
Elements = Any


def unique_id() -> bytes:
    """128 bytes that all ranks of a new communicator need: an address and a secret key. One rank calls this."""
    value = _library.UniqueIdBytes()
    call("GetUniqueId", ctypes.byref(value))
    return bytes(value)


class Communicator(Recovery, Windows, SparseSums):
    """One rank of a group of ranks. Make it with join(), from_environment(), or all().

    Buffers are torch tensors, NumPy arrays, and whatever has the buffer protocol, __array_interface__,
    __cuda_array_interface__ or DLPack: contiguous, used without a copy. `queue` runs a call in the background; without it a
    call on host memory returns when it is done on this rank. A call on CUDA memory has its place in a CUDA stream, which
    may be named as `queue`; else it is torch's current one, or that of the array's interface, or the default stream (for
    arrays that have DLPack alone). Pinned memory of the host has to live until the stream has come so far. A `codec` encodes what
    is sent. Of truth values "sum" and "max" are "or", "prod" and "min" are "and". All ranks issue the same collectives in the same
    order. One thread at a time uses a communicator; abort() may come from any.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.rank: int = self._number("CommUserRank")
        self.size: int = self._number("CommCount")

    # ---- Making and ending

    @classmethod
    def join(cls, identity: bytes, rank: int, size: int, *, name: Optional[str] = None, timeout: Optional[float] = None,
             reproducibility: Optional[str] = None, algorithm: Optional[str] = None) -> Communicator:
        """Joins `size` ranks that hold the same unique_id(). `timeout`: seconds to wait for a rank that lives.
        `reproducibility`: "fast", "ordered" or "exact" (docs/reproducibility.md); `algorithm`: as HOCKET_ALGORITHM."""
        handle = _library.Handle()
        call("CommInitRankConfig", ctypes.byref(handle), int_of("size", size), _library.identity_of(identity),
             int_of("rank", rank),
             ctypes.byref(_library.config(name, timeout, reproducibility, algorithm)))
        return cls(handle)

    @classmethod
    def from_environment(cls, **options: Any) -> Communicator:
        """Joins the ranks that a launcher started: torchrun, mpirun, srun, horovodrun, or HOCKET_RANK and its like.
        Options as of join()."""
        handle = _library.Handle()
        call("CommInitFromEnvironment", ctypes.byref(handle), ctypes.byref(_library.config(**options)))
        return cls(handle)

    @classmethod
    def all(cls, size: int) -> list[Communicator]:
        """`size` ranks in this process, for a thread each or for groups."""
        handles = (_library.Handle * int_of("size", size, 31, signed=False))()
        call("CommInitAll", handles, size, None)
        return [cls(_library.Handle(handle)) for handle in handles]

    @attributed
    def split(self, color: int, key: int = 0, **options: Any) -> Optional[Communicator]:
        """Collective: ranks of equal color form a communicator, ordered by key, then rank. None with NO_COLOR. Options as of
        join()."""
        handle = _library.Handle()
        call("CommSplit", handle_of(self), int_of("color", color), int_of("key", key), ctypes.byref(handle),
             ctypes.byref(_library.config(**options)))
        return Communicator(handle) if handle else None

    @attributed
    def finalize(self) -> None:
        """Waits until all that was issued has ended on this rank. Only failure(), close() and abort() may follow."""
        call("CommFinalize", handle_of(self))

    def close(self) -> None:
        """Completes what is under way, takes leave of the others, and frees."""
        if self.handle:
            handle, self.handle = self.handle, None
            call("CommDestroy", handle)

    def abort(self) -> None:
        """Ends everything under way on all ranks with an error, in bounded time, and frees. Any thread."""
        if self.handle:
            handle, self.handle = self.handle, None
            call("CommAbort", handle)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __repr__(self) -> str:
        return f"<hocket.Communicator rank {self.rank} of {self.size}{'' if self.handle else ', closed'}>"

    @property
    def device(self) -> Optional[int]:
        """The CUDA device whose memory it works on; None: that of the host."""
        number = self._number("CommCuDevice")
        return None if number < 0 else number

    @property
    def pipe_budget(self) -> int:
        """Bytes that this rank's pipes should hold at most (HOCKET_PIPE_MEMORY)."""
        return self._memory(_PIPE_BUDGET)

    @property
    def pipe_memory(self) -> int:
        """Bytes that this rank's pipes hold now. They grow when calls are first large."""
        return self._memory(_PIPE_MEMORY)

    def _memory(self, stat):
        value = ctypes.c_uint64()
        call("CommMemStats", self.handle, stat, ctypes.byref(value))
        return value.value

    def _number(self, what):
        value = ctypes.c_int()
        call(what, self.handle, ctypes.byref(value))
        return value.value

    # ---- Operations

    @attributed
    def pre_mul_sum(self, scalar: float, datatype: str) -> Operation:
        """The sum of scalar * x, for collectives of that datatype ("float32", ...); the scalar is this rank's own."""
        value = _scalar_of(scalar, datatype, choice_of("datatype", datatype, _SCALARS))
        op = ctypes.c_int()
        call("RedOpCreatePreMulSum", ctypes.byref(op), ctypes.byref(value), TYPES[datatype], _HOST_SCALAR, handle_of(self))
        return Operation(self, op.value, None)

    @attributed
    def create_operation(self, function: Callable[[memoryview, memoryview], None], commutative: bool = True) -> Operation:
        """An operation of your own: function(lower, inout), two memoryviews of bytes, sets inout = lower op inout.

        It must be associative, and must not raise: an exception is printed and the result is undefined.
        """
        if not callable(function):
            raise Refusal(f"function: {function!r} cannot be called")
        element = {code: 1 << index for index, codes in enumerate(((0, 1, 10, 11), (6, 9), (2, 3, 7), (4, 5, 8)))
                   for code in codes}

        def callback(lower, inout, count, datatype, _):
            length = count * element[datatype]
            views = [memoryview((ctypes.c_char * length).from_address(at)).cast("B") for at in (lower, inout)]
            function(*views)

        kept = _library.ReduceFunction(callback)
        op = ctypes.c_int()
        call("RedOpCreate", ctypes.byref(op), kept, None, bool(commutative), handle_of(self))
        return Operation(self, op.value, kept)

    # ---- Collectives

    @attributed
    def all_reduce(self, send: Elements, recv: Elements = None, op: Op = "sum", *, codec: Optional[Codec] = None,
                   key: Optional[str] = None, queue: Order = None) -> Elements:
        """recv = send combined over all ranks; in place without recv. With a codec every message is encoded, and op is "sum" or
        "avg" (lossless ones: any); `key` names the tensor whose errors the codec keeps for its next values."""
        if codec is None:
            if key is not None:
                raise Refusal(f"key: '{key}' needs a codec that keeps something")
            return self._reducing("AllReduce", send, recv, op, queue)
        source, target = self._pair(send, recv)
        self.run("AllReduceCompressed", queue, (source, target, codec), source.address, target.address, source.count,
                  source.code, operation_code(op), _handle_of(codec), text_of("key", key))
        return send if recv is None else recv

    @attributed
    def scan(self, send: Elements, recv: Elements = None, op: Op = "sum", *, queue: Order = None) -> Elements:
        """recv = send combined over ranks 0 to this one."""
        return self._reducing("Scan", send, recv, op, queue)

    @attributed
    def exscan(self, send: Elements, recv: Elements = None, op: Op = "sum", *, queue: Order = None) -> Elements:
        """recv = send combined over the ranks before this one; rank 0's is untouched."""
        return self._reducing("ExScan", send, recv, op, queue)

    @attributed
    def reduce(self, send: Elements, recv: Elements = None, root: int = 0, op: Op = "sum", *,
               codec: Optional[Codec] = None, queue: Order = None) -> Elements:
        """As all_reduce, but only root receives (and returns what it received); elsewhere recv is not used."""
        root = int_of("root", root)
        source, target = self._pair(send, recv) if self.rank == root else (buffer_of("send", send), None)
        self.run("Reduce", queue, (source, target), source.address, target and target.address, source.count,
                  source.code, operation_code(op, source.datatype), root, codec=codec)
        if target is None:
            return None
        return send if recv is None else recv

    @attributed
    def broadcast(self, buffer: Elements, root: int = 0, *, codec: Optional[Codec] = None,
                  queue: Order = None) -> Elements:
        """Root's elements to all; with a codec, what they decode to, to root as well."""
        root = int_of("root", root)
        target = buffer_of("buffer", buffer, writable=self.rank != root or codec is not None)
        self.run("Broadcast", queue, (target,), target.address, target.address, target.count, target.code,
                 root, codec=codec)
        return buffer

    @attributed
    def all_gather(self, send: Elements, recv: Elements, *, codec: Optional[Codec] = None,
                   queue: Order = None) -> Elements:
        """recv = the sends of all ranks, one after the other."""
        source, target = self._parts("send", send, "recv", recv)
        self.run("AllGather", queue, (source, target), source.address, target.address, source.count, source.code,
                 codec=codec)
        return recv

    @attributed
    def reduce_scatter(self, send: Elements, recv: Elements, op: Op = "sum", *, codec: Optional[Codec] = None,
                       queue: Order = None) -> Elements:
        """send has a part for each rank; recv = this rank's part combined over all ranks."""
        target, source = self._parts("recv", recv, "send", send, whole_is_read=True)
        self.run("ReduceScatter", queue, (source, target), source.address, target.address, target.count, target.code,
                  operation_code(op, target.datatype), codec=codec)
        return recv

    @attributed
    def all_to_all(self, send: Elements, recv: Elements, *, codec: Optional[Codec] = None,
                   queue: Order = None) -> Elements:
        """send and recv have a part for each rank: part i goes to, and comes from, rank i."""
        source, target = buffer_of("send", send), buffer_of("recv", recv, writable=True)
        _same(source, target)
        self._divisible("send", source)
        self.run("AllToAll", queue, (source, target), source.address, target.address, source.count // self.size,
                  source.code, codec=codec)
        return recv

    @attributed
    def gather(self, send: Elements, recv: Elements = None, root: int = 0, *, queue: Order = None) -> Elements:
        """On root, recv = the sends of all ranks, one after the other."""
        root = int_of("root", root)
        source = buffer_of("send", send)
        target = self._parts("send", send, "recv", recv)[1] if self.rank == root else None
        self.run("Gather", queue, (source, target), source.address, target and target.address, source.count,
                  source.code, root)
        return recv

    @attributed
    def scatter(self, send: Elements, recv: Elements, root: int = 0, *, queue: Order = None) -> Elements:
        """Root's send has a part for each rank."""
        root = int_of("root", root)
        target = buffer_of("recv", recv, writable=True)
        source = self._parts("recv", recv, "send", send, whole_is_read=True)[1] if self.rank == root else None
        self.run("Scatter", queue, (source, target), source and source.address, target.address, target.count,
                  target.code, root)
        return recv

    @attributed
    def send(self, buffer: Elements, peer: int, *, queue: Order = None) -> None:
        """To a peer, which receives as many elements of the same type. An exchange needs a group()."""
        source = buffer_of("buffer", buffer)
        self.run("Send", queue, (source,), source.address, source.count, source.code, int_of("peer", peer))

    @attributed
    def recv(self, buffer: Elements, peer: int, *, queue: Order = None) -> Elements:
        """From a peer."""
        target = buffer_of("buffer", buffer, writable=True)
        self.run("Recv", queue, (target,), target.address, target.count, target.code, int_of("peer", peer))
        return buffer

    @attributed
    def probe(self) -> Optional[int]:
        """Never waits: a peer that has sent what no recv() issued so far will take, or None."""
        peer = ctypes.c_int()
        call("Probe", handle_of(self), ctypes.byref(peer))
        return None if peer.value < 0 else peer.value

    @attributed
    def barrier(self, *, queue: Order = None) -> None:
        """Returns after every rank has called it."""
        self.run("Barrier", queue, ())

    # ---- V-forms: one count per rank, and where each part begins (default: packed), in elements

    @attributed
    def all_gather_v(self, send: Elements, recv: Elements, counts: Sequence[int], offsets: Optional[Sequence[int]] = None, *,
                     queue: Order = None) -> Elements:
        """As all_gather, with counts[i] elements from rank i."""
        source, target = buffer_of("send", send), buffer_of("recv", recv, writable=True)
        same_type(source, target)
        parts = self._reach("recv", target, counts, offsets)
        self.run("AllGatherV", queue, (source, target), source.address, source.count, target.address, *parts, source.code)
        return recv

    @attributed
    def reduce_scatter_v(self, send: Elements, recv: Elements, counts: Sequence[int], op: Op = "sum", *,
                         queue: Order = None) -> Elements:
        """As reduce_scatter, with counts[i] elements for rank i; send is packed."""
        source, target = buffer_of("send", send), buffer_of("recv", recv, writable=True)
        same_type(source, target)
        counts, _ = self._reach("send", source, counts, None)
        self._room("recv", target, counts[self.rank])
        self.run("ReduceScatterV", queue, (source, target), source.address, target.address, counts, source.code,
                  operation_code(op, source.datatype))
        return recv

    @attributed
    def all_to_all_v(self, send: Elements, send_counts: Sequence[int], recv: Elements, recv_counts: Sequence[int],
                     send_offsets: Optional[Sequence[int]] = None, recv_offsets: Optional[Sequence[int]] = None, *,
                     queue: Order = None) -> Elements:
        """As all_to_all, with counts for each rank; rank i's recv_counts[j] is rank j's send_counts[i]."""
        source, target = buffer_of("send", send), buffer_of("recv", recv, writable=True)
        same_type(source, target)
        sent = self._reach("send", source, send_counts, send_offsets)
        received = self._reach("recv", target, recv_counts, recv_offsets)
        self.run("AllToAllV", queue, (source, target), source.address, *sent, target.address, *received, source.code)
        return recv

    @attributed
    def neighbor_all_to_all_v(self, send: Elements, send_counts: Sequence[int], recv: Elements, recv_counts: Sequence[int],
                              neighbors: Sequence[int], send_offsets: Optional[Sequence[int]] = None,
                              recv_offsets: Optional[Sequence[int]] = None, *, queue: Order = None) -> Elements:
        """Exchanges with the listed ranks only: send_counts[i] elements to, recv_counts[i] from neighbors[i]."""
        source, target = buffer_of("send", send), buffer_of("recv", recv, writable=True)
        same_type(source, target)
        peers = ints("neighbors", neighbors)
        sent = self._reach("send", source, send_counts, send_offsets, len(peers))
        received = self._reach("recv", target, recv_counts, recv_offsets, len(peers))
        self.run("NeighborAllToAllV", queue, (source, target), source.address, *sent, target.address, *received, len(peers),
                 peers, source.code)
        return recv

    @attributed
    def gather_v(self, send: Elements, recv: Elements = None, counts: Optional[Sequence[int]] = None,
                 offsets: Optional[Sequence[int]] = None, root: int = 0, *, queue: Order = None) -> Elements:
        """As gather; recv, counts and offsets are used on root only."""
        root = int_of("root", root)
        source, target, parts = buffer_of("send", send), None, (None, None)
        if self.rank == root:
            target = buffer_of("recv", recv, writable=True)
            same_type(source, target)
            parts = self._reach("recv", target, counts, offsets)
        self.run("GatherV", queue, (source, target), source.address, source.count, target and target.address, *parts,
                  source.code, root)
        return recv

    @attributed
    def scatter_v(self, send: Elements, recv: Elements, counts: Optional[Sequence[int]] = None,
                  offsets: Optional[Sequence[int]] = None, root: int = 0, *, queue: Order = None) -> Elements:
        """As scatter; send, counts and offsets are used on root only."""
        root = int_of("root", root)
        source, target, parts = None, buffer_of("recv", recv, writable=True), (None, None)
        if self.rank == root:
            source = buffer_of("send", send)
            same_type(source, target)
            parts = self._reach("send", source, counts, offsets)
        self.run("ScatterV", queue, (source, target), source and source.address, *parts, target.address, target.count,
                  target.code, root)
        return recv

    # ---- What they share

    def run(self, name, queue, buffers, *arguments, codec=None):
        """Calls hocket<name>, of a codec hocket<name>Compressed; the buffers are held while it is under way. For the other
        parts of this package."""
        if codec is not None:
            name, buffers, arguments = f"{name}Compressed", (*buffers, codec), (*arguments, _handle_of(codec))
        handle = handle_of(self)
        with Interruptible(handle):
            call(name, *arguments, handle, stream_of(queue, buffers))
        hold(queue, buffers)

    def _reducing(self, name, send, recv, op, queue):
        source, target = self._pair(send, recv)
        self.run(name, queue, (source, target), source.address, target.address, source.count, source.code,
                  operation_code(op, source.datatype))
        return send if recv is None else recv

    @staticmethod
    def _pair(send, recv):
        if recv is None:
            both = buffer_of("send", send, writable=True)
            return both, both
        source, target = buffer_of("send", send), buffer_of("recv", recv, writable=True)
        _same(source, target)
        return source, target

    def _parts(self, part_name, part, whole_name, whole, whole_is_read=False):
        """A buffer, and one that has as many elements for each rank."""
        one = buffer_of(part_name, part, writable=whole_is_read)
        many = buffer_of(whole_name, whole, writable=not whole_is_read)
        same_type(one, many)
        if many.count != one.count * self.size:
            raise Refusal(f"{whole_name}: {many.count} elements, not {self.size} times the {one.count} of {part_name}")
        return one, many

    def _divisible(self, name, buffer):
        if buffer.count % self.size != 0:
            raise Refusal(f"{name}: {buffer.count} elements cannot be divided among {self.size} ranks")

    def _reach(self, name, buffer, counts, offsets, ranks=None):
        """Counts and offsets as C wants them; the buffer has room for all."""
        label = f"counts and offsets of {name}"
        ranks = self.size if ranks is None else ranks
        counts, offsets = sizes(label, () if counts is None else counts), sizes(label, offsets)
        if len(counts) != ranks or (offsets is not None and len(offsets) != ranks):
            raise Refusal(f"{label}: there must be {ranks}, one for each rank")
        ends = [sum(counts)] if offsets is None else [at + count for at, count in zip(offsets, counts)]
        self._room(name, buffer, max(ends, default=0))
        return counts, offsets

    @staticmethod
    def _room(name, buffer, needed):
        if needed > buffer.count:
            raise Refusal(f"{name}: {buffer.count} elements, {needed} are needed")


def _scalar_of(scalar, datatype, kind):
    if kind not in (ctypes.c_float, ctypes.c_double):
        return integer_of("scalar", scalar, kind)
    try:
        value = kind(scalar)
    except TypeError:
        raise Refusal(f"scalar: {scalar!r} is no number") from None
    if math.isinf(value.value) and not math.isinf(scalar):
        raise Refusal(f"scalar: {scalar} is more than {datatype} holds")
    return value


def _handle_of(codec):
    if not isinstance(codec, Codec):
        raise Refusal(f"codec: {type(codec).__name__} is no hocket.Codec")
    return codec.handle


def _same(source, target):
    same_type(source, target)
    if source.count != target.count:
        raise Refusal(f"send has {source.count} elements, recv {target.count}")
