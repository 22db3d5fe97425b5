# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Hocket for PyTorch. `import hocket.torch as hvd` has Horovod's API (docs/horovod.md), and
ddp_hook() is for DistributedDataParallel (docs/pytorch.md)."""
from hocket.distributed.ddp import ddp_hook, in_order
from hocket.named.errors import HostsUpdatedInterrupt, Mismatch
from hocket.torch.basics import *  # pylint: disable=wildcard-import
from hocket.torch.compression import Compression
from hocket.torch.functional import (allgather, allreduce, alltoall, broadcast, grouped_allgather, grouped_allreduce,
                                     grouped_reducescatter, reducescatter)
from hocket.torch.objects import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from hocket.torch.operations import (allgather_async, allreduce_, allreduce_async, allreduce_async_, alltoall_async,
                                     barrier, broadcast_, broadcast_async, broadcast_async_, grouped_allgather_async,
                                     grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_,
                                     grouped_reducescatter_async, join, reducescatter_async, sparse_allreduce_async)
from hocket.torch.optimizer import DistributedOptimizer
from hocket.torch.submit import poll, synchronize
from hocket.torch.sync_batch_norm import SyncBatchNorm
from hocket.torch import elastic
