# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share: images, the command, what is lacking here.

tests/python/CMakeLists.txt sets the environment: MILLRACE_LIBRARY, PYTHONPATH, MR_MAKE_FOLDER (makes a folder of images)
and MR_COMMAND (the command millrace).
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest


OLDEST = {"numpy": (1, 22), "torch": (1, 13), "torchvision": (0, 14)}


def module(name):
    """A module from outside; None if it is not here, cannot be opened, or is too old."""
    try:
        found = __import__(name)
    except (ImportError, OSError):
        return None
    return found if tuple(int(n) for n in re.findall(r"\d+", found.__version__)[:2]) >= OLDEST[name] else None


class FolderCase(unittest.TestCase):
    """Has a folder of images, self.images: 3 classes of 7 images each, some of which are PNG."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.images = os.path.join(folder.name, "images")
        subprocess.run([os.environ["MR_MAKE_FOLDER"], cls.images, "3", "7"], check=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)


def npy_bytes(path):
    """The elements of a .npy file, without NumPy."""
    with open(path, "rb") as file:
        content = file.read()
    return content[10 + int.from_bytes(content[8:10], "little"):]


def run_python(text, *arguments, **options):
    """A program in a process of its own."""
    return subprocess.run([sys.executable, "-B", "-c", text, *arguments], capture_output=True, text=True, timeout=60,
                          check=False, **options)


def main():
    """Run the file's tests; exit 77 if all of them are skipped."""
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun > 0 and len(result.skipped) == result.testsRun else 0)
