# SPDX-License-Identifier: Apache-2.0
"""Batches as HTML for notebooks.

PNG files are made with zlib, which Python has, so pictures need neither Pillow nor Matplotlib.
"""

from __future__ import annotations

import array
import base64
import ctypes
import html
import itertools
import math
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, Iterator, Sequence

if TYPE_CHECKING:
    from ._array import Array
    from ._batch import Batch

MOST_SHOWN = 8
_DRAWN = ("u8", "f32", "f16", "bf16")
_SIDE = 320  # larger pictures are thinned to fewer pixels


class Html(str):
    """A text of HTML. Notebooks show it; write() puts it into a file for a browser."""

    def _repr_html_(self) -> str:
        return self

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a file of this HTML."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'<!DOCTYPE html><meta charset="utf-8">{self}')

    def __repr__(self) -> str:
        return f"<millrace.Html of {len(self)} characters>"


def _to_u8(raw: bytes, dtype: str) -> bytes:
    """An image's values as bytes. Floats are 0 to 1, or the image's least to its largest value."""
    if dtype == "u8":
        return raw
    if dtype == "bf16":  # the upper halves of f32
        wide = bytearray(2 * len(raw))
        wide[2::4], wide[3::4] = raw[::2], raw[1::2]
        raw = bytes(wide)
    values: Sequence[float] = struct.unpack(
        f"<{len(raw) // 2}e", raw) if dtype == "f16" else array.array("f", raw)
    values = [value if math.isfinite(value) else 0.0 for value in values]
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    scale = 255 / ((high - low) or 1)
    return bytes(int((value - low) * scale + 0.5) for value in values)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _colour(index: int) -> list[int]:
    """The colour of an index in Pascal VOC's palette, which takes its bits in turns."""
    return [sum((index >> 3 * k + c & 1) << 7 - k for k in range(8)) for c in range(3)]


# Of masks: translucent, and 255 is not drawn.
_PALETTE = _chunk(b"PLTE", bytes(v for index in range(256) for v in _colour(index))) + _chunk(
    b"tRNS", bytes([128] * 255 + [0]))


