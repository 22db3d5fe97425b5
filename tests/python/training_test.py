#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What PyTorch builds on a backend, really run: DDP, FSDP2, tensor and pipeline parallelism, ZeRO-1, checkpoints; each
beside gloo with the same seed."""
import contextlib
import os
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import hocket.torch
from torch_ranks import on_ranks

STEPS = 4


def cnn():
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(),
                         nn.Linear(8 * 16, 10))


class Transformer(nn.Module):
    """Small: two layers of two heads over 16 tokens."""

    def __init__(self, sparse=False):
        super().__init__()
        self.embedding = nn.Embedding(50, 32, sparse=sparse)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens))).transpose(1, 2)


def batch(kind, step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    if kind == "cnn":
        return torch.randn(8, 1, 8, 8, generator=generator), torch.randint(10, (8,), generator=generator)
    tokens = torch.randint(50, (8, 17), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def train(kind, model, optimizer, rank):
    losses = []
    for step in range(STEPS):
        x, y = batch(kind, step, rank)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp(kind, sparse=False):
    torch.manual_seed(3)
    model = cnn() if kind == "cnn" else Transformer(sparse)
    model = DistributedDataParallel(model, bucket_cap_mb=0.02)
    return train(kind, model, torch.optim.SGD(model.parameters(), lr=0.1), dist.get_rank())


def power_sgd(several):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    torch.manual_seed(3)
    model = DistributedDataParallel(Transformer(), bucket_cap_mb=0.02 if several else 25)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    hook = powerSGD_hook.powerSGD_hook
    model.register_comm_hook(state, hocket.torch.in_order(hook) if several else hook)
    return train("transformer", model, torch.optim.SGD(model.parameters(), lr=0.1), dist.get_rank())


def zero_1():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    torch.manual_seed(3)
    model = DistributedDataParallel(Transformer())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    return train("transformer", model, optimizer, dist.get_rank())


def fsdp2():
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(3)
    model = Transformer()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train("transformer", model, torch.optim.Adam(model.parameters(), lr=0.01), dist.get_rank())


def hybrid():
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(3)
    model = Transformer()
    fully_shard(model, mesh=init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("copies", "parts")))
    return train("transformer", model, torch.optim.Adam(model.parameters(), lr=0.01), dist.get_rank())


def tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = parallelize_module(model, mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})
    return train("cnn", model, torch.optim.SGD(model.parameters(), lr=0.1), 0)


def pipeline():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(size)]
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(layers[rank].parameters(), lr=0.1)
    collected = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 16, generator=generator), torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=y, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        collected += [loss.item() for loss in losses]
    return collected


class _Copied(torch.autograd.Function):
    """Into a tensor-parallel block: its parts' gradients add up."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class _Summed(torch.autograd.Function):
    """Out of a tensor-parallel block: its parts add up."""

    @staticmethod
    def forward(_, x, group):
        dist.all_reduce(x, group=group)
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient, None


class ParallelBlock(nn.Module):
    """Two linear layers, the first divided by columns and the second by rows, as Megatron does."""

    def __init__(self, group):
        super().__init__()
        self.group = group
        part = 32 // dist.get_world_size(group)
        self.first, self.second = nn.Linear(16, part), nn.Linear(part, 16, bias=False)

    def forward(self, x):
        return _Summed.apply(self.second(torch.tanh(self.first(_Copied.apply(x, self.group)))), self.group)


