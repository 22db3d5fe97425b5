#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""hocket.named on NumPy arrays: ranks as threads, each with a world of its own."""
import json
import logging
import os
import random
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy

import hocket
from hocket.named import agreement, fusion, rendezvous, request as request_, settings as settings_, world as world_
from hocket.named.arrays import NumpyArrays
from hocket.named.autotune import Tuner
from hocket.named.call import Call
from hocket.named.errors import HorovodInternalError, Mismatch
from hocket.named.request import Request
from hocket.named.stall import StallWatch
from hocket.named.table import Table
from threaded_ranks import on_threads

os.environ["HOCKET_COMPRESSION"] = "always"  # in shared memory, too, where it does not pay

ARRAYS = NumpyArrays()


class Rank:
    """A rank's calls, as a framework's face would make them."""

    def __init__(self, world, number=0):
        self.world = world
        self.number = number
        self.rank = world.engine(number).communicator.rank

    def start(self, kind, name, array, recv=None, codec=None, **details):
        request = Request(kind, name, ARRAYS.datatype(array), ARRAYS.shape(array),
                          codec=codec.specification if codec else "", **details)
        return self.world.engine(self.number).submit(Call(request, ARRAYS, array, recv, codec))

    def run(self, kind, name, array, **details):
        return self.start(kind, name, array, **details).result()

    def sum(self, name, array, **details):
        return self.run("allreduce", name, array, op="sum", **details)

    def join(self):
        return self.world.engine().submit(Call(Request("join", ""), ARRAYS)).result()


def on_ranks(body, ranks=3, **options):
    """Runs body(Rank) on a thread per rank; an exception of any is raised here. options: settings, maybe functions of
    the rank."""
    def run(communicator):
        own = {name: value(communicator.rank) if callable(value) else value for name, value in options.items()}
        world = world_.World(communicator, settings_.Settings(**own))
        try:
            body(Rank(world))
        finally:
            world.close()

    on_threads(run, ranks)


class Names(unittest.TestCase):
    def test_each_rank_in_its_own_order(self):
        def body(me):
            names = [f"tensor {i}" for i in range(40)]
            for step in range(5):
                random.Random(100 * step + me.rank).shuffle(names)
                calls = {name: me.start("allreduce", name, numpy.full(i := int(name[7:]) + 1, i + step, numpy.float32),
                                        op="sum") for name in names}
                for name, call in calls.items():
                    i = int(name[7:]) + 1
                    numpy.testing.assert_array_equal(call.result(), numpy.full(i, 3 * (i + step), numpy.float32), name)

        on_ranks(body)

    def test_a_call_in_place_and_one_out_of_place(self):
        def body(me):
            mine = numpy.full(3, me.rank + 1.0)
            result = me.sum("x", mine)
            self.assertTrue((mine == me.rank + 1).all())
            self.assertTrue((result == 6).all())
            self.assertIs(me.start("allreduce", "x", mine, recv=mine, op="avg").result(), mine)
            self.assertTrue((mine == 2).all())

        on_ranks(body)

    def test_other_shapes_are_announced_again(self):
        def body(me):
            for count in (3, 3, 5, 3):
                self.assertEqual(me.sum("x", numpy.ones(count)).tolist(), [3] * count)

        on_ranks(body)

    def test_more_names_than_are_remembered(self):
        def body(me):
            for _ in range(3):
                calls = [me.start("allreduce", str(i), numpy.ones(1), op="sum") for i in range(20)]
                self.assertEqual([call.result()[0] for call in calls], [3] * 20)

        on_ranks(body, cache_capacity=4)
        on_ranks(body, cache_capacity=0)

    def test_ranks_come_at_different_times(self):
        def body(me):
            time.sleep(0.15 * me.rank)
            self.assertEqual(me.sum("late", numpy.ones(1))[0], 3)

        on_ranks(body)


