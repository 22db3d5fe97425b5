#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The package `hocket` as its users meet it: ranks as threads and as processes, every kind of buffer, wrong input."""
import array
import ctypes
import inspect
import itertools
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy

import hocket
from hocket import _buffers
from threaded_ranks import on_threads

os.environ["HOCKET_COMPRESSION"] = "always"  # in shared memory, too, where it does not pay

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "hocket" / "hocket.h"
RANKS = 3


def on_ranks(body, ranks=RANKS):
    def run(communicator):
        with communicator:
            body(communicator)

    on_threads(run, ranks)


class Collectives(unittest.TestCase):
    def test_reductions(self):
        def body(comm):
            ones = numpy.full((2, 5), comm.rank + 1, numpy.int32)
            result = numpy.zeros_like(ones)
            self.assertIs(comm.all_reduce(ones, result), result)
            self.assertTrue((result == 6).all())
            self.assertTrue((ones == comm.rank + 1).all())
            for op, expected in (("prod", 6), ("max", 3), ("min", 1), ("avg", 2), ("bit_or", 3)):
                self.assertTrue((comm.all_reduce(ones.copy(), op=op) == expected).all(), op)
            largest = comm.reduce(ones, result if comm.rank == 1 else None, root=1, op="max")
            self.assertTrue((largest == 3).all() if comm.rank == 1 else largest is None)
            self.assertTrue((comm.scan(ones.copy()) == [1, 3, 6][comm.rank]).all())
            before = comm.exscan(ones, numpy.full_like(ones, 9))
            self.assertTrue((before == [9, 1, 3][comm.rank]).all())

        on_ranks(body)

    def test_truth_values_stay_truth_values(self):
        def body(comm):
            mine = numpy.array([True, comm.rank == 0, False])
            for op, expected in (("sum", [1, 1, 0]), ("max", [1, 1, 0]), ("prod", [1, 0, 0]), ("min", [1, 0, 0]),
                                 ("bit_xor", [RANKS % 2, 1, 0]), ("logical_and", [1, 0, 0])):
                self.assertEqual(expected, comm.all_reduce(mine, mine.copy(), op=op).view(numpy.uint8).tolist(), op)
            self.assertEqual([1, 1, 0], comm.scan(mine.copy()).view(numpy.uint8).tolist())
            counts = [1, 1, 1]
            self.assertEqual([comm.rank < 2], comm.reduce_scatter_v(mine, numpy.empty(1, bool), counts).tolist())
            with self.assertRaisesRegex(ValueError, "all_reduce: op: truth values have no 'avg'"):
                comm.all_reduce(mine, op="avg")
            with self.assertRaisesRegex(ValueError, "send has elements of bool, recv of uint8"):
                comm.all_reduce(mine, numpy.empty(3, numpy.uint8))

        on_ranks(body)

    def test_parts(self):
        def body(comm):
            mine = numpy.arange(2.0) + 10 * comm.rank
            everything = numpy.concatenate([numpy.arange(2.0) + 10 * rank for rank in range(RANKS)])
            numpy.testing.assert_array_equal(comm.all_gather(mine, numpy.empty(6)), everything)
            numpy.testing.assert_array_equal(comm.reduce_scatter(everything, numpy.empty(2)), RANKS * mine)
            table = 100 * comm.rank + numpy.arange(RANKS)
            numpy.testing.assert_array_equal(comm.all_to_all(table, numpy.empty_like(table)),
                                             100 * numpy.arange(RANKS) + comm.rank)
            gathered = comm.gather(mine, numpy.empty(6) if comm.rank == 2 else None, root=2)
            if comm.rank == 2:
                numpy.testing.assert_array_equal(gathered, everything)
            numpy.testing.assert_array_equal(comm.scatter(gathered, numpy.empty(2), root=2), mine)
            numpy.testing.assert_array_equal(comm.broadcast(mine.copy(), root=1), [10, 11])
            comm.barrier()

        on_ranks(body)

    def test_parts_of_different_length(self):
        counts, offsets = [1, 0, 2], [4, 0, 1]

        def body(comm):
            mine = numpy.full(counts[comm.rank], comm.rank, numpy.int64)
            packed = numpy.array([0, 2, 2])
            spread = numpy.array([7, 2, 2, 7, 0])
            numpy.testing.assert_array_equal(comm.all_gather_v(mine, numpy.full(3, 7), counts), packed)
            numpy.testing.assert_array_equal(comm.all_gather_v(mine, numpy.full(5, 7), counts, offsets), spread)
            numpy.testing.assert_array_equal(comm.reduce_scatter_v(packed, numpy.empty_like(mine), counts), 3 * mine)
            gathered = comm.gather_v(mine, numpy.full(5, 7) if comm.rank == 0 else None, counts, offsets)
            if comm.rank == 0:
                numpy.testing.assert_array_equal(gathered, spread)
            numpy.testing.assert_array_equal(comm.scatter_v(gathered, numpy.empty_like(mine), counts, offsets), mine)
            sent = numpy.repeat(comm.rank, sum(counts))
            got = comm.all_to_all_v(sent, counts, numpy.empty(RANKS * counts[comm.rank], int),
                                    [counts[comm.rank]] * RANKS)
            numpy.testing.assert_array_equal(got, numpy.repeat(range(RANKS), counts[comm.rank]))

        on_ranks(body)

    def test_transfers_and_groups(self):
        def body(comm):
            right, left = (comm.rank + 1) % RANKS, (comm.rank - 1) % RANKS
            got = numpy.empty(1)
            with hocket.group():
                comm.send(numpy.array([float(comm.rank)]), right)  # held until the group ends
                comm.recv(got, left)
            self.assertEqual(got[0], left)

        on_ranks(body)

    def test_estimates_of_groups(self):
        def body(comm):
            short, long = numpy.full(10, 1.0), numpy.full(1_000_000, 1.0)
            seconds = []
            for x in (short, long):
                with hocket.estimate() as expected:
                    comm.all_reduce(x)
                seconds.append(expected.seconds)
            self.assertTrue(0 < seconds[0] < seconds[1], seconds)
            self.assertEqual((short[0], long[0]), (1, 1))  # nothing ran
            with self.assertRaisesRegex(hocket.Error, "the model knows no time"):
                with hocket.estimate():
                    comm.all_gather_v(short, numpy.empty(10 * RANKS), [10] * RANKS)
            with self.assertRaisesRegex(hocket.Error, "within an outer group"):
                with hocket.group(), hocket.estimate():
                    comm.all_reduce(short)
            comm.all_reduce(short)
            self.assertEqual(short[0], RANKS)

        on_ranks(body)

    def test_receive_from_anybody(self):
        def body(comm):
            number = numpy.array([comm.rank])
            if comm.rank > 0:
                comm.send(number, 0)
                return
            found = []
            while len(found) < RANKS - 1:
                peer = comm.probe()
                if peer is not None:
                    found.append(comm.recv(number, peer)[0])
            self.assertEqual(sorted(found), [1, 2])
            self.assertIsNone(comm.probe())

        on_ranks(body)

    def test_windows(self):
        def body(comm):
            memory = hocket.allocate(4096)
            values = numpy.frombuffer(memory, numpy.float32)
            with comm.register(values):
                values[:] = comm.rank + 1
                comm.all_reduce(values)
                self.assertTrue((values == 6).all())
            with self.assertRaisesRegex(ValueError, "buffer: list"):
                comm.register([1])

        on_ranks(body)

    def test_one_sided(self):
        def numbers_that_do_not_fit(window):
            one = numpy.ones(1, numpy.int64)
            for call, why in (
                    (lambda: window.put(one, 0, 2**64), "put: offset: 18446744073709551616 does not fit into 64 bits, which"),
                    (lambda: window.put_signal(one, 0, -1), "put_signal: offset: -1 does not"),
                    (lambda: window.get(one, 0, 2**64), "get: offset: 18446744073709551616 does not"),
                    (lambda: window.fetch_op(2**70 + 5, 0), f"fetch_op: operand: {2**70 + 5} does not fit into 64 bits"),
                    (lambda: window.fetch_op(2**31, 0, datatype="int32"), "fetch_op: operand: 2147483648 does not fit into 32"),
                    (lambda: window.fetch_op(1, 0, 2**64), "fetch_op: offset: "),
                    (lambda: window.compare_swap(-1, 0, 0, datatype="uint32"), "compare_swap: compare: -1 does not"),
                    (lambda: window.compare_swap(0, 2**63, 0), "compare_swap: desired: 9223372036854775808 does not"),
                    (lambda: window.compare_swap(0, 0, 0, 2**64), "compare_swap: offset: ")):
                with self.assertRaisesRegex(hocket.InvalidArgument, f"^rank {window.rank}: {why}"):
                    call()
            with self.assertRaisesRegex(hocket.InvalidArgument, "^size: 18446744073709551616 does not fit"):
                hocket.allocate(2**64)

        def body(comm):
            right, left = (comm.rank + 1) % RANKS, (comm.rank - 1) % RANKS
            values = numpy.frombuffer(hocket.allocate(64), numpy.int64)
            with comm.register(values) as window:
                window.put_signal(numpy.array([comm.rank + 10]), right, 8, signal=3)
                comm.wait_signal([(left, 3, 1)])
                self.assertEqual(values[1], left + 10)
                self.assertEqual(window.get(numpy.zeros(1, numpy.int64), right, 8)[0], comm.rank + 10)
                window.put(numpy.array([7, 8]), left, 16)
                comm.signal(left)
                comm.wait_signal([(right, 0, 1)])
                numpy.testing.assert_array_equal(values[2:4], [7, 8])
                window.fetch_op(comm.rank + 1, 0, 32)
                self.assertEqual(window.compare_swap(5, 6, comm.rank, 40), 0)
                self.assertEqual(window.compare_swap(0, 6, comm.rank, 40), 0)
                self.assertEqual(values[5], 6)
                comm.barrier()
                self.assertEqual(window.fetch_op(0, 0, 32), 6)
                numbers_that_do_not_fit(window)
                numpy.testing.assert_array_equal(values[2:4], [7, 8])
                with self.assertRaisesRegex(ValueError, "datatype: there is no 'float32', only int32"):
                    window.fetch_op(1, 0, datatype="float32")
                with self.assertRaisesRegex(ValueError, "the peer's part has 64 bytes"):
                    window.put(numpy.zeros(9), left)
                comm.barrier()

        on_ranks(body)

    def test_neighbors(self):
        def body(comm):
            neighbors = [rank for rank in (comm.rank - 1, comm.rank + 1) if 0 <= rank < RANKS]  # a line
            send = numpy.repeat(comm.rank + 10.0 * numpy.array(neighbors), 2)
            recv = comm.neighbor_all_to_all_v(send, [2] * len(neighbors), numpy.zeros_like(send), [2] * len(neighbors),
                                              neighbors)
            numpy.testing.assert_array_equal(recv, numpy.repeat(10.0 * comm.rank + numpy.array(neighbors), 2))
            with self.assertRaisesRegex(ValueError, "there must be 1, one for each rank"):
                comm.neighbor_all_to_all_v(send, [2, 2], recv, [2], [0])

        on_ranks(body)

    def test_waiting_for_a_limited_time(self):
        def body(comm):
            if comm.rank > 1:
                return
            with hocket.Queue() as queue:
                if comm.rank == 0:
                    comm.recv(numpy.empty(1), 1, queue=queue)
                    self.assertFalse(queue.wait(timeout=0.001))
                    comm.send(numpy.ones(1), 1)
                    self.assertTrue(queue.wait(timeout=60))
                else:
                    comm.recv(numpy.empty(1), 0)
                    comm.send(numpy.ones(1), 0)

        on_ranks(body)

    def test_one_thread_drives_all(self):
        comms = hocket.Communicator.all(RANKS)
        values = [numpy.array([rank]) for rank in range(RANKS)]
        with hocket.group():
            for comm, value in zip(comms, values):
                comm.all_reduce(value)
        self.assertEqual([value[0] for value in values], [3, 3, 3])
        with self.assertRaisesRegex(ValueError, "no 'nonsense'"), hocket.group():
            comms[0].all_reduce(values[0])
            comms[1].all_reduce(values[1], op="nonsense")
        self.assertEqual(values[0][0], 3, "nothing of that group ran")
        for comm in comms:
            comm.close()

    def test_queues_hold_what_they_use(self):
        def body(comm):
            with hocket.Queue() as queue:
                results = [comm.all_reduce(numpy.full(1000, float(i)), queue=queue) for i in range(20)]
                mark = queue.mark()
                queue.wait(mark)
                self.assertTrue(queue.test(mark))
                for wrong, why in ((lambda: queue.test("all"), "mark: 'all' is no whole number"),
                                   (lambda: queue.wait(timeout="5"), "timeout: '5' is no number of seconds")):
                    with self.assertRaisesRegex(ValueError, why):
                        wrong()
                for i, result in enumerate(results):
                    self.assertTrue((result == 3 * i).all())

        on_ranks(body)

    def test_operations_of_ones_own(self):
        def larger(lower, inout):
            a, b = lower.cast("i"), inout.cast("i")
            for i, value in enumerate(a):
                b[i] = max(value, b[i])

        def body(comm):
            for scalar, datatype, why in ((300, "int8", "300 does not fit into 8 bits, which hold -128 to 127"),
                                          (-1, "uint64", "-1 does not fit into 64 bits"), (0.5, "int32", "0.5 is no whole"),
                                          (1e300, "float32", "1e[+]300 is more than float32"), ("1", "float64", "'1' is no")):
                with self.assertRaisesRegex(hocket.InvalidArgument, f"^rank {comm.rank}: pre_mul_sum: scalar: {why}"):
                    comm.pre_mul_sum(scalar, datatype)
            with self.assertRaisesRegex(hocket.InvalidArgument, f"^rank {comm.rank}: create_operation: function: 'no"):
                comm.create_operation("no function")
            op = comm.create_operation(larger)
            self.assertEqual(list(comm.all_reduce(array.array("i", [comm.rank, -comm.rank]), op=op)), [2, 0])
            op.close()
            op = comm.pre_mul_sum(0.5, "float32")
            self.assertEqual(comm.all_reduce(numpy.ones(2, numpy.float32), op=op)[0], 1.5)

        on_ranks(body)

    def test_options(self):
        def body(comm):
            rows = numpy.random.default_rng(5).standard_normal((RANKS, 100_000), numpy.float32)
            expected = rows[0].copy()
            for row in rows[1:]:
                expected += row
            with comm.split(0, name="ordered", timeout=60, reproducibility="ordered") as ordered:
                numpy.testing.assert_array_equal(ordered.all_reduce(rows[comm.rank].copy()), expected)
            with comm.split(0, algorithm="all_reduce=ring") as forced:
                numpy.testing.assert_allclose(forced.all_reduce(rows[comm.rank].copy()), expected, 1e-4, 1e-4)
            with self.assertRaisesRegex(ValueError, "there is no 'strict', only fast, ordered, exact"):
                comm.split(0, reproducibility="strict")
            with self.assertRaisesRegex(ValueError, "config: algorithm.*'rign'"):
                comm.split(0, algorithm="all_reduce=rign")

        on_ranks(body)

    def test_split(self):
        def body(comm):
            part = comm.split(comm.rank % 2 if comm.rank < 2 else hocket.NO_COLOR)
            self.assertEqual(part and part.size, None if comm.rank == 2 else 1)
            if part:
                part.close()

        on_ranks(body)


