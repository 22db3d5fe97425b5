# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Where newcomers and those who are at work find each other: a folder that only this user can read, made by `hocket run
--min` and named by HOCKET_ELASTIC. A newcomer, which has a name in HOCKET_NEWCOMER, leaves a file there and waits; rank 0
answers with an invitation, which holds the communicator's key. No sockets, and nothing is ever unpickled."""
import json
import logging
import os
import pathlib
import time

import hocket
from hocket._errors import InvalidUsage, Timeout
from hocket.named import settings

LOG = logging.getLogger("hocket.horovod")
_GROW_TIMEOUT_S = 60.0
_POLL_S = 0.05


class Folder:
    """None of its methods blocks but answer()."""

    def __init__(self, path):
        self._path = pathlib.Path(path)

    def wait_here(self, name):
        """Tells rank 0 that a newcomer of this name waits."""
        self._write(f"waiting.{name}", "")

    def belong(self, name):
        """Tells `hocket run` that a newcomer was taken in: it can now take in others."""
        self._write(f"member.{name}", "")

    def waiting(self):
        """The names of those that wait, in the order in which all ranks would sort them."""
        return sorted(each.name.removeprefix("waiting.") for each in self._path.glob("waiting.*"))

    def least(self):
        """How many ranks there must be."""
        try:
            return int((self._path / "least").read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise InvalidUsage(f"{self._path}: no number of ranks that there must be: {error}") from None

    def invite(self, name, invitation, rank, size):
        """Rank 0's answer."""
        self._write(f"invitation.{name}", json.dumps({"invitation": invitation.hex(), "rank": rank, "size": size}))
        (self._path / f"waiting.{name}").unlink(missing_ok=True)

    def answer(self, name, timeout):
        """Waits for the answer: (invitation, rank, size)."""
        path = self._path / f"invitation.{name}"
        deadline = time.monotonic() + timeout
        while not path.exists():
            if time.monotonic() > deadline:
                raise Timeout(f"newcomer {name}: nobody took it in within {timeout:g} s")
            time.sleep(_POLL_S)
        try:
            found = json.loads(path.read_text(encoding="ascii"))
            result = bytes.fromhex(found["invitation"]), int(found["rank"]), int(found["size"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidUsage(f"newcomer {name}: {path} is no invitation: {error}") from None
        path.unlink()
        return result

    def _write(self, name, text):
        partial = self._path / f".{name}"
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        partial.rename(self._path / name)


def folder():
    """That of this job; None if the launcher made none."""
    path = os.environ.get("HOCKET_ELASTIC")
    return Folder(path) if path else None


def from_environment():
    """The communicator that the launcher's variables tell of; a newcomer's once the others take it in."""
    newcomer, place = os.environ.get("HOCKET_NEWCOMER"), folder()
    if not newcomer:
        return hocket.Communicator.from_environment(name="horovod")
    if place is None:
        raise InvalidUsage("HOCKET_NEWCOMER is set but HOCKET_ELASTIC is not")
    place.wait_here(newcomer)
    invitation, rank, size = place.answer(newcomer, settings.from_environment().elastic_timeout)
    communicator = hocket.Communicator.join_grown(invitation, rank, size, name="horovod", timeout=_GROW_TIMEOUT_S)
    communicator.barrier()  # as the others do in _grown
    place.belong(newcomer)
    return communicator


def take_in(communicator, timeout):
    """Collective: the communicator with all that wait, which may be none. Waits until there are enough ranks."""
    place = folder()
    if place is None:
        return communicator
    names = _agreed_names(communicator, place, timeout)
    if not names:
        return communicator
    size = communicator.size + len(names)
    invitation = None
    if communicator.rank == 0:
        invitation = communicator.invitation()
        for number, name in enumerate(names):
            place.invite(name, invitation, communicator.size + number, size)
    return _grown(communicator, size, invitation, names)


def _grown(communicator, size, invitation, names):
    """Without the newcomers, if one of them has gone again."""
    grown = None
    try:
        grown = communicator.grow(size, invitation, name="horovod", timeout=_GROW_TIMEOUT_S)
        grown.barrier()
    except hocket.Error as error:
        if grown is not None:
            grown.abort()
        communicator.barrier()  # raises if it is not a newcomer that was lost
        LOG.warning("the newcomers %s were not taken in: %s", ", ".join(names), error)
        return communicator
    communicator.close()
    return grown


def _agreed_names(communicator, place, timeout):
    answer = b""
    if communicator.rank == 0:
        least = place.least()
        answer = json.dumps([least, _enough(place, least - communicator.size, timeout)]).encode()
    length = bytearray(len(answer).to_bytes(8, "little"))
    communicator.broadcast(length)
    content = bytearray(answer) if communicator.rank == 0 else bytearray(int.from_bytes(length, "little"))
    communicator.broadcast(content)
    least, names = json.loads(content)
    if names is None:
        raise Timeout(f"{communicator.size} ranks are left, {least} are needed, and none came within {timeout:g} s")
    return names


def _enough(place, missing, timeout):
    deadline = time.monotonic() + timeout
    while len(names := place.waiting()) < missing:
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)
    return names
