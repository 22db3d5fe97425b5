# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Horovod's collectives on torch tensors, without gradients; functional.py has those that can be differentiated.

A call without a name gets one from its number among the calls of its kind. `*_async` return a handle for poll() and
synchronize(); a trailing underscore means in place.
"""
import torch

import hocket
from hocket._library import ints
from hocket.named.call import Call
from hocket.named.request import Request
from hocket.named.world import world
from hocket.torch.arrays import ARRAYS
from hocket.torch.basics import Average, Sum, global_process_set
from hocket.torch.compression import NoneCompressor
from hocket.torch.submit import After, prepare, submit, submit_together, synchronize, tensor_of


def chosen_op(op, average):
    """Average unless something else is said; `average` is Horovod's older way to say it."""
    if average is not None:
        if op is not None:
            raise ValueError("both op and average are given; average is the older name of op=Average")
        return Average if average else Sum
    return Average if op is None else op


def _group(name, kind, tensors, process_set):
    """(name, details) for each call of a group."""
    name = name if name is not None else world().unnamed("grouped_" + kind, process_set.process_set_id)
    return [(f"{name}.{i}", {"group": f"{kind}.{name}", "group_size": len(tensors)}) for i in range(len(tensors))]


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set, compression=NoneCompressor):
    """Combines a tensor over all ranks; the result is a new tensor."""
    return submit("allreduce", tensor, name, process_set, op=chosen_op(op, average), prescale=float(prescale_factor),
                  postscale=float(postscale_factor), compression=compression)


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set, compression=NoneCompressor):
    """Combines a tensor over all ranks, in place."""
    return submit("allreduce", tensor, name, process_set, output=tensor, op=chosen_op(op, average),
                  prescale=float(prescale_factor), postscale=float(postscale_factor), compression=compression)


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set):
    """Combines a tensor over all ranks, in place."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


def _grouped_allreduce(tensors, outputs, op, name, prescale_factor, postscale_factor, process_set, compression):
    named = _group(name, "allreduce", tensors, process_set)
    return submit_together([prepare("allreduce", tensor, each, process_set, output=output, op=op,
                                    prescale=float(prescale_factor), postscale=float(postscale_factor),
                                    compression=compression, **details)
                            for tensor, output, (each, details) in zip(tensors, outputs, named)], process_set)


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set, compression=NoneCompressor):
    """allreduce_async of several tensors at once; none begins before all are ready."""
    return _grouped_allreduce(tensors, [None] * len(tensors), chosen_op(op, average), name, prescale_factor,
                              postscale_factor, process_set, compression)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set, compression=NoneCompressor):
    """allreduce_async_ of several tensors at once; none begins before all are ready."""
    return _grouped_allreduce(tensors, tensors, chosen_op(op, average), name, prescale_factor, postscale_factor,
                              process_set, compression)


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set):
    """allreduce_ of several tensors at once."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor,
                                                process_set))


def sparse_allreduce_async(tensor, name, op, process_set=global_process_set):
    """Sum or average of sparse COO tensors: all ranks' entries, gathered. The result is not coalesced."""
    label = f"sparse allreduce of '{name}' on rank {world().rank}"
    if op not in (Average, Sum):
        raise hocket.InvalidArgument(f"{label}: sparse tensors have sum and average, not {op}")
    if tensor_of(label, tensor).layout != torch.sparse_coo:
        raise hocket.InvalidArgument(f"{label}: a tensor of layout {tensor.layout}, not sparse COO")
    indices = allgather_async(tensor._indices().transpose(0, 1).contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor._values(), f"{name}.values", process_set)

    def make(indices, values):
        values = values / process_set.size() if op == Average else values
        return torch.sparse_coo_tensor(indices.transpose(0, 1), values, tensor.size())

    return After([indices, values], make)


def allgather_async(tensor, name=None, process_set=global_process_set):
    """The rows of all ranks, one after the other; ranks may have different numbers of rows."""
    return submit("allgather", tensor, name, process_set)


def grouped_allgather_async(tensors, name=None, process_set=global_process_set):
    """allgather_async of several tensors at once."""
    named = _group(name, "allgather", tensors, process_set)
    return submit_together([prepare("allgather", tensor, each, process_set, **details)
                            for tensor, (each, details) in zip(tensors, named)], process_set)


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    """The tensor of rank root_rank (its number among all ranks), as a new tensor."""
    return submit("broadcast", tensor, name, process_set, root=root_rank)


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    """The tensor of rank root_rank, in place."""
    return submit("broadcast", tensor, name, process_set, output=tensor, root=root_rank)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    """The tensor of rank root_rank, in place."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """splits[i] rows go to rank i; without splits, equally many. The result is (rows, how many came from each rank)."""
    label = f"alltoall of '{name}' on rank {world().rank}"
    ranks = process_set.size()
    rows = tensor.shape[0] if tensor_of(label, tensor).dim() else 0
    if splits is None:
        if rows % ranks != 0:
            raise hocket.InvalidArgument(f"{label}: {rows} rows cannot be shared out equally among {ranks} ranks")
        numbers = (rows // ranks,) * ranks
    else:
        numbers = tuple(ints(f"{label}: splits", splits))
        if len(numbers) != ranks or min(numbers) < 0 or sum(numbers) != rows:
            raise hocket.InvalidArgument(f"{label}: splits {numbers} do not share out {rows} rows among {ranks} ranks")
    handle = submit("alltoall", tensor, name, process_set, numbers=numbers)
    return After([handle], lambda result: (result[0], torch.tensor(result[1], dtype=torch.int32)))


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0):
    """Combines a tensor over all ranks; each gets some of its rows, the first ones one more."""
    return submit("reducescatter", tensor, name, process_set, op=op, prescale=float(prescale_factor),
                  postscale=float(postscale_factor))


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0):
    """reducescatter_async of several tensors at once."""
    named = _group(name, "reducescatter", tensors, process_set)
    return submit_together([prepare("reducescatter", tensor, each, process_set, op=op, prescale=float(prescale_factor),
                                    postscale=float(postscale_factor), **details)
                            for tensor, (each, details) in zip(tensors, named)], process_set)


def join(device=-1):
    """This rank has no more data: until all ranks have joined, it adds zeros to the others' sums. Returns the rank that
    joined last."""
    del device
    return world().engine().submit(Call(Request("join", ""), ARRAYS)).result()


def barrier(process_set=global_process_set):
    """Returns after all ranks have called it."""
    engine = world().engine(process_set.process_set_id)
    engine.submit(Call(Request("barrier", world().unnamed("barrier", process_set.process_set_id)))).result()
