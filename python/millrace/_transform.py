# SPDX-License-Identifier: Apache-2.0
"""Transforms: lists of operations, given as text (docs/formats.md)."""

from __future__ import annotations

import ctypes
import json
import operator
import weakref
from typing import Any, Iterable, Sequence

from . import _abi
from ._library import check, encode, lib
from ._options import unsigned


class Transform:
    """A transform that the library has parsed. str() is its long form.

    text  "train:224", "eval:232:224", "cifar", "none", a recipe such as "resnet50_v2"
          (docs/recipes.md), or operations with "+" between them:
          "random_resized_crop(224)+hflip(0.5)"
    """

    def __init__(self, text: str) -> None:
        error, handle = _abi.mr_error(), ctypes.c_void_p()
        check(lib.mr_transform_parse(encode(text), handle, error), error)
        self._handle = handle
        # Not at exit: a daemon thread may still use it.
        weakref.finalize(self, lib.mr_transform_destroy, handle).atexit = False

    def __str__(self) -> str:
        size = lib.mr_transform_format(self._handle, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        lib.mr_transform_format(self._handle, text, size)
        return text.value.decode()

    def __reduce__(self) -> tuple[type[Transform], tuple[str]]:
        return Transform, (str(self),)

    def __repr__(self) -> str:
        return f"millrace.Transform({str(self)!r})"


def transform_handle(transform: Transform | str | None) -> tuple[Any, Any]:
    """The handle for the library, and the object that must live until the library has copied it."""
    made = Transform(transform) if isinstance(transform, str) else transform
    if made is not None and not isinstance(made, Transform):
        kind = f"{type(made).__module__}.{type(made).__qualname__}"
        raise TypeError(
            f"a transform is a text or a millrace.Transform, not a {kind}; "
            "millrace.torch.DataLoader takes those of torchvision")
    return (made._handle if made else None), made


def explain(transform: Transform | str | None,
            seed: int,
            epoch: int,
            index: int,
            width: int,
            height: int,
            occurrence: int = 0,
            boxes: Iterable[Sequence[float]] | None = None) -> Any:
    """The calls that make a sample from its image, as "millrace export --explain" writes them
    (docs/formats.md).

    Each call is [name, arguments]: a function of torchvision.transforms.functional or of Pillow,
    with the arguments drawn for this sample. With random_erasing, an "erase" for each box of the
    normalized tensor follows. With views, or crops, the result is a dict that has the calls of each
    picture: those of "global1", of "local#0", "local#1" and so on.

    transform      None is the loader's default, "train:224"
    seed, epoch    of the loader
    index          of the sample
    width, height  of the decoded image in pixels, before EXIF turns it
    occurrence     how often the epoch has had the index before, by repeat, by weights or by indices
                   given to set_epoch()
    boxes          x1, y1, x2, y2 of each box of the sample, in pixels of the image before any
                   operation; random_iou_crop needs them. The functions are then those of
                   torchvision.transforms.v2.functional
    """
    handle, _kept = transform_handle(transform)
    options, error, size = _abi.make(_abi.mr_explain_options), _abi.mr_error(), ctypes.c_size_t()
    options.seed = unsigned("seed", seed)
    options.epoch = unsigned("epoch", epoch)
    options.index = operator.index(index)
    options.occurrence = unsigned("occurrence", occurrence, 32)
    options.width = unsigned("width", width, 32)
    options.height = unsigned("height", height, 32)
    options.form = _abi.EXPLAIN_JSON
    if boxes is not None:
        corners = [float(corner) for box in boxes for corner in box]
        options.boxes = (ctypes.c_float * max(len(corners), 1))(*corners)
        options.n_boxes = len(corners) // 4

    def write(text: Any, room: int) -> None:
        check(lib.mr_transform_explain(handle, options, text, room, size, error), error)

    write(None, 0)
    line = ctypes.create_string_buffer(size.value + 1)
    write(line, len(line))
    found = json.loads(line.value)
    if "views" in found:
        return {picture["view"]: _calls(picture) for picture in found["views"]}
    return _calls(found)


def _calls(found: dict[str, Any]) -> list[Any]:
    return found["calls"] + found.get("after", [])
