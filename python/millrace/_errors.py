# SPDX-License-Identifier: Apache-2.0
"""One exception for each status of the library, with the library's own message."""

from __future__ import annotations

import errno
import os
import re
from typing import Any

from . import _abi


class Error(Exception):
    """A call of libmillrace failed. str() is the library's message.

    status    the number of the mr_status
    os_error  errno of the failed system call, 0 if none
    index     dataset index of the sample, -1 if none
    """

    status = 0
    os_error = 0
    index = _abi.NO_INDEX


class InvalidError(Error, ValueError):
    """An argument or option is wrong."""


class NoMemoryError(Error, MemoryError):
    """Memory, or a limit on it, is too small."""


class FileError(Error, OSError):
    """The operating system refused something; errno says why. filename is the path in the message,
    or None."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # OSError's has no message if there is a filename

    def __reduce__(self) -> Any:
        own = {name: getattr(self, name) for name in ("errno", "strerror", "filename")}
        return type(self), self.args, {**vars(self), **own}


class FileMissingError(FileError, FileNotFoundError):
    """There is no such file or folder."""


class FileAccessError(FileError, PermissionError):
    """The file or folder may not be opened."""


class DamagedError(Error, ValueError):
    """A sample cannot be decoded or read; the message names its file. Iteration may continue with
    the next batch."""


class UnsupportedError(Error, NotImplementedError):
    """This build or this machine cannot do it."""


class WorkerError(Error, RuntimeError):
    """The workers cannot continue; the loader has ended."""


class CanceledError(Error):
    """Loader.cancel() was called."""


class StateError(Error, RuntimeError):
    """The call is not allowed now, for example in a forked child."""


class NoDeviceError(Error, RuntimeError):
    """The device does not exist."""


class DeviceError(Error, RuntimeError):
    """The device failed."""


class PeerTimeoutError(Error, TimeoutError):
    """Other ranks did not arrive or answer in time."""


class PeerError(Error, ConnectionError):
    """Another rank disconnected, fell silent, or differs in what must be the same."""


_CLASSES: dict[int, type[Error]] = {
    _abi.ERR_INVALID: InvalidError,
    _abi.ERR_NO_MEMORY: NoMemoryError,
    _abi.ERR_IO: FileError,
    _abi.ERR_DAMAGED: DamagedError,
    _abi.ERR_UNSUPPORTED: UnsupportedError,
    _abi.ERR_WORKER: WorkerError,
    _abi.ERR_CANCELED: CanceledError,
    _abi.ERR_STATE: StateError,
    _abi.ERR_NO_DEVICE: NoDeviceError,
    _abi.ERR_DEVICE: DeviceError,
    _abi.ERR_TIMEOUT: PeerTimeoutError,
    _abi.ERR_PEER: PeerError,
}

_FILE_CLASSES: dict[int, type[Error]] = {
    errno.ENOENT: FileMissingError, errno.EACCES: FileAccessError, errno.EPERM: FileAccessError
}

for _class in (Error, FileMissingError, FileAccessError, *_CLASSES.values()):
    _class.__module__ = "millrace"  # the name in tracebacks: millrace.FileError

# Messages of the library that end with a path and the words of an errno about a path.
_OF_PATHS = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
_NOUN = "folder of|folder|directory|cache|list|shard|class names|pack's index"
_PATH = re.compile(r"(?:(?:.*; |.*:\d+: )?cannot \w+ (?:the (?:" + _NOUN + ") |what matches )?"
                   r"|no shard matches |trace )?(?!cannot \w+ |the |\d+ bytes of )"
                   r"(.+?)(?: \(index \d+\))?: ([^:]*)")


def _find_path(text: str, os_error: int) -> str | None:
    found = _PATH.fullmatch(text) if os_error in _OF_PATHS else None
    return found[1] if found and found[2] == os.strerror(os_error) else None


def make_error(status: int, error: _abi.mr_error | None = None, text: str = "",
               advice: str = "") -> Error:
    """The exception of a status, with the text of an mr_error or a text, followed by advice."""
    if error is not None and error.status == status:
        text = error.text.decode(errors="surrogateescape")
    kind = _CLASSES.get(status, Error)
    if kind is FileError and error is not None:
        kind = _FILE_CLASSES.get(error.os_error, FileError)
    made = kind(text + advice)
    made.status = status
    if error is not None and error.status == status:
        made.os_error = error.os_error
        made.index = error.index
        if isinstance(made, OSError):
            made.errno = error.os_error or None
        if isinstance(made, FileError):
            made.strerror = os.strerror(error.os_error)
            made.filename = _find_path(text, error.os_error)
    return made