class Buffers(unittest.TestCase):
    def sums_to_three(self, make, expected):
        def body(comm):
            buffer = make(comm.rank)
            self.assertIs(comm.all_reduce(buffer), buffer)
            self.assertEqual(list(memoryview(buffer)) if not hasattr(buffer, "tolist") else buffer.tolist(), expected)

        on_ranks(body)

    def test_kinds(self):
        self.sums_to_three(lambda rank: array.array("d", [rank, 1]), [3, 3])
        self.sums_to_three(lambda rank: bytearray([rank, 1]), [3, 3])
        self.sums_to_three(lambda rank: numpy.array([rank, 1], numpy.float16), [3, 3])
        self.sums_to_three(lambda rank: memoryview(array.array("q", [rank])), [3])

    def test_dlpack_alone(self):
        class Foreign:
            def __init__(self, values):
                self.values = values

            def __dlpack__(self):
                return self.values.__dlpack__()

        def body(comm):
            values = numpy.full((2, 3), comm.rank, numpy.float64)
            foreign = Foreign(values)
            self.assertIs(comm.all_reduce(foreign), foreign)
            self.assertTrue((values == 3).all())
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                comm.all_reduce(Foreign(values.T))

        on_ranks(body)

    def test_dlpack_tells_what_is_read_only(self):
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        new_capsule.restype = ctypes.py_object

        class Versioned:
            def __init__(self, values, flags):
                shape = (ctypes.c_int64 * 1)(values.size)
                tensor = _buffers._DlTensor(values.ctypes.data, 1, 0, 1, 2, 64, 1, shape, None, 0)
                self.managed = _buffers._DlVersioned(1, 0, None, None, flags, tensor)

            def __dlpack__(self, max_version):
                return new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)

        def body(comm):
            values, result = numpy.full(2, comm.rank, numpy.float64), numpy.empty(2)
            comm.all_reduce(Versioned(values, 1), result)
            self.assertTrue((result == 3).all())
            with self.assertRaisesRegex(ValueError, "all_reduce: send: the array is read-only"):
                comm.all_reduce(Versioned(values, 1))
            comm.all_reduce(Versioned(values, 0))
            self.assertTrue((values == 3).all())

        on_ranks(body)

    def test_array_interfaces(self):
        class Foreign:
            def __init__(self, values, **others):
                self.__array_interface__ = {**values.__array_interface__, **others}

        def body(comm):
            values = numpy.full((1, 2, 3), comm.rank, numpy.float32)
            comm.all_reduce(Foreign(values, strides=values.strides))
            self.assertTrue((values == 3).all())
            with self.assertRaisesRegex(ValueError, r"array of shape \(1, 2, 3\) is not contiguous"):
                comm.all_reduce(Foreign(values, strides=(24, 4, 8)))
            with self.assertRaisesRegex(ValueError, "send: Foreign does not tell where its elements lie"):
                comm.all_reduce(Foreign(values, data=values.tobytes()))

        on_ranks(body)

    def test_buffers_that_fail(self):
        def body(comm):
            gone = memoryview(bytearray(3))
            gone.release()
            with self.assertRaisesRegex(ValueError, f"rank {comm.rank}: all_reduce: send: memoryview: .*released"):
                comm.all_reduce(gone)

        on_ranks(body)

    def test_refusals(self):
        class NoCapsule:
            def __dlpack__(self):
                return 5

        def body(comm):
            floats = numpy.ones(6, numpy.float32)
            read_only = floats.copy()
            read_only.flags.writeable = False
            for arguments, why in (
                    ((floats[::2],), "send: .*not contiguous"),
                    ((read_only,), "send: .*read-only"),
                    ((bytes(3),), "send: .*read-only"),
                    ((numpy.ones(2, complex),), "send: .*complex128"),
                    ((numpy.ones(2, ">f4"),), "big-endian"),
                    ((numpy.ones(2, object),), "send: elements of type object"),
                    ((NoCapsule(),), "send: int: .*invalid PyCapsule"),
                    (([1, 2],), "send: list is no tensor"),
                    ((numpy.float32,), "send: type does not tell where"),
                    ((floats, numpy.ones(6)), "float32, recv of float64"),
                    ((floats, numpy.ones(5, numpy.float32)), "send has 6 elements, recv 5"),
                    ((floats, None, "mean"), "op: there is no 'mean'")):
                with self.assertRaisesRegex(hocket.InvalidArgument, why):
                    comm.all_reduce(*arguments)
            with self.assertRaisesRegex(ValueError, "recv: 6 elements, not 3 times the 6 of send"):
                comm.all_gather(floats, floats.copy())
            with self.assertRaisesRegex(ValueError, "recv: 2 elements, 6 are needed"):
                comm.all_gather_v(floats[:2], numpy.ones(2, numpy.float32), [2, 2, 2])
            with self.assertRaisesRegex(ValueError, "there must be 3"):
                comm.all_gather_v(floats[:2], floats, [2, 2])
            with self.assertRaisesRegex(ValueError, "root: 7 is not among 3 ranks"):
                comm.broadcast(floats, root=7)
            wide = numpy.ones((4, 4), numpy.float32)[:, ::2]
            for call, why in (
                    (lambda: comm.all_reduce(wide), "all_reduce: send: the array of shape"),
                    (lambda: comm.broadcast(floats, root=2**32), "broadcast: root: 4294967296 does not fit into 32 bits"),
                    (lambda: comm.send(floats, "one"), "send: peer: 'one' is no whole number"),
                    (lambda: comm.reduce(floats, op=3), "reduce: op: there is no '3'"),
                    (lambda: comm.reduce_scatter(floats, floats[:1].copy()), "reduce_scatter: send: 6 elements"),
                    (lambda: comm.gather(floats, floats[:1], root=comm.rank), "gather: recv: 1 elements, not 3 times"),
                    (lambda: comm.all_reduce(floats, codec="int8"), "all_reduce: codec: str is no hocket.Codec"),
                    (lambda: comm.all_reduce(floats, codec=hocket.Codec("topk:ratio=0.1"), key=3), "all_reduce: key: 3 is no text"),
                    (lambda: comm.split(0, name=3), "split: name: 3 is no text"),
                    (lambda: comm.split(0, timeout="5"), "split: timeout: '5' is no number of seconds"),
                    (lambda: comm.wait_signal((0, 0, 1)), r"wait_signal: awaited: \(0, 0, 1\) is no list of \(peer, signal, count"),
                    (lambda: comm.wait_signal([(0, 0)]), "wait_signal: awaited: "),
                    (lambda: comm.barrier(queue="mine"), "barrier: queue: str is neither"),
                    (lambda: comm.all_gather_v(floats, floats, 6), "all_gather_v: counts and offsets of recv: 6 is no list"),
                    (lambda: comm.gather_v(floats, floats, None, root=comm.rank), "gather_v: counts .*: there must be 3"),
                    (lambda: comm.scatter_v(floats, floats, [1, 1, "x"], root=comm.rank), "scatter_v: .*: 'x' is no whole"),
                    (lambda: comm.reduce_scatter_v(floats, floats, [1, 1, -1]), "reduce_scatter_v: .*: -1 does not fit"),
                    (lambda: comm.all_to_all_v(floats, [2] * 3, floats, [2] * 3, [0, 2, 2**64]), "all_to_all_v: .* 64 bits"),
                    (lambda: comm.neighbor_all_to_all_v(floats, [6], floats, [6], 1), "neighbor_.*: neighbors: 1 is no list"),
                    (lambda: comm.broadcast(floats, root=floats), "broadcast: root: .* is no whole number"),
                    (lambda: comm.gather(floats, floats, root=None), "gather: root: None is no whole number"),
                    (lambda: comm.all_reduce(floats, op=[]), r"all_reduce: op: there is no '\[\]'"),
                    (lambda: comm.pre_mul_sum(1, []), r"pre_mul_sum: datatype: there is no '\[\]'"),
                    (lambda: comm.shrink(1), "shrink: exclude: 1 is no list of whole numbers"),
                    (lambda: comm.split(2**31), "split: color: 2147483648 does not"),
                    (lambda: comm.register(wide), "register: buffer: the array of shape"),
                    (lambda: comm.all_gather_sparse(floats, []), "all_gather_sparse: send: ndarray is no hocket.Sparse")):
                with self.assertRaisesRegex(hocket.InvalidArgument, f"^rank {comm.rank}: ({why})"):
                    call()
            self.assertTrue((comm.all_reduce(read_only, floats) == 3).all(), "the communicator is still of use")
            comm.close()
            for call, name in (
                    (lambda: comm.all_reduce(floats), "all_reduce"), (lambda: comm.register(floats), "register"),
                    (lambda: comm.split(0), "split"), (lambda: comm.pre_mul_sum(1, "int8"), "pre_mul_sum"),
                    (lambda: comm.create_operation(max), "create_operation"), (comm.probe, "probe"), (comm.failed, "failed"),
                    (comm.revoke, "revoke"), (comm.shrink, "shrink"), (comm.invitation, "invitation"),
                    (lambda: comm.grow(4), "grow")):
                with self.assertRaisesRegex(ValueError, f"^rank {comm.rank}: {name}: the communicator is closed"):
                    call()

        on_ranks(body)


