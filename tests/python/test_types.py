# SPDX-License-Identifier: Apache-2.0
"""Type checkers know the options, and pass on the package and on an example."""
import ctypes
import glob
import importlib.util
import os
import re
import subprocess
import sys
import typing

import pytest

import millrace as mr
from millrace import _abi, _library, _option_types, _options

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.dirname(mr.__file__)
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "torchvision", "timm"))
# What the package converts to the library's texts.
CONVERTED = {
    "dtype": "Dtype | None", "device": "Device | None", "label_device": "Device | None",
    "devices": "Iterable[Device] | None", "affinity_cpus": "Iterable[int] | None",
    "weight_values": "Iterable[float] | None",
}


def annotation(name):
    """The annotation of an option, from the library's answer to a text that is no value."""
    if name in CONVERTED:
        return CONVERTED[name]
    options, _ = _options.make_options({})
    error = _abi.mr_error()
    if _library.lib.mr_loader_options_set(options, name.encode(), b"?", error) == _abi.OK:
        return "str | os.PathLike[str] | None"
    text = error.text.decode()
    if "true, false" in text:
        return "bool | None"
    if "number of bytes" in text:
        return "int | str | None"
    if "not a number" in text:
        words = re.findall("nor '(?!default)(.*?)'", text)
        return f"int | Literal['{words[0]}'] | None" if words else "int | None"
    words = text.partition("none of ")[2].split(", ")
    values = ", ".join(word if word.isdigit() else f"'{word}'" for word in words)
    return f"Literal[{values}] | None"


def test_the_options_are_the_librarys():
    lengths = {"n_" + name for name in _abi.LISTS}
    names = [name for name in _options.option_names() if name not in lengths]
    found = mr.LoaderOptions.__annotations__
    assert {name: value.__forward_arg__
            for name, value in found.items()} == {name: annotation(name)
                                                  for name in names}
    assert list(found) == names


def test_the_names_of_dtypes_are_the_librarys():
    names, *_ = typing.get_args(_option_types.Dtype)
    with pytest.raises(mr.InvalidError) as error:
        _options.make_options({"dtype": "?"})
    words = str(error.value).partition("none of ")[2].split(", ")
    found = {}
    for name in typing.get_args(names):
        options, _kept = _options.make_options({"dtype": name})
        found.setdefault(_options.read_option(ctypes.addressof(options), "dtype"), name)
    assert found == {word: word for word in words}


def paths():
    """What is checked: without torch and timm, only what does not import them."""
    examples = [os.path.join(HERE, "typed_example.py")]
    if not HAS_TORCH:
        return glob.glob(os.path.join(PACKAGE, "*.py")) + examples
    examples += [os.path.join(HERE, f"typed_{name}_example.py") for name in ("torch", "timm")]
    return [PACKAGE, *examples]


def check(*command):
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_mypy_passes():
    pytest.importorskip("mypy")
    check(sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *paths())


def test_pyright_passes():
    pytest.importorskip("pyright")
    check(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *paths())
