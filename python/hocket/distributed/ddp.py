# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Communication hooks for DistributedDataParallel: gradients travel encoded by any codec of docs/codecs.md."""
import concurrent.futures
import contextlib
import dataclasses
import math
import time
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from hocket import _interrupt
from hocket._codec import Codec
from hocket._communicator import Communicator, unique_id
from hocket._errors import Error, InvalidArgument, InvalidUsage

_Future = torch.futures.Future


@dataclasses.dataclass
class Profile:
    """Seconds, of this rank, since the hook was made. Communication is what the sending thread did; exposed is what passed from
    the last bucket of a step to the end, when backward had nothing more to compute, with the waking of that thread."""
    steps: int = 0
    communication: float = 0.0
    exposed: float = 0.0

    @property
    def hidden(self) -> float:
        """The part of the communication that backward went on beside."""
        return max(0.0, 1 - self.exposed / self.communication) if self.communication > 0 else 0.0


class _Thread:
    """Calculates futures in the order in which they were asked for."""

    def __init__(self):
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "hocket-ddp")

    def future_of(self, calculate: Callable[[], torch.Tensor], device: torch.device) -> _Future:
        """Who waits for it on a device waits for what that has to do for it."""
        future: _Future = torch.futures.Future(devices=None if device.type == "cpu" else [device])
        self._executor.submit(self._complete, future, calculate)
        return future

    @staticmethod
    def _complete(future, calculate):
        try:
            future.set_result(calculate())
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)

    def close(self):
        self._executor.shutdown()


