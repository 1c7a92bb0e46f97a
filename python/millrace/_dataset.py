# SPDX-License-Identifier: Apache-2.0
"""Datasets: from an index to bytes and a label."""

from __future__ import annotations

import ctypes
import operator
import os
import weakref
from typing import Any

from . import _abi, _log
from ._errors import make_error
from ._library import check, encode, lib
from ._options import unsigned

_NAME_BYTES = 8192
_ANNOTATIONS = ("none", "boxes", "voc", "coco", "darknet", "masks")  # by mr_annotations


class Dataset:
    """An open dataset.

    spec  a line of text (docs/formats.md): "imagefolder:DIR" (each folder in DIR is a class), or
          just DIR, "cifar10:DIR?split=train", "list:FILE", "ranges:FILE",
          "records:FILE?dtype=u16&shape=1025", "tar:train-{000..099}.tar", "pack:DIR"
    allow_empty_classes  of an imagefolder: accept class folders without an image

    It blocks while it reads directories.
    """

    def __init__(self, spec: str | os.PathLike[str], *, allow_empty_classes: bool = False) -> None:
        options, error, handle = _abi.make(
            _abi.mr_dataset_options), _abi.mr_error(), ctypes.c_void_p()
        options.allow_empty_classes = allow_empty_classes
        if spec is None:
            raise TypeError('the dataset is None; give its spec, for example "imagefolder:DIR"')
        self.spec, self._allow_empty_classes = os.fspath(spec), allow_empty_classes
        status = lib.mr_dataset_open(encode(self.spec), options, handle, error)
        _log.drain()
        check(status, error)
        self._handle = handle
        # Not at exit: a daemon thread may still use it.
        weakref.finalize(self, lib.mr_dataset_destroy, handle).atexit = False

    def __len__(self) -> int:
        """Number of samples."""
        return lib.mr_dataset_n_samples(self._handle)

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in the order of their labels; empty if the dataset has no names."""
        n = lib.mr_dataset_n_classes(self._handle)
        return [os.fsdecode(lib.mr_dataset_class_name(self._handle, i)) for i in range(n)]

    @property
    def annotations(self) -> str:
        """What the annotations are, and so what the classes name: "none" or "boxes" (of the key
        `boxes`); of the kinds voc, coco and yolo "voc", "coco", "darknet" or "masks"."""
        return _ANNOTATIONS[lib.mr_dataset_annotations(self._handle)]

    def _check_index(self, index: int) -> int:
        number = operator.index(index)
        if not 0 <= number < len(self):
            raise make_error(_abi.ERR_INVALID, None,
                             f"index {number} is not from 0 to {len(self) - 1}")
        return number

    def name(self, index: int) -> str:
        """The path of a sample, with "#record" for records."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        lib.mr_dataset_name(self._handle, self._check_index(index), text, _NAME_BYTES)
        return os.fsdecode(text.value)

    def label(self, index: int) -> int:
        """The label of a sample, without decoding the sample."""
        error, label = _abi.mr_error(), ctypes.c_int64()
        check(lib.mr_dataset_label(self._handle, self._check_index(index), label, error), error)
        return label.value

    def box_labels(self, index: int) -> list[int]:
        """The labels of a sample's boxes, as the annotation has them, without decoding the
        sample."""
        error, n, index = _abi.mr_error(), ctypes.c_size_t(), self._check_index(index)
        labels = (ctypes.c_int64 * 0)()
        while not labels or len(labels) < n.value:
            labels = (ctypes.c_int64 * (n.value or 64))()
            check(lib.mr_dataset_box_labels(self._handle, index, labels, len(labels), n, error),
                  error)
        return labels[:n.value]

    def boxes(self, index: int, width: int, height: int) -> list[list[float]]:
        """x1, y1, x2, y2 of each box of a sample, in pixels of its image before any operation,
        without decoding the sample. explain() takes them.

        width, height  of the image, as inspect() has them
        """
        error, n, index = _abi.mr_error(), ctypes.c_size_t(), self._check_index(index)
        sides = unsigned("width", width, 32), unsigned("height", height, 32)
        numbers = (ctypes.c_float * 0)()
        while not numbers or len(numbers) < 4 * n.value:
            numbers = (ctypes.c_float * (4 * (n.value or 64)))()
            check(lib.mr_dataset_boxes(self._handle, index, *sides, numbers, len(numbers) // 4, n,
                                       error), error)
        return [numbers[4 * i:4 * i + 4] for i in range(n.value)]

    def inspect(self, index: int) -> dict[str, Any]:
        """Format and size of a sample, from its first bytes: format, width, height, channels,
        len_bytes, orientation."""
        error, info = _abi.mr_error(), _abi.make(_abi.mr_sample_info)
        check(lib.mr_dataset_inspect(self._handle, self._check_index(index), info, error), error)
        return struct_dict(info)

    def __getstate__(self) -> dict[str, Any]:
        """The spec: a copy, or the dataset in another process, opens it again."""
        return {"spec": self.spec, "allow_empty_classes": self._allow_empty_classes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<millrace.Dataset {self.spec}: {len(self)} samples>"


def struct_dict(struct: ctypes.Structure) -> dict[str, Any]:
    """The fields of a struct after struct_size; texts become str."""
    found = {}
    for name, *_ in struct._fields_[1:]:
        value = getattr(struct, name)
        found[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return found