class Kinds(unittest.TestCase):
    def test_all(self):
        def body(me):
            rows = numpy.full((me.rank, 2), me.rank)
            self.assertEqual(me.run("allgather", "g", rows).tolist(), [[1, 1], [2, 2], [2, 2]])
            self.assertEqual(me.run("broadcast", "b", numpy.array([me.rank]), root=2).tolist(), [2])
            table = numpy.repeat(numpy.arange(3), 2) + 10 * me.rank
            result, received = me.run("alltoall", "a", table, numbers=(2, 2, 2))
            self.assertEqual(result.tolist(), [10 * rank + me.rank for rank in range(3) for _ in "ab"])
            self.assertEqual(received, [2, 2, 2])
            part = me.run("reducescatter", "r", numpy.arange(4), op="sum")
            self.assertEqual(part.tolist(), [[0, 3], [6], [9]][me.rank])
            me.run("barrier", "", numpy.empty(0))

        on_ranks(body)

    def test_scales(self):
        def body(me):
            for kind, expected in (("allreduce", [9.0] * 3), ("reducescatter", [9.0])):
                mine = numpy.full(3, 2.0)
                result = me.run(kind, "x", mine, op="sum", prescale=0.5, postscale=3.0)
                self.assertEqual(result.tolist(), expected)
                self.assertEqual(mine.tolist(), [2.0] * 3)

        on_ranks(body)

    def test_groups_are_carried_out_together(self):
        def body(me):
            first = me.start("allreduce", "g0", numpy.ones(2), op="sum", group="g", group_size=2)
            self.assertEqual(me.sum("alone", numpy.ones(1))[0], 3)
            time.sleep(0.05)
            self.assertFalse(first.poll())
            second = me.start("allreduce", "g1", numpy.ones(2), op="sum", group="g", group_size=2)
            self.assertEqual((first.result()[0], second.result()[0]), (3, 3))

        on_ranks(body)

    def test_adasum(self):
        def body(me):
            same = me.run("allreduce", "same", numpy.array([1.0, 2.0]), op="adasum")
            numpy.testing.assert_allclose(same, [1, 2])
            orthogonal = numpy.zeros(4)
            orthogonal[me.rank] = 1
            numpy.testing.assert_allclose(me.run("allreduce", "o", orthogonal, op="adasum"), numpy.ones(4))

        on_ranks(body, ranks=4)

    def test_codecs_keep_errors_by_name(self):
        def body(me):
            codec = hocket.Codec("topk:ratio=0.25")
            sums = numpy.zeros(8, numpy.float32)
            for _ in range(20):
                sums += me.sum("x", numpy.arange(1, 9, dtype=numpy.float32), codec=codec, feedback=1)
            self.assertGreater(sums.min(), 0, "what was left out came later")
            sums = me.sum("y", numpy.arange(1, 9, dtype=numpy.float32), codec=codec)
            self.assertEqual(sums.min(), 0, "and without feedback it does not")

        on_ranks(body)


class Joined(unittest.TestCase):
    def test_ranks_with_less_data(self):
        def body(me):
            codec = hocket.Codec("int8")
            for step in range(me.rank + 1):
                self.assertEqual(me.sum("x", numpy.ones(2))[0], 3 - step)
                self.assertEqual(me.run("allgather", "g", numpy.full((1, 2), me.rank)).tolist(),
                                 [[rank, rank] for rank in range(step, 3)])
                self.assertAlmostEqual(me.sum("c", numpy.ones(2, numpy.float32), codec=codec)[0], 3 - step, 1)
            self.assertEqual(me.join(), 2)
            self.assertEqual(me.sum("x", numpy.ones(2))[0], 3, "after all have joined, all take part again")

        on_ranks(body)

    def test_calls_under_way_end_first(self):
        def body(me):
            call = me.start("allreduce", "x", numpy.ones(2), op="sum")
            me.join()
            self.assertEqual(call.result()[0], 3)

        on_ranks(body)

    def test_what_joined_ranks_cannot_do(self):
        def body(me):
            if me.rank == 1:
                return me.join()
            with self.assertRaisesRegex(Mismatch, "allreduce of 'm': op max .* joined ranks 1;"):
                me.run("allreduce", "m", numpy.ones(2), op="max")
            with self.assertRaisesRegex(Mismatch, r"broadcast of 'b': joined ranks \(1\)"):
                me.run("broadcast", "b", numpy.ones(2), root=0)
            return me.join()

        on_ranks(body)


