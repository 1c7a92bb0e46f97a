# SPDX-License-Identifier: Apache-2.0
"""A batch: a few named arrays, lent until nobody holds them any more."""

from __future__ import annotations

from typing import Any, Iterator

from . import _abi, _dlpack
from ._array import Array
from ._errors import StateError, make_error
from ._lease import Lease
from ._library import lib
from ._rows import Rows


class Batch:
    """One batch of a loader. Its arrays are made when they are asked for, and are never copied.

    The batch's memory is used again when the batch was released or is gone, and all its arrays and what was made of them
    are gone too. A batch is a context: "with batch:" releases it at the end.
    """

    __slots__ = ("_lease", "_handle", "_arrays", "__weakref__")

    def __init__(self, lease: Lease, handle: int | None = None) -> None:
        """The lease's batch, or the part of it at the address `handle`."""
        self._lease: Lease | None = lease
        self._handle = handle if handle is not None else lease.address
        self._arrays: dict[str, Any] = {}

    def _held(self) -> Lease:
        if self._lease is None:
            raise make_state_error("the batch was released")
        return self._lease

    def __getitem__(self, name: str) -> Any:
        """The array of a name: "image", "label", "index", "mask", "geometry", or "data" for records.

        With mixing also "mix_label" (as label), "mix_lambda" (f32 [N], the share of the row's own image) and, with the
        option soft_labels, "soft_label" (f32 [N, classes]).
        Further members of a tar dataset ("tar:...?keep=txt:4096") are Rows: batch["txt"][i] are bytes.
        """
        found = self._arrays.get(name)
        if found is None:
            lease = self._held()
            array = lib.mr_batch_array(self._handle, name.encode())
            if not array:
                raise KeyError(self._no_array(name))
            if array.contents.row_offsets:
                found = Rows(lease, self._handle, array.contents, self[name + ".offsets"])
            else:
                found = Array(lease, self._handle, array.contents)
            self._arrays[name] = found
        return found

    def _no_array(self, name: str) -> str:
        if self.n_parts > 1:
            return f"no array '{name}': a batch of {self.n_parts} parts has its arrays in .parts"
        return f"no array '{name}', only {', '.join(self.keys())}"

    def keys(self) -> list[str]:
        """Names of the arrays, the samples first."""
        self._held()
        n = lib.mr_batch_n_arrays(self._handle)
        return [lib.mr_batch_array_at(self._handle, i).contents.name.decode() for i in range(n)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: str) -> bool:
        return name in self.keys()

    @property
    def image(self) -> Array:
        """The pictures: u8, f32, f16 or bf16, [N, C, H, W] or [N, H, W, C]."""
        return self["image"]

    @property
    def data(self) -> Array:
        """The records, where the dataset has no pictures: [N, ...]."""
        return self["data"]

    @property
    def label(self) -> Array:
        """i64 [N], or the labels' own type and shape."""
        return self["label"]

    @property
    def index(self) -> Array:
        """Dataset indices: i64 [N]."""
        return self["index"]

    @property
    def mask(self) -> Array:
        """u8 [N]: 1 where the sample is real."""
        return self["mask"]

    @property
    def geometry(self) -> Array:
        """i32 [N, 8]: source width, source height, crop x, y, width, height, horizontal flip, vertical flip."""
        return self["geometry"]

    @property
    def size(self) -> int:
        """Rows of each array."""
        self._held()
        return lib.mr_batch_size(self._handle)

    @property
    def n_valid(self) -> int:
        """Rows whose mask is 1."""
        self._held()
        return lib.mr_batch_valid(self._handle)

    @property
    def epoch(self) -> int:
        """The epoch that the batch belongs to."""
        self._held()
        return lib.mr_batch_epoch(self._handle)

    @property
    def number(self) -> int:
        """The batch's number in its epoch, counted from 0."""
        self._held()
        return lib.mr_batch_number(self._handle)

    @property
    def buffer(self) -> int | None:
        """Number of the slot or device buffer that holds the batch; None for a batch that was copied out."""
        self._held()
        number = lib.mr_batch_buffer(self._handle)
        return None if number == _abi.NO_BUFFER else number

    @property
    def n_parts(self) -> int:
        """Number of parts: devices of the loader."""
        self._held()
        return lib.mr_batch_n_parts(self._handle)

    @property
    def parts(self) -> list["Batch"]:
        """The batch as one part for each device of the loader, in the order of the devices."""
        lease = self._held()
        return [Batch(lease, lib.mr_batch_part(self._handle, i)) for i in range(self.n_parts)]

    def use(self, stream: Any) -> None:
        """Make a stream of the batch's GPU wait for the batch, and the memory's next use wait for that stream.

        stream  torch's, or its address; 0 is the default stream of the images' GPU. On the host it means nothing, except with
                pin_memory: then the address 0 is the default stream of the current GPU
        """
        lease = self._held()
        with lease.lock:
            device = _dlpack.default_device(stream)
            array = self._array_on(device)
            if array is not None:
                _dlpack.make_capsule(self._handle, array, None, False,
                                     False)  # which orders its device's default stream
                return
            with _dlpack.current_device(device):
                status = lib.mr_batch_use(self._handle, _dlpack.stream_pointer(stream))
            if status != _abi.OK:
                raise make_error(status, lib.mr_batch_error(self._handle).contents)

    def _array_on(self, device: int | None) -> bytes | None:
        """The name of an array on the GPU of that number; None for a batch on the host."""
        if device is None:
            return None
        arrays = [
            lib.mr_batch_array_at(self._handle, i).contents
            for i in range(lib.mr_batch_n_arrays(self._handle))
        ]
        found = {
            array.device.id: array.name for array in arrays if array.device.kind == _abi.DEVICE_CUDA
        }
        if not found:
            return None
        if device not in found:
            raise make_error(
                _abi.ERR_INVALID, None,
                f"the default stream of cuda:{device}, where no array of the batch is")
        return found[device]

    def release(self, stream: Any = None) -> None:
        """Give the batch back. Its memory is used again when its arrays are gone too.

        stream  of a GPU: the memory is used again only when this stream has done what is in it then
        """
        if self._lease is not None and stream is not None:
            self.use(stream)
        self._lease = None
        self._arrays = {}

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        if self._lease is None:
            return "<millrace.Batch, released>"
        return f"<millrace.Batch {self.number} of epoch {self.epoch}: {self.size} samples>"


def make_state_error(text: str) -> StateError:
    """For what the package finds out itself."""
    error = StateError(text)
    error.status = _abi.ERR_STATE
    return error