PROGRAM = """
import sys, numpy, hocket
with hocket.Communicator.from_environment(timeout=30) as comm:
    x = numpy.full(4, comm.rank + 1.0)
    comm.all_reduce(x)
    print('sum', x[0], flush=True)
    if sys.argv[1:] == ['alone'] and comm.rank == 0:
        comm.all_reduce(x)  # rank 1 never comes
    if sys.argv[1:] == ['alone']:
        import time; time.sleep(60)
"""

# Rank 0 may hear of the death while it is still in the first call.
DEATH = """
import os, numpy, hocket
with hocket.Communicator.from_environment() as comm:
    try:
        comm.all_reduce(numpy.ones(4))
        if comm.rank == 1: os._exit(3)
        comm.barrier()
    except hocket.RemoteError as error:
        print(error, flush=True)
"""


SURVIVAL = """
import os, numpy, hocket
comm = hocket.Communicator.from_environment()
try:
    comm.all_reduce(numpy.ones(4))
    if comm.rank == 1: os._exit(3)
    comm.barrier()
except hocket.RemoteError as error:
    print(comm.failed(), type(comm.failure()).__name__, str(comm.failure()) == str(error), flush=True)
with comm.shrink() as alone:
    print(alone.rank, 'of', alone.size, flush=True)
comm.abort()
"""


