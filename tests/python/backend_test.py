#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The backend of torch.distributed: every call, on 2 and 3 ranks; what torch builds of them is in training_test.py."""
import datetime
import os
import signal
import threading
import time
import unittest

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode

import hocket.distributed
from hocket.distributed import _plugin
from torch_ranks import all_are_past, on_ranks

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8)


def ranks():
    return dist.get_rank(), dist.get_world_size()


def equal(got, expected, what=""):
    expected = torch.as_tensor(expected, dtype=got.dtype)
    assert torch.equal(got, expected), f"{what}: {got} is not {expected}"


def refuses(why, call, *arguments, failed=None, **options):
    """`failed`: whether the error says that the group has."""
    try:
        call(*arguments, **options)
    except (RuntimeError, ValueError) as error:
        assert why in str(error), f"'{why}' is not in: {error}"
        assert failed in (None, isinstance(error, dist.DistBackendError)), f"{type(error)}: {error}"
        return
    raise AssertionError(f"no error with '{why}'")


def reductions():
    rank, size = ranks()
    for dtype in TYPES:
        for asynchronous in (False, True):
            x = torch.full((2, 3), rank + 1, dtype=dtype)
            work = dist.all_reduce(x, async_op=asynchronous)
            assert not asynchronous or work.wait()
            equal(x, [[size * (size + 1) // 2] * 3] * 2, dtype)
            assert not asynchronous or (work.is_completed() and work.is_success())
    for op, expected in ((dist.ReduceOp.MAX, size), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.AVG, (size + 1) / 2)):
        x = torch.full((5,), rank + 1.0)
        dist.all_reduce(x, op)
        equal(x, [expected] * 5, op)
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    equal(bits, [(1 << size) - 1])
    flag = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flag, dist.ReduceOp.SUM)
    equal(flag, [True, True, False])
    half = torch.ones(3)
    dist.all_reduce(half, dist._make_nccl_premul_sum(0.5))
    equal(half, [size / 2] * 3)
    x = torch.full((4,), float(rank))
    dist.reduce(x, 1)
    if rank == 1:
        equal(x, [size * (size - 1) / 2] * 4)
    flipped = torch.arange(6.0).reshape(2, 3).t()
    dist.all_reduce(flipped)
    equal(flipped, size * torch.arange(6.0).reshape(2, 3).t())
    many = [torch.full((n,), rank + 1.0) for n in (1, 0, 7)]
    dist.all_reduce_coalesced(many)
    equal(torch.cat(many), [size * (size + 1) / 2] * 8)


def complex_sums():
    """What torch's own calls do not turn into real numbers: they are pairs of these."""
    rank, size = ranks()
    one, total = 1 + 2j, size * (size + 1) / 2 * (1 + 2j)
    for dtype in (torch.complex64, torch.complex128):
        x = torch.full((3,), (rank + 1) * one, dtype=dtype)
        dist.reduce(x, 1)
        if rank == 1:
            equal(x, [total] * 3)
        whole = torch.full((2 * size,), (rank + 1) * one, dtype=dtype)
        part = torch.empty(2, dtype=dtype)
        dist.reduce_scatter_tensor(part, whole)
        equal(part, [total] * 2)
        dist.reduce_scatter(part, list(whole.split(2)), dist.ReduceOp.AVG)
        equal(part, [total / size] * 2)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    x.fill_((rank + 1) * one)
    backend.allreduce([x], _all_reduce_options(dist._make_nccl_premul_sum(0.5))).wait()
    equal(x, [total / 2] * 3)
    refuses("there is no such reduction of ComplexDouble", dist.reduce, x, 0, dist.ReduceOp.MAX)
    refuses("the factor (0,1) is no Double", backend.allreduce, [x],
            _all_reduce_options(dist._make_nccl_premul_sum(torch.tensor(1j))))


def _all_reduce_options(op):
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def sparse_sums():
    rank, size = ranks()
    sparse = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(sparse)
    equal(sparse.to_dense(), [size] + [2.0] * size)


def moves():
    rank, size = ranks()
    for dtype in (*TYPES, torch.int16, torch.bool, torch.complex64):
        x = torch.full((3,), 1 if rank == 1 else 0, dtype=dtype)
        dist.broadcast(x, 1)
        equal(x, torch.ones(3, dtype=dtype), dtype)
        outputs = [torch.zeros(2, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, torch.full((2,), rank, dtype=dtype))
        for i, output in enumerate(outputs):
            equal(output, torch.full((2,), i, dtype=dtype), dtype)
    whole = torch.empty(2 * size)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    equal(whole, torch.arange(size).repeat_interleave(2))
    part = torch.empty(2)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * size))
    equal(part, [2.0 * rank * size, (2.0 * rank + 1) * size])
    dist.reduce_scatter(part, [torch.full((2,), float(i)) for i in range(size)])
    equal(part, [rank * size] * 2)
    list_of_root = [torch.zeros(2) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.full((2,), float(rank)), list_of_root, 0)
    if rank == 0:
        equal(torch.cat(list_of_root), torch.arange(size).repeat_interleave(2))
    mine = torch.empty(2)
    dist.scatter(mine, list_of_root, 0)
    equal(mine, [rank] * 2)
    outputs = [torch.empty(1 + rank) for _ in range(size)]
    dist.all_to_all(outputs, [torch.full((1 + i,), 10.0 * rank + i) for i in range(size)])
    for i, output in enumerate(outputs):
        equal(output, [10.0 * i + rank] * (1 + rank))
    rows = torch.empty(size, 2)
    dist.all_to_all_single(rows, torch.full((size, 2), float(rank)))
    equal(rows, [[i, i] for i in range(size)])
    rows = torch.empty(size * (rank + 1))
    dist.all_to_all_single(rows, torch.cat([torch.full((i + 1,), 10.0 * rank + i) for i in range(size)]),
                           [rank + 1] * size, [i + 1 for i in range(size)])
    equal(rows, torch.cat([torch.full((rank + 1,), 10.0 * i + rank) for i in range(size)]))
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    assert [one["rank"] for one in gathered] == list(range(size))
    objects = [["a", 1], None] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, 0)
    assert objects == [["a", 1], None]
    dist.gather_object(rank, gathered if rank == 0 else None, 0)
    assert rank > 0 or gathered == list(range(size))
    got = [None]
    dist.scatter_object_list(got, [f"to {i}" for i in range(size)] if rank == 0 else None, 0)
    assert got == [f"to {rank}"]
    dist.barrier()


