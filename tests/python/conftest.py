# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the package's tests, and how pytest ends: 77 for ctest if every test was skipped.

tests/python/CMakeLists.txt sets the environment: MILLRACE_LIBRARY, PYTHONPATH, MR_MAKE_FOLDER
(makes a folder of images) and MR_COMMAND (the command millrace).
"""
import contextlib
import os
import subprocess

import pytest

import millrace as mr

from support import module

ALL_SKIPPED = 77


def pytest_sessionfinish(session):
    counts = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if counts.get("skipped") and not any(
            counts.get(outcome) for outcome in ("passed", "failed", "error")):
        session.exitstatus = ALL_SKIPPED


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory):
    """Makes a folder of images, some of which are PNG, and returns its path: make_folder(classes,
    images_of_each).
    """
    def make(n_classes, n_images, where=None):
        folder = str(where or tmp_path_factory.mktemp("data") / "images")
        subprocess.run([os.environ["MR_MAKE_FOLDER"], folder,
                        str(n_classes),
                        str(n_images)],
                       check=True)
        return folder

    return make


@pytest.fixture(scope="session")
def images(make_folder):
    """A folder of 3 classes of 7 images each. No test changes it."""
    return make_folder(3, 7)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """PNG photographs of many sizes with masks beside them: their folder, and the pairs' paths."""
    image, numpy = pytest.importorskip("PIL.Image"), module("numpy")
    if not numpy:
        pytest.skip("NumPy is not here, or too old")
    folder, random = tmp_path_factory.mktemp("photos"), numpy.random.default_rng(11)
    pairs = []
    for i in range(12):
        size = tuple(int(side) for side in random.integers(30, 90, 2))
        pairs.append([os.path.join(folder, kind, "a", f"{i:02}.png") for kind in "xy"])
        for path, channels in zip(pairs[-1], ((3, ), ())):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            pixels = random.integers(0, 256, size + channels, dtype=numpy.uint8)
            image.fromarray(pixels).save(path)
    return f"imagefolder:{folder}/x?extra=seg:65536:.png:{folder}/y", pairs


@pytest.fixture
def make_loader(images):
    """Makes loaders, by default of images. They are closed at the test's end."""
    with contextlib.ExitStack() as stack:
        def make(transform="eval:20:16", dataset=images, **options):
            options = {"batch_size": 4, "num_workers": 2, **options}
            return stack.enter_context(mr.Loader(dataset, transform, **options))

        yield make
