# SPDX-License-Identifier: Apache-2.0
"""What is public has type hints and says what it does."""
import importlib.util
import inspect
import os

import pytest

import millrace as mr


def public_functions(module):
    """Each public function, method and property of a module, with its name, unless
    its signature is copied from another package."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for member, found in vars(value).items():
                function = found.fget if isinstance(found, property) else found
                is_protocol = member in ("__dlpack__", "__dlpack_device__", "__buffer__",
                                         "__array_interface__", "__getitem__")
                if inspect.isfunction(function) and not hasattr(function, "__signature__") and (
                        is_protocol or member == "__init__" or not member.startswith("_")):
                    yield f"{name}.{member}", function


def public_classes(module):
    return [(name, value) for name in module.__all__
            if inspect.isclass(value := getattr(module, name))]


MODULES = [mr]
if all(importlib.util.find_spec(name) for name in ("numpy", "torch", "torchvision")):
    try:
        import millrace.torch
        MODULES.append(millrace.torch)
        if importlib.util.find_spec("timm"):
            import millrace.timm
            MODULES.append(millrace.timm)
    except (ImportError, OSError):
        pass
FUNCTIONS = dict(pair for module in MODULES for pair in public_functions(module))


def test_functions_were_found():
    assert len(FUNCTIONS) > 50


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_hints(name):
    signature = inspect.signature(FUNCTIONS[name])
    for parameter in signature.parameters.values():
        if parameter.name != "self":
            assert parameter.annotation is not parameter.empty, parameter.name
    assert signature.return_annotation is not signature.empty


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.endswith(".__init__")])
def test_functions_say_what_they_do(name):
    assert len(FUNCTIONS[name].__doc__ or "") > 10


@pytest.mark.parametrize("name, value",
                         [pair for module in MODULES for pair in public_classes(module)])
def test_classes_say_what_they_are(name, value):
    assert len(vars(value).get("__doc__") or "") > 10


def test_type_checkers_may_read_the_package():
    assert os.path.exists(os.path.join(os.path.dirname(mr.__file__), "py.typed"))


def test_public_names_exist_once():
    for module in MODULES:
        assert len(set(module.__all__)) == len(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
