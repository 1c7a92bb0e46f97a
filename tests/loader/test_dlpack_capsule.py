#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_dlpack_capsule.py LIBMILLRACE: capsules by ctypes, with mr_dlpack_capsule_destroy().

A capsule that was not consumed frees its batch's slot when Python collects it. One that was
consumed, and renamed by that, does not: its consumer calls the tensor's deleter.
"""
import ctypes
import os
import sys
import tempfile

ERR_STATE, FOREVER = -8, 0xFFFFFFFF
# The function that exports each struct, and the offset of its deleter.
KINDS = {
    b"dltensor": ("mr_batch_to_dlpack", 56),
    b"dltensor_versioned": ("mr_batch_to_dlpack_versioned", 16)
}
USED = {name: b"used_" + name for name in KINDS}  # a capsule keeps only the pointer to its name

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


def must(status):
    if status != 0:
        sys.exit(f"FAILED: status {status}")


class Loader:
    def __init__(self, library, spec):
        self.library, self.dataset, self.handle = library, ctypes.c_void_p(), ctypes.c_void_p()
        must(library.mr_dataset_open(spec, None, ctypes.byref(self.dataset), None))
        must(library.mr_loader_create(self.dataset, None, None, ctypes.byref(self.handle), None))

    def capsule(self, name):
        """The next batch's data as a capsule that alone holds the batch, with its tensor; None if
        all are lent.
        """
        batch, tensor = ctypes.c_void_p(), ctypes.c_void_p()
        status = self.library.mr_loader_next(self.handle, FOREVER, ctypes.byref(batch))
        if status == ERR_STATE:
            return None
        must(status)
        must(getattr(self.library, KINDS[name][0])(batch, b"data", None, ctypes.byref(tensor)))
        capsule = python.PyCapsule_New(tensor, name, self.library.mr_dlpack_capsule_destroy)
        must(self.library.mr_batch_release(batch))
        return capsule, tensor

    def take_all(self, name):
        """Capsules until all slots are lent."""
        held = []
        while (pair := self.capsule(name)) is not None:
            held.append(pair)
        return held

    def close(self):
        self.library.mr_loader_destroy(self.handle)
        self.library.mr_dataset_destroy(self.dataset)


def main(path):
    library = ctypes.CDLL(path)
    library.mr_dataset_destroy.argtypes = library.mr_loader_destroy.argtypes = [ctypes.c_void_p]
    with tempfile.TemporaryDirectory() as folder:
        records = os.path.join(folder, "records")
        with open(records, "wb") as file:
            file.truncate(64 * 4096)
        for name, (_, deleter_off) in KINDS.items():
            loader = Loader(library, f"records:{records}?bytes=1".encode())
            held = loader.take_all(name)
            n_slots = len(held)
            assert n_slots >= 2, n_slots
            held.clear()  # they were not consumed
            held = loader.take_all(name)
            assert len(held) == n_slots, (name, len(held), n_slots)
            tensors = [tensor for _, tensor in held]
            for capsule, _ in held:
                must(python.PyCapsule_SetName(capsule, USED[name]))
            del capsule
            held.clear()
            assert loader.capsule(name) is None, (name, "a consumed tensor was freed")
            for tensor in tensors:
                deleter = ctypes.c_void_p.from_address(tensor.value + deleter_off).value
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(tensor)
            assert len(loader.take_all(name)) == n_slots, name
            loader.close()
    print("ok")


main(sys.argv[1])
