# SPDX-License-Identifier: Apache-2.0
"""Pictures of what a loader makes, and of one sample after each operation of its transform."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import time
from typing import Any, Iterable, Protocol, Sequence

from . import _abi, _html
from ._batch import Batch
from ._dataset import Dataset
from ._errors import InvalidError, UnsupportedError, make_error
from ._html import Html
from ._loader import Loader
from ._transform import Transform, explain

# The options that decide which samples a rank gets.
_ORDER = (
    "rank", "world_size", "tail", "order", "seed", "no_shuffle", "no_replacement", "repeat",
    "repeat_form", "n_draws", "weights", "weight_values",
)
_REPEATING = {"repeat", "weights", "weight_values"}
_MOST_BYTES = 1 << 24  # of a sample that an operation makes larger than its file's image


class Wrapper(Protocol):
    """A loader of another library that is made of a Loader."""

    def _preview(self, n: int) -> Html:
        ...


def preview(loader: Loader | Wrapper, n: int = 8) -> Html:
    """The first n images of the loader's epoch, at most 8, as HTML for a notebook.

    Another loader decodes them, so the position of this one does not change. Pictures are made of
    bytes if the transform allows it, otherwise of the finished floats. The mouse pointer shows the
    calls that mr.explain() gives for an image. If rows are mixed, an image's partner is one of
    these n.

    loader  also the drop-in for torch's DataLoader; before its first pass, which draws the order,
            the dataset's first images are shown
    """
    if not isinstance(loader, Loader):
        if not hasattr(loader, "_preview"):
            raise TypeError("preview() shows a millrace.Loader or a millrace.torch.DataLoader, not "
                            f"a {type(loader).__name__}")
        return loader._preview(n)
    return show(loader, n, loader.dataset.classes)


def show(loader: Loader, n: int, classes: Sequence[str]) -> Html:
    """preview(), with the names of classes."""
    n = min(n, _html.MOST_SHOWN)
    transform, given = loader._made_of
    options = {name: value for name, value in given.items() if name in _ORDER}
    if given.get("ragged") or given.get("pad_batch"):
        options.update(pad_batch=given.get("pad_batch") or _find_side(loader), n_slots=2)
    order = None if loader._order is None else loader._order[:n]
    head = f"{loader!r}, transform {transform}, epoch {loader.epoch}; {loader.verdict()}"
    if order is not None and not order:
        return _html.make_html(head, [])
    batch = _take(loader.dataset, transform, loader.epoch, order, batch_size=n, on_error="zero",
                  **options)
    details: list[dict[str, str]] = []
    geometry = _html.list_arrays(batch)[0][1]
    if transform is not None and geometry in batch and not (_REPEATING & set(options)):
        # A sample that an epoch has several times has other draws each time.
        seen: dict[int, int] = {}
        for index, crop in zip(batch.index.tolist(), batch[geometry].tolist()):
            width, height, *_ = crop[0] if isinstance(crop[0], list) else crop
            seen[index] = seen.get(index, -1) + 1
            calls = explain(transform, loader.options["seed"], loader.epoch, index, width, height,
                            seen[index], _boxes(loader.dataset, index, width, height)
                            ) if width > 0 else []  # a damaged sample has no size
            pictures = calls if isinstance(calls, dict) else {"image": calls}
            details.append({name: "\n".join(_lines(of)) for name, of in pictures.items()})
    if loader.dataset.annotations in ("none", "boxes"):
        return _html.batch_html(batch, head, classes, details, classes)
    return _html.batch_html(batch, head, (), details, loader.dataset.classes)


def _find_side(loader: Loader) -> int:
    """A side for images of different sizes. A longer one makes an image black."""
    n_bytes = {"u8": 1, "f32": 4}.get(str(loader.options["dtype"]), 2)
    return max(1, min(math.isqrt(2 * loader.options["max_row_bytes"] // (3 * n_bytes)), 65535))


def _take(dataset: Dataset, transform: Any, epoch: int, order: Any, **options: Any) -> Batch:
    """The first batch of an epoch, made in this process: of bytes, or of floats if the transform
    needs them."""
    options = {"num_workers": 0, "allow_same_epoch": True, **options}
    try:
        loader = Loader(dataset, transform, **options)
    except InvalidError:
        loader = Loader(dataset, transform, dtype="f32", **options)
    with loader:
        loader.set_epoch(epoch, order)
        batch = loader.next()
    assert batch is not None
    return batch


def _lines(calls: list[Any]) -> list[str]:
    """A line for each call: "resized_crop(top=3, ...)"."""
    return [
        f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"
        for name, arguments in calls
    ]


def _boxes(dataset: Dataset, index: int, width: int, height: int) -> list[list[float]] | None:
    """The boxes of a sample, for explain(); None if the samples have none."""
    try:
        return dataset.boxes(index, width, height)
    except UnsupportedError:
        return None


def explain_html(dataset: Dataset | str | os.PathLike[str],
                 index: int,
                 transform: Transform | str = "train:224",
                 seed: int = 0,
                 epoch: int = 0) -> Html:
    """A sample's way from its file through each operation, as HTML for a notebook: a strip of
    pictures with the operation, its calls as mr.explain() gives them, and the size.

    seed, epoch  of the loader whose draws are shown
    """
    dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    size = dataset.inspect(index)
    room = max(_MOST_BYTES, size["width"] * size["height"] * 3)
    label = _html.name_label(dataset.label(index), dataset.classes)
    text = str(Transform(str(transform)))
    sides = size["width"], size["height"]
    boxes = _boxes(dataset, index, *sides)
    if isinstance(explain(text, seed, epoch, index, *sides, boxes=boxes), dict):
        raise make_error(_abi.ERR_INVALID, None, f"explain_html() shows one picture: {text}")
    cuts = [i for i in range(len(text)) if text[i] == "+" and _is_outside(text[:i])]
    figures, start, n_calls = [], 0, 0
    for end in (0, *cuts, len(text)):
        so_far = text[:end] or "none"
        calls = explain(so_far, seed, epoch, index, *sides, boxes=boxes)
        image = _take_whole(dataset, so_far, epoch, index, seed, room).image
        item = text[start:end].lstrip("+") or label
        lines = [item, *_lines(calls[n_calls:]), " x ".join(map(str, image.shape[1:]))]
        figures.append(_html.make_figure(_html.make_pictures(image, 0)[0], lines))
        start, n_calls = end, len(calls)
    return _html.make_html(dataset.name(index), figures)


def _is_outside(text: str) -> bool:
    """Does a text end outside of parentheses?"""
    return text.count("(") == text.count(")")


def _take_whole(dataset: Dataset, text: str, epoch: int, index: int, seed: int,
                room: int) -> Batch:
    """A sample after these operations. Those that do not determine a size get the size that comes
    out; operations on floats follow a crop, so they have one."""
    options: dict[str, Any] = {"batch_size": 1, "seed": seed, "layout": "nhwc"}
    try:
        found = _take(dataset, text, epoch, [index], ragged=True, max_row_bytes=room, **options)
        if found.image.dtype == "u8":
            height, width = found["image.shape"].tolist()[0]
            text += f"+center_crop({height}:{width})"
    except InvalidError:
        pass
    return _take(dataset, text, epoch, [index], **options)


def plot(loader: Loader, workers: Iterable[int], seconds: float) -> Any:
    """Loader.plot()."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    transform, options = loader._made_of
    rates = {}
    for n in workers:
        changed: dict[str, Any] = {**options, "num_workers": n}
        with Loader(loader.dataset, transform, **changed) as other:
            rates[n] = _measure(other, seconds)
    axes = pyplot.figure().subplots()
    axes.plot(list(rates), list(rates.values()), marker="o")
    axes.set(xlabel="workers", ylabel="samples a second", ylim=(0, None), title=repr(loader))
    return axes


def _measure(loader: Loader, seconds: float) -> float:
    """Samples a second, after the first batch."""
    batches = (batch for _ in itertools.count() for batch in loader)
    next(batches)
    start, n = time.monotonic(), 0
    while time.monotonic() < start + seconds:
        n += len(next(batches))
    return n / (time.monotonic() - start)
