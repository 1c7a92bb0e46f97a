# SPDX-License-Identifier: Apache-2.0
"""A torch dataset of a spec: packs, tar shards and lists for the drop-in DataLoader."""

from __future__ import annotations

import os
from typing import Any, Callable

import numpy
from torch.utils import data

from .. import Dataset as Native
from .. import Loader


class Dataset(data.Dataset[tuple[Any, int]]):
    """Images and labels of a spec, for DataLoader: Dataset("pack:photos.pack", transform) in place
    of an ImageFolder.

    spec       of image files with one int as their label: "pack:DIR", "tar:train-{000..146}.tar",
               "list:FILE", ... (docs/formats.md)
    transform  takes a PIL image, as ImageFolder's

    dataset[i] decodes one image in the calling process, and opens a loader each time. It is for
    looking at samples, and for loaders that fall back to torch.
    """
    def __init__(self,
                 spec: str | os.PathLike[str],
                 transform: Callable[[Any], Any] | None = None) -> None:
        self.spec = os.fspath(spec)
        self.native = Native(spec)
        self.transform = transform
        self.classes = self.native.classes
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.native)

    @property
    def targets(self) -> list[int]:
        """The labels of all samples."""
        return [self.native.label(i) for i in range(len(self))]

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """The image after the transform, and its label. index may be negative."""
        from PIL import Image

        index = range(len(self))[index]
        size = self.native.inspect(index)
        whole = f"center_crop({size['height']}:{size['width']})"
        with Loader(self.native, whole, batch_size=1, num_workers=0, layout="nhwc") as loader:
            loader.set_epoch(0, [index])
            batch = loader.next()
            assert batch is not None
            pixels, label = numpy.array(batch.image)[0], batch.label.tolist()[0]
        image = Image.fromarray(pixels)
        return (self.transform(image) if self.transform is not None else image), label

    def __getstate__(self) -> dict[str, Any]:
        """The spec and the transform: workers that are not forked open the spec again."""
        return {"spec": self.spec, "transform": self.transform}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<millrace.torch.Dataset {self.spec}: {len(self)} samples>"
