# SPDX-License-Identifier: Apache-2.0
"""Transforms: lists of operations, as texts (docs/formats.md)."""

from __future__ import annotations

import ctypes
import json
import operator
import weakref
from typing import Any

from . import _abi
from ._library import check, lib
from ._options import unsigned


class Transform:
    """A transform that the library has read and found good. str() is its long form.

    text  "train:224", "eval:232:224", "cifar", "none", a recipe as "resnet50_v2" (docs/recipes.md), or operations with
          "+" between them: "random_resized_crop(224)+hflip(0.5)"
    """

    def __init__(self, text: str) -> None:
        error, handle = _abi.mr_error(), ctypes.c_void_p()
        check(lib.mr_transform_parse(text.encode(), handle, error), error)
        self._handle = handle
        weakref.finalize(self, lib.mr_transform_destroy,
                         handle).atexit = False  # a daemon thread may be using it

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
    """What the library takes, and what has to live until it has taken it."""
    made = Transform(transform) if isinstance(transform, str) else transform
    if made is not None and not isinstance(made, Transform):
        kind = f"{type(made).__module__}.{type(made).__qualname__}"
        raise TypeError(
            f"a transform is a text or a millrace.Transform, not a {kind}; millrace.torch.DataLoader takes "
            "those of torchvision")
    return (made._handle if made else None), made


def explain(transform: Transform | str | None,
            seed: int,
            epoch: int,
            index: int,
            width: int,
            height: int,
            occurrence: int = 0) -> list[Any]:
    """How a sample is made of its image: the calls that "millrace export --explain" writes (docs/formats.md).

    Each is [name, arguments]: a function of torchvision.transforms.functional or of Pillow, with what this sample drew. With
    random_erasing, "erase" for each box of the normalized tensor follows.

    transform      None is the loader's default, "train:224"
    seed, epoch    the loader's
    index          the sample's
    width, height  pixels of the decoded image, before EXIF turns it
    occurrence     how often the epoch had the index before, by repeat, by weights or by an order of its own
    """
    handle, _kept = transform_handle(transform)
    numbers = (unsigned("seed", seed), unsigned("epoch", epoch), operator.index(index),
               unsigned("occurrence", occurrence), operator.index(width), operator.index(height))
    options, error, size = _abi.make(_abi.mr_explain_options), _abi.mr_error(), ctypes.c_size_t()
    options.form = _abi.EXPLAIN_JSON

    def write(text: Any, room: int) -> None:
        check(lib.mr_transform_explain(handle, *numbers, options, text, room, size, error), error)

    write(None, 0)
    line = ctypes.create_string_buffer(size.value + 1)
    write(line, len(line))
    found = json.loads(line.value)
    return found["calls"] + found.get("after", [])
