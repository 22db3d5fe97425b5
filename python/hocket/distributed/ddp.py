# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Communication hooks for DistributedDataParallel: gradients travel encoded by any codec of docs/codecs.md."""
import concurrent.futures

import torch
import torch.distributed as dist

from hocket import _interrupt
from hocket._codec import Codec
from hocket._communicator import Communicator, unique_id


class DdpHook:
    """What ddp_hook() makes. It has a communicator of its own, so it works with any process group, and a thread that
    sends while backward goes on."""

    def __init__(self, specification, process_group, error_feedback):
        self.__name__ = self.__qualname__ = f"hocket.torch.ddp_hook('{specification}')"  # what DDP's logs show
        self._codec = Codec(specification)
        described = self._codec.describe()
        self._feeds_back = not (described.lossless or described.unbiased) if error_feedback is None else error_feedback
        self._communicator = _communicator_of(process_group)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "hocket-ddp")
        self._keys = {}
        _interrupt.listen(self._communicator.abort)

    def __call__(self, state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future = torch.futures.Future()
        buffer = bucket.buffer()
        gradients = [(self._key_of(parameter), gradient)
                     for parameter, gradient in zip(bucket.parameters(), bucket.gradients())]
        self._thread.submit(self._average, gradients, buffer, future)
        return future

    # By parameter, since DDP divides parameters among other buckets after the first step. The first step of a resumed run
    # meets them in the same order as the first step of the run that was saved.
    def _key_of(self, parameter):
        return self._keys.setdefault(parameter, f"parameter {len(self._keys)}")

    def _average(self, gradients, buffer, future):
        try:
            for key, gradient in gradients:
                flat = gradient.as_strided((gradient.numel(),), (1,))  # dense, in whatever order of dimensions
                self._communicator.all_reduce_compressed(flat, op="avg", codec=self._codec,
                                                         key=key if self._feeds_back else None)
            future.set_result(buffer)
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(error)

    def state_dict(self):
        """What error feedback keeps, of this rank: a run that loads it goes on with the same bits."""
        return {"codec": self._codec.specification,
                "state": torch.frombuffer(bytearray(self._codec.save_state()), dtype=torch.uint8)}

    def load_state_dict(self, state):
        """What state_dict() returned on this rank, before the first step."""
        self._codec.load_state(state["state"].numpy().tobytes())

    def close(self):
        """Ends the thread and the communicator, on all ranks."""
        self._thread.shutdown()
        self._communicator.close()


def _communicator_of(group):
    identity = [unique_id() if dist.get_rank(group) == 0 else None]
    dist.broadcast_object_list(identity, group_src=0, group=group)
    return Communicator.join(identity[0], dist.get_rank(group), dist.get_world_size(group), name="ddp_hook")


def ddp_hook(specification, process_group=None, *, error_feedback=None):
    """A hook for DistributedDataParallel that averages gradients with a codec; made on all ranks of the group at once.

        hook = hocket.torch.ddp_hook("topk:ratio=0.01")
        model.register_comm_hook(None, hook)
        ...
        checkpoint["hook"] = hook.state_dict()  # each rank its own

    `error_feedback`: whether what a codec loses is added to the next step's gradient; by default, if it loses anything
    and is not right on average.
    """
    return DdpHook(specification, process_group, error_feedback)
