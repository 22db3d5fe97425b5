#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""hocket.torch as Horovod's users meet it: every call on every kind of tensor, with gradients, right and wrong."""
import importlib
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import torch

import hocket.torch as hvd
from forked_ranks import on_ranks
from hocket.torch.compression import CodecCompressor

os.environ["HOCKET_COMPRESSION"] = "always"  # in shared memory, too, where it does not pay

torch.set_num_threads(1)


class Test(unittest.TestCase):
    """`self.ranks(body)`: body(rank, size) on 2 and 4 processes."""

    def ranks(self, body, ranks=(2, 4), **environment):
        def initialized():
            hvd.init()
            try:
                return body(hvd.rank(), hvd.size())
            finally:
                hvd.shutdown()

        return [on_ranks(initialized, count, **environment) for count in ranks]

    def same(self, actual, expected, message=None):
        torch.testing.assert_close(actual, expected if isinstance(expected, torch.Tensor) else torch.tensor(
            expected, dtype=actual.dtype), msg=message)


class Alias(unittest.TestCase):
    def test_modules_of_horovod(self):
        import hocket.horovod_alias as alias
        for name in alias._MODULES:
            importlib.import_module(name)
        import horovod
        self.assertEqual(horovod.__version__, "0.28.1")
        self.assertIs(horovod.torch.allreduce, hvd.allreduce)
        self.assertIs(horovod.torch.elastic.state.TorchState, hvd.elastic.TorchState)
        self.assertTrue(horovod.common.util.gloo_built(verbose=True))

    def test_a_script_has_what_lies_beside_it_and_may_spawn(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "train.py")
            script.with_name("beside.py").write_text("WORD = 'beside'\n", encoding="utf-8")
            script.write_text("""import multiprocessing, beside, horovod
def told(queue):
    queue.put((beside.WORD, horovod.__version__, horovod.common.exceptions.HorovodInternalError.__module__))
import horovod.common.exceptions
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    context.Process(target=told, args=(queue,)).start()
    print(queue.get(timeout=60))
""", encoding="utf-8")
            said = subprocess.run([sys.executable, "-m", "hocket.horovod_alias", str(script)], capture_output=True, text=True, check=False)
            self.assertEqual(said.stdout.strip(), "('beside', '0.28.1', 'hocket.named.errors')", said.stderr)


