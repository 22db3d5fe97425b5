# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Parameters, optimizer states and Python objects to all ranks. Objects are pickled: they come from the ranks of this
job, which have proved its key, and from nobody else."""
import io
import pickle

import torch

from hocket.torch.basics import global_process_set, rank
from hocket.torch.operations import allgather_async, broadcast_, broadcast_async_
from hocket.torch.submit import synchronize

try:
    import cloudpickle as _pickler  # also functions and classes of the main program
except ImportError:
    _pickler = pickle


def _bytes_of(value):
    file = io.BytesIO()
    _pickler.dump(value, file)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


def _object_of(tensor):
    return pickle.loads(tensor.numpy().tobytes())


def broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set):
    """The object of rank root_rank, on all ranks."""
    name = type(obj).__name__ if name is None else name
    content = _bytes_of(obj) if rank() == root_rank else None
    length = torch.tensor([0 if content is None else len(content)])
    broadcast_(length, root_rank, name + ".sz", process_set)
    if content is None:
        content = torch.empty(int(length), dtype=torch.uint8)
    broadcast_(content, root_rank, name + ".t", process_set)
    return obj if rank() == root_rank else _object_of(content)


def allgather_object(obj, name=None, process_set=global_process_set):
    """A list of the objects of all ranks."""
    name = type(obj).__name__ if name is None else name
    content = _bytes_of(obj)
    lengths = allgather_async(torch.tensor([len(content)]), name + ".sz", process_set)
    contents = synchronize(allgather_async(content, name + ".t", process_set))
    return [_object_of(each) for each in contents.split(synchronize(lengths).tolist())]


def broadcast_parameters(params, root_rank, process_set=global_process_set):
    """Rank root_rank's values into a model.state_dict(), or into a list of parameters or of (name, parameter)."""
    if isinstance(params, dict):
        params = sorted(params.items())
    elif hasattr(params, "__iter__") and not isinstance(params, (str, torch.Tensor)):
        params = [each if isinstance(each, tuple) else (None, each) for each in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    handles = [broadcast_async_(value, root_rank, name, process_set) for name, value in params
               if isinstance(value, torch.Tensor)]
    for handle in handles:
        synchronize(handle)


def broadcast_optimizer_state(optimizer, root_rank, model=None, process_set=global_process_set):
    """Rank root_rank's optimizer state and options, whatever the state of the others, also where they have none yet."""
    del model
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    tensors = []
    layout = _replaced(optimizer.state_dict(), torch.Tensor, lambda tensor: _Slot.instead_of(tensor, tensors))
    layout = broadcast_object(layout, root_rank, "optimizer_state", process_set)
    if rank() != root_rank:
        tensors = []
        state = _replaced(layout, _Slot, lambda slot: slot.filled(tensors))
    named = [(f"optimizer_state.{number}", tensor) for number, tensor in enumerate(tensors)]
    broadcast_parameters(named, root_rank, process_set)
    if rank() != root_rank:
        optimizer.load_state_dict(state)


class _Slot:
    """Where a tensor belongs."""

    def __init__(self, shape, datatype):
        self.shape = shape
        self.datatype = datatype

    @classmethod
    def instead_of(cls, tensor, tensors):
        """Puts the tensor aside."""
        tensors.append(tensor)
        return cls(tuple(tensor.shape), tensor.dtype)

    def filled(self, tensors):
        """With a new tensor, also put aside."""
        tensors.append(torch.empty(self.shape, dtype=self.datatype))
        return tensors[-1]


def _replaced(value, kind, make):
    """A copy of nested dictionaries, lists and tuples with make(x) for each x of that kind."""
    if isinstance(value, kind):
        return make(value)
    if isinstance(value, dict):
        return {key: _replaced(each, kind, make) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(each, kind, make) for each in value)
    return value