def lists_around_the_input():
    rank, size = ranks()
    memory = torch.zeros(2 * size + 1)
    memory[size] = rank + 1.0
    outputs = [memory[2 * i:2 * i + 1] if 2 * i < size else memory[2 * i + 1:2 * i + 2] for i in range(size)]
    dist.all_gather(outputs, memory[size:size + 1])
    equal(torch.cat(outputs), [i + 1.0 for i in range(size)])


def coalesced():
    rank, size = ranks()
    inputs = [torch.full((n,), float(rank)) for n in (1, 3)]
    outputs = [torch.empty(n * size) for n in (1, 3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, one in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, one)
    manager.wait()
    equal(outputs[1], torch.arange(size).repeat_interleave(3))
    parts = [torch.empty(n) for n in (1, 3)]
    with dist._coalescing_manager():
        for part, whole in zip(parts, outputs):
            dist.reduce_scatter_tensor(part, whole)
    equal(parts[1], [rank * size] * 3)
    import torch.distributed._functional_collectives as functional
    group = dist.group.WORLD
    equal(functional.all_reduce(torch.ones(2), "sum", group), [size] * 2)
    equal(functional.all_gather_tensor(torch.tensor([rank]), 0, group), list(range(size)))
    equal(functional.reduce_scatter_tensor(torch.arange(size), "sum", 0, group), [rank * size])
    equal(functional.broadcast(torch.tensor([rank]), 1, group), [1])
    many = functional.all_reduce_coalesced([torch.ones(1), torch.ones(2)], "sum", group)
    equal(many[1], [size] * 2)
    equal(functional.all_to_all_single(torch.full((size,), rank), None, None, group), list(range(size)))


def transfers():
    rank, size = ranks()
    right, left = (rank + 1) % size, (rank - 1) % size
    got = torch.empty(3)
    sent, received = dist.isend(torch.full((3,), float(rank)), right), dist.irecv(got, left)
    received.wait()
    sent.wait()
    equal(got, [left] * 3)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.tensor([rank]), right),
                                        dist.P2POp(dist.irecv, number := torch.tensor([-1]), left)]):
        work.wait()
    equal(number, [left])
    if rank == 0:
        sources = []
        for _ in range(2 * (size - 1)):
            sources.append(dist.recv(number))
            equal(number, [10 * sources[-1]])
        assert sorted(sources) == sorted(2 * list(range(1, size))), sources
    else:
        dist.send(torch.tensor([10 * rank]), 0)
        dist.isend(torch.tensor([10 * rank]), 0).wait()
    dist.barrier()
    long = torch.full((100_000,), float(rank))  # such messages are lent, not copied
    if rank == 0:
        for _ in range(size - 1):
            source = dist.recv(long)
            equal(long, torch.full((100_000,), float(source)))
    else:
        dist.send(long, 0)
    # A receive under way does not keep collectives from going on.
    waiting = dist.irecv(got, left)
    dist.all_reduce(torch.ones(1))
    dist.send(torch.ones(3), right)
    waiting.wait()
    objects = [None]
    if rank == 0:
        dist.send_object_list([{"a": 1}], 1)
    elif rank == 1:
        dist.recv_object_list(objects, 0)
        assert objects == [{"a": 1}]


