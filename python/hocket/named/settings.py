# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What HOROVOD_* variables say, with Horovod's names, units and defaults. docs/horovod.md lists them."""
import dataclasses
import os

from hocket._errors import InvalidArgument

_MIB = 1 << 20


@dataclasses.dataclass
class Settings:
    """Times in seconds, sizes in bytes."""
    fusion_threshold: int = 128 * _MIB
    cycle_time: float = 0.001
    cache_capacity: int = 1024
    stall_check_time: float = 60.0  # 0: never
    stall_shutdown_time: float = 0.0  # 0: never
    disable_group_fusion: bool = False
    timeline: str = ""
    timeline_mark_cycles: bool = False
    autotune: bool = False
    autotune_log: str = ""
    autotune_warmup_samples: int = 3
    autotune_steps_per_sample: int = 10
    autotune_max_samples: int = 20
    elastic_timeout: float = 600.0


# Setting, variable, what one unit of the variable is.
_VARIABLES = (
    ("fusion_threshold", "HOROVOD_FUSION_THRESHOLD", 1),
    ("cycle_time", "HOROVOD_CYCLE_TIME", 0.001),
    ("cache_capacity", "HOROVOD_CACHE_CAPACITY", 1),
    ("stall_check_time", "HOROVOD_STALL_CHECK_TIME_SECONDS", 1),
    ("stall_shutdown_time", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 1),
    ("disable_group_fusion", "HOROVOD_DISABLE_GROUP_FUSION", 1),
    ("timeline", "HOROVOD_TIMELINE", 1),
    ("timeline_mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", 1),
    ("autotune", "HOROVOD_AUTOTUNE", 1),
    ("autotune_log", "HOROVOD_AUTOTUNE_LOG", 1),
    ("autotune_warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", 1),
    ("autotune_steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", 1),
    ("autotune_max_samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", 1),
    ("elastic_timeout", "HOROVOD_ELASTIC_TIMEOUT", 1),
)
_LIMIT = 1e15


def _parsed(variable, text, kind, unit):
    if kind is str:
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _LIMIT:
        raise InvalidArgument(f"the environment says {variable}='{text}', which is no number from 0 to {_LIMIT:.0e}")
    return kind(value * unit)


def from_environment(environment=None):
    """Settings of a dictionary of variables, default os.environ. An empty variable counts as not set."""
    environment = os.environ if environment is None else environment
    settings = Settings()
    for name, variable, unit in _VARIABLES:
        if text := environment.get(variable):
            setattr(settings, name, _parsed(variable, text, type(getattr(settings, name)), unit))
    if environment.get("HOROVOD_STALL_CHECK_DISABLE", "0") not in ("", "0"):
        settings.stall_check_time = settings.stall_shutdown_time = 0.0
    return settings
