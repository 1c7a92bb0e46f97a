# SPDX-License-Identifier: Apache-2.0
"""One array of a batch, as DLPack, NumPy's array interface and, from Python 3.12, a buffer."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi, _dlpack
from ._errors import make_error
from ._lease import Lease
from ._library import lib

# dtype: its name here, NumPy's type string, the buffer protocol's format; "" if it has none.
_TYPES = {
    _abi.U8: ("u8", "|u1", "B"), _abi.F32: ("f32", "<f4", "f"), _abi.F16: ("f16", "<f2", "e"),
    _abi.BF16: ("bf16", "", ""), _abi.F64: ("f64", "<f8", "d"), _abi.I8: ("i8", "|i1", "b"),
    _abi.U16: ("u16", "<u2", "H"), _abi.I16: ("i16", "<i2", "h"), _abi.I32: ("i32", "<i4", "i"),
    _abi.I64: ("i64", "<i8", "q"), _abi.U32: ("u32", "<u4", "I"),
}


def _nest(shape: tuple[int, ...]) -> list[Any]:
    """The lists of an array without elements."""
    return [_nest(shape[1:]) for _ in range(shape[0])]


class Array:
    """An array in a batch's memory, without a copy.

    numpy.asarray(array) and torch.from_dlpack(array) share its memory and may write to it. The
    batch's slot is not reused while this object, or anything made from it, is alive.
    """

    __slots__ = ("_lease", "_batch", "_array", "__weakref__")

    def __init__(self, lease: Lease, batch: int, array: _abi.mr_array) -> None:
        """An array of the batch or part at the address `batch`. The lease holds both."""
        self._lease, self._batch, self._array = lease, batch, array

    @property
    def name(self) -> str:
        """The array's name in the batch: "image", "label", ..."""
        return self._array.name.decode()

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension, the batch's samples first."""
        return tuple(self._array.shape[: self._array.ndim])

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, in each dimension."""
        return tuple(self._array.strides[: self._array.ndim])

    @property
    def device(self) -> str:
        """"host" or "cuda:N"."""
        kind, number = self.__dlpack_device__()
        return f"cuda:{number}" if kind == _dlpack.CUDA else "host"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return lib.mr_dtype_size(self._array.dtype)

    @property
    def _data(self) -> int:
        """The address of the first element."""
        return self._array.data or 0

    @property
    def dtype(self) -> str:
        """The library's name of the element type: "u8", "f32", "f16", "bf16", "i64", ..."""
        return _TYPES[self._array.dtype][0]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.shape[0] * self.strides[0]

    def __len__(self) -> int:
        """Number of rows, which is the number of samples in the batch."""
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """TypeError that says what has elements."""
        raise TypeError(
            f"array '{self.name}' has no elements by index: use torch.from_dlpack(array), "
            "numpy.asarray(array) or array.tolist(), and index that")

    def __repr__(self) -> str:
        return f"<millrace.Array {self.name} {self.dtype}{list(self.shape)} on {self.device}>"

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, version 3. AttributeError for bf16 and on a GPU."""
        text = _TYPES[self._array.dtype][1]
        if self.device != "host" or not text:
            raise AttributeError(
                f"no array interface for {self.dtype} on {self.device}; use DLPack")
        return {
            "version": 3, "shape": self.shape, "typestr": text, "data": (self._data, False),
            "strides": None
        }

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        """NumPy calls this only if there is no array interface."""
        raise TypeError(f"NumPy has no view of {self.dtype} on {self.device}; use DLPack")

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device: (1, 0) for host memory, page-locked or not, (2, N) for cuda:N."""
        device = self._array.device
        return (_dlpack.CUDA, device.id) if device.kind == _abi.DEVICE_CUDA else (_dlpack.CPU, 0)

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """A capsule for torch.from_dlpack() and the like. It holds the slot until its consumer
        frees it.

        stream       on a GPU, DLPack's number of the consumer's stream: the stream waits for the
                     data, and the memory is reused only after the work that is in the stream at
                     the release
        max_version  (1, 0) or later gives a versioned capsule
        dl_device    None or the array's device; others are refused
        copy         True: a copy of the array, on the host only
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"array '{self.name}' is on {self.device}; it is exported there only")
        versioned = max_version is not None and max_version[0] >= 1
        pointer = _dlpack.consumer_stream(stream)
        name = self._array.name
        with self._lease.lock:
            if not copy:
                return _dlpack.make_capsule(self._batch, name, pointer, versioned, False)
            if self.device != "host":
                raise BufferError(
                    f"array '{self.name}' is on {self.device}; copies are made on the host only")
            made = Lease()
            status = lib.mr_batch_copy(self._batch, made.handle)
            if status != _abi.OK:
                raise make_error(status, lib.mr_batch_error(self._batch).contents)
            return _dlpack.make_capsule(made.address, name, pointer, versioned, True)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol from Python 3.12 on; before 3.12 call this for a memoryview."""
        shape_format = _TYPES[self._array.dtype][2]
        if self.device != "host" or not shape_format:
            raise BufferError(f"no buffer of {self.dtype} on {self.device}; use DLPack")
        memory: Any = (ctypes.c_char * self.nbytes).from_address(self._data)
        memory.lease = self._lease
        plain: Any = memoryview(memory).cast("B")
        if self.nbytes == 0:
            return plain
        try:
            return plain.cast(shape_format, self.shape)
        except ValueError:
            raise BufferError(
                f"this Python has no buffers of {self.dtype}; use DLPack or NumPy") from None

    def tobytes(self) -> bytes:
        """A copy of all elements' bytes. Host only."""
        if self.device != "host":
            raise BufferError(f"array '{self.name}' is on {self.device}; use DLPack")
        return ctypes.string_at(self._data, self.nbytes)

    def tolist(self) -> list[Any]:
        """The elements as nested lists, for labels and small arrays. Host only, not bf16 or f16."""
        elements = self.__buffer__(0).tolist()
        return elements if self.nbytes else _nest(self.shape)