def batches():
    """What is transferred in a batch is one work."""
    rank, size = ranks()
    others = [peer for peer in range(size) if peer != rank]
    got = {peer: [torch.zeros(length) for length in (1, 100_000, 2)] for peer in others}
    transfers_ = [dist.P2POp(dist.irecv, tensor, peer) for peer in others for tensor in got[peer]]
    transfers_ += [dist.P2POp(dist.isend, torch.full_like(tensor, 10.0 * rank + place), peer)
                   for peer in others for place, tensor in enumerate(got[peer])]
    [work] = dist.batch_isend_irecv(transfers_)
    received = work.get_future().wait()
    assert work.wait() and len(received) == 3 * len(others)
    for peer in others:
        for place, tensor in enumerate(got[peer]):
            equal(tensor, torch.full_like(tensor, 10.0 * peer + place))


def batches_side_by_side():
    """On CPUs none waits for another."""
    rank, _ = ranks()
    first, second = torch.zeros(1), torch.zeros(1)
    if rank == 0:
        [early] = dist.batch_isend_irecv([dist.P2POp(dist.irecv, first, 1)])
        [late] = dist.batch_isend_irecv([dist.P2POp(dist.isend, second + 7, 1)])
        late.wait()
        early.wait()
        equal(first, [8])
    elif rank == 1:
        dist.recv(first, 0)
        dist.batch_isend_irecv([dist.P2POp(dist.isend, first + 1, 0)])[0].wait()


def batches_of_many_kinds():
    """With tags, from any source, beside collectives; and what is wrong is told where the batch ends."""
    rank, size = ranks()
    right, left = (rank + 1) % size, (rank - 1) % size
    tagged, plain = torch.zeros(3), torch.zeros(3)
    [work] = dist.batch_isend_irecv([dist.P2POp(dist.irecv, tagged, left, tag=5), dist.P2POp(dist.irecv, plain, left),
                                     dist.P2POp(dist.isend, torch.full((3,), 1.0 * rank), right),
                                     dist.P2POp(dist.isend, torch.full((3,), 10.0 * rank), right, tag=5)])
    assert len(work.get_future().wait()) == 2
    work.wait()
    equal(torch.cat((plain, tagged)), [left] * 3 + [10 * left] * 3)
    cpu, group = torch.device("cpu"), dist.group.WORLD
    many, of_anybody = torch.ones(1000), torch.zeros(1)
    with dist._coalescing_manager(group, cpu, async_ops=True) as manager:
        group.broadcast(many, 0)
        group.allreduce(many)
        held = dist.isend(torch.tensor([1.0 * rank]), right)
        group.recv_anysource([of_anybody], 0)
        refuses(f"hocket rank {rank}: SEND in a batch: it begins when the batch ends", held.wait)
    manager.wait()
    equal(many, [size] * 1000)
    equal(of_anybody, [left])
    with dist._coalescing_manager(group, cpu):
        pass
    column = torch.ones(4, 4)[:, 1]
    refuses(f"hocket rank {rank}: recv: tensor (Float of shape [4]) is not contiguous", dist.batch_isend_irecv,
            [dist.P2POp(dist.isend, plain, right), dist.P2POp(dist.irecv, column, left),
             dist.P2POp(dist.irecv, tagged.fill_(-1), left, tag=6)])
    later = torch.zeros(3)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, later, left, tag=6),
                                        dist.P2POp(dist.isend, torch.full((3,), 5.0), right, tag=6)]):
        work.wait()
    equal(torch.cat((tagged, later)), [-1] * 3 + [5] * 3)  # what was refused waits for nothing
    dist.all_reduce(plain.fill_(1))  # the group is still of use
    equal(plain, [size] * 3)


