# SPDX-License-Identifier: Apache-2.0
"""Calls with right and wrong types. Type checkers read this file; it is not run. A comment "type:
ignore" stands where an error must be, because an unnecessary one is an error too."""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import millrace as mr

if TYPE_CHECKING:
    from typing_extensions import Unpack


def open_loader(folder: Path, **options: Unpack[mr.LoaderOptions]) -> mr.Loader:
    return mr.Loader(mr.Dataset(folder), mr.Transform("train:224"), **options)


def sum_labels(folder: Path) -> int:
    shared: mr.LoaderOptions = {"batch_size": 4, "dtype": "f16", "weight_values": [1.0, 2]}
    total = 0
    with open_loader(folder, **shared) as loader:
        loader.set_epoch(1, range(8))
        for batch in loader:
            total += sum(batch.label.tolist())
            height, width = batch.image.shape[-2:]
            print(height * width, batch.epoch, batch.index.dtype)
        loader.load_state_dict(loader.state_dict())
        last = loader.next(timeout=1.5)
        if last is not None:
            last.release()
    return total


async def take_beside_tasks(loader: mr.Loader) -> list[int]:
    mr.preview(loader).write(Path("preview.html"))
    return [len(batch) async for batch in loader]


def misspell() -> None:
    mr.Loader("photos", bacth_size=4)  # type: ignore[call-arg]
    mr.Loader("photos", batch_size="many")  # type: ignore[arg-type]
    mr.Loader("photos", on_error="skp")  # type: ignore[arg-type]
    mr.Loader("photos", dtype="flota32")  # type: ignore[arg-type]
    mr.Loader("photos", dtype=32)  # type: ignore[arg-type]
    mr.Loader("photos", device=["cuda:0"])  # type: ignore[arg-type]
    mr.Loader("photos", devices=[0, 1])  # type: ignore[list-item]
    mr.Loader("photos", drop_last=1)  # type: ignore[arg-type]
    mr.Loader("photos", transform=["hflip(0.5)"])  # type: ignore[arg-type]
    open_loader(Path("photos"), num_worker=4)  # type: ignore[call-arg]
    mr.Loader("photos").next().release()  # type: ignore[union-attr]
