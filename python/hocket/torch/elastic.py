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


class _Kept:
    """A model, optimizer, sampler or compression, and the state_dict that it had at the last commit."""

    def __init__(self, value):
        self.value = value
        self.save()

    def save(self):
        """Keeps its state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        """Goes back to the kept state."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self):
        """Rank 0's state to all; but what a codec keeps is each rank's own."""
        if isinstance(self.value, torch.nn.Module):
            broadcast_parameters(self.value.state_dict(), 0)
        elif isinstance(self.value, torch.optim.Optimizer):
            broadcast_optimizer_state(self.value, 0)
        elif not isinstance(self.value, CodecCompressor):
            self.value.load_state_dict(_broadcast(self.value.state_dict()))
        self.save()


class TorchState(ObjectState):
    """Models, optimizers, samplers, Compression.codec (whatever has a state_dict) and Python objects, as attributes."""

    def __init__(self, model=None, optimizer=None, **values):
        values = {"model": model, "optimizer": optimizer, **values}
        self._kept = {name: _Kept(value) for name, value in values.items() if hasattr(value, "state_dict")}
        super().__init__(**{name: value for name, value in values.items() if name not in self._kept})
        for name, kept in self._kept.items():
            setattr(self, name, kept.value)

    def __setattr__(self, name, value):
        if name in self.__dict__.get("_kept", {}) and value is not self._kept[name].value:
            self._kept[name] = _Kept(value)
        super().__setattr__(name, value)

    def save(self):
        """Keeps everything."""
        for kept in self._kept.values():
            kept.save()
        super().save()

    def restore(self):
        """Puts everything back."""
        for kept in self._kept.values():
            kept.restore()
        super().restore()

    def sync(self):
        """Rank 0's everything to all."""
        for kept in self._kept.values():
            kept.sync()
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