def tags():
    rank, size = ranks()
    right, left = (rank + 1) % size, (rank - 1) % size
    # Sent in one order and awaited in the other; one of them without a tag, one long enough to be lent.
    works = [dist.isend(torch.full((length,), 10.0 * rank + tag), right, tag=tag)
             for length, tag in ((3, 1), (100_000, 2), (1, 0), (3, 1), (0, 3))]
    for length, tag in ((0, 3), (100_000, 2), (1, 0), (3, 1), (3, 1)):
        got = torch.empty(length)
        assert dist.recv(got, left, tag=tag) == left
        equal(got, [10.0 * left + tag] * length, tag)
    for work in works:
        work.wait()
    # Of several receives with one tag, the first that was posted gets what was sent first, whichever is waited for.
    numbers = [torch.tensor([-1]) for _ in range(3)]
    waiting = [dist.irecv(number, left, tag=7) for number in numbers]
    assert not waiting[0].is_completed()
    dist.barrier()
    for number in range(3):
        dist.send(torch.tensor([number]), right, tag=7)
    for work in reversed(waiting):
        work.wait()
    equal(torch.cat(numbers), [0, 1, 2])
    dist.barrier()
    number = torch.tensor([-1])
    if rank == 0:
        sources = []
        for tag in (5, 4):
            for _ in range(size - 1):
                sources.append(dist.recv(number, tag=tag))
                equal(number, [10 * sources[-1] + tag])
        assert sorted(sources) == sorted(2 * list(range(1, size))), sources
    else:
        for tag in (4, 5):
            dist.send(torch.tensor([10 * rank + tag]), 0, tag=tag)
    dist.barrier()
    # A message that does not fit is an error for who awaited it, and nothing else.
    if rank == 0:
        dist.send(torch.ones(2), 1, tag=9)
        dist.send(torch.ones(2), 1, tag=8)
        dist.send(torch.ones(3), 1, tag=9)
    elif rank == 1:
        got = torch.zeros(3)
        refuses("rank 0 sent 8 bytes with tag 9; there is room for 12 in recv of Float of shape [3]",
                dist.recv, got, 0, tag=9)
        refuses("rank 0 sent 8 bytes with tag 8", dist.recv, got, 0, tag=8)
        dist.recv(got, 0, tag=9)
        equal(got, [1] * 3)


def futures_of_transfers():
    rank, size = ranks()
    right, left = (rank + 1) % size, (rank - 1) % size
    for tag in (0, 3):
        first, second = torch.tensor([-1]), torch.tensor([-1])
        of_anybody = dist.irecv(first, tag=tag).get_future()
        assert not of_anybody.done()
        dist.barrier()
        dist.send(torch.tensor([rank]), right, tag=tag)
        equal(of_anybody.wait()[0], [left])
        dist.barrier()
        dist.send(torch.tensor([rank]), right, tag=tag)
        equal(dist.irecv(second, left, tag=tag).get_future().wait()[0], [left])


def futures():
    rank, size = ranks()
    x = torch.ones(1000)
    future = dist.all_reduce(x, async_op=True).get_future()

    # What is chained may itself wait for a future, as PowerSGD's hook does; several at once.
    def again(done):
        y = done.value()[0].clone()
        return dist.all_reduce(y, async_op=True).get_future().wait()[0] / size

    chained = future.then(again)
    equal(chained.wait(), [size] * 1000)
    works = [dist.all_reduce(torch.full((i + 1,), 1.0), async_op=True) for i in range(50)]
    for i, work in enumerate(works):
        equal(work.get_future().wait()[0], [size] * (i + 1))
        equal(work.result()[0], [size] * (i + 1))


