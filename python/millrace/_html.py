# SPDX-License-Identifier: Apache-2.0
"""Batches as HTML for notebooks.

PNG files are made with zlib, which Python has, so pictures need neither Pillow nor Matplotlib.
"""

from __future__ import annotations

import array
import base64
import ctypes
import html
import math
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, Sequence

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


def list_arrays(batch: Batch) -> list[tuple[str, str, str]]:
    """The names of the arrays of pictures, of their geometry and of their masks: of each view, or
    of the image."""
    views = [name[:-len(".geometry")] for name in batch.keys() if name.endswith(".geometry")]
    return [(view, view + ".geometry", view + ".mask_image")
            for view in views] or [("image", "geometry", "mask_image")]


def _form(images: Array) -> tuple[bool, int, int, int]:
    """Are images [..., C, H, W]? Otherwise they are [..., H, W, C]. And C, H, W."""
    first, second, last = images.shape[-3:]
    return (True, first, second, last) if first <= last else (False, last, first, second)


def _split(rows: Array, i: int, ndim: int) -> list[bytes]:
    """The bytes of each picture of a row. ndim: of an array with one picture in a row."""
    n, size = rows.shape[1] if rows.ndim > ndim else 1, rows.strides[rows.ndim - ndim]
    return [ctypes.string_at(rows._data + i * rows.strides[0] + k * size, size) for k in range(n)]


def make_pictures(images: Array, i: int) -> list[bytes]:
    """PNG files of the pictures of a row."""
    planar, n_channels, height, width = _form(images)
    return [make_png(_to_u8(raw, images.dtype), height, width, n_channels, planar)
            for raw in _split(images, i, 4)]


def _draw_mask(masks: Array, i: int, k: int) -> str:
    """The mask of a picture as SVG."""
    raw, (height, width) = _split(masks, i, 3)[k], masks.shape[-2:]
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


def _draw_over(batch: Batch, images: Array, masks: str, i: int, k: int,
               classes: Sequence[str]) -> str:
    """The mask and the boxes of a picture as SVG; "" if the batch has none. Further members, which
    are bytes, may have these names too."""
    _, _, height, width = _form(images)
    masked = masks in batch and isinstance(batch[masks], type(images))
    drawn = _draw_mask(batch[masks], i, k) if masked else ""
    if "boxes" in batch and batch["boxes"].values.dtype == "f32":
        drawn += "".join(_draw_box(box, label, classes)
                         for box, label in zip(batch["boxes"][i], batch["box_label"][i])
                         if box[2] > box[0] and box[3] > box[1])
    return drawn and (f'<svg viewBox="0 0 {width} {height}" style="grid-area: 1/1; width: 100%; '
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


def _name_row(batch: Batch, i: int, classes: Sequence[str]) -> str:
    words = name_label(batch.label.tolist()[i], classes)
    if "mix_label" not in batch:
        return words
    share, other = batch["mix_lambda"].tolist()[i], batch["mix_label"].tolist()[i]
    return f"{share:.2f} {words}, {1 - share:.2f} {name_label(other, classes)}"


def _describe(crop: Sequence[int]) -> str:
    width, height, x, y, crop_width, crop_height, hflip, vflip = crop
    flips = " hflip" * hflip + " vflip" * vflip
    return f"{crop_width} x {crop_height} at {x}, {y} of {width} x {height}{flips}"


def batch_html(batch: Batch,
               head: str = "",
               classes: Sequence[str] = (),
               details: Sequence[dict[str, str]] = (),
               box_classes: Sequence[str] = ()) -> Html:
    """The first images of a batch, with labels, crops, boxes and masks, and all views of them side
    by side. Only the batch's repr if its images are not on the host, in several parts, or of
    several sizes. details: of each sample, by the names of pictures that explain() gives."""
    figures = []
    arrays = [] if batch._lease is None else list_arrays(batch)
    if not all(_is_drawn(batch, name) for name, _, _ in arrays):
        arrays = []
    for i in range(min(len(batch), MOST_SHOWN) if arrays else 0):
        texts = details[i] if i < len(details) else {}
        for name, geometry, masks in arrays:
            images, crops = batch[name], batch[geometry].tolist()[i]
            for k, png in enumerate(make_pictures(images, i)):
                picture = f"{name}#{k}" if images.ndim > 4 else name
                lines = [_name_row(batch, i, classes),
                         _describe(crops[k] if images.ndim > 4 else crops)]
                if picture != "image":
                    lines.insert(1, picture)
                figures.append(make_figure(png, lines, texts.get(picture), _draw_over(
                    batch, images, masks, i, k, box_classes)))
    return make_html(head or repr(batch), figures)


def _is_drawn(batch: Batch, name: str) -> bool:
    images = batch[name] if name in batch else None
    return (images is not None and images.ndim in (4, 5) and 0 not in images.shape
            and images.device == "host" and images.dtype in _DRAWN)