def make_png(values: bytes,
             height: int,
             width: int,
             n_channels: int,
             planar: bool,
             palette: bytes = b"") -> bytes:
    """A PNG file of u8 values, [C, H, W] if planar, otherwise [H, W, C]: grey, the first three
    channels, or indices of a palette."""
    pixel, plane = (1, height * width) if planar else (n_channels, 1)
    shown, step = 1 if n_channels < 3 else 3, -(-max(height, width) // _SIDE)
    columns, lines = -(-width // step), []
    for y in range(0, height, step):
        line = bytearray(1 + shown * columns)  # the first byte is the number of PNG's filter: none
        for k in range(shown):
            start = k * plane + y * width * pixel
            line[1 + k :: shown] = values[start : start + width * pixel : step * pixel]
        lines.append(line)
    kind = 3 if palette else 0 if shown == 1 else 2
    head = struct.pack(">IIBBBBB", columns, len(lines), 8, kind, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + palette +
            _chunk(b"IDAT", zlib.compress(b"".join(lines))) + _chunk(b"IEND", b""))


def _form(images: Array) -> tuple[bool, int, int, int]:
    """Are images [N, C, H, W]? Otherwise they are [N, H, W, C]. And C, H, W."""
    _, first, second, last = images.shape
    return (True, first, second, last) if first <= last else (False, last, first, second)


def _row(rows: Array, i: int) -> bytes:
    return ctypes.string_at(rows._data + i * rows.strides[0], rows.strides[0])


def make_pictures(images: Array) -> Iterator[bytes]:
    """PNG files of the images of a batch."""
    planar, n_channels, height, width = _form(images)
    for i in range(min(len(images), MOST_SHOWN)):
        yield make_png(_to_u8(_row(images, i), images.dtype), height, width, n_channels, planar)


def _draw_mask(masks: Array, i: int) -> str:
    """A mask as SVG."""
    raw, (_, height, width) = _row(masks, i), masks.shape
    if masks.dtype != "u8":
        values = array.array("h" if masks.dtype == "i16" else "q", raw)
        raw = bytes(value if 0 <= value < 255 else 255 for value in values)
    return (f'<image href="{_link(make_png(raw, height, width, 1, True, _PALETTE))}" '
            f'width="{width}" height="{height}" style="image-rendering: pixelated"/>')


def _draw_box(box: Sequence[float], label: int, classes: Sequence[str]) -> str:
    """A box as SVG; the mouse pointer shows its class."""
    x1, y1, x2, y2 = box
    red, green, blue = (value | 96 for value in _colour(label + 1))  # 0 is black
    return (f'<rect x="{x1:g}" y="{y1:g}" width="{x2 - x1:g}" height="{y2 - y1:g}" fill="none" '
            f'pointer-events="all" stroke="rgb({red},{green},{blue})" stroke-width="2">'
            f'<title>{html.escape(name_label(label, classes))}</title></rect>')


def _draw_over(batch: Batch, classes: Sequence[str]) -> Iterator[str]:
    """The mask and the boxes of each image as SVG; "" if the batch has none. Further members, which
    are bytes, may have these names too."""
    _, _, height, width = _form(batch.image)
    masked = "mask_image" in batch and isinstance(batch["mask_image"], type(batch.image))
    boxed = "boxes" in batch and batch["boxes"].values.dtype == "f32"
    for i in range(len(batch)):
        drawn = _draw_mask(batch["mask_image"], i) if masked else ""
        if boxed:
            drawn += "".join(_draw_box(box, label, classes)
                             for box, label in zip(batch["boxes"][i], batch["box_label"][i])
                             if box[2] > box[0] and box[3] > box[1])
        yield drawn and (f'<svg viewBox="0 0 {width} {height}" style="grid-area: 1/1; width: 100%; '
                         f'height: 160px">{drawn}</svg>')


def _link(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def make_figure(png: bytes,
                lines: Sequence[str],
                details: str | None = None,
                over: str | None = None) -> str:
    """A picture with lines below it, and details for the mouse pointer. over: SVG over it."""
    size = "max-width: 240px"
    title, text = html.escape(details or ""), "<br>".join(map(html.escape, lines))
    return (f'<figure title="{title}" style="display: inline-block; {size}; margin: 4px; '
            'vertical-align: top; overflow-wrap: anywhere; font: 12px sans-serif">'
            f'<div style="display: grid"><img src="{_link(png)}" style="grid-area: 1/1; {size}; '
            f'height: 160px; object-fit: contain">{over or ""}</div>'
            f'<figcaption>{text}</figcaption></figure>')


def make_html(head: str, figures: Sequence[str]) -> Html:
    """A line of text above figures."""
    return Html(f'<div><p><code>{html.escape(head)}</code></p>{"".join(figures)}</div>')


def name_label(label: Any, classes: Sequence[str]) -> str:
    """The class of a label, or the label."""
    known = isinstance(label, int) and 0 <= label < len(classes)
    return classes[label] if known else str(label)


def _caption(batch: Batch, classes: Sequence[str]) -> Iterator[list[str]]:
    """The lines below each image: label and crop."""
    mixed = "mix_label" in batch
    for i, (label, crop) in enumerate(zip(batch.label.tolist(), batch.geometry.tolist())):
        words = name_label(label, classes)
        if mixed:
            share, other = batch["mix_lambda"].tolist()[i], batch["mix_label"].tolist()[i]
            words = f"{share:.2f} {words}, {1 - share:.2f} {name_label(other, classes)}"
        width, height, x, y, crop_width, crop_height, hflip, vflip = crop
        flips = " hflip" * hflip + " vflip" * vflip
        yield [words, f"{crop_width} x {crop_height} at {x}, {y} of {width} x {height}{flips}"]


def batch_html(batch: Batch,
               head: str = "",
               classes: Sequence[str] = (),
               details: Sequence[str] = (),
               box_classes: Sequence[str] = ()) -> Html:
    """The first images of a batch, with labels, crops, boxes and masks. Only the batch's repr if
    its images are not on the host, in several parts, or of several sizes."""
    images = None if batch._lease is None or "image" not in batch else batch.image
    if images is None or images.ndim != 4 or images.device != "host" or images.dtype not in _DRAWN:
        return make_html(head or repr(batch), [])
    rows = itertools.zip_longest(make_pictures(images), _caption(batch, classes), details,
                                 itertools.islice(_draw_over(batch, box_classes), MOST_SHOWN))
    return make_html(head or repr(batch), [make_figure(*row) for row in rows if row[0]])
