# SPDX-License-Identifier: Apache-2.0
"""Recognises torchvision's datasets, and opens them as datasets of the library.

The samples of the Python object are passed to the library in files in memory, so samples and labels
are exactly the same: an ImageFolder's paths as a list, CIFAR's arrays as records.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Iterable, Iterator, NamedTuple

import numpy
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Subset
from torchvision import datasets
from torchvision.datasets.folder import default_loader

from .. import Dataset, features
from ._dataset import Dataset as SpecDataset
from ._words import Unknown, foresee, is_timm

_FEATURES = features().split()
_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm"
             ) + (".tif", ".tiff") * ("tiff" in _FEATURES) + (".webp", ) * ("webp" in _FEATURES)


class ImageFolder(datasets.ImageFolder, TorchDataset[tuple[Any, int]]):
    """torchvision's ImageFolder, unchanged. DataLoader recognises both."""


class MemoryFile:
    """A file in memory that lives as long as this object. Worker processes open it by its path."""

    def __init__(self, name: str, parts: Iterable[Any]) -> None:
        number = os.memfd_create(name)
        # Not at exit: workers may still read it.
        weakref.finalize(self, os.close, number).atexit = False
        with open(number, "wb", closefd=False) as file:
            file.writelines(parts)
        self.path = f"/proc/{os.getpid()}/fd/{number}"


class Source(NamedTuple):
    dataset: Dataset
    owner: Any
    """The Python object that has the samples and the transform, without its Subsets."""
    indices: Any
    """The dataset's index for each index of the Python object; None if they are the same."""
    memory: MemoryFile | None


def _list_lines(samples: Iterable[tuple[str, int]]) -> Iterator[bytes]:
    for path, label in samples:
        if not path.lower().endswith(_SUFFIXES):
            raise Unknown(f"{path} is of a format that this build of millrace does not decode")
        name = os.fsencode(os.path.abspath(path))
        for byte, escape in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n")):
            name = name.replace(byte, escape)
        yield b"%s\t%d\n" % (name, label)


def _open_folder(folder: Any) -> MemoryFile:
    if folder.loader is not default_loader:
        raise Unknown("an ImageFolder with another loader function")
    return MemoryFile("millrace-list", _list_lines(folder.samples))


def _open_timm(dataset: Any) -> MemoryFile:
    """timm's ImageDataset of a folder: its files in its order, which sorts by a natural key."""
    if not is_timm(dataset.reader, "readers.reader_image_folder.ReaderImageFolder"):
        raise Unknown(f"the reader {type(dataset.reader).__name__}")
    if (dataset.load_bytes or dataset.input_img_mode != "RGB"
            or dataset.additional_features is not None):
        raise Unknown("an ImageDataset with load_bytes, another input_img_mode than RGB, or "
                      "additional_features")
    return MemoryFile("millrace-list", _list_lines(dataset.reader.samples))


def _cifar_rows(cifar: Any) -> Iterator[Any]:
    """Records of eight bytes of label and an image."""
    labels = numpy.asarray(cifar.targets, dtype="<i8")
    for first in range(0, len(labels), 4096):
        part = labels[first : first + 4096]
        pictures = cifar.data[first : first + 4096].reshape(len(part), -1)
        yield numpy.concatenate([part.view("u1").reshape(-1, 8), pictures], axis=1).tobytes()


def _open_cifar(cifar: Any) -> MemoryFile:
    data = cifar.data
    if not isinstance(
            data, numpy.ndarray) or data.dtype != numpy.uint8 or data.ndim != 4 or len(data) != len(
                cifar.targets):
        raise Unknown("a CIFAR whose data is not an array of u8 images")
    return MemoryFile("millrace-cifar", _cifar_rows(cifar))


def _compose(dataset: Any, others: list[Any]) -> Any:
    """The dataset's index for each index of the outermost Subset."""
    indices = None
    for subset in reversed(others):
        own = numpy.asarray(subset.indices, dtype=numpy.int64)
        indices = numpy.where(own < 0, own + len(dataset), own) if indices is None else indices[own]
    return indices


def open_source(dataset: Any) -> Source:
    """The library's dataset for a Python object. Raises Unknown."""
    with foresee("a dataset"):
        return _open(dataset)


def _open(dataset: Any) -> Source:
    subsets = []
    while type(dataset) is Subset:
        subsets.append(dataset)
        dataset = dataset.dataset
    if getattr(dataset, "target_transform", None) is not None:
        raise Unknown("a target_transform")
    if type(dataset) is SpecDataset:
        return Source(dataset.native, dataset, _compose(dataset, subsets), None)
    if type(dataset) in (datasets.ImageFolder, ImageFolder):
        memory = _open_folder(dataset)
        spec = f"list:{memory.path}?label=i64"
    elif is_timm(dataset, "dataset.ImageDataset"):
        memory = _open_timm(dataset)
        spec = f"list:{memory.path}?label=i64"
    elif type(dataset) in (datasets.CIFAR10, datasets.CIFAR100):
        memory = _open_cifar(dataset)
        side, channels = dataset.data.shape[1:3], dataset.data.shape[3]
        spec = (f"records:{memory.path}?shape={side[0]}x{side[1]}x{channels}&layout=hwc&header=8"
                f"&stride={8 + side[0] * side[1] * channels}&label_off=-8&label_bytes=8")
    else:
        raise Unknown(f"the dataset {type(dataset).__name__}")
    return Source(Dataset(spec), dataset, _compose(dataset, subsets), memory)
