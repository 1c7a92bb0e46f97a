# SPDX-License-Identifier: Apache-2.0
"""A batch: a few named arrays, lent until the last object that holds them is gone."""

from __future__ import annotations

from typing import Any, NoReturn

from . import _abi, _dlpack, _html
from ._array import Array
from ._errors import StateError, make_error
from ._lease import Lease
from ._library import lib
from ._rows import Rows

_HOW = "use batch.image and batch.label; batch.keys() has all names"


class Batch:
    """One batch of a loader. Its arrays are made on first use and never copied.

    The batch's memory is reused when the batch was released or is gone, and its arrays and all
    objects made from them are gone too. "with batch:" releases the batch at the end.
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
        """The array with a name: "image" (records: "data"), "label", "index", "mask", "geometry".

        With mixing also "mix_label" (as label), "mix_lambda" (f32 [N], the share of the row's own
        image) and, with the option soft_labels, "soft_label" (f32 [N, classes]). With views there
        is an array for each in place of "image", with "NAME.geometry" beside it. Further
        members of the samples ("tar:...?keep=txt:4096") are Rows: batch["txt"][i] is bytes.
        A dataset with boxes has Rows "boxes", "box_label", "box_area" and "box_crowd".
        """
        found = self._arrays.get(name)
        if found is None:
            if not isinstance(name, str):
                raise TypeError(f"a batch has arrays by name, not {name!r}: {_HOW}")
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

    def __getattr__(self, name: str) -> Array:
        """The array of a view: batch.global1."""
        if not name.startswith("_") and name in self:
            return self[name]
        raise AttributeError(f"a batch has no attribute '{name}': {_HOW}")

    def keys(self) -> list[str]:
        """Names of the arrays, the samples first."""
        self._held()
        n = lib.mr_batch_n_arrays(self._handle)
        return [lib.mr_batch_array_at(self._handle, i).contents.name.decode() for i in range(n)]

    def __len__(self) -> int:
        """Number of samples."""
        return self.size

    def __iter__(self) -> NoReturn:
        raise TypeError(f"a batch is not a tuple of images and labels: {_HOW}")

    def __contains__(self, name: str) -> bool:
        return name in self.keys()

    @property
    def image(self) -> Array:
        """The images: u8, f32, f16 or bf16, [N, C, H, W] or [N, H, W, C]."""
        return self["image"]

    @property
    def data(self) -> Array:
        """The records, if the dataset has no images: [N, ...]."""
        return self["data"]

    @property
    def label(self) -> Array:
        """The labels: i64 [N], or the labels' own dtype and shape."""
        return self["label"]

    @property
    def index(self) -> Array:
        """The dataset indices: i64 [N]."""
        return self["index"]

    @property
    def mask(self) -> Array:
        """u8 [N]: 1 if the row holds a sample, 0 if it was damaged and holds zeros."""
        return self["mask"]

    @property
    def geometry(self) -> Array:
        """i32 [N, 8]: source width and height, crop x, y, width and height, horizontal flip,
        vertical flip."""
        return self["geometry"]

    @property
    def size(self) -> int:
        """Number of rows of each array."""
        self._held()
        return lib.mr_batch_size(self._handle)

    @property
    def n_valid(self) -> int:
        """Number of rows whose mask is 1."""
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
        """Number of the slot or device buffer of the batch; None if the batch was copied."""
        self._held()
        number = lib.mr_batch_buffer(self._handle)
        return None if number == _abi.NO_BUFFER else number

    @property
    def n_parts(self) -> int:
        """Number of parts: one for each device of the loader."""
        self._held()
        return lib.mr_batch_n_parts(self._handle)

    @property
    def parts(self) -> list["Batch"]:
        """The parts of the batch, one for each device of the loader, in the devices' order."""
        lease = self._held()
        return [Batch(lease, lib.mr_batch_part(self._handle, i)) for i in range(self.n_parts)]

    def use(self, stream: Any) -> None:
        """Make a stream of the batch's GPU wait for the batch, and the next use of the batch's
        memory wait for that stream.

        stream  torch's, or its address; 0 is the default stream of the images' GPU. On the host it
                is ignored, except with pin_memory: then 0 is the default stream of the current GPU
        """
        lease = self._held()
        with lease.lock:
            device = _dlpack.default_device(stream)
            array = self._array_on(device)
            if array is not None:
                # A capsule also orders the default stream of its device.
                _dlpack.make_capsule(self._handle, array, None, False, False)
                return
            with _dlpack.current_device(device):
                status = lib.mr_batch_use(self._handle, _dlpack.stream_pointer(stream))
            if status != _abi.OK:
                raise make_error(status, lib.mr_batch_error(self._handle).contents)

    def _array_on(self, device: int | None) -> bytes | None:
        """The name of an array on the GPU with this number; None if the batch is on the host."""
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
                f"the stream is the default stream of cuda:{device}, but the batch has no array "
                f"there; use a stream of cuda:{min(found)}")
        return found[device]

    def release(self, stream: Any = None) -> None:
        """Give the batch back. Its memory is reused when its arrays are gone too.

        stream  of a GPU: the memory is reused only after the work that is in this stream now
        """
        if self._lease is not None and stream is not None:
            self.use(stream)
        self._lease = None
        self._arrays = {}

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _repr_html_(self) -> str:
        """What a notebook shows: the first images with labels and crops."""
        return _html.batch_html(self)

    def __repr__(self) -> str:
        if self._lease is None:
            return "<millrace.Batch, released>"
        return f"<millrace.Batch {self.number} of epoch {self.epoch}: {self.size} samples>"


def make_state_error(text: str) -> StateError:
    """The error for a call that the package itself refuses."""
    error = StateError(text)
    error.status = _abi.ERR_STATE
    return error
