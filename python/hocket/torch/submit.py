# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""From a tensor to a call by name, and back: checks what this rank can see alone, and stages what is not in contiguous
host memory."""
import math

import torch

import hocket
from hocket._buffers import buffer_of
from hocket._library import int_of
from hocket.named.adasum import check_ranks
from hocket.named.call import Call
from hocket.named.request import Request
from hocket.named.world import world
from hocket.torch.arrays import ARRAYS
from hocket.torch.basics import ProcessSet
from hocket.torch.compression import NoneCompressor

_OPS = ("sum", "avg", "min", "max", "prod", "adasum")
_REDUCING = {"allreduce": _OPS, "reducescatter": _OPS[:-1]}


def submit(kind, tensor, name, process_set, **options):
    """Makes the call that prepare() prepares."""
    return _engine(process_set).submit(prepare(kind, tensor, name, process_set, **options))


def submit_together(calls, process_set):
    """Makes calls that were prepared: none, when one of them is refused."""
    _engine(process_set).submit_all(calls)
    return Several(calls)


def prepare(kind, tensor, name, process_set, *, output=None, compression=NoneCompressor, root=-1, **details):
    """Looks at what is to be sent, and returns the call. `output`: a tensor that receives, maybe `tensor` itself; without it
    result() returns a new one on the tensor's device. `details`: of the Request."""
    engine = _engine(process_set)
    name = str(name) if name is not None else world().unnamed(kind, process_set.process_set_id)
    label = f"{kind} of '{name}' on rank {world().rank}"
    host = _on_host(label, tensor)
    codec = getattr(compression, "codec", None) if tensor.is_floating_point() else None
    request = Request(kind, name, ARRAYS.datatype(host), ARRAYS.shape(host), root=int_of(f"{label}: root_rank", root),
                      **details, codec=codec.specification if codec else "", feedback=int(bool(codec and compression.feedback)))
    _check(label, request, engine)
    direct = output is not None and _on_host(label, output) is output
    return Call(request, ARRAYS, host, output if direct else None, codec, None if direct else _finish(tensor, output))


def _engine(process_set):
    if not isinstance(process_set, ProcessSet):
        raise hocket.InvalidArgument(f"process_set: {process_set!r} is no ProcessSet")
    if process_set.process_set_id is None:
        raise hocket.InvalidArgument(f"{process_set} was not added: pass it to init() or add_process_set()")
    return world().engine(process_set.process_set_id)


def tensor_of(label, value):
    """The value, which has to be a tensor."""
    if not isinstance(value, torch.Tensor):
        raise hocket.InvalidArgument(f"{label}: {type(value).__name__} is no tensor")
    return value


def _on_host(label, tensor):
    """The tensor itself if the library can use it where it is, otherwise a copy."""
    tensor_of(label, tensor)
    usable = tensor.detach()
    if tensor.layout == torch.strided and tensor.device.type not in ("cpu", "meta"):
        usable = usable.cpu()
    if usable.layout == torch.strided and not usable.is_contiguous():
        usable = usable.contiguous()
    buffer_of(label, usable)
    return tensor if usable.data_ptr() == tensor.data_ptr() and usable.device == tensor.device else usable


def _check(label, request, engine):
    ops = _REDUCING.get(request.kind)
    if ops and request.op not in ops:
        raise hocket.InvalidArgument(f"{label}: there is no op '{request.op}', only {', '.join(ops)}")
    if ops and request.datatype == "bool":
        raise hocket.InvalidArgument(f"{label}: elements of type bool cannot be reduced")
    if math.isnan(request.prescale) or math.isnan(request.postscale):
        raise hocket.InvalidArgument(f"{label}: factors {request.prescale} and {request.postscale}; both must be numbers")
    if request.op == "adasum":
        check_ranks(engine.communicator.size, request)
    if request.codec and request.op not in ("sum", "avg"):
        raise hocket.InvalidArgument(f"{label}: codec {request.codec} serves sum and average, not {request.op}")
    if request.kind == "broadcast" and request.root not in engine.ranks:
        raise hocket.InvalidArgument(f"{label}: root_rank {request.root} is not among the ranks {engine.ranks}")
    if request.kind in ("allgather", "alltoall", "reducescatter") and not request.shape:
        raise hocket.InvalidArgument(f"{label}: a tensor without dimensions has no rows to share out")


def _finish(tensor, output):
    """Puts a result where the caller wants it."""
    def place(result):
        return result if result.device == tensor.device else result.to(tensor.device)

    def finish(result):
        if output is not None:
            with torch.no_grad():
                return output.copy_(result)
        if isinstance(result, tuple):
            return place(result[0]), result[1]
        return place(result)

    return finish


class Several:
    """The handle of a grouped call: result() is a list."""

    def __init__(self, calls):
        self._calls = calls

    def poll(self):
        """Whether all are done."""
        return all(call.poll() for call in self._calls)

    def result(self):
        """Waits for all."""
        return [call.result() for call in self._calls]


class After:
    """A handle whose result is made of other handles' results."""

    def __init__(self, handles, make):
        self._handles = handles
        self._make = make

    def poll(self):
        """Whether result() would return at once."""
        return all(handle.poll() for handle in self._handles)

    def result(self):
        """Waits for all, then makes it."""
        return self._make(*[handle.result() for handle in self._handles])

    __call__ = result  # as Horovod's handle of a sparse allreduce


def poll(handle):
    """Whether synchronize() would return at once."""
    return handle.poll()


def synchronize(handle):
    """Waits for an asynchronous call and returns its result. HorovodInternalError when the ranks can no longer work
    together, Mismatch when their calls of this name do not fit."""
    return handle.result()
