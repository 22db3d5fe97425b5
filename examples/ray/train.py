# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Ray starts no processes with variables of its own kind; an actor sets them before it first uses Hocket:

    python examples/ray/train.py [RANKS]
"""
import os
import socket
import sys

import ray

RANKS = int(sys.argv[1]) if len(sys.argv) > 1 else 4


@ray.remote(num_cpus=1)
class Worker:
    def address(self):
        """Where the ranks meet, if this is rank 0: a port that is free now."""
        with socket.socket() as free:
            free.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def train(self, rank, size, address, secret):
        os.environ.update(HOCKET_RANK=str(rank), HOCKET_SIZE=str(size), HOCKET_ADDRESS=address, HOCKET_SECRET=secret)
        import torch
        import hocket.torch as hvd
        hvd.init()
        torch.manual_seed(hvd.rank())
        model = torch.nn.Linear(4, 1)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(30):
            x = torch.randn(32, 4)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
            optimizer.step()
        hvd.shutdown()
        return model.weight.detach().flatten().tolist()


if __name__ == "__main__":
    ray.init(num_cpus=RANKS)
    workers = [Worker.remote() for _ in range(RANKS)]
    meeting = ray.get(workers[0].address.remote())
    key = os.urandom(16).hex()
    weights = ray.get([worker.train.remote(rank, RANKS, meeting, key) for rank, worker in enumerate(workers)])
    assert all(each == weights[0] for each in weights), weights
    print(f"{RANKS} ranks have learned the same weights:", *(f"{weight:.3f}" for weight in weights[0]))