PATIENCE = 240  # seconds, where machines are slow
PORTS = itertools.count(21000 + os.getpid() % 10000)


def start_two(*arguments, program=PROGRAM):
    port = next(PORTS)
    return [subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.PIPE,
                             env={**os.environ, "HOCKET_RANK": str(rank), "HOCKET_SIZE": "2",
                                  "HOCKET_ADDRESS": f"127.0.0.1:{port}"}) for rank in (0, 1)]


class Processes(unittest.TestCase):
    def test_from_the_environment(self):
        for process in start_two():
            self.assertEqual(process.communicate(timeout=PATIENCE)[0], "sum 3.0\n")
            self.assertEqual(process.returncode, 0)

    def test_a_rank_that_dies_is_an_exception_that_names_it(self):
        zero, one = start_two(program=DEATH)
        self.assertIn("rank 1", zero.communicate(timeout=PATIENCE)[0])
        one.communicate(timeout=PATIENCE)
        self.assertEqual(one.returncode, 3)

    def test_control_c_ends_a_call_that_waits(self):
        zero, one = start_two("alone")
        self.assertEqual(zero.stdout.readline(), "sum 3.0\n")
        time.sleep(0.5)
        begin = time.monotonic()
        zero.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", zero.communicate(timeout=PATIENCE)[1])
        self.assertLess(time.monotonic() - begin, 25)
        one.kill()
        one.communicate()


