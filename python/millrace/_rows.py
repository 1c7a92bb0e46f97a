# SPDX-License-Identifier: Apache-2.0
"""Rows of bytes of different lengths, one for each sample: further members of the samples."""

from __future__ import annotations

from typing import Iterator

from . import _abi
from ._array import Array
from ._lease import Lease


class Rows:
    """The bytes of all samples, one after the other, and the offset of each sample.

    values and offsets are arrays of the batch, not copies; torch.nested.nested_tensor_from_jagged()
    takes both. rows[i] is a copy of one row, on the host.
    """

    __slots__ = ("name", "values", "offsets", "max_bytes")

    name: str
    values: Array
    """u8 [offsets[-1]]"""
    offsets: Array
    """i64 [N + 1]: row i is values[offsets[i]:offsets[i + 1]]. In a part of a batch offsets[0] may
    be above 0."""
    max_bytes: int
    """The largest allowed length of a row."""

    def __init__(self, lease: Lease, batch: int, array: _abi.mr_array, offsets: Array) -> None:
        flat = _abi.mr_array.from_buffer_copy(array)
        flat.ndim, flat.shape[0], flat.strides[0] = 1, array.n_values, 1
        self.values, self.offsets = Array(lease, batch, flat), offsets
        self.name, self.max_bytes = self.values.name, array.shape[1]

    def __len__(self) -> int:
        """Number of rows, which is the number of samples in the batch."""
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> bytes:
        """The bytes of row i; empty if the sample has no such member. Host only."""
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"row {i} of '{self.name}', which has {n} rows")
        first, end = self.offsets.__buffer__(0)[i % n : i % n + 2]
        return bytes(self.values.__buffer__(0)[first:end])

    def __iter__(self) -> Iterator[bytes]:
        return (self[i] for i in range(len(self)))

    def tolist(self) -> list[bytes]:
        """Copies of all rows. Host only."""
        return list(self)

    def __repr__(self) -> str:
        return (f"<millrace.Rows {self.name}: {len(self)} rows of up to {self.max_bytes} bytes on "
                f"{self.values.device}>")
