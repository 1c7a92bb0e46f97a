# SPDX-License-Identifier: Apache-2.0
"""Options by name: the library reads and writes their texts, so the package has no list of them."""

from __future__ import annotations

import ctypes
import operator
import os
from typing import Any, Iterable, Iterator

from . import _abi
from ._errors import InvalidError
from ._library import check, lib

# Arrays have no text. Each is a field, with its length in the field n_<name>.
_LISTS: dict[str, tuple[Any, Any]] = {
    "devices": (ctypes.c_char_p, lambda device: os.fsencode(str(device))),
    "affinity_cpus": (ctypes.c_int32, int),
    "weight_values": (ctypes.c_double, float),
}


def unsigned(name: str, value: Any) -> int:
    """A whole number for a u64 of C. ctypes itself would keep the low 64 bits of any int, and refuse NumPy's."""
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise InvalidError(f"{name} {number} is not from 0 to {(1 << 64) - 1}")
    return number


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if name == "num_workers" and value == 0:  # as in torch; in the library zero is the default
        return "none"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _set_list(options: _abi.mr_loader_options, name: str, values: Iterable[Any]) -> Any:
    kind, convert = _LISTS[name]
    items = [convert(v) for v in values]
    array: Any = (kind * len(items))(*items)
    setattr(options, name, array)
    setattr(options, "n_" + name, len(items))
    return array


def make_options(values: dict[str, Any]) -> tuple[_abi.mr_loader_options, list[Any]]:
    """Options of a loader, and what must live until the loader is made. A value of None is the default."""
    options, error, kept = _abi.make(_abi.mr_loader_options), _abi.mr_error(), []
    for name, value in values.items():
        if value is None:
            continue
        if name in _LISTS:
            if isinstance(value, str):
                raise InvalidError(f"{name} is a list, not the text {value!r}")
            kept.append(_set_list(options, name, value))
            continue
        text = ctypes.create_string_buffer(os.fsencode(_text_of(name, value)))
        kept.append(text)
        check(lib.mr_loader_options_set(options, name.encode(), text, error), error)
    return options, kept


def option_names() -> Iterator[str]:
    """Names of a loader's options, as the library has them."""
    i = 0
    while (name := lib.mr_loader_option_name(i)) is not None:
        yield name.decode()
        i += 1


def _read(options: Any, name: str) -> Any:
    error, needed = _abi.mr_error(), ctypes.c_size_t()
    check(lib.mr_loader_options_get(options, name.encode(), None, 0, needed, error), error)
    text = ctypes.create_string_buffer(needed.value + 1)
    check(lib.mr_loader_options_get(options, name.encode(), text, len(text), needed, error), error)
    return os.fsdecode(text.value)


def _value_of(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


def read_options(options: Any) -> dict[str, Any]:
    """All options with their values: bool, int or the option's word. options is a POINTER(mr_loader_options)."""
    found: dict[str, Any] = {}
    for name in option_names():
        if name in _LISTS:
            n, values = getattr(options.contents, "n_" + name), getattr(options.contents, name)
            found[name] = [os.fsdecode(v) if isinstance(v, bytes) else v for v in values[:n]] if n else []
        elif name not in {"n_" + other for other in _LISTS}:
            found[name] = _value_of(_read(options, name))
    return found

