# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Finds the fusion threshold and cycle time with the most bytes a second: tries neighbours on two ladders, one rung at a
time, and keeps what is best. On rank 0; the other ranks hear the values in each round of negotiation."""
import statistics
import time

_MIB = 1 << 20
_SAMPLES_PER_SETTING = 3
_THRESHOLDS = tuple(each * _MIB for each in (0, 1, 2, 4, 8, 16, 32, 64, 128))
_CYCLE_TIMES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025)


def _nearest(ladder, value):
    return min(range(len(ladder)), key=lambda rung: abs(ladder[rung] - value))


class Tuner:
    """add() after every round that moved bytes; (threshold, cycle_time) is what to use next."""

    def __init__(self, settings, clock=time.monotonic):
        self._settings = settings
        self._clock = clock
        self._ladders = _THRESHOLDS, _CYCLE_TIMES
        self._rungs = (_nearest(_THRESHOLDS, settings.fusion_threshold), _nearest(_CYCLE_TIMES, settings.cycle_time))
        self._scores = {}
        self._rates = []
        self._skip = settings.autotune_warmup_samples
        self._begin_sample()
        self.done = False
        self._log = open(settings.autotune_log, "w", encoding="utf-8") if settings.autotune_log else None
        self._write("fusion_threshold_bytes,cycle_time_ms,bytes_per_s")

    @property
    def values(self):
        """(threshold in bytes, cycle time in seconds)"""
        return tuple(ladder[rung] for ladder, rung in zip(self._ladders, self._rungs))

    def add(self, moved_bytes):
        """A round moved these."""
        if self.done:
            return
        self._bytes += moved_bytes
        self._steps += 1
        if self._steps < self._settings.autotune_steps_per_sample:
            return
        rate = self._bytes / max(1e-9, self._clock() - self._since)
        self._begin_sample()
        if self._skip > 0:
            self._skip -= 1
            return
        self._rates.append(rate)
        if len(self._rates) == _SAMPLES_PER_SETTING:
            self._judge()

    def close(self):
        """Ends the log."""
        if self._log is not None:
            self._log.close()

    def _begin_sample(self):
        self._bytes = self._steps = 0
        self._since = self._clock()

    def _judge(self):
        self._scores[self._rungs] = statistics.median(self._rates)
        self._rates = []
        self._write("{},{:g},{:.0f}".format(self.values[0], 1000 * self.values[1], self._scores[self._rungs]))
        best = max(self._scores, key=self._scores.get)
        untried = [each for each in self._neighbours(best) if each not in self._scores]
        if untried and len(self._scores) < self._settings.autotune_max_samples:
            self._rungs = untried[0]
            return
        self._rungs = best
        self.done = True
        self._write("best: {},{:g},{:.0f}".format(self.values[0], 1000 * self.values[1], self._scores[best]))

    def _neighbours(self, rungs):
        for axis in (0, 1):
            for step in (-1, 1):
                moved = list(rungs)
                moved[axis] += step
                if 0 <= moved[axis] < len(self._ladders[axis]):
                    yield tuple(moved)

    def _write(self, line):
        if self._log is not None:
            self._log.write(line + "\n")
            self._log.flush()
