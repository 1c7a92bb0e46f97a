# SPDX-License-Identifier: Apache-2.0
"""What holds a batch's slot: the batch and each of its arrays refer to one lease, and the last of them gives it back."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from ._library import lib


class Lease:
    """A batch's handle, which is released when nobody refers to the lease any more."""

    __slots__ = ("handle", "lock", "__weakref__")

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        self.lock = threading.RLock()  # a batch is used by one thread at a time

    @property
    def address(self) -> int:
        """Of the mr_batch."""
        return self.handle.value or 0

    def __reduce__(self) -> Any:
        """For what refers to the lease: a batch, an array, rows."""
        raise TypeError(
            "a batch cannot be pickled or copied: its loader lends its memory; copy the arrays, for example "
            "with numpy.array() or torch.from_dlpack(array).clone()")

    def __del__(self, release: Any = lib.mr_batch_release) -> None:
        if self.handle:
            release(self.handle)
