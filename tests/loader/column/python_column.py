# SPDX-License-Identifier: Apache-2.0
"""brightness.patch adds a column to the loader's C files only; Python and the command have it."""
import ast
import ctypes
import math
import os
import subprocess
import tempfile

import millrace

N, SIDE = 20, 8


def values(array, ctype):
    """All elements of an array that is dense and on the host."""
    n = math.prod(array.shape)
    return (ctype * n).from_address(array.__array_interface__["data"][0])


def read_npy(path, code):
    """The shape and the elements of a NumPy file of version 1."""
    with open(path, "rb") as file:
        content = file.read()
    end = 10 + int.from_bytes(content[8:10], "little")
    return ast.literal_eval(content[10:end].decode())["shape"], memoryview(content)[end:].cast(code)


def check_export(command, folder):
    """The command writes the column as a file of its own."""
    out = os.path.join(folder, "x")
    subprocess.run([command, "export", "--start", "thread", "--on-error", "zero", "--transform",
                    "none", "--out", out + ".npy", f"imagefolder:{folder}"], check=True)
    shape, pixels = read_npy(out + ".npy", "B")
    (n_rows, ), brightness = read_npy(out + ".brightness.npy", "f")
    assert shape[0] == n_rows == N, (shape, n_rows)
    per_image = len(pixels) // N
    for row, bright in enumerate(brightness):
        mean = sum(pixels[row * per_image:(row + 1) * per_image]) / per_image
        assert abs(bright - mean) < 1e-4, (bright, mean)


def make_folder(folder):
    """Image 3 is damaged: its row is a hole."""
    os.mkdir(os.path.join(folder, "class"))
    for i in range(N):
        pixels = bytes((7 * i + k) % 256 for k in range(SIDE * SIDE * 3))
        content = b"no image" if i == 3 else b"P6 %d %d 255\n" % (SIDE, SIDE) + pixels
        with open(os.path.join(folder, "class", f"{i:02}.ppm"), "wb") as file:
            file.write(content)


with tempfile.TemporaryDirectory() as folder:
    make_folder(folder)
    loader = millrace.Loader(f"imagefolder:{folder}", "none", batch_size=6, dtype="u8",
                             on_error="zero", start="thread")  # the helper is not patched
    n_samples = n_holes = 0
    for batch in loader:
        assert "brightness" in batch.keys()
        image = values(batch["image"], ctypes.c_uint8)
        brightness = values(batch["brightness"], ctypes.c_float)
        mask = values(batch["mask"], ctypes.c_uint8)
        per_image = len(image) // len(brightness)
        for row, bright in enumerate(brightness):
            mean = sum(image[row * per_image:(row + 1) * per_image]) / per_image
            assert abs(bright - mean) < 1e-4, (bright, mean)
            assert mask[row] == (bright != 0)
            n_holes += not mask[row]
        n_samples += len(brightness)
        batch.release()
    assert (n_samples, n_holes) == (N, 1), (n_samples, n_holes)
    if "MR_COMMAND" in os.environ:
        check_export(os.environ["MR_COMMAND"], folder)
