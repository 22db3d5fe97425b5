# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""DistributedOptimizer: any torch optimizer, on gradients that are combined over all ranks while backward() computes."""
import collections
import contextlib
import os
import warnings

import torch

from hocket.torch.basics import Adasum, Average, global_process_set, size
from hocket.torch.compression import NoneCompressor, compressor_of
from hocket.torch.objects import broadcast_object
from hocket.torch.operations import allreduce_async_, grouped_allreduce_async_, sparse_allreduce_async
from hocket.torch.submit import synchronize


def _names(optimizer, named_parameters):
    """{parameter: name}; ValueError for names that do not fit the optimizer's parameters."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    if named_parameters is None:
        return {parameter: f"allreduce.noname.{i}.{j}" for i, group in enumerate(optimizer.param_groups)
                for j, parameter in enumerate(group["params"])}
    named = list(named_parameters)
    if any(not isinstance(each, tuple) for each in named):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by "
                         "model.named_parameters().")
    twice = [name for name, count in collections.Counter(name for name, _ in named).items() if count > 1]
    if twice:
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}")
    names = {parameter: name for name, parameter in named}
    without = [tuple(each.shape) for each in parameters if each not in names]
    if without:
        raise ValueError("named_parameters was specified, but one or more model parameters were not named: those of "
                         f"shape {', '.join(map(str, without))}")
    return names


def _grouping(groups, parameters, names, process_set):
    """{parameter: its group as a tuple}; formed alike on all ranks."""
    if groups is None:
        return {}
    order = broadcast_object([names[each] for each in parameters], process_set.ranks[0], "optimizer.groups", process_set)
    parameters = sorted(parameters, key=lambda each: order.index(names[each]))
    if isinstance(groups, int):
        formed = [parameters[len(parameters) * i // groups:len(parameters) * (i + 1) // groups] for i in range(groups)]
    else:
        chosen = set().union(*groups)
        formed = [[each for each in group if each.requires_grad] for group in groups]
        formed += [[each] for each in parameters if each not in chosen]
    return {parameter: tuple(group) for group in formed for parameter in group}


def _check_groups(groups):
    if groups is None or isinstance(groups, int) and groups > 0:
        return
    if not isinstance(groups, list):
        raise ValueError("groups should be a non-negative integer or a list of list of torch.Tensor.")
    parameters = [each for group in groups for each in group]
    if any(not isinstance(each, torch.Tensor) for each in parameters):
        raise ValueError("groups must consist of torch.Tensor.")
    if len(set(parameters)) < len(parameters):
        raise ValueError("A parameter can only appear once in groups.")


class Gradients:
    """Starts the reduction of each gradient when it is computed for the last time before a step, and waits for all.
    What DistributedOptimizer adds to an optimizer; knows no step."""

    def __init__(self, optimizer, named_parameters, compression, passes, op, predivide, groups, sparse_as_dense,
                 process_set):
        self.names = _names(optimizer, named_parameters)
        self.passes = passes
        self.synchronized = False
        self._compression, self._op, self._process_set = compression, op, process_set
        self._predivide, self._sparse_as_dense = predivide, sparse_as_dense
        self._parameters = []
        self._passes_left = {}
        self._under_way = {}  # group -> (handle, what decompress() needs), in the order in which they were started
        self._group = {}
        if process_set.included() and (size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1"):
            self._watch([each for group in optimizer.param_groups for each in group["params"] if each.requires_grad],
                        groups)

    def _watch(self, parameters, groups):
        self._parameters = parameters
        self._group = _grouping(groups, parameters, self.names, self._process_set)
        self.reset()
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._computed)

    def reset(self):
        """As after a step."""
        self._under_way.clear()
        self._passes_left = dict.fromkeys(self._parameters, self.passes)

    @property
    def busy(self):
        """Whether reductions were started that synchronize() has not waited for."""
        return bool(self._under_way)

    def _computed(self, parameter):
        if self._passes_left[parameter] <= 0:
            raise AssertionError("Gradients were computed more than backward_passes_per_step times before call to step(). "
                                 "Increase backward_passes_per_step to accumulate gradients locally.")
        self._passes_left[parameter] -= 1
        group = self._group.get(parameter, (parameter,))
        if all(self._passes_left[each] == 0 for each in group):
            self._start(group)

    def _start(self, group):
        for parameter in group:
            if parameter.grad is None:  # another rank may have computed it
                parameter.grad = torch.zeros_like(parameter)
        if len(group) == 1 and group[0].grad.is_sparse and not self._sparse_as_dense:
            handle = sparse_allreduce_async(group[0].grad, self.names[group[0]], self._op, self._process_set)
            self._under_way[group] = (handle, None)
            return
        gradients = [each.grad.to_dense() if each.grad.is_sparse else each.grad for each in group]
        smaller, contexts = zip(*map(self._compression.compress, gradients))
        factors = (1 / self._predivide, self._predivide) if self._op == Average else (1.0, 1.0)
        details = {"op": self._op, "prescale_factor": factors[0], "postscale_factor": factors[1],
                   "process_set": self._process_set, "compression": self._compression}
        if self._group:
            handle = grouped_allreduce_async_(smaller, name=self.names[group[0]], **details)
        else:
            handle = allreduce_async_(smaller[0], name=self.names[group[0]], **details)
        self._under_way[group] = (handle, contexts)

    def synchronize(self):
        """Waits for all gradients; starts those that this rank's backward() did not reach."""
        for parameter in self._parameters:
            group = self._group.get(parameter, (parameter,))
            if group not in self._under_way:
                self._start(group)
        for group, (handle, contexts) in self._under_way.items():
            results = synchronize(handle)
            for parameter, result, context in zip(group, results if self._group else [results],
                                                  contexts or [None] * len(group)):
                self._take_in(parameter, result, context)
        self.reset()
        self.synchronized = True

    def _take_in(self, parameter, result, context):
        with torch.no_grad():
            result = result if result.is_sparse else self._compression.decompress(result, context)
            if parameter.grad.is_sparse:
                parameter.grad = result.coalesce() if result.is_sparse else result.to_sparse()
            elif result.data_ptr() != parameter.grad.data_ptr():
                parameter.grad.copy_(result)


