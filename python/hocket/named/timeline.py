# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Horovod's timeline: a file of Chrome trace events (chrome://tracing, Perfetto) with a row for each tensor, its
negotiation and what was done with it. Any thread."""
import contextlib
import json
import threading
import time

from hocket._errors import SystemError as HocketSystemError


class Timeline:
    """Writes nothing until start()."""

    def __init__(self):
        self._lock = threading.Lock()
        self._file = None
        self._rows = {}
        self._mark_cycles = False

    def start(self, path, mark_cycles=False):
        """Begins a new file; ends the one before."""
        self.stop()
        try:
            file = open(path, "w", encoding="utf-8")  # pylint: disable=consider-using-with
        except OSError as error:
            raise HocketSystemError(f"the timeline '{path}' cannot be written: {error.strerror}") from None
        with self._lock:
            self._file, self._rows, self._mark_cycles = file, {}, mark_cycles
            file.write("[\n")

    def stop(self):
        """Ends the file, as whole JSON."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            file.write("{}]\n")
            file.close()

    @property
    def running(self):
        """Whether events are written."""
        return self._file is not None

    def begin(self, key, phase):
        """A phase of a tensor begins now; phases nest."""
        self._write(key, {"ph": "B", "name": phase})

    def end(self, key, **details):
        """The innermost phase of a tensor ends."""
        self._write(key, {"ph": "E", "args": details} if details else {"ph": "E"})

    @contextlib.contextmanager
    def phase(self, keys, name):
        """A phase of all these tensors."""
        if not self.running:
            yield
            return
        for key in keys:
            self.begin(key, name)
        try:
            yield
        finally:
            for key in keys:
                self.end(key)

    def cycle(self):
        """A round of negotiation begins."""
        if self._mark_cycles:
            self._write(None, {"ph": "i", "name": "CYCLE_START", "s": "g"})

    def _write(self, key, event):
        if self._file is None:
            return
        with self._lock:
            if self._file is None:
                return
            event["pid"] = 0 if key is None else self._row(key)
            event["ts"] = time.monotonic_ns() // 1000
            self._line(event)

    def _row(self, key):
        if key not in self._rows:
            self._rows[key] = len(self._rows) + 1
            self._line({"ph": "M", "name": "process_name", "pid": self._rows[key], "args": {"name": key}})
        return self._rows[key]

    def _line(self, event):
        self._file.write(json.dumps(event, separators=(",", ":")) + ",\n")
