# SPDX-License-Identifier: Apache-2.0
"""Recognises torchvision's datasets, and opens them as datasets of the library.

The samples of the Python object are passed to the library in files in memory, so samples and labels
are exactly the same: an ImageFolder's paths as a list, CIFAR's arrays as records. A ConcatDataset
is a mixture, whose indices are those of its sources, one after the other.
"""

from __future__ import annotations

import itertools
import os
from typing import Any, Iterable, Iterator, NamedTuple

import numpy
from torch.utils.data import ConcatDataset, Subset
from torch.utils.data import Dataset as TorchDataset
from torchvision import datasets
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform

from .. import Dataset, Error, features
from ._annotated import Annotated, is_annotated
from ._dataset import Dataset as SpecDataset
from ._huggingface import describe, is_huggingface
from ._memory import MemoryFile, list_name
from ._words import Unknown, foresee, is_timm, needs

_FEATURES = features().split()
_SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm"
             ) + (".tif", ".tiff") * ("tiff" in _FEATURES) + (".webp", ) * ("webp" in _FEATURES)

# torchvision's datasets of image files that are opened as RGB, with the names of their lists of
# paths and of labels, or of their list of pairs.
_OF_FILES = {
    "CLEVRClassification": ("_image_files", "_labels"), "DTD": ("_image_files", "_labels"),
    "FGVCAircraft": ("_image_files", "_labels"), "Flowers102": ("_image_files", "_labels"),
    "Food101": ("_image_files", "_labels"), "GTSRB": ("_samples", ), "ImageFolder": ("samples", ),
    "Imagenette": ("_samples", ), "LFWPeople": ("data", "targets"),
    "OxfordIIITPet": ("_images", "_labels"), "Places365": ("imgs", ),
    "RenderedSST2": ("_samples", ), "StanfordCars": ("_samples", ),
    "SUN397": ("_image_files", "_labels"),
}


class ImageFolder(datasets.ImageFolder, TorchDataset[tuple[Any, int]]):
    """torchvision's ImageFolder, unchanged. DataLoader recognises both."""


class Source(NamedTuple):
    dataset: Dataset
    owner: Any
    """The Python object that has the transform."""
    indices: Any
    """The dataset's index for each index of the Python object; None if they are the same."""
    memory: MemoryFile | None
    keys: tuple[str, str] | None = None
    """Batches are dicts with these keys."""
    prefix: str = ""
    """What comes before the text of the transform."""
    annotated: Annotated | None = None
    """If samples have masks or boxes: what makes them."""
    members: tuple[Source, ...] = ()
    """Those of a ConcatDataset, which has no owner itself."""

    @property
    def parts(self) -> tuple[Source, ...]:
        """The sources that have an owner."""
        return self.members or (self, )


def _list_lines(samples: Iterable[tuple[Any, int]]) -> Iterator[bytes]:
    for path, label in samples:
        if not str(path).lower().endswith(_SUFFIXES):
            raise Unknown(f"{path} is of a format that this build of millrace does not decode")
        yield b"%s\t%d\n" % (list_name(path), _check_label(label))


def _check_label(label: Any) -> Any:
    """The label if default_collate makes an int64 of it. Raises Unknown."""
    if type(label) not in (int, numpy.int64):
        raise Unknown(f"the label {label!r}, which is a {type(label).__name__} and not an int")
    return label


def _keeps(dataset: Any, kind: Any) -> bool:
    """Is it an object of the class, or of a subclass that loads samples as the class does?"""
    return isinstance(dataset, kind) and all(
        getattr(type(dataset), name, None) is getattr(kind, name, None)
        for name in ("__getitem__", "__getitems__"))


def _find_files(dataset: Any) -> Iterable[tuple[Any, int]] | None:
    """Paths and labels of a dataset of torchvision that opens image files; None if it is none."""
    for name, lists in _OF_FILES.items():
        kind = getattr(datasets, name, None)  # old versions have fewer
        if kind is None or not _keeps(dataset, kind):
            continue
        if name == "OxfordIIITPet" and list(dataset._target_types) != ["category"]:
            raise Unknown(f"OxfordIIITPet with target_types {dataset._target_types}")
        values = [getattr(dataset, name) for name in lists]
        if any(len(dataset) != len(value) for value in values):
            raise Unknown(f"{type(dataset).__name__} of another length than its list of files")
        return zip(*values) if len(values) == 2 else values[0]
    return None


def _transform_owner(dataset: Any) -> Any:
    """The object whose attribute `transform` the dataset applies."""
    if not isinstance(dataset, (datasets.OxfordIIITPet, datasets.Places365)):
        return dataset
    # These two call dataset.transforms, which does not see later changes of dataset.transform.
    if type(dataset.transforms) is not StandardTransform:
        raise Unknown(f"{type(dataset).__name__} with transforms of image and target")
    return dataset.transforms


def _find_timm_files(dataset: Any) -> Iterable[tuple[str, int]]:
    """timm's ImageDataset of a folder: its files in its order, which sorts by a natural key."""
    if not is_timm(dataset.reader, "readers.reader_image_folder.ReaderImageFolder"):
        raise Unknown(f"the reader {type(dataset.reader).__name__}")
    if (dataset.load_bytes or dataset.input_img_mode != "RGB"
            or dataset.additional_features is not None):
        raise Unknown("an ImageDataset with load_bytes, another input_img_mode than RGB, or "
                      "additional_features")
    return dataset.reader.samples


def _cifar_rows(cifar: Any) -> Iterator[Any]:
    """Records of eight bytes of label and an image."""
    labels = numpy.fromiter(map(_check_label, cifar.targets), "<i8")
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


