# SPDX-License-Identifier: Apache-2.0
"""Files in memory: how samples of Python objects are passed to the library."""

from __future__ import annotations

import os
import weakref
from typing import Any, Iterable

from .._library import encode


class MemoryFile:
    """A file in memory that lives as long as this object. Worker processes open it by its path."""

    def __init__(self, name: str, parts: Iterable[Any]) -> None:
        number = os.memfd_create(name)
        # Not at exit: workers may still read it.
        weakref.finalize(self, os.close, number).atexit = False
        with open(number, "wb", closefd=False) as file:
            file.writelines(parts)
        self.path = f"/proc/{os.getpid()}/fd/{number}"


def list_name(path: str | os.PathLike[str]) -> bytes:
    """A path as a list has it."""
    name = encode(os.fspath(path))
    if not os.path.isabs(name):
        name = os.path.join(os.getcwdb(), name)
    for byte, escape in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n")):
        name = name.replace(byte, escape)
    return name