class Mistakes(unittest.TestCase):
    def differs(self, kind, details, why):
        """details(rank): (array, request's details)."""
        def body(me):
            array, more = details(me.rank)
            with self.assertRaisesRegex(Mismatch, why):
                me.run(kind, "w", array, **more)
            self.assertEqual(me.sum("w", numpy.ones(1))[0], 3, "everything stays of use")

        on_ranks(body)

    def test_ranks_that_differ(self):
        one = numpy.ones(2)
        for kind, details, why in (
                ("allreduce", lambda rank: (numpy.ones(2 + (rank == 1)), {"op": "sum"}),
                 r"allreduce of 'w': rank 0 has shape \(2,\), rank 1 has shape \(3,\)"),
                ("allreduce", lambda rank: (one.astype("f4" if rank == 2 else "f8"), {"op": "sum"}),
                 "rank 0 has datatype float64, rank 2 has datatype float32"),
                ("allreduce", lambda rank: (one, {"op": "max" if rank else "sum"}), "op sum, rank 1 has op max"),
                ("allreduce", lambda rank: (one, {"op": "sum", "prescale": rank + 1.0}), "prescale 1.0, rank 1"),
                ("allgather", lambda rank: (numpy.ones((1, 2 + rank)), {}), r"shape \(1, 2\), rank 1 has shape \(1, 3\)"),
                ("allgather", lambda rank: (numpy.ones((1,) * (1 + rank)), {}), "shape"),
                ("broadcast", lambda rank: (one, {"root": rank}), "root 0, rank 1 has root 1"),
                ("reducescatter", lambda rank: (numpy.ones(3 + rank), {"op": "sum"}), "shape"),
                ("alltoall", lambda rank: (numpy.ones((3, 1 + rank)), {"numbers": (1, 1, 1)}), "shape")):
            with self.subTest(why):
                self.differs(kind, details, why)

    def test_a_name_twice(self):
        def body(me):
            if me.rank != 0:  # the first call of rank 0 is not done before these
                me.run("broadcast", "go", numpy.ones(1), root=0)
            call = me.start("allreduce", "x", numpy.ones(1), op="sum")
            if me.rank == 0:
                with self.assertRaisesRegex(Mismatch, "allreduce of 'x': rank 0 has a call of this name under way"):
                    me.start("allreduce", "x", numpy.ones(1), op="sum")
                me.run("broadcast", "go", numpy.ones(1), root=0)
            self.assertEqual(call.result()[0], 3)

        on_ranks(body)

    def test_one_fault_fails_its_group(self):
        def body(me):
            calls = [me.start("allreduce", f"g{i}", numpy.ones(1 + (i == 1 and me.rank == 1)), op="sum", group="g",
                              group_size=2) for i in range(2)]
            for call in calls:
                with self.assertRaisesRegex(Mismatch, "'g1': rank 0 has shape"):
                    call.result()

        on_ranks(body)

    def test_a_rank_that_dies(self):
        def body(me):
            with self.assertRaisesRegex(HorovodInternalError, "rank 1"):  # maybe still in the first call
                me.sum("x", numpy.ones(1))
                if me.rank == 1:
                    me.world.communicator.revoke()
                me.sum("y", numpy.ones(1))
            with self.assertRaises(HorovodInternalError):
                me.sum("z", numpy.ones(1))

        on_ranks(body)

    def test_shutdown_ends_what_the_others_wait_for(self):
        def body(me):
            if me.rank != 1:
                with self.assertRaisesRegex(HorovodInternalError, "shut down"):
                    me.sum("x", numpy.ones(1))

        on_ranks(body)

    def test_a_framework_that_fails_fails_all(self):
        class Broken(NumpyArrays):
            def empty(self, shape, datatype):
                raise MemoryError("no room")

        def body(me):
            arrays = Broken() if me.rank == 2 else ARRAYS
            request = Request("allreduce", "x", "float64", (3,), "sum")
            with self.assertRaisesRegex(HorovodInternalError, "no room" if me.rank == 2 else "rank"):
                me.world.engine().submit(Call(request, arrays, numpy.ones(3))).result()

        on_ranks(body)