class Basics(Test):
    def test_ranks(self):
        def body(rank, size):
            self.assertEqual((hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()), (rank, size, 0, 1))
            self.assertTrue(hvd.is_initialized() and hvd.is_homogeneous())
            hvd.shutdown()
            self.assertFalse(hvd.is_initialized())
            with self.assertRaisesRegex(ValueError, "use hvd.init"):
                hvd.rank()
            hvd.init()
            self.same(hvd.allreduce(torch.ones(1), op=hvd.Sum), [size])

        self.ranks(body)

    def test_hosts(self):
        def body():
            import os
            os.environ["HOCKET_HOST_ID"] = "ab"[int(os.environ["HOCKET_RANK"]) // 2]
            hvd.init()
            result = hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()
            hvd.shutdown()
            return result

        self.assertEqual(on_ranks(body, 4), [(0, 2, 0, 2), (1, 2, 0, 2), (0, 2, 1, 2), (1, 2, 1, 2)])

    def test_subset(self):
        def body():
            hvd.init([2, 0])
            result = hvd.rank(), hvd.size()
            self.same(hvd.allreduce(torch.ones(1), op=hvd.Sum), [float(hvd.size())])
            hvd.shutdown()
            return result

        self.assertEqual(on_ranks(body, 3), [(1, 2), (0, 1), (0, 2)])


class Allreduce(Test):
    def test_types_and_operations(self):
        def body(rank, size):
            total = size * (size + 1) // 2
            for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64,
                         torch.uint8, torch.int8):
                for op, expected in ((hvd.Sum, total), (hvd.Max, size), (hvd.Min, 1), (hvd.Product, {2: 2, 4: 24}[size])):
                    mine = torch.full((2, 3), rank + 1, dtype=kind)
                    result = hvd.allreduce(mine, op=op)
                    self.same(result, torch.full((2, 3), expected, dtype=kind), f"{kind} {op}")
                    self.assertEqual(mine[0, 0].item(), rank + 1)
            self.same(hvd.allreduce(torch.full((3,), float(rank))), [(size - 1) / 2] * 3)
            self.same(hvd.allreduce(torch.full((3,), float(rank)), average=False), [size * (size - 1) / 2] * 3)

        self.ranks(body)

    def test_forms(self):
        def body(_, size):
            x = torch.ones(4)
            self.assertIs(hvd.allreduce_(x, op=hvd.Sum), x)
            self.same(x, [size] * 4)
            y = torch.arange(6.0).reshape(2, 3).t()  # not contiguous
            self.assertIs(hvd.allreduce_(y, op=hvd.Sum), y)
            self.same(y, size * torch.arange(6.0).reshape(2, 3).t())
            handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
            self.same(hvd.synchronize(handle), [1.5 * size] * 2)
            self.assertTrue(hvd.poll(handle))
            self.same(hvd.allreduce(torch.tensor([3]), op=hvd.Sum, prescale_factor=0.5), [size])
            several = hvd.grouped_allreduce([torch.ones(i + 1) for i in range(3)], op=hvd.Sum, name="g")
            self.assertEqual([each.tolist() for each in several], [[size] * (i + 1) for i in range(3)])
            xs = [torch.ones(2), torch.ones(3)]
            hvd.grouped_allreduce_(xs, op=hvd.Average)
            self.same(torch.cat(xs), [1.0] * 5)
            self.same(hvd.allreduce(torch.tensor(2.0), op=hvd.Sum), 2.0 * size)

        self.ranks(body)

    def test_compression(self):
        def body(_, size):
            x = torch.linspace(-1, 1, 1000)
            for compression, error in ((hvd.Compression.none, 0), (hvd.Compression.fp16, 1e-3),
                                       (hvd.Compression.bf16, 1e-2), (hvd.Compression.codec("int8"), 0.02),
                                       (hvd.Compression.codec("lossless"), 0)):
                result = hvd.allreduce(x, op=hvd.Sum, compression=compression)
                self.assertEqual(result.dtype, torch.float32)
                self.assertLessEqual((result - size * x).abs().max().item(), size * error + 1e-6)
            self.same(hvd.allreduce(torch.tensor([1, 2]), op=hvd.Sum, compression=hvd.Compression.fp16), [size, 2 * size])
            self.same(hvd.allreduce(torch.tensor([1, 2]), op=hvd.Sum, compression=hvd.Compression.codec("int8")),
                      [size, 2 * size])

        self.ranks(body)

    def test_gradients(self):
        def body(rank, size):
            x = torch.full((2,), float(rank), requires_grad=True)
            hvd.allreduce(x, op=hvd.Sum).sum().backward()
            self.same(x.grad, [float(size)] * 2)
            x.grad = None
            first, second = hvd.grouped_allreduce([x, 2 * x])
            (first + second).sum().backward()
            self.same(x.grad, [3.0] * 2)

        self.ranks(body)

    def test_adasum(self):
        def body(rank, size):
            x = torch.zeros(size)
            x[rank] = 1
            self.same(hvd.allreduce(x, op=hvd.Adasum), [1.0] * size)
            self.same(hvd.allreduce(torch.ones(3), op=hvd.Adasum), [1.0] * 3)

        self.ranks(body)

    def test_sparse(self):
        def body(rank, size):
            x = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (size + 1,))
            result = hvd.synchronize(hvd.sparse_allreduce_async(x, "s", hvd.Sum)).to_dense()
            self.same(result, [size] + [2.0] * size)

        self.ranks(body)


