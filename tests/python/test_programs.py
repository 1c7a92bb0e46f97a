# SPDX-License-Identifier: Apache-2.0
"""Programs for torch's DataLoader train with millrace's after a few of their lines were changed."""
import os
import warnings

import pytest

from support import module

if not (module("torch") and module("torchvision")):
    pytest.skip("torch and torchvision are not both here, or too old", allow_module_level=True)

import torch

from millrace.torch import explain

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
IMPORT = ("import torch.utils.data\n",
          "import torch.utils.data; from millrace.torch import DataLoader\n")
LOADERS = ("torch.utils.data.DataLoader(", "DataLoader(")


@pytest.fixture(scope="module")
def data(make_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for part, n in (("train", 30), ("val", 10)):
        make_folder(2, n, folder / part)
    return str(folder)


@pytest.fixture
def run_changed(data):
    """Runs a program after these replacements, which change at most so many lines, and returns its
    loaders.
    """
    def run(name, changes, most_lines):
        with open(os.path.join(PROGRAMS, name), encoding="utf-8") as file:
            text = file.read()
        changed = text
        for old, new in changes:
            assert old in changed
            changed = changed.replace(old, new)
        lines = sum(a != b for a, b in zip(text.splitlines(), changed.splitlines()))
        assert len(text.splitlines()) == len(changed.splitlines())
        assert lines <= most_lines
        program = {"__name__": "program"}
        exec(compile(changed, name, "exec"), program)
        torch.manual_seed(1)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="millrace:|.*are held at once")
            return program["main"](data, 32, 2)

    return run


def expect_native(loaders, *words):
    for loader in loaders:
        found = explain(loader)
        assert found["native"], found["reason"]
    for word in words:
        assert word in explain(loaders[0])["transform"]


def test_imagenet_main(run_changed):
    loaders = run_changed("imagenet_main.py", [IMPORT, LOADERS], 4)
    expect_native(loaders, "random_resized_crop(32", "hflip(0.5)")


def test_classification_train(run_changed):
    changes = [
        IMPORT, LOADERS, ("PresetTrain(crop_size=size)", "PresetTrain(crop_size=size).transforms"),
        ("resize_size=size * 8 // 7)", "resize_size=size * 8 // 7).transforms")
    ]
    loaders = run_changed("classification_train.py", changes, 5)
    expect_native(loaders, "random_resized_crop(32", "trivial_augment_wide(")