class Codecs(unittest.TestCase):
    def test_a_compressed_sum_keeps_its_bound(self):
        with hocket.Codec("int8:block=64") as codec:
            self.assertIn("int8", codec.describe("float32").specification)
            self.assertLess(codec.describe().ratio, 0.3)
            relative, absolute = codec.error_bound(RANKS)

            def body(comm):
                values = numpy.random.default_rng(comm.rank).standard_normal(3 * 256).astype(numpy.float32)
                exact = comm.all_reduce(values, numpy.empty_like(values))
                largest = comm.all_reduce(numpy.array([abs(values).max()]), op="max")[0]
                result = comm.all_reduce(values, numpy.empty_like(values), codec=codec)
                self.assertGreater(abs(result - exact).max(), 0)
                self.assertLessEqual(abs(result - exact).max(), relative * largest + absolute)
                part = comm.reduce_scatter(values, numpy.empty(256, numpy.float32), codec=codec)
                mine = exact[256 * comm.rank:256 * (comm.rank + 1)]
                self.assertLessEqual(abs(part - mine).max(), relative * largest + absolute)

            on_ranks(body)

    def test_every_collective_takes_a_codec(self):
        def body(comm):
            with hocket.Codec("bf16") as codec:
                mine = numpy.float32(1 + 2**-7 + 2**-14) * numpy.ones(RANKS, numpy.float32)  # not a bfloat16
                sent = numpy.float32(1 + 2**-7)
                everything = comm.all_gather(mine, numpy.empty(RANKS * RANKS, numpy.float32), codec=codec)
                self.assertTrue((everything == sent).all())
                self.assertTrue((comm.broadcast(mine.copy(), root=1, codec=codec) == sent).all())
                exchanged = comm.all_to_all(mine, numpy.empty_like(mine), codec=codec)
                self.assertTrue((numpy.delete(exchanged, comm.rank) == sent).all())
                relative, absolute = codec.error_bound(RANKS, collective="reduce")
                result = comm.reduce(mine, numpy.empty_like(mine) if comm.rank == 2 else None, root=2, codec=codec)
                if comm.rank == 2:
                    self.assertLessEqual(abs(result - RANKS * mine).max(), relative * mine[0] + absolute)
                with self.assertRaisesRegex(ValueError, "read-only"):
                    comm.broadcast(bytes(4), root=comm.rank, codec=codec)
                with self.assertRaisesRegex(ValueError, "'x' needs a codec"):
                    comm.all_reduce(mine, key="x")
                with self.assertRaisesRegex(ValueError, "collective with a codec: there is no 'scan'"):
                    codec.error_bound(2, collective="scan")

        on_ranks(body)

    def test_what_is_kept_goes_through_a_checkpoint(self):
        def step(comm, codec):
            values = numpy.arange(64, dtype=numpy.float32) + comm.rank
            return comm.all_reduce(values, codec=codec, key="x")

        def body(comm):
            with hocket.Codec("topk:ratio=0.1") as codec, hocket.Codec("topk:ratio=0.1") as resumed:
                step(comm, codec)
                resumed.load_state(codec.save_state())
                expected = step(comm, codec)
                numpy.testing.assert_array_equal(step(comm, resumed), expected)
                codec.reset_state("x")
                self.assertFalse((step(comm, codec) == expected).all())

        on_ranks(body)

    def test_refusals(self):
        with self.assertRaisesRegex(ValueError, "nonsense"):
            hocket.Codec("nonsense")
        with hocket.Codec("fp16") as codec:
            with self.assertRaisesRegex(ValueError, "no 'quad'"):
                codec.describe("quad")
            with self.assertRaises(ValueError):
                codec.load_state(b"garbage")
            for wrong, why in ((lambda: codec.load_state("text"), "state: str has no bytes"),
                               (lambda: codec.reset_state(3), "key: 3 is no text"),
                               (lambda: codec.error_bound("2"), "ranks: '2' is no whole number"),
                               (lambda: codec.describe([]), r"datatype: there is no '\[\]', only int8"),
                               (lambda: hocket.Codec(8), "specification: 8 is no text")):
                with self.assertRaisesRegex(ValueError, why):
                    wrong()