class Others(Test):
    def test_allgather(self):
        def body(rank, size):
            x = torch.full((rank + 1, 2), float(rank), requires_grad=True)
            result = hvd.allgather(x, name="g")
            self.same(result, torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)]))
            (result * (rank + 1)).sum().backward()
            self.same(x.grad, torch.full((rank + 1, 2), (size + 1) / 2))
            self.same(hvd.allgather(torch.tensor([rank % 2 == 0])), [r % 2 == 0 for r in range(size)])
            both = hvd.grouped_allgather([torch.tensor([rank]), torch.tensor([2 * rank])])
            self.assertEqual([each.tolist() for each in both], [list(range(size)), list(range(0, 2 * size, 2))])

        self.ranks(body)

    def test_broadcast(self):
        def body(rank, size):
            x = torch.full((3,), float(rank), requires_grad=True)
            result = hvd.broadcast(x, size - 1)
            self.same(result, [size - 1.0] * 3)
            result.sum().backward()
            self.same(x.grad, [1.0 if rank == size - 1 else 0.0] * 3)
            y = torch.tensor(rank)
            hvd.broadcast_(y, 1)
            self.assertEqual(y.item(), 1)

        self.ranks(body)

    def test_alltoall(self):
        def body(rank, size):
            x = (torch.arange(2.0 * size) + 100 * rank).requires_grad_()
            result = hvd.alltoall(x)
            self.same(result, torch.cat([torch.arange(2.0 * rank, 2 * rank + 2) + 100 * r for r in range(size)]))
            splits = torch.arange(size, dtype=torch.int32)
            rows = torch.full((int(splits.sum()), 3), float(rank), requires_grad=True)
            result, received = hvd.alltoall(rows, splits)
            self.assertEqual(received.tolist(), [rank] * size)
            self.same(result, torch.cat([torch.full((rank, 3), float(r)) for r in range(size)]))
            (result.sum() * (rank + 1)).backward()
            self.same(rows.grad[:, 0], [float(r + 1) for r in range(size) for _ in range(r)])

        self.ranks(body)

    def test_reducescatter(self):
        def body(rank, size):
            x = torch.arange(size + 1.0, requires_grad=True)
            result = hvd.reducescatter(x, op=hvd.Sum)
            rows = [0, 1] if rank == 0 else [rank + 1]
            self.same(result, [size * float(row) for row in rows])
            result.sum().backward()
            self.same(x.grad, [float(size)] * (size + 1))
            self.same(hvd.reducescatter(x.detach(), prescale_factor=2.0), [2.0 * row for row in rows])
            one, two = hvd.grouped_reducescatter([torch.ones(size), torch.ones(size, 2)], op=hvd.Sum)
            self.same(one, [float(size)])
            self.assertEqual(two.shape, (1, 2))

        self.ranks(body)

    def test_objects(self):
        def body(rank, size):
            self.assertEqual(hvd.broadcast_object({"from": rank, "t": torch.ones(2)}, 1)["from"], 1)
            self.assertEqual(hvd.allgather_object("x" * rank), ["x" * r for r in range(size)])

        self.ranks(body)

    def test_join_and_barrier(self):
        def body(rank, size):
            for step in range(rank + 1):
                self.same(hvd.allreduce(torch.ones(2), name="j", op=hvd.Sum), [float(size - step)] * 2)
            self.assertEqual(hvd.join(), size - 1)
            hvd.barrier()

        self.ranks(body)

    def test_process_sets(self):
        def body(rank, _):
            even, odd = hvd.ProcessSet([0, 2]), hvd.add_process_set([1, 3])
            self.assertIsNone(even.included())
            hvd.add_process_set(even)
            mine, other = (even, odd) if rank % 2 == 0 else (odd, even)
            self.assertTrue(mine.included() and not other.included())
            self.assertEqual((mine.size(), mine.rank(), other.rank()), (2, rank // 2, None))
            self.same(hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum, process_set=mine), [[2.0], [4.0]][rank % 2])
            self.same(hvd.broadcast(torch.tensor([rank]), mine.ranks[1], process_set=mine), [mine.ranks[1]])
            self.assertEqual(hvd.broadcast_object(rank, mine.ranks[0], process_set=mine), mine.ranks[0])
            with self.assertRaisesRegex(ValueError, f"rank {rank} is in no process set"):
                hvd.allreduce(torch.ones(1), process_set=other)
            with self.assertRaisesRegex(ValueError, "already"):
                hvd.add_process_set([0, 2])
            self.assertTrue(hvd.remove_process_set(odd))
            self.assertFalse(hvd.remove_process_set(odd))
            with self.assertRaisesRegex(ValueError, "was not added"):
                hvd.allreduce(torch.ones(1), process_set=odd)

        self.ranks(body, [4])


class Mistakes(Test):
    def test_what_one_rank_sees_alone(self):
        def body(rank, _):
            ones = torch.ones(2)
            for call, why in (
                    (lambda: hvd.allreduce(torch.ones(2, device="meta"), name="x"), "allreduce of 'x' on rank {}: .*meta"),
                    (lambda: hvd.allreduce(ones.to_sparse(), name="x"), "allreduce of 'x' on rank {}: .*sparse"),
                    (lambda: hvd.allreduce(ones.to(torch.complex64), name="x"), "allreduce of 'x' on rank {}: .*complex64"),
                    (lambda: hvd.allreduce(torch.tensor([True]), name="x"), "on rank {}: elements of type bool"),
                    (lambda: hvd.allreduce(ones, name="x", op="mean"), "on rank {}: there is no op 'mean'"),
                    (lambda: hvd.allreduce_async([1.0], name="x"), "on rank {}: list is no tensor"),
                    (lambda: hvd.broadcast(ones, 7, name="x"), "broadcast of 'x' on rank {}: root_rank 7"),
                    (lambda: hvd.allreduce(ones, name="x", prescale_factor=math.nan), "on rank {}: factors nan and 1.0"),
                    (lambda: hvd.broadcast(ones, None, name="x"), "on rank {}: root_rank: None is no whole number"),
                    (lambda: hvd.alltoall(ones, [0.5, 1.5], name="x"), "on rank {}: splits: 0.5 is no whole number"),
                    (lambda: hvd.add_process_set([ones]), "ranks: .* is no whole number"),
                    (lambda: hvd.add_process_set(1), "ranks: 1 is no list of whole numbers"),
                    (lambda: hvd.allgather(torch.tensor(1.0), name="x"), "allgather of 'x' on rank {}: .* no rows"),
                    (lambda: hvd.alltoall(torch.ones(3), name="x"), "alltoall of 'x' on rank {}: 3 rows"),
                    (lambda: hvd.alltoall(None, name="x"), "alltoall of 'x' on rank {}: NoneType is no tensor"),
                    (lambda: hvd.sparse_allreduce_async(ones, "x", hvd.Sum), "sparse allreduce of 'x' on rank {}: .* not sparse"),
                    (lambda: hvd.alltoall(ones, [1, 2], name="x"), r"on rank {}: splits \(1, 2\)"),
                    (lambda: hvd.allreduce(ones, name="x", compression="fp16"), "compression: 'fp16' is none, such as"),
                    (lambda: hvd.DistributedOptimizer(torch.optim.SGD([ones], 1), compression=hvd.Compression), "compression: .* is none"),
                    (lambda: hvd.allreduce(ones, name="x", process_set=[0]), r"process_set: \[0\] is no ProcessSet"),
                    (lambda: hvd.allreduce(ones, name="x", op=hvd.Max, compression=hvd.Compression.codec("int8")),
                     "on rank {}: codec int8.* not max")):
                with self.assertRaisesRegex((ValueError, IndexError), why.format(rank)):
                    call()
            # Numbers of NumPy and of torch are numbers.
            self.same(hvd.broadcast(ones * rank, torch.tensor(1), name="x"), [1.0, 1.0])
            self.assertEqual(hvd.add_process_set(torch.arange(1)).ranks, [0])
            with self.assertRaisesRegex(ValueError, "nonsense"):
                hvd.Compression.codec("nonsense")
            with self.assertRaisesRegex(ValueError, "both"):
                hvd.allreduce(ones, average=True, op=hvd.Sum)

        self.ranks(body, [2])

    def test_ranks_that_differ(self):
        def body(rank, size):
            with self.assertRaisesRegex(RuntimeError, r"allreduce of 'x': rank 0 has shape \(2,\), rank 1 has shape \(3,\)"):
                hvd.allreduce(torch.ones(2 + min(1, rank)), name="x")
            with self.assertRaisesRegex(hvd.HorovodInternalError, "rank 0 has datatype float32, rank 1 has datatype int64"):
                hvd.allreduce(torch.ones(2, dtype=torch.int64 if rank == 1 else torch.float32), name="x")
            self.same(hvd.allreduce(torch.ones(2), name="x", op=hvd.Sum), [float(size)] * 2)

        self.ranks(body)

    def test_groups_that_differ_or_hold_something_bad(self):
        def body(rank, size):
            one = torch.ones(1)
            for bad, why in ((torch.ones(2, device="meta"), "is on meta"), (one.to_sparse(), "not dense"), (None, "is no tensor")):
                with self.assertRaisesRegex(ValueError, f"allreduce of 'g.1' on rank {rank}: .*{why}"):
                    hvd.grouped_allreduce_async([one, bad], name="g")
                with self.assertRaisesRegex(ValueError, f"on rank {rank}: .*{why}"):
                    hvd.grouped_allgather([one, bad], name="g")
            with self.assertRaisesRegex(RuntimeError, "allreduce of 'g.0': rank 0 has group_size 1, rank 1 has group_size 2"):
                hvd.grouped_allreduce([one] * min(2, rank + 1), name="g")
            for result in hvd.grouped_allreduce([one] * 2, name="g", op=hvd.Sum):  # nothing of what failed is left
                self.same(result, [float(size)])

        self.ranks(body, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="60")

    def test_a_group_that_only_a_higher_rank_has(self):
        def body(rank, size):
            one = torch.ones(1)
            with self.assertRaisesRegex(RuntimeError, "allreduce of 'g.0': rank 0 has group .*, rank 1 has group "):
                if rank == 1:
                    hvd.grouped_allreduce([one, one], name="g")
                else:
                    hvd.allreduce(one, name="g.0")
            for result in hvd.grouped_allreduce([one] * 2, name="g", op=hvd.Sum):  # nothing of what failed is left
                self.same(result, [float(size)])

        self.ranks(body, HOROVOD_STALL_CHECK_TIME_SECONDS="5", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="10")

    def test_empty_groups(self):
        def body(_rank, _size):
            self.assertEqual(hvd.grouped_allreduce([]), [])
            self.assertEqual(list(hvd.grouped_allgather([])), [])

        self.ranks(body, [2])

    def test_a_name_twice(self):
        def body(rank, size):
            if rank != 0:  # the first call of rank 0 is not done before these
                hvd.barrier()
            first = hvd.allreduce_async(torch.ones(1), name="x", op=hvd.Sum)
            if rank == 0:
                with self.assertRaisesRegex(RuntimeError, "'x': rank 0 has a call of this name under way"):
                    hvd.allreduce_async(torch.ones(1), name="x")
                hvd.barrier()
            self.same(hvd.synchronize(first), [float(size)])

        self.ranks(body, [2])

    def test_a_worker_that_dies_in_backward(self):
        def body():
            import os
            hvd.init()
            model = torch.nn.Linear(3, 1)
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
            for step in range(10):
                if hvd.rank() == 1 and step == 3:
                    model.weight.register_hook(lambda _: os._exit(7))
                try:
                    optimizer.zero_grad()
                    model(torch.ones(2, 3)).sum().backward()
                    optimizer.step()
                except hvd.HorovodInternalError as error:
                    return str(error)
            return "no error"

        results = on_ranks(body, 3)
        self.assertIsNone(results[1])
        for text in (results[0], results[2]):
            self.assertIn("rank 1", text)


class Optimizers(Test):
    @staticmethod
    def model():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))

    @staticmethod
    def batch(step, rows):
        return torch.randn(rows, 6, generator=torch.Generator().manual_seed(step))

    def trained(self, rank, size, steps=4, passes=1, **options):
        """Weights after training on this rank's rows of each batch."""
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                             backward_passes_per_step=passes, **options)
        for step in range(steps):
            optimizer.zero_grad()
            for part in self.batch(step, 4 * size)[4 * rank:4 * rank + 4].chunk(passes):
                (model(part).pow(2).mean() / passes).backward()
            optimizer.step()
        return torch.cat([each.detach().flatten() for each in model.parameters()])

    def alone(self, size):
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(4):
            optimizer.zero_grad()
            model(self.batch(step, 4 * size)).pow(2).mean().backward()
            optimizer.step()
        return torch.cat([each.detach().flatten() for each in model.parameters()])

    def test_equals_one_process_on_the_whole_batch(self):
        def body(rank, size):
            expected = self.alone(size)
            parameters = list(self.model().parameters())
            for options in ({}, {"passes": 2}, {"gradient_predivide_factor": 2.0}, {"groups": 2},
                            {"compression": hvd.Compression.codec("lossless")}):
                result = self.trained(rank, size, **options)
                torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6, msg=str(options))
                self.same(hvd.allgather(result.reshape(1, -1))[0], result)
            del parameters
            rough = self.trained(rank, size, compression=hvd.Compression.fp16)
            torch.testing.assert_close(rough, expected, rtol=0.02, atol=0.002)
            self.assertTrue((rough != expected).any())

        self.ranks(body)

    def test_lists_of_groups(self):
        def body(_, size):
            model = self.model()
            first = list(model.parameters())[:2]
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(),
                                                 groups=[first], op=hvd.Sum)
            model(self.batch(0, 4)).sum().backward()
            own = torch.autograd.grad(model(self.batch(0, 4)).sum(), first[0])[0]
            optimizer.synchronize()
            self.same(first[0].grad, size * own)
            for wrong, why in ((0.5, "non-negative"), ([[1]], "torch.Tensor"), ([first, first], "once")):
                with self.assertRaisesRegex(ValueError, why):
                    hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), groups=wrong)

        self.ranks(body, [2])

    def test_parameters_that_a_rank_did_not_use(self):
        def body(rank, _):
            layers = torch.nn.ModuleList([torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)])
            hvd.broadcast_parameters(layers.state_dict(), 0)
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layers.parameters(), 1.0), layers.named_parameters())
            layers[rank](torch.ones(1, 2)).sum().backward()
            optimizer.step()
            for layer in layers:
                self.same(layer.weight.grad, [[0.5, 0.5]])

        self.ranks(body, [2])

    def test_sparse_gradients(self):
        def body(rank, size):
            for as_dense in (False, True):
                torch.manual_seed(2)
                table = torch.nn.Embedding(5, 2, sparse=True)
                before = table.weight.detach().clone()
                optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), 1.0), table.named_parameters(),
                                                     sparse_as_dense=as_dense)
                table(torch.tensor([rank, rank])).sum().backward()
                optimizer.step()
                expected = before.clone()
                expected[:size] -= 2 / size
                self.same(table.weight.detach(), expected)

        self.ranks(body)

    def test_adasum_moves_alike_where_gradients_are_alike(self):
        def body(_, size):
            model = self.model()
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(),
                                                 op=hvd.Adasum)
            alone = self.model()
            other = torch.optim.SGD(alone.parameters(), 0.1)
            for net, step in ((model, optimizer), (alone, other)):
                net(self.batch(0, 4)).pow(2).mean().backward()
                step.step()
            for one, two in zip(model.parameters(), alone.parameters()):
                torch.testing.assert_close(one, two)

        self.ranks(body)

    def test_state_of_one_to_all(self):
        def body(rank, size):
            model = self.model()
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
            if rank == 0:
                model(self.batch(0, 4)).sum().backward()
                optimizer.step()
            hvd.broadcast_optimizer_state(optimizer, 0)
            state = optimizer.state_dict()
            self.assertEqual(state["param_groups"][0]["lr"], 0.1)
            self.assertEqual(hvd.allgather(state["state"][0]["exp_avg"].reshape(1, -1)).unique(dim=0).shape[0], 1)
            self.assertEqual(float(state["state"][0]["step"]), 1.0)
            del size

        self.ranks(body)

    def test_codec_state_resumes_bit_exactly(self):
        def body(rank, size):
            def steps(compression, first, last, weights=None):
                model = self.model()
                if weights is not None:
                    torch.nn.utils.vector_to_parameters(weights, model.parameters())
                optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(),
                                                     compression=compression)
                for step in range(first, last):
                    optimizer.zero_grad()
                    model(self.batch(step, 4 * size)[4 * rank:4 * rank + 4]).pow(2).mean().backward()
                    optimizer.step()
                return torch.nn.utils.parameters_to_vector(model.parameters()).detach()

            make = lambda: hvd.Compression.codec("topk:ratio=0.1", feedback=True)
            whole = steps(make(), 0, 6)
            first = make()
            half = steps(first, 0, 3)
            second = make()
            second.load_state_dict(first.state_dict())
            self.assertTrue(torch.equal(steps(second, 3, 6, half), whole))
            self.assertFalse(torch.equal(steps(make(), 3, 6, half), whole))
            with self.assertRaisesRegex(ValueError, "codec 'topk"):
                hvd.Compression.codec("fp16").load_state_dict(first.state_dict())

        self.ranks(body, [2])

    def test_order_of_calls(self):
        def body(_, __):
            model = self.model()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
            self.assertIsInstance(optimizer, torch.optim.SGD)
            run = lambda: model(self.batch(0, 4)).sum().backward()
            run()
            with self.assertRaisesRegex(AssertionError, "race condition"):
                optimizer.zero_grad()
            with self.assertRaisesRegex(AssertionError, "backward_passes_per_step"):
                run()
            optimizer.synchronize()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with optimizer.skip_synchronize():
                    optimizer.step()
                scheduler.step()
            optimizer.zero_grad()
            self.assertAlmostEqual(optimizer.param_groups[0]["lr"], 0.01)
            run()
            optimizer.synchronize()
            with self.assertWarnsRegex(UserWarning, "skip_synchronize"):
                optimizer.step()
            for options, why in (({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "predivide"),
                                 ({"backward_passes_per_step": 0}, "must be > 0"),
                                 ({"named_parameters": [("a", p) for p in model.parameters()]}, "duplicates: a"),
                                 ({"named_parameters": list(model.named_parameters())[1:]}, "not named"),
                                 ({"named_parameters": model.parameters()}, "sequence of tuples")):
                with self.assertRaisesRegex(ValueError, why):
                    hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), **options)

        self.ranks(body, [2])

    def test_an_overflow_on_one_rank_is_seen_by_all(self):
        def body(rank, _):
            model = torch.nn.Linear(2, 1)
            hvd.broadcast_parameters(model.state_dict(), 0)
            before = model.weight.detach().clone()
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            scaler.scale(model(torch.ones(1, 2) * (1e38 if rank == 1 else 1.0)).sum()).backward()
            optimizer.synchronize()
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
            self.same(model.weight.detach(), before)
            self.assertEqual(scaler.get_scale(), 512.0)

        self.ranks(body, [2])