def groups():
    rank, size = ranks()
    both = dist.new_group([0, 1])
    alone = [dist.new_group([i]) for i in range(size)]
    x = torch.ones(1)
    if rank < 2:
        dist.all_reduce(x, group=both)
        equal(x, [2])
    dist.all_reduce(x.fill_(1), group=alone[rank])
    equal(x, [1])
    dist.all_reduce(x.fill_(1))
    equal(x, [size])
    dist.barrier(device_ids=[rank + 5])  # whether there is such a device or not


def groups_of_a_group():
    """Those that a process group itself makes: of some of its ranks, and together with the ranks of another one."""
    rank, size = ranks()
    group, limit, x = dist.group.WORLD, datetime.timedelta(seconds=60), torch.ones(2)
    part = group.split_group([0, 1], limit, None, "part", "two of them")
    assert (part is None) == (rank > 1)
    if part is not None:
        part.allreduce([x]).wait()
        equal(x, [2] * 2)
        assert (part.rank(), part.size(), part.group_name, part.group_desc) == (rank, 2, "part", "two of them")
    alone = dist.new_group([rank], use_local_synchronization=True)
    store = dist.PrefixStore("together", dist.distributed_c10d._get_default_store())
    together = alone.merge_remote_group(store, size, limit, "together", "all of them")  # its ranks are as they come
    everybodys = torch.zeros(size)
    together.all_gather_single(everybodys, torch.tensor([float(together.rank())])).wait()
    equal(everybodys, list(range(size)))
    together._enable_collectives_timing()


def every_call(tensor, right, left):
    """(name in errors, call) of all that take a single tensor."""
    whole = torch.ones(4)
    yield "all_reduce", lambda: dist.all_reduce(tensor)
    yield "all_reduce", lambda: dist.all_reduce(tensor, async_op=True)
    yield "reduce", lambda: dist.reduce(tensor, 0)
    yield "broadcast", lambda: dist.broadcast(tensor, 0, async_op=True)
    yield "reduce_scatter_tensor", lambda: dist.reduce_scatter_tensor(tensor, tensor)
    yield "all_gather_into_tensor", lambda: dist.all_gather_into_tensor(tensor, tensor)
    yield "gather", lambda: dist.gather(tensor, None if dist.get_rank() else [tensor] * dist.get_world_size(), 0)
    yield "all_to_all_single", lambda: dist.all_to_all_single(tensor, tensor)
    yield "send", lambda: dist.send(tensor, right)
    yield "send", lambda: dist.isend(tensor, right, tag=2)
    yield "recv", lambda: dist.irecv(tensor, left)
    yield "recv from any source", lambda: dist.recv(tensor)
    yield "recv", lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, whole, right),
                                                  dist.P2POp(dist.irecv, tensor, left)])