def _compose(dataset: Any, others: list[Any], indices: Any) -> Any:
    """The index in the library's dataset for each index of the outermost Subset. indices: for each
    index of the dataset; None if they are the same."""
    for subset in reversed(others):
        own = numpy.asarray(subset.indices)
        needs(own.size == 0 or own.dtype.kind in "iub", f"a Subset whose indices are {own.dtype}")
        own = own.astype(numpy.int64)
        indices = numpy.where(own < 0, own + len(dataset), own) if indices is None else indices[own]
    return indices


def _strip(dataset: Any) -> tuple[Any, list[Any]]:
    """The dataset inside Subsets, and the Subsets."""
    subsets = []
    while type(dataset) is Subset:
        subsets.append(dataset)
        dataset = dataset.dataset
    return dataset, subsets


def check_functions(dataset: Any) -> None:
    """Raises Unknown if a dataset that was opened has functions that the workers do not call."""
    dataset, _ = _strip(dataset)
    if isinstance(dataset, ConcatDataset):
        for member in dataset.datasets:
            check_functions(member)
        return
    own = vars(dataset)
    needs(getattr(dataset, "target_transform", None) is None, "a target_transform")
    needs(own.get("loader", own.get("_loader", default_loader)) is default_loader,
          f"{type(dataset).__name__} with another loader function")


def open_source(dataset: Any) -> Source:
    """The library's dataset for a Python object. Raises Unknown."""
    with foresee("a dataset"):
        inner, subsets = _strip(dataset)
        source = _open(inner)
        return source._replace(indices=_compose(inner, subsets, source.indices))


def _concatenate(dataset: Any) -> Source:
    """A ConcatDataset. A dataset that it has several times, as Subsets for example, is opened
    once."""
    needs(
        list(itertools.accumulate(map(len, dataset.datasets))) == dataset.cumulative_sizes,
        "a ConcatDataset whose datasets have another length than when it was made")
    parts = [_strip(member) for member in dataset.datasets]
    inners = {id(inner): inner for inner, _ in parts}
    sources = {number: _open(inner) for number, inner in inners.items()}
    starts = dict(zip(sources, itertools.accumulate(
        (len(source.dataset) for source in sources.values()), initial=0)))
    orders = []
    for inner, subsets in parts:
        source = sources[id(inner)]
        own = _compose(inner, subsets, source.indices)
        own = numpy.arange(len(inner)) if own is None else own
        needs(own.size == 0 or 0 <= own.min() and own.max() < len(source.dataset),
              "a Subset with indices that its dataset does not have")
        orders.append(starts[id(inner)] + own)
    made, order = _mix(list(sources.values())), numpy.concatenate(orders)
    is_same = numpy.array_equal(order, numpy.arange(len(made.dataset)))
    return made._replace(indices=None if is_same else order)


def _mix(sources: list[Source]) -> Source:
    """The samples of several sources, one source after the other."""
    if len(sources) == 1:
        return sources[0]
    found = [source.annotated for source in sources if source.annotated is not None]
    needs(len(found) in (0, len(sources)),
          "a ConcatDataset of datasets with masks or boxes and others")
    needs(len({source.keys for source in sources}) == 1,
          "a ConcatDataset whose datasets have different keys")
    try:
        native = Dataset("mix:" + "|".join(f"1*({_nest(one.dataset.spec)})" for one in sources))
    except Error as error:
        raise Unknown(f"a ConcatDataset: {error}") from None
    needs(len(native) == sum(len(source.dataset) for source in sources),
          "a ConcatDataset of a dataset that has changed since it was opened")
    members = tuple(part._replace(dataset=native) for one in sources for part in one.parts)
    annotated = found[0].join(found[1:], native) if found else None
    return Source(native, None, None, None, members[0].keys, annotated=annotated, members=members)


def _nest(spec: str) -> str:
    """A spec as a source of a mixture."""
    if spec.lower().startswith("mix:"):
        return spec
    return spec.replace("(", "%28").replace(")", "%29").replace("|", "%7C")


def _open(dataset: Any) -> Source:
    if _keeps(dataset, ConcatDataset):
        return _concatenate(dataset)
    if isinstance(dataset, SpecDataset):
        return Source(dataset.native, dataset, dataset.order, None, dataset.keys,
                      "exif+" if dataset.upright else "")
    if is_annotated(dataset):
        made = Annotated(dataset)
        return Source(made.native, dataset, made.indices, made.memory, annotated=made)
    files = _find_files(dataset)
    if files is None and is_timm(dataset, "dataset.ImageDataset"):
        files = _find_timm_files(dataset)
    if files is not None:
        memory = MemoryFile("millrace-list", _list_lines(files))
        spec = f"list:{memory.path}?label=i64"
    elif _keeps(dataset, datasets.CIFAR10):
        memory = _open_cifar(dataset)
        side, channels = dataset.data.shape[1:3], dataset.data.shape[3]
        spec = (f"records:{memory.path}?shape={side[0]}x{side[1]}x{channels}&layout=hwc&header=8"
                f"&stride={8 + side[0] * side[1] * channels}&label_off=-8&label_bytes=8")
    elif is_huggingface(dataset):
        raise Unknown(describe(dataset))
    else:
        advice = "; use millrace.torch.Dataset(spec, transform)" if isinstance(
            dataset, (str, os.PathLike, Dataset)) else ""
        raise Unknown(f"the dataset {type(dataset).__name__}{advice}")
    return Source(Dataset(spec), _transform_owner(dataset), None, memory)
