# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""One exception for each result code of the C API, and who is named by those that Python finds by itself."""
import functools
from typing import Any, Callable, TypeVar, cast

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Error(RuntimeError):
    """Something that Hocket refused or could not do; the message names rank, peer and call."""


class SystemError(Error, OSError):  # pylint: disable=redefined-builtin
    """The operating system refused something."""


class InternalError(Error):
    """A bug of Hocket."""


class InvalidArgument(Error, ValueError):
    """One argument is wrong by itself."""


class Refusal(InvalidArgument):
    """The same, of what Python looks at before the library does, and knows neither rank nor call."""


class InvalidUsage(Error):
    """The calls do not fit together: order, state, or what other ranks called."""


class RemoteError(Error, ConnectionError):
    """A peer died, left, or broke the connection."""


class Timeout(Error, TimeoutError):
    """A rank that lives has not come in time."""


_OF_CODE = {2: SystemError, 3: InternalError, 4: InvalidArgument, 5: InvalidUsage, 6: RemoteError, 8: Timeout}


def error_of(code, message):
    """The exception for a hocketResult_t other than success."""
    return _OF_CODE.get(code, Error)(message)


def attributed(method: _Method) -> _Method:
    """A method of a rank, whose refusals say which rank made which call, as the library's own do."""
    @functools.wraps(method)
    def named(self, *arguments, **options):
        try:
            return method(self, *arguments, **options)
        except Refusal as refusal:
            raise InvalidArgument(f"rank {self.rank}: {method.__name__}: {refusal}") from None

    return cast(_Method, named)