def refusals():
    rank, size = ranks()
    me = f"hocket rank {rank}: all_reduce: tensor"
    strided = torch.ones(4, 4)[:, ::2]
    refuses(f"{me} (Float of shape [4, 2]) is not contiguous", dist.all_reduce, strided)
    refuses("no such reduction", dist.all_reduce, torch.tensor([True]), dist.ReduceOp.AVG)
    refuses("(Short of shape [2]) has a type", dist.all_reduce, torch.ones(2, dtype=torch.int16))
    refuses("bit_or is not defined for float32", dist.all_reduce, torch.ones(2), dist.ReduceOp.BOR, failed=False)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    refuses("is on meta", backend.allreduce, [torch.ones(2, device="meta")])
    with FakeTensorMode():  # what a tensor of another device looks like
        elsewhere = torch.empty(2, device="xpu")
    refuses(f"{me} (Float of shape [2]) is on xpu:0; this backend moves CPU and CUDA tensors", backend.allreduce,
            [elsewhere])
    right, left = (rank + 1) % size, (rank - 1) % size
    for tensor, why in ((torch.ones(4).to_sparse(), "has layout Sparse; this call takes dense tensors"),
                        (torch.eye(2).to_sparse_csr(), "has layout SparseCsr; "),
                        (torch.ones(4).to_mkldnn(), "has layout Mkldnn; "),
                        (torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8), "is quantized; "),
                        (torch.ones(4, 4)[:, 1], "is not contiguous")):
        for name, call in every_call(tensor, right, left):
            if not (name == "all_reduce" and tensor.layout == torch.sparse_coo):
                refuses(f"hocket rank {rank}: {name}: ", call)
                refuses(why, call)
    for root in (-1, size, 2**32):
        refuses(f"hocket rank {rank}: broadcast: there is no root {root} among {size} ranks", dist.broadcast, torch.ones(1),
                group_src=root)
    refuses(f"hocket rank {rank}: gather: there is no root -1", backend.gather, [], [torch.ones(1)], _gather_options(-1))
    refuses("PREMUL_SUM: the factor 0.5 is no Long", dist.all_reduce, torch.ones(2, dtype=torch.int64),
            dist._make_nccl_premul_sum(0.5))
    refuses(f"hocket rank {rank}: all_reduce: the sparse tensor (Float of shape [{3 + rank}], 1 dimensions sparse) is Float "
            f"of shape [{4 if rank == 0 else 3}] (1 sparse) on rank {1 if rank == 0 else 0}", dist.all_reduce,
            torch.sparse_coo_tensor([[0]], [1.0], (3 + rank,)))
    other = "Double" if rank == 0 else "Float"
    refuses(f"1 dimensions sparse) is {other} of shape [3] (1 sparse) on rank {1 if rank == 0 else 0}", dist.all_reduce,
            torch.sparse_coo_tensor([[0]], torch.ones(1, dtype=torch.float64 if rank else torch.float32), (3,)))
    refuses("input (Float of shape [2]) has layout Sparse", backend._allgather_base, torch.ones(2 * size),
            torch.ones(2).to_sparse())
    refuses("must have", dist.all_gather_into_tensor, torch.ones(3 * size), torch.ones(2))
    refuses("one for each rank", backend.allgather, [[torch.ones(1)]], [torch.ones(1)])
    refuses("add up to 4", dist.all_to_all_single, torch.ones(4), torch.ones(4), [1] * size, [5] * size)
    x = torch.ones(2)
    dist.all_reduce(x)  # the group is still of use
    equal(x, [size] * 2)


def _gather_options(root):
    options = dist.GatherOptions()
    options.rootRank = root
    return options


def other_backends_refuse_quantized_tensors():
    """As if ours had not been loaded: they would move the codes without the scale."""
    rank, size = ranks()
    _plugin.load()
    x = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)
    for _, call in every_call(x, (rank + 1) % size, (rank - 1) % size):
        refuses("with arguments from the 'QuantizedCPU' backend", call)
    total = torch.ones(1)
    dist.all_reduce(total)  # the group is still of use
    equal(total, [size])


def ended():
    """A group that has ended says so, whatever is asked of it."""
    rank, size = ranks()
    other = dist.new_group(list(range(size)))
    backend, one = other._get_backend(torch.device("cpu")), torch.ones(1)
    dist.barrier()
    backend.shutdown()
    peer = (rank + 1) % size
    for name, call in (("all_reduce", lambda: backend.allreduce([one])), ("barrier", backend.barrier),
                       ("send", lambda: backend.send([one], peer, 0)), ("recv", lambda: backend.recv([one], peer, 7)),
                       ("recv from any source", lambda: backend.recv_anysource([one], 0)),
                       ("monitored_barrier", other.monitored_barrier)):
        refuses(f"hocket rank {rank}: {name}: the process group has ended", call)
    backend.shutdown()
    dist.all_reduce(one)
    equal(one, [size])


