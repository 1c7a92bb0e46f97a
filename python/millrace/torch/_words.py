# SPDX-License-Identifier: Apache-2.0
"""Words and numbers of a transform's text, as far as they come from Python objects."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator


class Unknown(Exception):
    """Something that millrace does not do as torch does; str() is the reason."""


@contextlib.contextmanager
def foresee(what: str) -> Iterator[None]:
    """What torch takes and the code inside does not expect is Unknown too, never an error of the program's."""
    try:
        yield
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise Unknown(
            f"{what} that millrace cannot read ({type(error).__name__}: {error})") from error


def number(value: Any) -> str:
    text = repr(float(value))
    if "e" in text or "n" in text:
        text = f"{float(value):.20f}".rstrip("0") + "0"
    return text[:-2] if text.endswith(".0") else text


def join(values: Iterable[Any]) -> str:
    return ":".join(number(v) for v in values)


def size_of(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return ":".join(str(int(v)) for v in value)


def filter_of(interpolation: Any) -> str:
    """Of an interpolation of torchvision."""
    word = getattr(interpolation, "value", interpolation)
    if word not in ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"):
        raise Unknown(f"interpolation {word}")
    return word


def needs(condition: bool, name: str) -> None:
    """Raise Unknown with that reason unless the condition holds."""
    if not condition:
        raise Unknown(name)


def is_timm(thing: Any, name: str) -> bool:
    """Is it of timm's own class with that name, "module.Class" in timm.data?"""
    return f"{type(thing).__module__}.{type(thing).__name__}" == f"timm.data.{name}"
