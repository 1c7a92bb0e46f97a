# SPDX-License-Identifier: Apache-2.0
"""What several files of tests use beside the fixtures of conftest.py."""
import array
import ctypes
import io
import re
import subprocess
import sys
import tarfile

from millrace import _library

OLDEST = {"numpy": (1, 22), "torch": (1, 13), "torchvision": (0, 14)}

is_capsule = ctypes.pythonapi.PyCapsule_IsValid
is_capsule.argtypes = [ctypes.py_object, ctypes.c_char_p]


def module(name):
    """An outside module; None if it is not installed, cannot be imported, or is too old."""
    try:
        found = __import__(name)
    except (ImportError, OSError):
        return None
    return found if tuple(
        int(n) for n in re.findall(r"\d+", found.__version__)[:2]) >= OLDEST[name] else None


def n_lent(loader):
    return _library.lib.mr_loader_n_lent(loader._handle)


def indices(batches):
    return [i for batch in batches for i in batch.index.tolist()]


def npy_bytes(path):
    """The elements of a .npy file, without NumPy."""
    with open(path, "rb") as file:
        content = file.read()
    return content[10 + int.from_bytes(content[8:10], "little"):]


def write_npy(path, values):
    """What numpy.save() writes of a list of floats, without NumPy."""
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117) + b"\n" +
                   array.array("d", values).tobytes())
    return path


def write_tar(path, members):
    """A tar file of these contents by name, in their order."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def run_python(text, *arguments, **options):
    """A program in a separate process."""
    return subprocess.run([sys.executable, "-B", "-c", text, *arguments],
                          capture_output=True,
                          text=True,
                          timeout=60,
                          check=False,
                          **options)


def rows(batch, name, channels):
    """The rows of a ragged array, with their shapes."""
    numpy = module("numpy")
    flat, offsets, shapes = (numpy.asarray(batch[key])
                             for key in (name, name + ".offsets", "image.shape"))
    for offset, (height, width) in zip(offsets.tolist(), shapes.tolist()):
        shape = (channels, height, width) if channels else (height, width)
        yield flat[offset:offset + int(numpy.prod(shape))].reshape(shape)