def other_shapes():
    """All ranks hear of both sides, at the latest in the next call; other groups are unharmed."""
    rank, size = ranks()
    one, whole = torch.ones(2 + rank), torch.ones(size * (2 + rank))
    parts, on_root = list(whole.split(len(one))), rank == 0
    for call in (lambda group: dist.all_reduce(one, group=group),
                 lambda group: dist.all_reduce(one, group=group, async_op=True).wait(),
                 lambda group: dist.all_reduce_coalesced([one, torch.ones(1)], group=group),
                 lambda group: dist.reduce(one, 0, group=group), lambda group: dist.broadcast(one, 0, group=group),
                 lambda group: dist.all_gather_into_tensor(whole, one, group=group),
                 lambda group: dist.all_gather(parts, one, group=group),
                 lambda group: dist.reduce_scatter_tensor(one, whole, group=group),
                 lambda group: dist.reduce_scatter(one, parts, group=group),
                 lambda group: dist.gather(one, parts if on_root else None, 0, group=group),
                 lambda group: dist.scatter(one, parts if on_root else None, 0, group=group),
                 lambda group: dist.all_to_all_single(whole.clone(), whole, group=group),
                 lambda group: dist.all_reduce(torch.ones(2, dtype=torch.float64 if on_root else torch.float32), group=group),
                 lambda group: dist.all_reduce(torch.ones(2), dist.ReduceOp.MAX if on_root else dist.ReduceOp.SUM, group=group)):
        group = dist.new_group()
        try:
            call(group)
            dist.barrier(group)
        except dist.DistBackendError as error:
            assert "rank 0" in str(error) and "rank 1" in str(error) and " in " in str(error), error
        else:
            raise AssertionError("ranks that differ went on")
    group = dist.new_group()
    if on_root:
        dist.send(torch.ones(3), 1, group=group)
    else:
        refuses("does not match rank 0, which called send(count 3, float32, to rank 1) instead (reported by rank 1) in recv of "
                "Float of shape [2]", dist.recv, torch.ones(2), 0, group=group, failed=True)
    x = torch.ones(1)
    dist.all_reduce(x)
    equal(x, [size])
    return True


def ordered(group_of):
    """Added in the order of the ranks, whatever the size; summed here as the ranks should."""
    rank, size = ranks()
    group = group_of()
    for count in (7, 1000, 20_000, 300_000):
        parts = [torch.randn(count, generator=torch.Generator().manual_seed(100 * count + each)) for each in range(size)]
        expected = parts[0].clone()
        for part in parts[1:]:
            expected += part
        x = parts[rank].clone()
        dist.all_reduce(x, group=group)
        assert torch.equal(x, expected), f"{count}: {(x != expected).sum()} elements differ"


def ordered_group():
    return dist.new_group(pg_options=hocket.distributed.options(reproducibility="ordered"))


def mixed(expected):
    _, size = ranks()
    names = [dist.group.WORLD._get_backend(torch.device(device)).name() for device in ("cpu", "cuda")]
    assert names == expected, names
    x = torch.ones(3)
    dist.all_reduce(x)
    equal(x, [size] * 3)


def dies_before_it_sends(tag, anybody):
    rank, _ = ranks()
    dist.barrier()
    all_are_past()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    refuses("rank 1", dist.recv, torch.ones(1), None if anybody else 1, tag=tag)
    return True


def dies():
    rank, _ = ranks()
    dist.all_reduce(torch.ones(1))
    all_are_past()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    refuses("rank 1", dist.all_reduce, torch.ones(1 << 20))
    refuses("rank 1", dist.all_reduce, torch.ones(1), async_op=True)
    return True


def too_late():
    rank, _ = ranks()
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        refuses("Timed out waiting 100 ms in all_reduce of Float of shape [3]", work.wait,
                datetime.timedelta(milliseconds=100))
        assert not work.is_completed()
    else:
        time.sleep(1)
        work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    dist.barrier()
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
    if rank == 0:
        refuses("Timed out waiting 1000 ms", dist.all_reduce, torch.ones(2))
    else:
        time.sleep(3)
        refuses("rank 0", dist.all_reduce, torch.ones(2))
    return True


def missing():
    rank, size = ranks()
    group = dist.group.WORLD
    group.monitored_barrier(datetime.timedelta(seconds=20))
    limit = datetime.timedelta(milliseconds=300)
    if rank == 0:
        refuses("Rank 1 failed to pass monitoredBarrier in 300 ms" if size == 2 else
                "Ranks 1, 2 failed to pass monitoredBarrier in 300 ms",
                lambda: group.monitored_barrier(limit, wait_all_ranks=True))
    x = torch.ones(1)
    dist.all_reduce(x)  # the group is unharmed
    equal(x, [size])


def aborts():
    rank, _ = ranks()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        time.sleep(0.2)
        backend.abort()
        refuses("abort", work.wait)
        store.set("aborted", "")
    else:
        store.wait(["aborted"])
        refuses("rank 0", lambda: [dist.all_reduce(torch.ones(1)) for _ in range(2)])
    return True


