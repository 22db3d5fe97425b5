#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The backend of torch.distributed on CUDA tensors, without a GPU: on the devices of fake_accelerator.py. What a call returns
is the business of backend_test; here it is what comes when in which stream."""
import datetime
import os
import signal
import time
import unittest

import torch
import torch.distributed as dist

import backend_test
import fake_accelerator as device
import forked_ranks
import hocket.torch
from backend_test import equal, ranks, refuses
from torch_ranks import on_ranks

_LONG = 1500  # milliseconds: after so long a host that waited is told from one that did not


def on_device(body, *arguments):
    """With tensors of this rank's device, and on another stream than the default one on odd ranks."""
    rank, _ = ranks()
    device.use_device(rank % 2)
    if rank % 2 == 1:
        device.use_new_stream()
    with torch.device("cuda", rank % 2):
        return body(*arguments)


def on_devices(size, body, *arguments, **options):
    return on_ranks(size, on_device, body, *arguments, **options)


def in_streams():
    """What the current stream has still to do when a call is made comes before it, and what is asked of that stream after
    wait() comes behind it; the host waits for neither."""
    rank, size = ranks()
    first = torch.full((1000,), rank + 1.0)
    for asynchronous in (True, False):
        x, seen = torch.zeros(1000), torch.zeros(1000)
        device.busy(_LONG)
        x.copy_(first)
        work = dist.all_reduce(x, async_op=asynchronous)
        if asynchronous:
            assert not work.is_completed()
            work.wait()
        seen.copy_(x)
        assert not device.is_idle()
        equal(seen, [size * (size + 1) / 2] * 1000)
        assert not asynchronous or (work.is_completed() and work.is_success())


def in_futures():
    rank, size = ranks()
    first, seen = torch.full((1000,), rank + 1.0), torch.zeros(1000)
    x = torch.zeros(1000)
    device.busy(_LONG)
    x.copy_(first)
    future = dist.all_reduce(x, async_op=True).get_future()
    chained = future.then(lambda done: [done.value()[0].clone()])
    seen.copy_(future.wait()[0])
    twice = chained.wait()[0]
    assert not device.is_idle()
    equal(seen, [size * (size + 1) / 2] * 1000)
    equal(twice, seen)


def forgotten():
    """A tensor that goes while a call reads it keeps its memory until then."""
    rank, size = ranks()
    if rank > 0:
        time.sleep(_LONG / 1000)
    given, got = torch.full((1000,), rank + 1.0), torch.zeros(1000 * size)
    dist.all_reduce(torch.ones(1), async_op=True)  # holds up the other rank's stream
    dist.all_gather_into_tensor(got, given, async_op=True)  # nor does its work keep it
    del given
    dist.all_reduce(torch.ones(1), async_op=True).wait()
    equal(got, torch.arange(1.0, size + 1).repeat_interleave(1000))


def in_one_batch_with_the_host(length, right, left):
    """Each memory's transfers match in their order, whatever lies between."""
    rank = float(dist.get_rank())
    places = ("cuda", "cpu", "cuda", "cpu")
    got = [torch.zeros(length, device=place) for place in places]
    asked = [dist.P2POp(dist.isend, torch.full((length,), 10.0 * number + rank, device=place), right)
             for number, place in enumerate(places)]
    asked[1:1] = [dist.P2POp(dist.irecv, each, left) for each in got]
    [work] = dist.batch_isend_irecv(asked)
    future = work.get_future()
    work.wait()
    for number, each in enumerate(got):
        equal(each, torch.full((length,), 10.0 * number + left, device=each.device))
    assert len(future.wait()) == len(got)