class Sets(unittest.TestCase):
    def test_a_set_has_names_of_its_own(self):
        def body(me):
            number = me.world.add_set([2, 0])
            self.assertEqual(me.world.includes(number), me.rank != 1)
            if me.rank != 1:
                part = Rank(me.world, number)
                call = part.start("allreduce", "x", numpy.full(1, me.rank), op="sum")
                self.assertEqual(part.run("broadcast", "b", numpy.array([me.rank]), root=2)[0], 2)
                self.assertEqual(call.result()[0], 2)
            else:
                with self.assertRaisesRegex(ValueError, "rank 1 is in no process set 1"):
                    me.world.engine(number)
            self.assertEqual(me.sum("x", numpy.ones(1))[0], 3)
            me.world.remove_set(number)
            self.assertFalse(me.world.includes(number))
            self.assertEqual(me.world.add_set([1]), number + 1)

        on_ranks(body)

    def test_refusals(self):
        def body(me):
            with self.assertRaisesRegex(ValueError, r"ranks \[3\] of 3"):
                me.world.add_set([3])
            with self.assertRaisesRegex(ValueError, "stays"):
                me.world.remove_set(0)
            with self.assertRaisesRegex(Mismatch, "ranks"):
                me.world._submit(Request("add_process_set", "x", numbers=(me.rank,)))

        on_ranks(body)

    def test_places(self):
        hosts = "aabab"
        places = [world_.place_of(rank, hosts) for rank in range(5)]
        self.assertEqual([place.local_rank for place in places], [0, 1, 0, 2, 1])
        self.assertEqual([place.local_size for place in places], [3, 3, 2, 3, 2])
        self.assertEqual([(place.cross_rank, place.cross_size) for place in places],
                         [(0, 2), (0, 2), (1, 2), (0, 1), (1, 2)])
        self.assertFalse(places[0].homogeneous)


class Stalls(unittest.TestCase):
    def test_who_misses_is_named(self):
        heard = []
        handler = logging.Handler()
        handler.emit = lambda record: heard.append(record.getMessage())
        logging.getLogger("hocket.horovod").addHandler(handler)

        def body(me):
            if me.rank == 1:
                time.sleep(1.5)
            self.assertEqual(me.sum("x", numpy.ones(1))[0], 3)

        on_ranks(body, stall_check_time=0.3)
        logging.getLogger("hocket.horovod").removeHandler(handler)
        self.assertRegex(heard[0], r"allreduce of 'x' waits since \d s: ranks 0, 2 called it, rank 1 not")

    def test_shutdown(self):
        def body(me):
            while me.rank != 0 and not me.world.engine().failed:
                time.sleep(0.05)
            with self.assertRaisesRegex(HorovodInternalError, "'x' waits .* rank 0 called it, ranks 1, 2 not"):
                me.sum("x", numpy.ones(1))

        on_ranks(body, stall_check_time=0, stall_shutdown_time=0.5)

    def test_who_has_joined_may_wait(self):
        def body(me):
            if me.rank == 0:
                time.sleep(1.5)
            self.assertEqual(me.join(), 0)

        on_ranks(body, stall_check_time=0.2, stall_shutdown_time=0.4)

    def test_what_a_rank_tells_is_checked(self):
        for wrong in (b"[]", b"{", b'{"x": "y"}', b"[" * 100000):
            with self.assertRaises(hocket.InternalError):
                StallWatch.decode(wrong)