class DdpHook:
    """What ddp_hook() makes. It has a communicator of its own, so it works with any process group, and a thread that
    sends while backward goes on. Gradients of a device are averaged in host memory."""

    def __init__(self, specification, process_group, error_feedback):
        self.__name__ = self.__qualname__ = f"hocket.torch.ddp_hook({specification!r})"  # what DDP's logs show
        self._codec = None if specification is None else Codec(specification)
        self._feeds_back = self._codec is not None and _feeds_back(self._codec, error_feedback)
        self._communicator = _communicator_of(process_group)
        self._thread = _Thread()
        self._keys = {}
        self._profile = Profile()
        _interrupt.listen(self._communicator.abort)

    def __call__(self, state, bucket: dist.GradBucket) -> _Future[torch.Tensor]:
        buffer, handed_over = bucket.buffer(), time.perf_counter()
        if not self._communicator.handle:
            raise InvalidUsage(f"{self.__name__} on rank {self._communicator.rank}: it was closed")
        keys = [self._key_of(parameter) for parameter in bucket.parameters()]
        parts = [(key, 0, 0) for key in keys] if buffer.is_sparse else [
            (key, gradient.storage_offset() - buffer.storage_offset(), gradient.numel())
            for key, gradient in zip(keys, bucket.gradients())]
        end_of_backward = handed_over if bucket.is_last() else None
        computed = _mark(buffer.device)
        return self._thread.future_of(lambda: self._average(parts, buffer, computed, end_of_backward), buffer.device)

    # By parameter, since DDP divides parameters among other buckets after the first step. The first step of a resumed run
    # meets them in the same order as the first step of the run that was saved.
    def _key_of(self, parameter):
        return self._keys.setdefault(parameter, f"parameter {len(self._keys)}")

    def _average(self, parts, buffer, computed, end_of_backward):
        if computed is not None:
            computed.synchronize()
        begin = time.perf_counter()
        host = buffer.cpu()  # the buffer itself, if it is there
        keys = [key for key, _, _ in parts]
        if buffer.is_sparse:
            with self._naming(keys, host):
                buffer = self._of_all_rows(host.coalesce()).to(buffer.device)
        elif self._codec is None:
            with self._naming(keys, host):
                self._communicator.all_reduce(host, op="avg")
        else:
            self._encoded(parts, host)
        if computed is not None and not buffer.is_sparse:
            buffer.copy_(host)
        end = time.perf_counter()
        self._profile.communication += end - begin
        if end_of_backward is not None:
            self._profile.exposed += end - end_of_backward
            self._profile.steps += 1
        return buffer

    def _encoded(self, parts, host):
        for key, first, count in parts:
            part = host[first:first + count]
            with self._naming([key], part):
                self._communicator.all_reduce(part, op="avg", codec=self._codec, key=key if self._feeds_back else None)

    @contextlib.contextmanager
    def _naming(self, keys, gradients):
        try:
            yield
        except Error as error:
            of = keys[0] if len(keys) == 1 else f"{keys[0]} to {keys[-1]}"
            raise type(error)(f"{self.__name__} on rank {self._communicator.rank}: gradient of {of}, {gradients.numel()} "
                              f"elements of {gradients.dtype}: {error}") from error

    # Sparse already, so no codec makes it shorter.
    def _of_all_rows(self, sparse):
        ranks = self._communicator.size
        rows = torch.empty(ranks, dtype=torch.int64)
        self._communicator.all_gather(torch.tensor([sparse._nnz()]), rows)
        indices = self._gathered(sparse.indices().t().contiguous(), rows.tolist())
        values = self._gathered(sparse.values(), rows.tolist())
        return torch.sparse_coo_tensor(indices.t(), values / ranks, sparse.size()).coalesce()

    def _gathered(self, own, rows):
        everybodys = own.new_empty((sum(rows), *own.shape[1:]))
        width = math.prod(own.shape[1:])
        self._communicator.all_gather_v(own, everybodys, [width * count for count in rows])
        return everybodys

    def profile(self) -> Profile:
        """How long communication took, and how much of it backward did not hide."""
        return dataclasses.replace(self._profile)

    def state_dict(self) -> dict[str, Any]:
        """What error feedback keeps, of this rank: a run that loads it goes on with the same bits."""
        if self._codec is None:
            return {}
        return {"codec": self._codec.specification,
                "state": torch.frombuffer(bytearray(self._codec.save_state()), dtype=torch.uint8)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """What state_dict() returned on this rank, before the first step."""
        own = None if self._codec is None else self._codec.specification
        if state.get("codec") != own:
            raise InvalidArgument(f"{self.__name__} on rank {self._communicator.rank}: the state is of codec {state.get('codec')!r}, "
                                  f"not {own!r}")
        if self._codec is not None:
            self._codec.load_state(state["state"].numpy().tobytes())

    def close(self) -> None:
        """Ends the thread and the communicator, on all ranks."""
        self._thread.close()
        self._communicator.close()


def _mark(device):
    """An event that ends when the device's current stream has come so far; None: it is no device."""
    if device.type == "cpu":
        return None
    event = torch.Event(device)
    event.record()
    return event


def _feeds_back(codec, wanted):
    described = codec.describe()
    return not (described.lossless or described.unbiased) if wanted is None else wanted


def _communicator_of(group):
    identity = [unique_id() if dist.get_rank(group) == 0 else None]
    dist.broadcast_object_list(identity, group_src=0, group=group)
    return Communicator.join(identity[0], dist.get_rank(group), dist.get_world_size(group), name="ddp_hook")


def ddp_hook(specification: Optional[str], process_group: Optional[dist.ProcessGroup] = None, *,
             error_feedback: Optional[bool] = None) -> DdpHook:
    """A hook for DistributedDataParallel that averages gradients with a codec; made on all ranks of the group at once.

        hook = hocket.torch.ddp_hook("topk:ratio=0.01")
        model.register_comm_hook(None, hook)
        ...
        checkpoint["hook"] = hook.state_dict()  # each rank its own

    `specification`: None for gradients as they are. `error_feedback`: whether what a codec loses is added to the next step's
    gradient; by default, if it loses anything and is not right on average.
    """
    return DdpHook(specification, process_group, error_feedback)


def in_order(hook: Callable[[Any, dist.GradBucket], _Future]) -> Callable[[Any, dist.GradBucket], _Future]:
    """A hook of torch that chains calls to futures (powerSGD_hook), so that it makes all its calls for one bucket before those
    for the next, on a thread of its own: else each rank makes them in the order in which its futures happen to end.

        model.register_comm_hook(state, hocket.torch.in_order(powerSGD_hook))
    """
    thread = _Thread()

    def ordered(state: Any, bucket: dist.GradBucket) -> _Future[torch.Tensor]:
        device = bucket.buffer().device
        if device.type != "cpu":
            return hook(state, bucket)  # futures of streams end at once, so the calls are made in order
        return thread.future_of(lambda: hook(state, bucket).wait(), device)

    ordered.__name__ = ordered.__qualname__ = f"hocket.torch.in_order({hook.__name__})"
    return ordered