class _GradientOptimizer:
    """What a wrapped optimizer does; its other base is the optimizer's own class."""

    def synchronize(self):
        """Waits for the gradients, for example to clip them; then step() within skip_synchronize()."""
        self._gradients.synchronize()

    @contextlib.contextmanager
    def skip_synchronize(self):
        """step() inside does not wait for gradients, because synchronize() has."""
        self._skip = True
        try:
            yield
        finally:
            self._skip = False

    def set_backward_passes_per_step(self, passes):
        """How often backward() is called before the next steps."""
        self._gradients.passes = passes
        self._gradients.reset()

    def zero_grad(self, *arguments, **options):
        """As the optimizer's own; AssertionError while gradients are on their way."""
        if self._gradients.busy:
            raise AssertionError("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                                 "optimizer.synchronize(). This is prohibited as it can cause a race condition.")
        return super().zero_grad(*arguments, **options)

    def load_state_dict(self, *arguments, **options):
        """As the optimizer's own."""
        self._gradients.reset()
        return super().load_state_dict(*arguments, **options)

    def step(self, closure=None):
        """Waits for the combined gradients, then steps."""
        gradients = self._gradients
        if not self._skip:
            if gradients.synchronized:
                warnings.warn("optimizer.step() called without optimizer.skip_synchronize() context after "
                              "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
                              "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code.")
            gradients.synchronize()
        gradients.synchronized = False
        return super().step(closure)

    step.hooked = True  # torch's own hooks run in super().step()


class _AdasumOptimizer:
    """Each rank steps by itself; what its parameters moved by is combined."""

    def synchronize(self):
        """Nothing: gradients stay each rank's own."""

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Nothing that could be skipped."""
        yield

    def step(self, closure=None):
        """Steps locally, then combines the changes of all ranks."""
        parameters = [each for group in self.param_groups for each in group["params"] if each.requires_grad]
        before = [each.detach().clone() for each in parameters]
        result = super().step(closure)
        compression = self._compression
        with torch.no_grad():
            moves = [compression.compress(each - old) for each, old in zip(parameters, before)]
            handles = [allreduce_async_(move.contiguous(), name=f"adasum.{self._names[each]}", op=Adasum)
                       for each, (move, _) in zip(parameters, moves)]
            for each, old, handle, (_, context) in zip(parameters, before, handles, moves):
                each.copy_(old + compression.decompress(synchronize(handle), context))
        return result

    step.hooked = True


def _as(kind, optimizer):
    """The same object in a new class, so that a scheduler that holds it sees what we do."""
    own = type(optimizer)
    patched = vars(optimizer).pop("step", None)  # by a scheduler: it would go past our step()
    optimizer.__class__ = type(own.__name__, (kind, own), {"__module__": own.__module__})
    if patched is not None:
        def step(*arguments, **options):
            optimizer._opt_called = True
            return type(optimizer).step(optimizer, *arguments, **options)

        step._wrapped_by_lr_sched = True
        optimizer.step = step
    return optimizer


def DistributedOptimizer(optimizer, named_parameters=None,  # pylint: disable=invalid-name
                         compression=NoneCompressor, backward_passes_per_step=1, op=Average,
                         gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """The optimizer, whose step() uses gradients combined over all ranks.

    named_parameters: model.named_parameters(); then ranks may compute gradients in different orders.
    compression: Compression.none, fp16, bf16, or Compression.codec(...).
    backward_passes_per_step: gradients are summed over so many backward() before they are combined.
    gradient_predivide_factor: averages divide by it before the sum, and by size / factor after it.
    groups: a number of groups, or lists of parameters, whose gradients are combined together.
    sparse_as_dense: sparse gradients are combined as dense ones.
    process_set: the ranks whose gradients are combined.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if num_groups:
        warnings.warn("num_groups is the older name of groups", DeprecationWarning)
    compressor_of(compression)
    groups = (num_groups or None) if groups is None else (groups or None)
    _check_groups(groups)
    if op == Adasum and size() > 1:
        if process_set is not global_process_set:
            raise NotImplementedError("Adasum does not support non-global process sets yet.")
        names = _names(optimizer, named_parameters)
        optimizer = _as(_AdasumOptimizer, optimizer)
        optimizer._names, optimizer._compression = names, compression
        return optimizer
    gradients = Gradients(optimizer, named_parameters, compression, backward_passes_per_step, op,
                          gradient_predivide_factor, groups, sparse_as_dense, process_set)
    optimizer = _as(_GradientOptimizer, optimizer)
    optimizer._gradients, optimizer._skip = gradients, False
    return optimizer
