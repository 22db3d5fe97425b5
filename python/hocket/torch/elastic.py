# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""hvd.elastic: training that survives the loss of ranks; state and sampler for torch."""
import copy
import functools
import itertools
import math
import random

import torch

from hocket.named import elastic
from hocket.named.elastic import ObjectState as _ObjectState, State as _State
from hocket.torch.basics import forget_process_sets, rank, size
from hocket.torch.compression import CodecCompressor
from hocket.torch.objects import broadcast_object, broadcast_optimizer_state, broadcast_parameters


def _ranks_have_changed():
    forget_process_sets()
    CodecCompressor.ranks_have_changed()


run = functools.partial(elastic.run, on_change=_ranks_have_changed)


def _broadcast(value):
    return broadcast_object(value, name="elastic.state")


class State(_State):
    """To be subclassed: save(), restore(), sync()."""

    def __init__(self):
        super().__init__(_broadcast)


class ObjectState(_ObjectState):
    """Python objects, as attributes."""

    def __init__(self, **values):
        super().__init__(_broadcast, **values)


class StateHandler:
    """How TorchState keeps a value. For types of your own: a subclass with save(), restore() and sync(), beside the type
    in get_handler_registry()."""

    def __init__(self, value):
        self.value = value

    def save(self):
        """Keeps its state."""
        raise NotImplementedError

    def restore(self):
        """Goes back to the kept state."""
        raise NotImplementedError

    def sync(self):
        """Rank 0's state to all."""
        raise NotImplementedError

    def set_value(self, value):
        """Another one in its place."""
        self.value = value
        self.save()


class SamplerStateHandler(StateHandler):
    """Of a sampler, or whatever else has a state_dict: what that was at the last commit."""

    def __init__(self, value):
        super().__init__(value)
        self.save()

    def save(self):
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self):
        self._share()
        self.save()

    def _share(self):
        self.value.load_state_dict(_broadcast(self.value.state_dict()))


class ModelStateHandler(SamplerStateHandler):
    """Of a model."""

    def _share(self):
        broadcast_parameters(self.value.state_dict(), 0)


class OptimizerStateHandler(SamplerStateHandler):
    """Of an optimizer."""

    def _share(self):
        broadcast_optimizer_state(self.value, 0)


class _CodecStateHandler(SamplerStateHandler):
    def _share(self):
        """Nothing: what a codec keeps is each rank's own."""


_handler_registry = [(torch.nn.Module, ModelStateHandler), (torch.optim.Optimizer, OptimizerStateHandler),
                     (CodecCompressor, _CodecStateHandler)]


def get_handler_registry():
    """The list of (type, StateHandler) that TorchState looks into, the first that fits counts."""
    return _handler_registry


def set_handler_registry(registry):
    """Another list."""
    global _handler_registry  # pylint: disable=global-statement
    _handler_registry = registry


def _handler_of(value):
    kind = next((handler for type_, handler in _handler_registry if isinstance(value, type_)), None)
    if kind is None and hasattr(value, "state_dict"):
        kind = SamplerStateHandler
    return kind and kind(value)


class TorchState(ObjectState):
    """Models, optimizers, samplers, Compression.codec (whatever has a state_dict, or is in the registry) and Python objects,
    as attributes."""

    def __init__(self, model=None, optimizer=None, **values):
        values = {"model": model, "optimizer": optimizer, **values}
        handlers = {name: _handler_of(value) for name, value in values.items()}
        self._handlers = {name: handler for name, handler in handlers.items() if handler}
        super().__init__(**{name: value for name, value in values.items() if name not in self._handlers})
        for name, handler in self._handlers.items():
            setattr(self, name, handler.value)

    def __setattr__(self, name, value):
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler and value is not handler.value:
            handler.set_value(value)
        super().__setattr__(name, value)

    def save(self):
        """Keeps everything."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        """Puts everything back."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        """Rank 0's everything to all; but what a codec keeps is each rank's own."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()


class ElasticSampler(torch.utils.data.Sampler):
    """Shares a data set out among the ranks; when they change, what is left of the epoch is shared out anew. Call
    record_batch() after each batch and set_epoch() after each epoch."""

    def __init__(self, dataset, shuffle=True, seed=0):
        super().__init__()
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch):
        """Another epoch begins, in another order."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx, batch_size):
        """Each rank has processed so many."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self):
        """How far the epoch is."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict):
        """As far as state_dict() says."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def reset(self):
        """Shares out what is left among the ranks that are there now."""
        self.num_replicas, self.rank = size(), rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num:]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        """This rank's indices; some come twice so that all ranks have equally many."""
        padded = itertools.islice(itertools.cycle(self.remaining_indices), self.rank, self.total_size, self.num_replicas)
        return padded if self.remaining_indices else iter(())

    def __len__(self):
        return self.num_samples
