# SPDX-License-Identifier: Apache-2.0
"""As typed_example.py, for the drop-in: its arguments are torch's."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from torch import Tensor

from millrace.torch import DataLoader, Dataset, ImageFolder, explain


def count_rows(folder: str) -> int:
    loader = DataLoader(ImageFolder(folder), batch_size=4, shuffle=True, num_workers=2)
    n_rows = 0
    for images, labels in loader:
        found: tuple[Tensor, Tensor] = (images, labels)
        n_rows += len(found[0])
    return n_rows if explain(loader)["native"] else len(loader)


def annotate(loader: DataLoader[tuple[Tensor, str]]) -> None:
    loader.set_epoch(3)


def misspell() -> None:
    dataset = Dataset("pack:photos.pack")
    annotate(DataLoader(dataset, 4, True))  # type: ignore[arg-type]
    DataLoader(dataset, bacth_size=4)  # type: ignore[call-arg]
    DataLoader(dataset, batch_size="many")  # type: ignore[arg-type]
    DataLoader(dataset, exact_resize="no")  # type: ignore[arg-type]
