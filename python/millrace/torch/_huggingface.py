# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's datasets. The bytes of an image in an Arrow file are a range of that file, which
the library reads without a copy.
"""

from __future__ import annotations

import operator
import os
from typing import Any, Callable, Iterator

import numpy

from ._dataset import Dataset
from ._memory import MemoryFile, list_name


class HuggingFace(Dataset):
    """What Dataset.from_huggingface() returns."""

    upright = True  # datasets.Image turns images by their EXIF orientation

    def __init__(self, dataset: Any, transform: Callable[[Any], Any] | None, image: str, label: str,
                 keys: tuple[str, str] | None) -> None:
        _check(dataset, image, label, keys)
        self._made_of = {"dataset": dataset, "image": image, "label": label, "keys": keys}
        self._rows = dataset.with_format("arrow", columns=[image, label])
        rows = numpy.arange(len(dataset))
        if dataset._indices is not None:  # after shuffle(), select() and the like
            rows, order = numpy.unique(dataset._indices.column(0).to_numpy(), return_inverse=True)
            self.order = None if numpy.array_equal(order, numpy.arange(len(rows))) else order
        self._buffers = _Buffers()
        labels = dataset.data.column(label).to_numpy()
        if labels.dtype.kind not in "iub":
            raise ValueError(f"the column {label!r} holds {labels.dtype} and not integers")
        self._memory = MemoryFile(
            "millrace-ranges", _write_lines(dataset.data.column(image), labels, rows,
                                            self._buffers))
        super().__init__("ranges:" + self._memory.path, transform)
        self.keys = keys
        self.classes = list(getattr(dataset.features[label], "names", None) or [])
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> Any:
        """As Dataset's, decoded by Pillow; a dict if there are keys."""
        from datasets import Image

        row = self._rows[range(len(self))[operator.index(index)]]
        value, label = (row.column(self._made_of[name])[0].as_py() for name in ("image", "label"))
        value = value if isinstance(value, dict) else {"bytes": value, "path": None}
        image = Image().decode_example(value).convert("RGB")
        pair = (self.transform(image) if self.transform is not None else image), label
        return pair if self.keys is None else dict(zip(self.keys, pair))

    def __getstate__(self) -> dict[str, Any]:
        return {**self._made_of, "transform": self.transform}

    def __repr__(self) -> str:
        return f"<millrace.torch.Dataset of {self._made_of['dataset']!r}>"


def describe(dataset: Any) -> str:
    """Why a dataset of Hugging Face itself is left to torch."""
    function = dataset.format["format_kwargs"].get("transform")
    name = getattr(function, "__qualname__", function)
    own = f"set_transform({name})" if function else "no transform"
    return (f"a Hugging Face dataset with {own}; "
            "millrace.torch.Dataset.from_huggingface(dataset, transform) is native")


def is_huggingface(dataset: Any) -> bool:
    kind = type(dataset)
    return f"{kind.__module__}.{kind.__name__}" == "datasets.arrow_dataset.Dataset"


def _check(dataset: Any, image: str, label: str, keys: tuple[str, str] | None) -> None:
    if not is_huggingface(dataset):
        splits = f"; choose one of {', '.join(dataset)}" if isinstance(dataset, dict) else ""
        raise TypeError(f"{type(dataset).__name__} is not a datasets.Dataset{splits}")
    for name, use in ((image, "image"), (label, "label")):
        if name not in dataset.features:
            raise ValueError(f"the dataset has no column {name!r}, only "
                             f"{', '.join(dataset.features)}: name the right one by {use}=...")
    if len(dataset) == 0:
        raise ValueError("the dataset has no rows")
    if dataset.format["type"] == "custom":
        raise ValueError(
            "the dataset has a function of set_transform(), which the workers cannot call: pass "
            "dataset.with_format(None), and as the transform what the function does to an image")
    if keys is not None and (len(keys) != 2 or len(set(keys)) != 2 or isinstance(keys, str)):
        raise ValueError(f"keys are two different names, not {keys!r}")
    kind = getattr(dataset.features[image], "dtype", None)
    if kind == "string":
        raise ValueError(f"the column {image!r} holds texts and not images; if they are paths: "
                         f"dataset.cast_column({image!r}, datasets.Image())")
    if kind not in ("PIL.Image.Image", "binary", "large_binary"):
        raise ValueError(f"the column {image!r} holds {kind} and not images")
    mode = getattr(dataset.features[image], "mode", None)
    if mode not in (None, "RGB"):
        raise ValueError(f"the column {image!r} holds images of mode {mode}, and the workers make "
                         "RGB")


class _Buffers:
    """Finds the files of Arrow's buffers. The bytes of a buffer that is in no file are copied to a
    file in memory."""

    def __init__(self) -> None:
        self._copies: dict[int, MemoryFile] = {}  # by address
        self._mapped = []
        with open("/proc/self/maps", "rb") as maps:
            for line in map(os.fsdecode, maps):
                fields = line.rstrip("\n").split(None, 5)
                if len(fields) == 6 and fields[5].startswith("/"):
                    first, end = (int(number, 16) for number in fields[0].split("-"))
                    self._mapped.append((first, end, int(fields[2], 16), fields[5]))

    def find(self, buffer: Any) -> tuple[str, int]:
        """The path and the offset of a buffer."""
        for first, end, offset, path in self._mapped:
            place = buffer.address - first + offset
            if first <= buffer.address < end and _holds(path, place, memoryview(buffer)[:4096]):
                return path, place
        if buffer.address not in self._copies:
            self._copies[buffer.address] = MemoryFile("millrace-arrow", [buffer])
        return self._copies[buffer.address].path, 0


def _holds(path: str, offset: int, content: memoryview) -> bool:
    """Is it the mapped file? Another file may have its name now."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(len(content)) == content.tobytes()
    except OSError:
        return False


def _write_lines(column: Any, labels: Any, rows: Any, buffers: _Buffers) -> Iterator[bytes]:
    """A line for each of the rows, which are sorted."""
    end = 0
    for chunk in column.chunks:
        first, end = end, end + len(chunk)
        own = rows[numpy.searchsorted(rows, first) : numpy.searchsorted(rows, end)]
        if len(own) > 0:
            yield from _write_chunk(chunk, labels, own, first, buffers)


def _write_chunk(chunk: Any, labels: Any, rows: Any, first: int,
                 buffers: _Buffers) -> Iterator[bytes]:
    is_struct = chunk.type.num_fields > 0  # of datasets.Image
    names = [field.name for field in chunk.type] if is_struct else ["bytes"]
    fields = dict(zip(names, chunk.flatten() if is_struct else [chunk]))
    content, paths = fields["bytes"], fields.get("path")
    valid = content.is_valid().to_numpy(zero_copy_only=False)
    _, offsets, values = content.buffers()
    path, start = buffers.find(values) if valid.any() else ("", 0)
    shared = list_name(path)
    width = "<i8" if str(content.type) == "large_binary" else "<i4"
    offsets = numpy.frombuffer(offsets, width)[content.offset :].tolist()
    for row in rows.tolist():
        i = row - first
        if valid[i]:
            yield b"%s\t%d\t%d\t%d\n" % (shared, labels[row], start + offsets[i],
                                          offsets[i + 1] - offsets[i])
            continue
        name = paths[i].as_py() if paths is not None else None
        if name is None:
            raise ValueError(f"row {row} has no image, neither bytes nor a path")
        yield b"%s\t%d\t0\t%d\n" % (list_name(name), labels[row], os.stat(name).st_size)
