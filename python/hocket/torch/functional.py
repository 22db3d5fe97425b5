# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Horovod's collectives that wait and can be differentiated."""
import torch

from hocket.torch import operations
from hocket.torch.basics import Average, Sum, global_process_set, rank
from hocket.torch.compression import NoneCompressor, compressor_of
from hocket.torch.operations import chosen_op
from hocket.torch.submit import synchronize


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, details):
        ctx.details = details
        return synchronize(operations.allreduce_async(tensor, name=name, **details))

    @staticmethod
    def backward(ctx, gradient):
        return synchronize(operations.allreduce_async(gradient, **ctx.details)), None, None


def _details(op, average, prescale_factor, postscale_factor, process_set, compression):
    return {"op": chosen_op(op, average), "prescale_factor": prescale_factor, "postscale_factor": postscale_factor,
            "process_set": process_set, "compression": compression}


def allreduce(tensor, average=None, name=None, compression=NoneCompressor, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    """Combines a tensor over all ranks: Average unless `op` says otherwise."""
    smaller, context = compressor_of(compression).compress(tensor)
    details = _details(op, average, prescale_factor, postscale_factor, process_set, compression)
    return compression.decompress(_Allreduce.apply(smaller, name, details), context)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, details, *tensors):
        ctx.details = details
        return tuple(synchronize(operations.grouped_allreduce_async(tensors, name=name, **details)))

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *synchronize(operations.grouped_allreduce_async(gradients, **ctx.details))


def grouped_allreduce(tensors, average=None, name=None, compression=NoneCompressor, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set):
    """allreduce of several tensors at once."""
    compressed = list(map(compressor_of(compression).compress, tensors))
    details = _details(op, average, prescale_factor, postscale_factor, process_set, compression)
    results = _GroupedAllreduce.apply(name, details, *(smaller for smaller, _ in compressed))
    return [compression.decompress(each, context) for each, (_, context) in zip(results, compressed)]


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, process_set):
        handle = operations.allgather_async(tensor, name, process_set)
        ctx.rows, ctx.process_set = tensor.shape[0], process_set
        return synchronize(handle)

    @staticmethod
    def backward(ctx, gradient):
        return _own_rows(gradient, ctx.rows, ctx.process_set), None, None


def _own_rows(gradient, rows, process_set):
    average = synchronize(operations.allreduce_async(gradient, op=Average, process_set=process_set))
    of_all = synchronize(operations.allgather_async(torch.tensor([rows]), process_set=process_set))
    return average.narrow(0, int(of_all[:process_set.rank()].sum()), rows)


def allgather(tensor, name=None, process_set=global_process_set):
    """The rows of all ranks, one after the other; ranks may have different numbers of rows."""
    return _Allgather.apply(tensor, name, process_set)


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        handle = operations.grouped_allgather_async(tensors, name, process_set)
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(synchronize(handle))

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *[_own_rows(gradient, rows, ctx.process_set)
                             for gradient, rows in zip(gradients, ctx.rows)]


def grouped_allgather(tensors, name=None, process_set=global_process_set):
    """allgather of several tensors at once."""
    return list(_GroupedAllgather.apply(name, process_set, *tensors))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(operations.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        average = synchronize(operations.allreduce_async(gradient, op=Average, process_set=ctx.process_set))
        return average if rank() == ctx.root_rank else average.zero_(), None, None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    """The tensor of rank root_rank (its number among all ranks)."""
    return _Broadcast.apply(tensor, root_rank, name, process_set)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, received = synchronize(operations.alltoall_async(tensor, splits, name, process_set))
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, _):
        back = operations.alltoall_async(gradient.contiguous(), ctx.received, process_set=ctx.process_set)
        return synchronize(back)[0], None, None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """splits[i] rows go to rank i. Returns the received rows; with splits, also how many came from each rank."""
    output, received = _Alltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):
        ctx.process_set = process_set
        ctx.factor = prescale_factor * postscale_factor * (process_set.size() if op == Sum else 1)
        return tuple(synchronize(operations.grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor,
                                                                        postscale_factor)))

    @staticmethod
    def backward(ctx, *gradients):
        gathered = operations.grouped_allgather_async([ctx.factor * gradient for gradient in gradients],
                                                      process_set=ctx.process_set)
        return (None,) * 5 + tuple(synchronize(gathered))


def reducescatter(tensor, name=None, compression=NoneCompressor, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0):
    """Combines a tensor over all ranks; each gets some of its rows, the first ones one more."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(tensors, name=None, compression=NoneCompressor, op=Average, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0):
    """reducescatter of several tensors at once."""
    smaller, contexts = zip(*map(compressor_of(compression).compress, tensors))
    results = _Reducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *smaller)
    return [compression.decompress(each, context) for each, context in zip(results, contexts)]
