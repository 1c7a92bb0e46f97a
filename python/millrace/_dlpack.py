# SPDX-License-Identifier: Apache-2.0
"""DLPack capsules, made with ctypes from the library's tensors.

Each capsule has the destructor mr_dlpack_capsule_destroy(), which frees a tensor that was not
consumed.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from ctypes import c_char_p, c_void_p
from typing import Any

from . import _abi
from ._errors import make_error
from ._library import lib

CPU = 1  # kDLCPU
CUDA = 2  # kDLCUDA

_FLAGS_AT = 24  # bytes before the flags in DLManagedTensorVersioned
_IS_COPIED = 2
# A capsule stores only the pointer to its name, so the names live as long as the module.
_PLAIN = c_char_p(b"dltensor")
_VERSIONED = c_char_p(b"dltensor_versioned")

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
_destroy = ctypes.cast(lib.mr_dlpack_capsule_destroy, c_void_p)


def stream_pointer(stream: Any) -> int | None:
    """A stream as a pointer: an int, or the address in an object of torch or CUDA Python; None is
    NULL."""
    if stream is None or isinstance(stream, int):
        return stream or None
    if hasattr(stream, "cuda_stream"):
        return stream.cuda_stream or None
    return stream.__cuda_stream__()[1] or None


def default_device(stream: Any) -> int | None:
    """The number of the GPU whose default stream it is, if the stream has it, as torch's do."""
    if stream_pointer(stream) is not None:
        return None
    return getattr(getattr(stream, "device", None), "index", None)


def current_device(device: int | None) -> contextlib.AbstractContextManager[Any]:
    """A context in which NULL is the default stream of this GPU, or of the current one for None."""
    torch = sys.modules.get("torch")
    return contextlib.nullcontext() if device is None or torch is None else torch.cuda.device(
        device)


def consumer_stream(stream: int | None) -> int | None:
    """The stream for a number of DLPack. None and 1 are the default stream of the array's device.
    -1 means no order at all, but the batch's release needs one, so it is the default stream too."""
    return None if stream is None or stream in (-1, 0, 1) else stream


def make_capsule(batch: int, name: bytes, stream: int | None, versioned: bool, copied: bool) -> Any:
    """A capsule of the array `name` of the batch at the address `batch`. It holds the batch's
    memory."""
    tensor = c_void_p()
    export = lib.mr_batch_to_dlpack_versioned if versioned else lib.mr_batch_to_dlpack
    status = export(batch, name, stream, tensor)
    if status != _abi.OK:
        raise make_error(status, lib.mr_batch_error(batch).contents)
    if versioned and copied:
        ctypes.c_uint64.from_address((tensor.value or 0) + _FLAGS_AT).value |= _IS_COPIED
    return _new(tensor, _VERSIONED if versioned else _PLAIN, _destroy)