class Elastic(Test):
    def test_what_a_codec_keeps_is_each_ranks_own(self):
        def body(rank, _):
            compression = hvd.Compression.codec("topk:ratio=0.1", feedback=True)
            state = hvd.elastic.TorchState(compression=compression, step=0)

            def step():
                hvd.allreduce(torch.randn(100, generator=torch.Generator().manual_seed(rank + 10 * state.step)), name="x",
                              compression=compression)
                state.step += 1
                return compression.state_dict()

            committed = step()
            state.commit()
            self.assertNotEqual(step(), committed)
            state.restore()
            self.assertEqual((compression.state_dict(), state.step), (committed, 1))
            state.sync()
            self.assertEqual(compression.state_dict(), committed)
            self.assertEqual(len({each["state"] for each in hvd.allgather_object(committed)}), hvd.size())

        self.ranks(body)

    def test_handlers_of_other_types(self):
        class Counter:
            number = 1

        class CounterHandler(hvd.elastic.StateHandler):
            def save(self):
                self.saved = self.value.number

            def restore(self):
                self.value.number = self.saved

            def sync(self):
                self.value.number = hvd.broadcast_object(self.value.number)
                self.save()

        def body(rank, _):
            hvd.elastic.get_handler_registry().append((Counter, CounterHandler))
            counter = Counter()
            counter.number += rank
            state = hvd.elastic.TorchState(counter=counter, model=torch.nn.Linear(1, 1))
            state.sync()
            self.assertEqual(counter.number, 1)
            counter.number = 5
            state.restore()
            self.assertEqual(counter.number, 1)
            state.counter = Counter()
            state.counter.number = 7
            state.restore()
            self.assertEqual((state.counter.number, counter.number), (1, 1))

        self.ranks(body, [2])

    def test_what_codecs_keep_together_begins_anew_with_other_ranks(self):
        def body(_, __):
            kept = {}
            for codec in ("sign", "sign:feedback=both", "topk:ratio=0.5,feedback=ef21"):
                compression = kept[codec] = hvd.Compression.codec(codec, feedback=True)
                hvd.allreduce(torch.arange(8.0), name=codec, compression=compression)
            before = {codec: compression.state_dict() for codec, compression in kept.items()}
            CodecCompressor.ranks_have_changed()
            for codec, compression in kept.items():
                self.assertEqual(compression.state_dict() == before[codec], codec == "sign", codec)

        self.ranks(body, [2])