def transfers():
    rank, size = ranks()
    right, left = (rank + 1) % size, (rank - 1) % size
    for length in (3, 1_000_000):  # long ones wait for who receives them
        got = torch.zeros(length)
        sent, received = dist.isend(torch.full((length,), float(rank)), right), dist.irecv(got, left)
        assert received._source_rank() == left
        received.wait()
        sent.wait()
        equal(got, torch.full((length,), float(left)))
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((length,), 10.0 + rank), right),
                                        dist.P2POp(dist.irecv, got, left)])
        assert len(works) == 1
        works[0].wait()
        equal(got, torch.full((length,), 10.0 + left))
        in_one_batch_with_the_host(length, right, left)
    me = f"hocket rank {rank}: "
    refuses(f"{me}send: tag 3 for a tensor on cuda:{rank % 2}", dist.send, got, right, tag=3)
    refuses(f"{me}recv: tag 3 for a tensor on cuda:{rank % 2}", dist.recv, got, left, tag=3)
    refuses(f"{me}recv from any source: the tensor is on cuda:{rank % 2}", dist.recv, got)
    on_host = torch.zeros(1, device="cpu")
    received = dist.irecv(on_host, left)
    dist.send(torch.tensor([float(rank)], device="cpu"), right)
    received.wait()
    assert on_host.item() == left


def splits():
    """Torch splits groups that are bound to a device; a part is as the group, unless options say otherwise."""
    rank, size = ranks()
    dist.group.WORLD.bound_device_id = torch.device("cuda", rank % 2)
    parts = [[each] if each == 0 else list(range(1, size)) for each in range(2)]
    part = dist.split_group(split_ranks=parts)
    x = torch.ones(3)
    dist.all_reduce(x, group=part)
    equal(x, torch.full((3,), 1.0 if rank == 0 else size - 1.0))


def barriers():
    rank, _ = ranks()
    device.busy(_LONG)
    dist.barrier()
    assert not device.is_idle()
    dist.barrier(device_ids=[rank % 2])
    assert device.is_idle()


def refusals():
    rank, size = ranks()
    me = f"hocket rank {rank}: "
    whole = torch.ones(2 * size, device="cpu")
    backend = dist.group.WORLD._get_backend(torch.device("cuda"))
    refuses(f"{me}all_gather_into_tensor: a tensor is on cuda:{rank % 2}, another on cpu; all must be on one device",
            backend._allgather_base, whole, torch.ones(2))
    refuses("(Float of shape [4, 2]) is not contiguous", dist.all_reduce, torch.ones(4, 4)[:, ::2])
    refuses(f"{me}batch_isend_irecv: tensors on cuda:1 and cuda:0; a batch may have those of one CUDA device",
            dist.batch_isend_irecv, [dist.P2POp(dist.isend, torch.ones(2, device=place), (rank + 1) % size)
                                     for place in ("cuda:1", "cpu", "cuda:0")])
    x = torch.ones(2)
    dist.all_reduce(x)  # the group is still of use
    equal(x, [size] * 2)


def too_late():
    rank, size = ranks()
    if rank > 0:
        time.sleep(_LONG / 1000)
    x = torch.ones(3)
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:
        refuses("Timed out waiting 100 ms in all_reduce of Float of shape [3]", work.wait,
                datetime.timedelta(milliseconds=100))
    assert work.wait(datetime.timedelta(seconds=60))
    assert work.is_completed()
    equal(x, [size] * 3)


def dies():
    rank, _ = ranks()
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        time.sleep(_LONG / 1000)
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    refuses("rank 1", work.wait, datetime.timedelta(seconds=60))
    assert work.is_completed() and not work.is_success()
    refuses("rank 1", work.wait)
    refuses("rank 1", dist.all_reduce, torch.ones(1))
    return True


def aborts():
    rank, _ = ranks()
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        dist.group.WORLD._get_backend(torch.device("cuda")).abort()
        refuses("hocket rank 0: the process group was aborted in all_reduce of Float of shape [1]", work.wait)
    else:
        # The first may still have met its peer.
        refuses("rank 0", lambda: [dist.all_reduce(torch.ones(1), async_op=True).wait(datetime.timedelta(seconds=60))
                                   for _ in range(2)])
    return True


