# SPDX-License-Identifier: Apache-2.0
"""Finds and opens libmillrace, and turns its statuses into exceptions.

$MILLRACE_LIBRARY is used if it is set; otherwise the library in the package's folder; otherwise
the one that the system's loader finds. Its version must be that of the package, because structs of
later versions may have more fields.
"""

from __future__ import annotations

import ctypes
import os

from . import _abi
from ._errors import InvalidError, make_error

VERSION = "0.1.0"
SONAME = "libmillrace.so.0"


def _path() -> str:
    path = os.environ.get("MILLRACE_LIBRARY")
    if path:
        return path
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", SONAME)
    return path if os.path.exists(path) else SONAME


def _open() -> ctypes.CDLL:
    path = _path()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        origin = "is the value of MILLRACE_LIBRARY" if path == os.environ.get(
            "MILLRACE_LIBRARY") else "was searched for"
        raise ImportError(
            f"millrace: {error}; {path} {origin}; set MILLRACE_LIBRARY to the path of "
            "libmillrace.so") from None
    try:
        library.mr_version.restype = ctypes.c_char_p
        version = library.mr_version().decode()
        if version == VERSION:
            return _abi.declare(library)
    except AttributeError as error:
        raise ImportError(f"millrace: {error}; {path} is not the package's libmillrace.so; set "
                          "MILLRACE_LIBRARY to its path") from None
    raise ImportError(f"millrace: {path} has version {version}, the package has version {VERSION}")


lib = _open()


def encode(text: str | bytes) -> bytes:
    """A text for the library, in which a zero byte would end it."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise InvalidError(f"{text!r} has a zero byte")
    return encoded


def check(status: int, error: _abi.mr_error) -> None:
    """Raise the exception of a failed call that has written an mr_error."""
    if status < 0:
        raise make_error(status, error)