def interrupted(asynchronous):
    rank, _ = ranks()
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["interrupted"])
        refuses("rank 0", lambda: [dist.barrier(), dist.barrier()])
        return True
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        try:
            work = dist.all_reduce(torch.ones(1), async_op=asynchronous)
            work.get_future().wait()
        except RuntimeError as error:
            assert "revoked" in str(error), error
        time.sleep(10)
    except KeyboardInterrupt:
        store.set("interrupted", "")
        return True
    raise AssertionError("no KeyboardInterrupt")


def dies_in_backward():
    rank, _ = ranks()

    class Deadly(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(_, gradient):
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return gradient

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    x = torch.ones(2, 4)
    refuses("rank 1", lambda: Deadly.apply(model(x)).sum().backward())
    return True


def is_profiled():
    tensor = torch.ones(1000)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(tensor, async_op=True).wait()
        dist.barrier()
    seen = [(event.name, event.input_shapes) for event in profiler.events() if event.name.startswith("hocket:")]
    assert seen == [("hocket:all_reduce", [[1000]]), ("hocket:barrier", [])], seen


class Profiles(unittest.TestCase):
    def test_torch_shows_our_calls(self):
        on_ranks(2, is_profiled)


class Calls(unittest.TestCase):
    def test_all(self):
        for body in (reductions, complex_sums, sparse_sums, moves, lists_around_the_input, coalesced, transfers, batches,
                     batches_side_by_side, batches_of_many_kinds, tags, futures_of_transfers, futures, groups, groups_of_a_group,
                     refusals, ended, missing):
            for size in (2, 3):
                with self.subTest(body.__name__, size=size):
                    on_ranks(size, body)


class Mixes(unittest.TestCase):
    def test_another_backend_for_another_device(self):
        for backend, names in (("cpu:hocket,cuda:gloo", ["hocket", "gloo"]), ("cpu:gloo,cuda:hocket", ["gloo", "hocket"]),
                               ("hocket", ["hocket", "hocket"])):
            with self.subTest(backend):
                on_ranks(2, mixed, names, backend=backend)


    def test_quantized_tensors_of_another_backend(self):
        on_ranks(2, other_backends_refuse_quantized_tensors, backend="gloo")


class Ordered(unittest.TestCase):
    """Five ranks over TCP: what is chosen for so many without being asked for order adds in another one."""

    def run_with(self, group_of, **settings):
        os.environ.update(HOCKET_TRANSPORTS="tcp", **settings)
        try:
            on_ranks(5, ordered, group_of)
        finally:
            for name in ("HOCKET_TRANSPORTS", *settings):
                del os.environ[name]

    def test_by_option_of_a_group(self):
        self.run_with(ordered_group)

    def test_by_setting(self):
        self.run_with(lambda: None, HOCKET_REPRODUCIBILITY="ordered")

    def test_refusal(self):
        with self.assertRaisesRegex(ValueError, "there is no 'strict', only fast, ordered, exact"):
            hocket.distributed.options(reproducibility="strict")


class Failures(unittest.TestCase):
    def test_ranks_with_different_shapes(self):
        self.assertEqual(on_ranks(2, other_shapes), [True, True])

    def test_a_rank_that_dies_is_named(self):
        self.assertEqual(on_ranks(3, dies, may_die=[1]), [True, None, True])

    def test_a_rank_that_dies_before_it_sends_is_named(self):
        for tag in (0, 4):
            for anybody in (False, True):
                with self.subTest(tag=tag, anybody=anybody):
                    self.assertEqual(on_ranks(2, dies_before_it_sends, tag, anybody, may_die=[1]), [True, None])

    def test_a_rank_that_dies_in_backward_is_named(self):
        self.assertEqual(on_ranks(2, dies_in_backward, may_die=[1]), [True, None])

    def test_control_c(self):
        for asynchronous in (False, True):
            with self.subTest(asynchronous=asynchronous):
                self.assertEqual(on_ranks(2, interrupted, asynchronous), [True, True])

    def test_limits(self):
        self.assertEqual(on_ranks(2, too_late), [True, True])

    def test_abort(self):
        self.assertEqual(on_ranks(2, aborts), [True, True])


if __name__ == "__main__":
    unittest.main(verbosity=2)
