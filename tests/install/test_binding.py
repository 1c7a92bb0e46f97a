#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_binding.py LIBRARY MAKE_FOLDER: reads an epoch through nothing but the library's symbols, as
a binding does.

No macro and no layout of an options struct is copied here: numbers come from mr_constant(), options
are set by name.
"""

import ctypes
import os
import subprocess
import sys
import tempfile


def constant(lib, name):
    value = ctypes.c_int64()
    if lib.mr_constant(name.encode(), ctypes.byref(value)) != 0:
        raise KeyError(name)
    return value.value


def struct(lib, name):
    """What MR_..._INIT makes: zeros, and the size in the first field."""
    size = constant(lib, f"sizeof({name})")
    made = ctypes.create_string_buffer(size)
    ctypes.c_size_t.from_buffer(made).value = size
    return made


def check(status, error):
    if status < 0:
        raise RuntimeError(error.raw[16:].split(b"\0")[0].decode())  # the text of mr_error


def read_epoch(lib, spec, **options):
    error = ctypes.create_string_buffer(constant(lib, "sizeof(mr_error)"))
    made = struct(lib, "mr_loader_options")
    texts = {name: value.encode()
             for name, value in options.items()}  # they must outlive mr_loader_create()
    for name, text in texts.items():
        check(lib.mr_loader_options_set(made, name.encode(), text, error), error)
    dataset, loader, batch = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(lib.mr_dataset_open(spec.encode(), None, ctypes.byref(dataset), error), error)
    check(lib.mr_loader_create(dataset, None, made, ctypes.byref(loader), error), error)
    forever, indices = ctypes.c_uint32(constant(lib, "MR_FOREVER")), []
    while lib.mr_loader_next(loader, forever, ctypes.byref(batch)) == constant(lib, "MR_OK"):
        n = lib.mr_batch_size(batch)
        indices += (ctypes.c_int64 * n).from_address(lib.mr_batch_data(batch, b"index"))
        lib.mr_batch_release(batch)
    lib.mr_loader_destroy(loader)
    lib.mr_dataset_destroy(dataset)
    return indices


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.mr_batch_data.restype = ctypes.c_void_p
    with tempfile.TemporaryDirectory() as folder:
        images = os.path.join(folder, "images")
        subprocess.run([sys.argv[2], images, "2", "5"], check=True)
        assert read_epoch(lib, images, batch_size="4", num_workers="none",
                          no_shuffle="true") == list(range(10))
        assert sorted(read_epoch(lib, images, batch_size="3", num_workers="2",
                                 device="host:0")) == list(range(10))
        try:
            read_epoch(lib, images, bacth_size="4")
            raise AssertionError("an unknown option is accepted")
        except RuntimeError as error:
            assert "did you mean 'batch_size'?" in str(error), error


main()