class SparseTensors(unittest.TestCase):
    @staticmethod
    def room(nonzeros, rows=0):
        return hocket.Sparse(2, 8, numpy.empty(nonzeros, numpy.uint64), numpy.empty(nonzeros, numpy.float32),
                             numpy.empty(rows + 1, numpy.uint64) if rows else None)

    @staticmethod
    def mine(rank):
        return hocket.Sparse(2, 8, numpy.array([rank, 8], numpy.int64), numpy.array([1, rank], numpy.float32))

    def test_sums(self):
        def body(comm):
            dense = numpy.zeros(16, numpy.float32)
            dense[:RANKS], dense[8] = 1, sum(range(RANKS))
            numpy.testing.assert_array_equal(comm.all_reduce_sparse_to_dense(self.mine(comm.rank), numpy.empty(16, numpy.float32)),
                                             dense)
            for result in (self.room(16), self.room(16, rows=2)):
                comm.all_reduce_sparse(self.mine(comm.rank), result)
                self.assertEqual(RANKS + 1, result.nonzeros)
                numpy.testing.assert_array_equal(result.values[:RANKS + 1], dense[dense != 0])
                last = 0 if result.offsets is not None else 8
                self.assertEqual([*range(RANKS), last], result.indices[:RANKS + 1].tolist())
            self.assertEqual([0, RANKS, RANKS + 1], result.offsets.tolist())
            tensors = comm.all_gather_sparse(self.mine(comm.rank), [self.room(4) for _ in range(RANKS)])
            self.assertEqual([[rank, 8] if rank else [0] for rank in range(RANKS)],
                             [tensor.indices[:tensor.nonzeros].tolist() for tensor in tensors])

        on_ranks(body)

    def test_refusals(self):
        def body(comm):
            small = self.room(1)
            with self.assertRaisesRegex(ValueError, "4"):
                comm.all_reduce_sparse(self.mine(comm.rank), small)
            self.assertEqual(RANKS + 1, small.nonzeros)
            mine = self.mine(comm.rank)
            for wrong, why in ((hocket.Sparse(2, 8, numpy.zeros(1, numpy.int32), mine.values), "int32, not uint64"),
                               (hocket.Sparse(2, 8, mine.indices, mine.values[:1]), "values: 1 elements, 2 are needed"),
                               (hocket.Sparse(2, 8, mine.indices, mine.values, numpy.zeros(2, numpy.int64)), "offsets: 2 elem"),
                               (hocket.Sparse(-2, 8, mine.indices, mine.values), "send.rows: -2 does not fit"),
                               (hocket.Sparse("2", 8, mine.indices, mine.values), "send.rows: '2' is no whole number"),
                               (mine.values, "ndarray is no hocket.Sparse")):
                with self.assertRaisesRegex(ValueError, why):
                    comm.all_reduce_sparse(wrong, self.room(4))
            with self.assertRaisesRegex(ValueError, "15 elements, not 2 rows of 8"):
                comm.all_reduce_sparse_to_dense(mine, numpy.empty(15, numpy.float32))
            with self.assertRaisesRegex(ValueError, "float32, recv of float64"):
                comm.all_reduce_sparse_to_dense(mine, numpy.empty(16))
            with self.assertRaisesRegex(ValueError, "2 tensors, there must be 3"):
                comm.all_gather_sparse(mine, [self.room(4)] * 2)
            with self.assertRaisesRegex(ValueError, "recv: Sparse is no list of tensors"):
                comm.all_gather_sparse(mine, self.room(4))

        on_ranks(body)


