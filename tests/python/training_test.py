#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What PyTorch builds on a backend, really run: DDP, FSDP2, tensor and pipeline parallelism, ZeRO-1, checkpoints; each
beside gloo with the same seed."""
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


def three_ways():
    """Tensor x pipeline x data parallel on 4 ranks (1 x 2 x 2) and their transfers between stages, as Megatron has them."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "stage"))
    stage, data = mesh["stage"], mesh["data"]
    torch.manual_seed(3 + stage.get_local_rank())
    layer = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    other = stage.get_group()
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(10 * step + data.get_local_rank())
        x, y = torch.randn(8, 16, generator=generator), torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        if stage.get_local_rank() == 0:
            out = layer(x)
            dist.send(out.detach(), group=other, group_dst=1)
            gradient = torch.empty_like(out)
            dist.recv(gradient, group=other, group_src=1)
            out.backward(gradient)
        else:
            received = torch.empty(8, 16)
            dist.recv(received, group=other, group_src=0)
            received.requires_grad_()
            loss = nn.functional.mse_loss(layer(received), y)
            loss.backward()
            dist.send(received.grad, group=other, group_dst=0)
            losses.append(loss.item())
        for parameter in layer.parameters():
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

    def test_data_and_pipeline_parallel(self):
        self.agree(4, three_ways, bits=True)

    def test_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            self.agree(2, checkpoint, folder)

    def test_detail_debugging(self):
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        try:
            self.agree(2, ddp, "cnn")
        finally:
            del os.environ["TORCH_DISTRIBUTED_DEBUG"]


if __name__ == "__main__":
    unittest.main(verbosity=2)
