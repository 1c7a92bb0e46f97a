# SPDX-License-Identifier: Apache-2.0
"""Options by name. The library reads and writes their texts."""

from __future__ import annotations

import ctypes
import operator
import os
from typing import Any, Callable, Iterable, Iterator, Mapping

from . import _abi
from ._errors import InvalidError
from ._library import check, encode, lib

# The conversion of the items of each list.
_CONVERT: dict[str, Callable[[Any], Any]] = {
    "devices": lambda device: os.fsencode(str(device)), "affinity_cpus": int,
    "weight_values": float,
}


def unsigned(name: str, value: Any, n_bits: int = 64) -> int:
    """An int for a uint64_t or uint32_t of C. ctypes would take the low bits of any int, and
    refuse NumPy's."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if not 0 <= number < 1 << n_bits:
        raise InvalidError(f"{name} {number} is not from 0 to {(1 << n_bits) - 1}")
    return number


def _text_of(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if name == "num_workers" and value == 0:  # no workers, as in torch; in C zero is the default
        return "none"
    if isinstance(value, type):  # numpy.float32
        return value.__name__
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _set_list(options: ctypes.Array[ctypes.c_char], name: str, values: Iterable[Any]) -> Any:
    offset, kind, length = _abi.LISTS[name]
    items = [_convert_item(name, i, value) for i, value in enumerate(values)]
    array: Any = (kind * len(items))(*items)
    ctypes.c_void_p.from_buffer(options, offset).value = ctypes.addressof(array)
    length.from_buffer(options, offset + ctypes.sizeof(ctypes.c_void_p)).value = len(items)
    return array


def _convert_item(name: str, i: int, value: Any) -> Any:
    if value is None:
        raise TypeError(f"{name}[{i}] is None; leave it out, or use {name}=None for the default")
    return _CONVERT[name](value)


def _get_list(options: int, name: str) -> list[Any]:
    offset, kind, length = _abi.LISTS[name]
    n = length.from_address(options + offset + ctypes.sizeof(ctypes.c_void_p)).value
    values = ctypes.POINTER(kind).from_address(options + offset)[:n] if n else []
    return [os.fsdecode(v) if isinstance(v, bytes) else v for v in values]


def make_options(values: Mapping[str, Any]) -> tuple[ctypes.Array[ctypes.c_char], list[Any]]:
    """Options of a loader, and the objects that must live until the loader is made. A value of
    None is the default."""
    size, error, kept = ctypes.c_int64(), _abi.mr_error(), []
    lib.mr_constant(b"sizeof(mr_loader_options)", size)
    options = ctypes.create_string_buffer(size.value)
    ctypes.c_size_t.from_buffer(options).value = size.value  # struct_size; zeros are the defaults
    for name, value in values.items():
        if value is None:
            continue
        if name in _abi.LISTS:
            if isinstance(value, str):
                raise InvalidError(f"{name} is a list, not the text {value!r}; use [{value!r}]")
            kept.append(_set_list(options, name, value))
            continue
        text = ctypes.create_string_buffer(encode(_text_of(name, value)))
        kept.append(text)
        check(lib.mr_loader_options_set(options, name.encode(), text, error), error)
    return options, kept


def find_advice(values: Mapping[str, Any], error: _abi.mr_error) -> str:
    """What to do about a refused option, for the end of the message; "" if there is no advice."""
    text = error.text.decode(errors="replace")
    asks_for_gpu = "cuda" in f"{values.get('device')} {values.get('devices')}".lower()
    if asks_for_gpu and (error.status == _abi.ERR_NO_DEVICE or "no CUDA" in text):
        return '; use device="host", or device="auto" for a GPU only if there is one'
    if text.startswith("rank ") and values.get("world_size") is None:
        return "; set world_size to the number of ranks"
    return ""


def option_names() -> Iterator[str]:
    """Names of a loader's options, from the library."""
    i = 0
    while (name := lib.mr_loader_option_name(i)) is not None:
        yield name.decode()
        i += 1


def read_option(options: int, name: str) -> Any:
    """An option's value: bool, int, list or text. options is the address of an
    mr_loader_options."""
    if name in _abi.LISTS:
        return _get_list(options, name)
    error, needed = _abi.mr_error(), ctypes.c_size_t()
    check(lib.mr_loader_options_get(options, name.encode(), None, 0, needed, error), error)
    buffer = ctypes.create_string_buffer(needed.value + 1)
    check(lib.mr_loader_options_get(options, name.encode(), buffer, len(buffer), needed, error),
          error)
    text = os.fsdecode(buffer.value)
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


def read_options(options: int) -> dict[str, Any]:
    """All options with their values, except the lengths of lists."""
    lengths = {"n_" + name for name in _abi.LISTS}
    return {name: read_option(options, name) for name in option_names() if name not in lengths}
