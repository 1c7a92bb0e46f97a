# SPDX-License-Identifier: Apache-2.0
"""The lease of a batch's slot. The batch and each of its arrays refer to one lease; when the last
reference is gone, the slot is given back."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from ._library import lib


class Lease:
    """A batch's handle, which is released with the last reference to the lease."""

    __slots__ = ("handle", "lock", "__weakref__")

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        self.lock = threading.RLock()  # a batch is used by one thread at a time

    @property
    def address(self) -> int:
        """The address of the mr_batch."""
        return self.handle.value or 0

    def __reduce__(self) -> Any:
        """Called when a batch, an array or rows are pickled or copied, because they refer to it."""
        raise TypeError(
            "a batch cannot be pickled or copied, because its memory is the loader's; copy the "
            "arrays, for example with numpy.array() or torch.from_dlpack(array).clone()")

    def __del__(self, release: Any = lib.mr_batch_release) -> None:
        if self.handle:
            release(self.handle)