class Newcomers(unittest.TestCase):
    def test_they_are_taken_in_when_they_wait(self):
        with tempfile.TemporaryDirectory() as path, unittest.mock.patch.dict(os.environ, {"HOCKET_ELASTIC": path}):
            place = rendezvous.Folder(path)
            with open(os.path.join(path, "least"), "w", encoding="ascii") as file:
                file.write("3")
            sums = []

            def newcomer():
                with unittest.mock.patch.dict(os.environ, {"HOCKET_NEWCOMER": "late"}):
                    with rendezvous.from_environment() as grown:
                        sums.append(grown.all_reduce(numpy.ones(1))[0])

            def member(communicator):
                with rendezvous.take_in(communicator, 60) as grown:
                    sums.append(grown.all_reduce(numpy.ones(1))[0])

            threads = [threading.Thread(target=member, args=(each,)) for each in hocket.Communicator.all(2)]
            threads.append(threading.Thread(target=newcomer))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sums, [3, 3, 3])
            self.assertEqual(place.waiting(), [])
            self.assertEqual(sorted(os.listdir(path)), ["least", "member.late"], "the invitation holds a key, and is gone")

    def test_enough_must_come_in_time(self):
        with tempfile.TemporaryDirectory() as path, unittest.mock.patch.dict(os.environ, {"HOCKET_ELASTIC": path}):
            with open(os.path.join(path, "least"), "w", encoding="ascii") as file:
                file.write("2")
            with hocket.Communicator.join(hocket.unique_id(), 0, 1) as alone:
                with self.assertRaisesRegex(hocket.Timeout, "1 ranks are left, 2 are needed"):
                    rendezvous.take_in(alone, 0.2)

    def test_what_lies_there_is_checked(self):
        with tempfile.TemporaryDirectory() as path:
            place = rendezvous.Folder(path)
            with self.assertRaisesRegex(hocket.Timeout, "newcomer x: nobody took it in"):
                place.answer("x", 0.1)
            place.invite("x", b"key", 2, 3)
            self.assertEqual(os.stat(os.path.join(path, "invitation.x")).st_mode & 0o777, 0o600)
            self.assertEqual(place.answer("x", 0), (b"key", 2, 3))
            for wrong in ("", "[]", '{"invitation": "zz", "rank": 1, "size": 2}', '{"rank": 1}'):
                with open(os.path.join(path, "invitation.x"), "w", encoding="ascii") as file:
                    file.write(wrong)
                with self.assertRaisesRegex(hocket.InvalidUsage, "no invitation"):
                    place.answer("x", 0)
            with self.assertRaisesRegex(hocket.InvalidUsage, "no number"):
                place.least()