class Bucket:
    """What DDP gives a hook: two gradients in one buffer."""

    def __init__(self, buffer):
        self._buffer = buffer
        self._parameters = [torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(4))]

    def buffer(self):
        return self._buffer

    def parameters(self):
        return self._parameters

    def gradients(self):
        return [self._buffer[:6].view(2, 3), self._buffer[6:]]

    def is_last(self):
        return True


def hooks(codec):
    """On a device as on the CPU, in two steps, so that what error feedback keeps counts, too."""
    rank, _ = ranks()
    values = torch.randn(10, generator=torch.Generator("cpu").manual_seed(rank), device="cpu")
    averages = []
    for place in ("cpu", "cuda"):
        hook = hocket.torch.ddp_hook(codec)
        buffer, given = torch.zeros(10, device=place), values.to(place)
        bucket = Bucket(buffer)
        for _ in range(2):
            if place == "cuda":
                device.busy(_LONG // 3)
            buffer.copy_(given)
            future = hook(None, bucket)
            assert place == "cpu" or not device.is_idle()
            averages.append(future.wait().cpu().clone())
        assert hook.profile().steps == 2
        hook.close()
    on_host, on_this = averages[:2], averages[2:]
    assert all(torch.equal(*pair) for pair in zip(on_host, on_this)), f"{codec}: {on_host} but {on_this}"


def hooks_that_chain():
    """Where futures of streams end at once a hook makes its calls in order without a thread."""
    buffer = torch.ones(10)
    calls = []

    def hook(_, bucket):
        calls.append(1)
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0] / 2)

    future = hocket.torch.in_order(hook)(None, Bucket(buffer))
    assert calls == [1] and future.done()
    equal(future.wait(), [1] * 10)


class Hooks(unittest.TestCase):
    def test_codecs(self):
        for codec in (None, "int8", "topk:ratio=0.3", "fp16"):
            with self.subTest(codec):
                on_devices(2, hooks, codec)

    def test_chains(self):
        on_devices(2, hooks_that_chain)


def horovod():
    """Through host memory, whatever the current stream still has to do."""
    import hocket.torch as hvd
    hvd.init()
    device.use_device(hvd.rank())
    values = torch.full((5,), hvd.rank() + 1.0).to("cuda")
    x = torch.zeros(5).to("cuda")
    device.busy(_LONG // 3)
    x.copy_(values)
    total = hvd.allreduce(x, op=hvd.Sum)
    assert total.device == x.device, total.device
    equal(total, torch.full((5,), 3.0).to("cuda"))
    hvd.broadcast_(x, 1)
    equal(x, torch.full((5,), 2.0).to("cuda"))
    hvd.shutdown()


class Horovod(unittest.TestCase):
    def test_calls(self):
        forked_ranks.on_ranks(horovod)


class Calls(unittest.TestCase):
    def test_what_calls_return(self):
        for body in (backend_test.reductions, backend_test.moves, backend_test.lists_around_the_input,
                     backend_test.coalesced, backend_test.batches, backend_test.groups):
            for size in (2, 3):
                with self.subTest(body.__name__, size=size):
                    on_devices(size, body)

    def test_beside_another_backend(self):
        on_devices(2, backend_test.reductions, backend="cpu:gloo,cuda:hocket")


class Streams(unittest.TestCase):
    def test_order(self):
        for body in (in_streams, in_futures, forgotten, transfers, splits, barriers):
            with self.subTest(body.__name__):
                on_devices(2, body)


class Failures(unittest.TestCase):
    def test_refusals(self):
        on_devices(2, refusals)

    def test_limits(self):
        on_devices(2, too_late)

    def test_a_rank_that_dies_is_named(self):
        self.assertEqual(on_devices(3, dies, may_die=[1]), [True, None, True])

    def test_abort(self):
        self.assertEqual(on_devices(2, aborts), [True, True])


if __name__ == "__main__":
    unittest.main(verbosity=2)
