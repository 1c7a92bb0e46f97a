# SPDX-License-Identifier: Apache-2.0
"""As typed_example.py, for timm's loader: its arguments are timm's."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from timm.data.dataset import ImageDataset

from millrace.timm import create_loader, explain


def count_rows(dataset: ImageDataset) -> int:
    loader = create_loader(dataset, (3, 224, 224), 64, is_training=True, re_prob=0.25,
                           auto_augment="rand-m9-mstd0.5", num_workers=8)
    return sum(len(images) for images, _ in loader) if explain(loader)["native"] else 0


def misspell(dataset: ImageDataset) -> None:
    create_loader(dataset, 224, 64, is_traning=True)  # type: ignore[call-arg]
    create_loader(dataset, 224, "many")  # type: ignore[arg-type]
    create_loader(dataset, 224, 64, auto_augment=9)  # type: ignore[arg-type]
