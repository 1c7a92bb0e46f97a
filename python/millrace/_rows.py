# SPDX-License-Identifier: Apache-2.0
"""Rows of different lengths, one for each sample: further members of the samples, and boxes."""

from __future__ import annotations

from typing import Any, Iterator

from . import _abi
from ._array import Array
from ._lease import Lease


class Rows:
    """The bytes or boxes of all samples, one after the other, and the offset of each sample.

    values and offsets are arrays of the batch, not copies; torch.nested.nested_tensor_from_jagged()
    takes both. rows[i] is a copy of one row, on the host.
    """

    __slots__ = ("name", "values", "offsets", "max_length")

    name: str
    values: Array
    """u8 [offsets[-1]]; "boxes": f32 [offsets[-1], 4]"""
    offsets: Array
    """i64 [N + 1]: row i is values[offsets[i]:offsets[i + 1]]. In a part of a batch offsets[0] may
    be above 0."""
    max_length: int
    """The largest allowed length of a row."""

    def __init__(self, lease: Lease, batch: int, array: _abi.mr_array, offsets: Array) -> None:
        flat = _abi.mr_array.from_buffer_copy(array)
        flat.ndim -= 1
        flat.shape[:], flat.strides[:] = array.shape[1:] + [0], array.strides[1:] + [0]
        flat.shape[0] = array.n_values
        self.values, self.offsets = Array(lease, batch, flat), offsets
        self.name, self.max_length = self.values.name, array.shape[1]

    def __len__(self) -> int:
        """Number of rows, which is the number of samples in the batch."""
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Any:
        """Row i: bytes, or a list of numbers or of boxes; empty if the sample has none. Host
        only."""
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"row {i} of '{self.name}', which has {n} rows")
        first, end = self.offsets.__buffer__(0)[i % n : i % n + 2]
        row = self.values.__buffer__(0)[first:end]
        return bytes(row) if self.values.dtype == "u8" else row.tolist()

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def tolist(self) -> list[Any]:
        """Copies of all rows. Host only."""
        return list(self)

    def __repr__(self) -> str:
        return (f"<millrace.Rows {self.name}: {len(self)} rows of up to {self.max_length} on "
                f"{self.values.device}>")