def three_ways():
    """Tensor x pipeline x data parallel (2 x 2 x 2) as Megatron has them, with its transfers between stages; two
    micro-batches, whose transfers are told apart by tags."""
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("data", "stage", "tensor"))
    stage, data, tensor = mesh["stage"], mesh["data"], mesh["tensor"]
    torch.manual_seed(3 + 10 * stage.get_local_rank() + tensor.get_local_rank())
    block = ParallelBlock(tensor.get_group())
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    other = stage.get_group()
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(10 * step + data.get_local_rank())
        batches = [torch.randn(2, 8, 16, generator=generator) for _ in range(2)]
        optimizer.zero_grad()
        if stage.get_local_rank() == 0:
            outs = [block(x) for x, _ in batches]
            for tag, out in enumerate(outs):
                dist.send(out.detach(), group=other, group_dst=1, tag=tag)
            for tag, out in reversed(list(enumerate(outs))):
                gradient = torch.empty_like(out)
                dist.recv(gradient, group=other, group_src=1, tag=tag)
                out.backward(gradient)
        else:
            sending = []
            for tag, (_, y) in enumerate(batches):
                received = torch.empty(8, 16)
                dist.recv(received, group=other, group_src=0, tag=tag)
                received.requires_grad_()
                loss = nn.functional.mse_loss(block(received), y)
                loss.backward()
                sending.append(dist.isend(received.grad, group=other, group_dst=0, tag=tag))
                losses.append(loss.item())
            for work in sending:
                work.wait()
        for parameter in block.parameters():
            dist.all_reduce(parameter.grad, group=data.get_group())
        optimizer.step()
    return losses


def checkpoint(folder):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    def make():
        torch.manual_seed(3)
        model = Transformer()
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    model, optimizer = make()
    train("transformer", model, optimizer, dist.get_rank())
    path = os.path.join(folder, dist.get_backend())
    states = get_state_dict(model, optimizer)
    dcp.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=path)
    straight = train("transformer", model, optimizer, dist.get_rank())
    model, optimizer = make()
    states = get_state_dict(model, optimizer)
    loaded = {"model": states[0], "optimizer": states[1]}
    dcp.load(loaded, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    assert straight == train("transformer", model, optimizer, dist.get_rank())
    return straight


@contextlib.contextmanager
def setting(name, value):
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


class Training(unittest.TestCase):
    def agree(self, size, body, *arguments, bits=None):
        """As gloo: to the last bit with two ranks, where there is only one order of adding."""
        ours = on_ranks(size, body, *arguments)
        gloos = on_ranks(size, body, *arguments, backend="gloo")
        if bits if bits is not None else size == 2:
            self.assertEqual(ours, gloos)
        for mine, theirs in zip(ours, gloos):
            self.assertEqual(len(mine), len(theirs))
            for a, b in zip(mine, theirs):
                self.assertAlmostEqual(a, b, delta=1e-3 * abs(b))
        return ours

    def test_ddp(self):
        for size in (2, 4):
            for kind in ("cnn", "transformer"):
                with self.subTest(kind, size=size):
                    losses = self.agree(size, ddp, kind)
                    self.assertNotEqual(losses[0][0], losses[0][-1])

    def test_ddp_with_sparse_gradients(self):
        self.agree(2, ddp, "transformer", True)

    def test_power_sgd(self):
        for several in (False, True):
            with self.subTest(several_buckets=several):
                self.agree(2, power_sgd, several)

    def test_zero_1(self):
        self.agree(2, zero_1)

    def test_fsdp2(self):
        for size in (2, 4):
            with self.subTest(size=size):
                self.agree(size, fsdp2)

    def test_hybrid_sharding(self):
        self.agree(4, hybrid)

    def test_tensor_parallel(self):
        for size in (2, 4):
            with self.subTest(size=size):
                losses = self.agree(size, tensor_parallel)
                self.assertTrue(all(one == losses[0] for one in losses))

    def test_pipeline(self):
        for size in (2, 4):
            with self.subTest(size=size):
                self.agree(size, pipeline)

    def test_tensor_pipeline_and_data_parallel(self):
        losses = self.agree(8, three_ways, bits=True)  # no group has more than two ranks
        self.assertEqual([len(one) for one in losses], 2 * [0, 0, 2 * STEPS, 2 * STEPS])

    def test_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            self.agree(2, checkpoint, folder)

    def test_detail_debugging(self):
        with setting("TORCH_DISTRIBUTED_DEBUG", "DETAIL"):
            self.agree(2, ddp, "cnn")

    def test_ordered(self):
        with setting("HOCKET_REPRODUCIBILITY", "ordered"):
            self.agree(2, ddp, "transformer", bits=True)
            self.assertEqual(on_ranks(4, ddp, "transformer"), on_ranks(4, ddp, "transformer"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