class Recovery(unittest.TestCase):
    def test_shrink_and_grow(self):
        invitations = queue.Queue()

        def newcomer():
            with hocket.Communicator.join_grown(invitations.get(timeout=60), 2, 3, timeout=60) as comm:
                comm.all_reduce(numpy.ones(1))

        def body(comm):
            if comm.rank == 1:
                return
            with comm.shrink([1], timeout=60) as two:
                self.assertEqual((two.rank, two.size), (comm.rank // 2, 2))
                invitation = two.invitation() if two.rank == 0 else None
                if invitation:
                    invitations.put(invitation)
                with two.grow(3, invitation, timeout=60) as three:
                    self.assertEqual(three.all_reduce(numpy.ones(1))[0], 3)

        third = threading.Thread(target=newcomer)
        third.start()
        on_ranks(body)
        third.join()

    def test_survivors_go_on_after_a_death(self):
        survivor, victim = start_two(program=SURVIVAL)
        self.assertEqual(survivor.communicate(timeout=PATIENCE)[0], "[1] RemoteError True\n0 of 1\n")
        victim.communicate(timeout=PATIENCE)
        self.assertEqual(victim.returncode, 3)


    def test_no_failure(self):
        def body(comm):
            self.assertIsNone(comm.failure())
            self.assertIsNone(comm.device)
            comm.all_reduce(numpy.ones(1))
            comm.finalize()
            self.assertIsNone(comm.failure())
            with self.assertRaisesRegex(hocket.InvalidUsage, "finaliz"):
                comm.barrier()

        on_ranks(body)


# Functions of the header that the package has no use for, and what it calls in their place.
IN_PLACE_OF = {"AlltoAll": "AllToAll", "Bcast": "Broadcast", "CommInitRank": "CommInitRankConfig",
               "CommInitRankScalable": "CommInitRankConfig", "CommWindowRegister": "CommRegister",
               "CommWindowDeregister": "CommDeregister", "QueueSynchronize": "QueueWait", "GetErrorString": "GetLastError",
               "WinGetUserPtr": "CommRegister"}


class Package(unittest.TestCase):
    def test_every_function_of_the_header(self):
        code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "python" / "hocket").glob("_*.py"))
        names = re.findall(r"^HOCKET_API [^(]*\bhocket(\w+)\(", HEADER.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertGreater(len(names), 80)
        for name in names:
            called = IN_PLACE_OF.get(name, name).removesuffix("Compressed")
            with self.subTest(name):
                self.assertRegex(code, rf'"{called}"(?!:)|hocket{called}\b')  # a colon: only how it is called

    def test_docstrings_and_type_hints(self):
        def told(name, function):
            with self.subTest(name):
                self.assertTrue(inspect.getdoc(function))
                signature = inspect.signature(function)
                kinds = [each.annotation for each in signature.parameters.values() if each.name != "self"]
                self.assertNotIn(inspect.Signature.empty, [*kinds, signature.return_annotation])

        for name in hocket.__all__:
            value = getattr(hocket, name)
            if inspect.isfunction(value):
                told(name, value)
            elif inspect.isclass(value) and not issubclass(value, (Exception, tuple)):
                for method, function in inspect.getmembers(value, inspect.isroutine):
                    if not method.startswith("_") and method != "run":  # which is for the package's other parts
                        told(f"{name}.{method}", function)

    def test_facts(self):
        self.assertRegex(hocket.__version__, r"^\d+\.\d+\.\d+$")
        self.assertIn("ring", hocket.algorithms("all_reduce"))
        self.assertEqual(hocket.algorithms("nonsense"), [])
        self.assertIn("hwloc", hocket.build_info())

    def test_imports_no_package(self):
        code = "import sys, hocket; print('numpy' in sys.modules, 'torch' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "False False\n")

    def test_identity(self):
        with self.assertRaisesRegex(ValueError, "identity: 3 bytes, not 128"):
            hocket.Communicator.join(b"abc", 0, 1)
        with hocket.Communicator.join(hocket.unique_id(), 0, 1, name="one") as comm:
            self.assertEqual((comm.rank, comm.size), (0, 1))
            self.assertEqual((comm.pipe_budget, comm.pipe_memory), (4 << 20, 0))
        comm.close()  # again: nothing


if __name__ == "__main__":
    unittest.main(verbosity=2)
