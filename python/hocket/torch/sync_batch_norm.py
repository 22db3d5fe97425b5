# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Batch normalization over the batches of all ranks together, on any device."""
import torch
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from hocket.torch.basics import Sum, global_process_set, size
from hocket.torch.functional import allreduce


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d and 3d; the statistics are those of all ranks' batches, which may differ in size."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 process_set=global_process_set):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._process_set = process_set

    def _check_input_dim(self, input):  # pylint: disable=redefined-builtin
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):  # pylint: disable=redefined-builtin
        """Normalizes over all but the second dimension."""
        if size() == 1 or not (self.training or self.running_mean is None):
            return self._alone(input)
        self._check_input_dim(input)
        mean, variance, count = self._statistics(input)
        if self.training and self.track_running_stats:
            self._remember(mean, variance, count)
        shape = (1, -1) + (1,) * (input.dim() - 2)
        result = (input - mean.to(input.dtype).view(shape)) * torch.rsqrt(variance + self.eps).to(input.dtype).view(shape)
        return result if self.weight is None else result * self.weight.view(shape) + self.bias.view(shape)

    def _alone(self, input):  # pylint: disable=redefined-builtin
        self._check_input_dim(input)
        training = self.training or self.running_mean is None
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
        return functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, training,
                                     self._factor(), self.eps)

    def _statistics(self, input):  # pylint: disable=redefined-builtin
        """Differentiable; two sums over all ranks, the second around the mean, which loses no digits."""
        around = [dimension for dimension in range(input.dim()) if dimension != 1]
        wide = input if input.dtype == torch.float64 else input.float()
        rows = wide.new_tensor([input.numel() // input.shape[1]])
        total = allreduce(torch.cat([wide.sum(around), rows]), op=Sum, process_set=self._process_set)
        count = total[-1].detach()
        mean = total[:-1] / count
        shape = (1, -1) + (1,) * (input.dim() - 2)
        squares = ((wide - mean.view(shape)) ** 2).sum(around)
        return mean, allreduce(squares, op=Sum, process_set=self._process_set) / count, count

    def _remember(self, mean, variance, count):
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            factor = self._factor()
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
            unbiased = variance * (count / (count - 1).clamp(min=1))
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)

    def _factor(self):
        if self.momentum is not None:
            return self.momentum
        return 1.0 / max(1, int(self.num_batches_tracked)) if self.track_running_stats else 0.0
