# SPDX-License-Identifier: Apache-2.0
"""Writes values of Python objects as words and numbers of a transform's text."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Iterable, Iterator


class Unknown(Exception):
    """Something that millrace does not do in the same way as torch; str() is the reason."""


@contextlib.contextmanager
def foresee(what: str) -> Iterator[None]:
    """Turn errors of the code inside into Unknown: torch may accept objects that it does not
    expect."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
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


_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # Pillow's numbers


def filter_of(interpolation: Any) -> str:
    """The word for an interpolation of torchvision, which may also be a word or Pillow's number.
    On PIL images "nearest-exact" is "nearest"."""
    word = getattr(interpolation, "value", interpolation)
    word = "nearest" if word == "nearest-exact" else word
    if word in range(len(_FILTERS)):
        word = _FILTERS[int(word)]
    if word not in _FILTERS:
        raise Unknown(f"interpolation {word}")
    return word


def find_module(name: str) -> Any:
    """A module; None if this torchvision does not have it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def needs(condition: bool, name: str) -> None:
    """Raise Unknown with this reason unless the condition is true."""
    if not condition:
        raise Unknown(name)


def is_timm(thing: Any, name: str) -> bool:
    """Is it an object of this class of timm.data, named "module.Class"?"""
    return f"{type(thing).__module__}.{type(thing).__name__}" == f"timm.data.{name}"
