# SPDX-License-Identifier: Apache-2.0
"""Datasets for the drop-in DataLoader: of a spec, such as packs and tar shards; of paths in memory;
of Hugging Face's datasets.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
from typing import Any, Callable, Iterable

import numpy
from torch.utils import data

from .. import Batch, Loader, Rows
from .. import Dataset as Native
from ._memory import MemoryFile, list_name


def find_members(batch: Batch) -> dict[str, Rows]:
    """The further members of a batch's samples, by name."""
    return {name: batch[name] for name in batch.keys() if isinstance(batch[name], Rows)}


class Dataset(data.Dataset[tuple[Any, int]]):
    """Images and labels of a spec, for DataLoader: Dataset("pack:photos.pack", transform) in place
    of an ImageFolder.

    spec       of image files with one int as their label: "pack:DIR", "tar:train-{000..146}.tar",
               "list:FILE", ... (docs/formats.md). With further members ("tar:...?keep=txt:4096")
               a sample is (image, label, {"txt": bytes})
    transform  takes a PIL image, as ImageFolder's

    dataset[i] decodes one image in the calling process, and opens a loader each time. It is for
    looking at samples, and for loaders that fall back to torch.
    """

    order: Any = None
    """The index in `native` for each index; None if they are the same."""
    keys: tuple[str, str] | None = None
    """Batches are dicts with these two keys."""
    upright = False
    """Images are turned by their EXIF orientation before the transform."""

    def __init__(self,
                 spec: str | os.PathLike[str],
                 transform: Callable[[Any], Any] | None = None) -> None:
        self.spec = os.fspath(spec)
        self.native = Native(spec)
        self.transform = transform

    @functools.cached_property
    def classes(self) -> list[str]:
        """Names of the classes, in the order of their labels."""
        names = self.native.classes
        if not names:
            raise AttributeError(f"{self!r} has no names of classes: a tar has them with the "
                                 "key classes=FILE, a list in its first line (docs/formats.md); "
                                 "or set this attribute")
        return names

    @functools.cached_property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class."""
        return {name: label for label, name in enumerate(self.classes)}

    @staticmethod
    def from_samples(samples: Iterable[tuple[str | os.PathLike[str], int]],
                     transform: Callable[[Any], Any] | None = None) -> Dataset:
        """A dataset of files: a path and a label for each sample.

        transform  takes a PIL image of mode RGB
        """
        return Samples(list(samples), transform)

    @staticmethod
    def from_huggingface(dataset: Any,
                         transform: Callable[[Any], Any] | None = None,
                         image: str = "image",
                         label: str = "label",
                         keys: tuple[str, str] | None = None) -> Dataset:
        """A dataset of Hugging Face's `datasets`, as it is now: its rows after shuffle(), select()
        and the like. Workers read images from its Arrow files; images that are only in memory are
        copied once.

        transform     takes a PIL image of mode RGB, turned by its EXIF orientation
        image, label  names of the columns
        keys          batches are dicts with these keys, for example ("pixel_values", "labels")
        """
        from ._huggingface import HuggingFace

        return HuggingFace(dataset, transform, image, label, keys)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.native) if self.order is None else len(self.order)

    @property
    def targets(self) -> list[int]:
        """The labels of all samples."""
        indices = range(len(self)) if self.order is None else self.order
        return [self.native.label(i) for i in indices]

    def __getitem__(self, index: int) -> Any:
        """The image after the transform, and its label; if the spec names further members, also a
        dict of their bytes. index may be negative."""
        from PIL import Image

        index = range(len(self))[operator.index(index)]
        size = self.native.inspect(index)
        if not size["width"]:
            raise TypeError(f"{self.spec}: sample {index} is not an image; millrace.Loader has "
                            "its array")
        whole = f"center_crop({size['height']}:{size['width']})"
        with Loader(self.native, whole, batch_size=1, num_workers=0, layout="nhwc") as loader:
            loader.set_epoch(0, [index])
            batch = loader.next()
            assert batch is not None
            pixels, label = numpy.array(batch.image)[0], batch.label.tolist()[0]
            members = {name: rows[0] for name, rows in find_members(batch).items()}
        image = Image.fromarray(pixels)
        made = self.transform(image) if self.transform is not None else image
        return (made, label, members) if members else (made, label)

    def __getstate__(self) -> dict[str, Any]:
        """The spec and the transform: workers that are not forked open the spec again."""
        return {"spec": self.spec, "transform": self.transform}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<millrace.torch.Dataset {self.spec}: {len(self)} samples>"


def _write_line(i: int, sample: tuple[str | os.PathLike[str], int]) -> bytes:
    try:
        path, label = sample
        number = operator.index(label)
        if not -1 << 63 <= number < 1 << 63:
            raise ValueError(f"the label {number} is not a 64-bit integer")
        return b"%s\t%d\n" % (list_name(path), number)
    except (TypeError, ValueError) as error:
        raise type(error)(f"sample {i} is {sample!r}, not a path and an integer: {error}") from None


class Samples(Dataset):
    """What Dataset.from_samples() returns."""

    def __init__(self, samples: list[tuple[str | os.PathLike[str], int]],
                 transform: Callable[[Any], Any] | None) -> None:
        self.samples = samples
        if not samples:
            raise ValueError("there are no samples: the list is empty")
        self._memory = MemoryFile("millrace-list", map(_write_line, itertools.count(), samples))
        super().__init__(f"list:{self._memory.path}?label=i64", transform)

    def __getstate__(self) -> dict[str, Any]:
        return {"samples": self.samples, "transform": self.transform}

    def __repr__(self) -> str:
        return f"<millrace.torch.Dataset of {len(self)} files>"