class Sampler(Test):
    def test_what_is_left_is_shared_out(self):
        def body(rank, size):
            sampler = hvd.elastic.ElasticSampler(range(10), shuffle=True)
            first = list(sampler)
            self.assertEqual(len(first), len(sampler))
            everything = hvd.allgather(torch.tensor(first)).tolist()
            self.assertEqual(set(everything), set(range(10)))
            sampler.record_batch(0, 8 // size)
            sampler.load_state_dict(sampler.state_dict())
            rest = hvd.allgather(torch.tensor(list(sampler))).tolist()
            self.assertEqual(len(rest), max(2, size))
            self.assertEqual(len(set(rest)), 2)
            self.assertFalse(set(rest) & {index for column in zip(*[iter(everything)] * len(first))
                                          for index in column[:8 // size]})
            sampler.set_epoch(1)
            self.assertNotEqual(list(sampler), first)
            sampler.processed_num = 10
            sampler.reset()
            self.assertEqual((len(sampler), list(sampler)), (0, []))
            del rank

        self.ranks(body)


class Norm(Test):
    def test_equals_one_process_on_all_batches(self):
        def body(rank, size):
            whole = torch.randn(3 * size, 4, 5, generator=torch.Generator().manual_seed(3))
            for momentum in (0.1, None):
                ours, theirs = hvd.SyncBatchNorm(4, momentum=momentum), torch.nn.BatchNorm1d(4, momentum=momentum)
                mine = whole[3 * rank:3 * rank + 3].clone().requires_grad_()
                everything = whole.clone().requires_grad_()
                weights = torch.arange(20.0).reshape(4, 5)
                for _ in range(2):
                    result, expected = ours(mine), theirs(everything)
                (result * weights).sum().backward()
                (expected * weights).sum().backward()
                close = {"rtol": 1e-4, "atol": 1e-4}
                torch.testing.assert_close(result, expected[3 * rank:3 * rank + 3], **close)
                torch.testing.assert_close(mine.grad, everything.grad[3 * rank:3 * rank + 3], **close)
                torch.testing.assert_close(ours.running_var, theirs.running_var, **close)
                torch.testing.assert_close(ours.running_mean, theirs.running_mean, **close)
                self.assertEqual(ours.num_batches_tracked, 2)
                torch.testing.assert_close(ours.eval()(mine), theirs.eval()(everything)[3 * rank:3 * rank + 3], **close)

        self.ranks(body)


if __name__ == "__main__":
    unittest.main(verbosity=2)