class Parts(unittest.TestCase):
    def test_requests_survive_their_journey(self):
        requests = [Request("alltoall", 'a "name"\n', "float32", (2, 3), numbers=(1, 1)), Request("join", "")]
        self.assertEqual(request_.decode(request_.encode(requests)), requests)

    def test_damaged_requests_are_refused(self):
        whole = request_.encode([Request("allreduce", "x", "float32", (2,), "sum")])
        refused = 0
        for seed in range(3000):
            chance = random.Random(seed)
            text = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                text[chance.randrange(len(text))] = chance.randrange(256)
            try:
                request_.decode(text[:chance.randint(1, len(text))])
            except hocket.InternalError:
                refused += 1
        self.assertGreater(refused, 2000)
        for wrong in (b"{}", b"[[]]", b'[["allreduce"]]', b"[" * 100000, whole.replace(b"allreduce", b"sum"),
                      whole.replace(b"[2]", b"[true]"), whole.replace(b"[2]", b"[1e400]"), whole.replace(b"1.0", b"NaN", 1)):
            with self.assertRaises(hocket.InternalError):
                request_.decode(wrong)

    def test_fusion_keeps_to_its_threshold(self):
        table = Table(10)
        for name, count, op in (("a", 1, "sum"), ("b", 1, "sum"), ("c", 9, "sum"), ("d", 1, "max"), ("e", 1, "sum")):
            table.announce(0, Request("allreduce", name, "float32", (count,), op))
        entries = [table.entry("allreduce." + name) for name in "edcba"]
        names = [[entry.key[-1] for entry in batch] for batch in fusion.batches(entries, 8)]
        self.assertEqual(names, [["a", "b"], ["c"], ["d"], ["e"]])
        self.assertEqual(len(fusion.batches(entries, 0)), 5)

    def test_settings(self):
        settings = settings_.from_environment({"HOROVOD_FUSION_THRESHOLD": "1024", "HOROVOD_CYCLE_TIME": "2.5",
                                               "HOROVOD_AUTOTUNE": "1", "HOROVOD_TIMELINE": "/x"})
        self.assertEqual((settings.fusion_threshold, settings.cycle_time, settings.autotune, settings.timeline),
                         (1024, 0.0025, True, "/x"))
        for wrong in ("many", "-1", "nan", "1e99"):
            with self.assertRaisesRegex(ValueError, f"HOROVOD_CYCLE_TIME='{wrong}'"):
                settings_.from_environment({"HOROVOD_CYCLE_TIME": wrong})
        self.assertEqual(settings_.from_environment({"HOROVOD_STALL_CHECK_DISABLE": "1"}).stall_check_time, 0)

    def test_the_tuner_climbs_to_the_best(self):
        now = [0.0]
        settings = settings_.Settings(autotune=True, autotune_max_samples=40)
        tuner = Tuner(settings, lambda: now[0])
        best = (8 << 20, 0.005)
        rounds = 0
        while not tuner.done:
            threshold, cycle = tuner.values
            now[0] += 1 + abs(numpy.log2((threshold + 1) / best[0])) + abs(numpy.log2(cycle / best[1]))
            tuner.add(1)
            rounds += 1
            self.assertLess(rounds, 40 * 3 * 10 + 31)
        self.assertEqual(tuner.values, best)

    def test_rank_0_sets_for_all(self):
        def body(me):
            me.sum("x", numpy.ones(1))
            engine = me.world.engine()
            self.assertEqual((engine._threshold, round(engine._cycle_time, 6)), (5, 0.002))

        on_ranks(body, fusion_threshold=lambda rank: 5 + rank, cycle_time=lambda rank: 0.001 * (2 + rank))

    def test_tuning_is_logged(self):
        def body(me):
            for _ in range(100):
                me.sum("x", numpy.ones(10))

        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            on_ranks(body, autotune=True, autotune_log=log, autotune_steps_per_sample=2, autotune_max_samples=4)
            with open(log, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(lines[0], "fusion_threshold_bytes,cycle_time_ms,bytes_per_s")
            self.assertIn("best:", lines[-1])

    def test_the_timeline_is_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")

            def body(me):
                me.world.start_timeline(path, mark_cycles=True)
                calls = [me.start("allreduce", name, numpy.ones(2), op="sum") for name in "ab"]
                for call in calls:
                    call.result()
                me.run("broadcast", "c", numpy.ones(1), root=0)
                me.world.timeline.stop()

            on_ranks(body, cycle_time=0.01)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)
            names = {event.get("name") for event in events}
            self.assertLessEqual({"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "HOCKET_ALLREDUCE", "BROADCAST", "HOCKET_BCAST",
                                  "CYCLE_START"}, names)
            for row in {event["pid"] for event in events if event.get("ph") == "B"}:
                phases = [event["ph"] for event in events if event.get("pid") == row]
                self.assertEqual(phases.count("B"), phases.count("E"))
            with self.assertRaisesRegex(OSError, "no folder"):
                world_.Timeline().start(os.path.join(folder, "no folder", "x"))

    def test_agreement_is_pure(self):
        self.assertIsNone(agreement.disagreement({0: Request("barrier", ""), 2: Request("barrier", "")}, []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
