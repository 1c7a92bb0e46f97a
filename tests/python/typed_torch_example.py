# SPDX-License-Identifier: Apache-2.0
"""As typed_example.py, for the drop-in: its arguments are torch's."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import numpy
import torch
from torch import Tensor

import millrace as mr
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


def open_loaders(folder: str) -> list[mr.Loader]:
    gpu = torch.device("cuda:0")
    return [
        mr.Loader(folder, dtype=torch.float16, device=gpu, label_device="cpu"),
        mr.Loader(folder, dtype=numpy.float32, devices=[gpu, "cuda:1"]),
        mr.Loader(folder, dtype=numpy.dtype("uint8")),
    ]


def misspell() -> None:
    dataset = Dataset("pack:photos.pack")
    annotate(DataLoader(dataset, 4, True))  # type: ignore[arg-type]
    DataLoader(dataset, bacth_size=4)  # type: ignore[call-arg]
    DataLoader(dataset, batch_size="many")  # type: ignore[arg-type]
    mr.Loader("photos", device=torch.float16)  # type: ignore[arg-type]
    mr.Loader("photos", dtype=torch.device("cpu"))  # type: ignore[arg-type]
    DataLoader(dataset, exact_resize="no")  # type: ignore[arg-type]
