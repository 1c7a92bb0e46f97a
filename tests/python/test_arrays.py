# SPDX-License-Identifier: Apache-2.0
"""Arrays of a batch by every protocol, and how long the batch's slot is held by whoever uses one."""
import ctypes
import gc
import sys
import unittest

import millrace as mr
from millrace import _loader

import support

numpy, torch = support.module("numpy"), support.module("torch")

is_valid = ctypes.pythonapi.PyCapsule_IsValid
is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]


def n_lent(loader):
    return _loader.lib.mr_loader_n_lent(loader._handle)


class ArrayCase(support.FolderCase):
    def loader(self, **options):
        made = mr.Loader(self.images, "eval:20:16", **{"batch_size": 4, "num_workers": 1, "no_shuffle": True, **options})
        self.addCleanup(made.close)
        return made


class FormTest(ArrayCase):
    def test_shapes_and_types(self):
        expected = {
            "image": ("f32", (4, 3, 16, 16), (3072, 1024, 64, 4)), "label": ("i64", (4,), (8,)),
            "index": ("i64", (4,), (8,)), "mask": ("u8", (4,), (1,)), "geometry": ("i32", (4, 8), (32, 4)),
        }
        batch = self.loader(dtype="f32").next()
        self.assertEqual(batch.keys(), list(expected))
        self.assertEqual(list(batch), list(expected))
        for name, (dtype, shape, strides) in expected.items():
            array = batch[name]
            self.assertEqual((array.name, array.dtype, array.shape, array.strides), (name, dtype, shape, strides))
            self.assertEqual((array.device, array.ndim, len(array)), ("host", len(shape), 4))
            self.assertEqual(array.nbytes, len(array.tobytes()))
            self.assertIs(array, batch[name])
            self.assertIn(name, repr(array))
        self.assertIs(batch.image, batch["image"])
        self.assertNotIn("data", batch)
        self.assertRaisesRegex(KeyError, "no array 'data', only image, label", lambda: batch.data)
        self.assertEqual((batch.size, batch.n_valid, batch.epoch, batch.number, batch.n_parts), (4, 4, 0, 0, 1))

    def test_buffers_have_format_and_shape(self):
        batch = self.loader(dtype="f32").next()
        view = batch.image.__buffer__(0)
        self.assertEqual((view.format, view.shape, view.readonly), ("f", (4, 3, 16, 16), False))
        self.assertEqual(view.tobytes(), batch.image.tobytes())
        self.assertEqual(batch.label.tolist(), [0, 0, 0, 0])
        self.assertEqual(len(batch.geometry.tolist()[3]), 8)
        if sys.version_info >= (3, 12):
            self.assertEqual(memoryview(batch.index).tolist(), [0, 1, 2, 3])
        half = self.loader(dtype="bf16").next().image
        self.assertRaisesRegex(BufferError, "bf16", half.__buffer__, 0)
        self.assertFalse(hasattr(half, "__array_interface__"))

    def test_an_empty_batch_has_empty_arrays(self):
        order = {"tail": "exact", "world_size": 20, "rank": 19, "batch_size": 1}
        batches = [(batch.size, batch.label.tolist(), batch.image.shape[0], batch.image.tobytes() == b"")
                   for batch in self.loader(**order)]
        self.assertEqual(batches[0][:3], (1, [2], 1))
        self.assertEqual(batches[1:], [(0, [], 0, True)])

    def test_capsules_have_the_version_that_is_asked_for(self):
        batch = self.loader().next()
        for options, name in (({}, b"dltensor"), ({"max_version": None}, b"dltensor"),
                              ({"max_version": (0, 8)}, b"dltensor"), ({"max_version": (1, 0)}, b"dltensor_versioned"),
                              ({"max_version": (2, 3)}, b"dltensor_versioned"), ({"copy": False}, b"dltensor"),
                              ({"dl_device": (1, 0), "stream": None}, b"dltensor")):
            self.assertTrue(is_valid(batch.image.__dlpack__(**options), name), options)
        self.assertEqual(batch.image.__dlpack_device__(), (1, 0))
        self.assertRaises(BufferError, batch.image.__dlpack__, dl_device=(2, 0))

    @unittest.skipUnless(numpy, "numpy is not here")
    def test_numpy_sees_the_same_memory(self):
        for dtype, name in (("u8", "uint8"), ("f32", "float32"), ("f16", "float16")):
            batch = self.loader(dtype=dtype).next()
            image = numpy.asarray(batch.image)
            self.assertEqual((image.dtype.name, image.shape), (name, batch.image.shape))
            self.assertEqual(image.tobytes(), batch.image.tobytes())
            image[0, 0, 0, 0] = 7
            self.assertEqual(numpy.asarray(batch.image)[0, 0, 0, 0], 7)
            for way in ({}, {"copy": True}):
                if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0" or not way:
                    self.assertEqual(numpy.from_dlpack(batch.image, **way).tobytes(), batch.image.tobytes())
        self.assertRaisesRegex(TypeError, "bf16", numpy.asarray, self.loader(dtype="bf16").next().image)

    @unittest.skipUnless(torch, "torch is not here")
    def test_torch_sees_the_same_memory(self):
        for dtype in ("uint8", "float32", "float16", "bfloat16"):
            short = {"uint8": "u8", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}[dtype]
            batch = self.loader(dtype=short).next()
            image, label = torch.from_dlpack(batch.image), torch.from_dlpack(batch.label)
            self.assertEqual((image.dtype, tuple(image.shape)), (getattr(torch, dtype), batch.image.shape))
            self.assertEqual((label.dtype, label.tolist()), (torch.int64, [0, 0, 0, 0]))
            self.assertEqual(image.data_ptr(), batch.image._data)
            self.assertEqual(image.device.type, "cpu")
        if tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 9):
            copy = torch.from_dlpack(batch.image, copy=True)
            self.assertTrue(torch.equal(copy, image))
            self.assertNotEqual(copy.data_ptr(), image.data_ptr())


class HoldTest(ArrayCase):
    def assert_held(self, loader, n):
        gc.collect()
        self.assertEqual(n_lent(loader), n)

    def test_a_batch_holds_its_slot(self):
        loader = self.loader()
        batch = loader.next()
        self.assert_held(loader, 1)
        batch.release()
        self.assert_held(loader, 0)
        batch.release()
        self.assertRaisesRegex(mr.StateError, "released", getattr, batch, "image")
        self.assertRaises(mr.StateError, getattr, batch, "size")
        with loader.next() as batch:
            self.assert_held(loader, 1)
        self.assert_held(loader, 0)
        del batch
        batch = loader.next()
        del batch
        self.assert_held(loader, 0)

    def test_whoever_has_an_array_holds_its_slot(self):
        makers = [lambda array: array, lambda array: array.__buffer__(0), lambda array: array.__dlpack__(),
                  lambda array: array.__dlpack__(max_version=(1, 0))]
        if numpy:
            makers += [numpy.asarray, lambda array: numpy.asarray(array)[1:, :1].T]
        if torch:
            makers += [torch.from_dlpack, lambda array: torch.from_dlpack(array).view(-1)[5:]]
        loader = self.loader()
        for make in makers:
            loader.set_epoch(0)
            with loader.next() as batch:
                held = make(batch.image)
            del batch
            self.assert_held(loader, 1)
            del held
            self.assert_held(loader, 0)

    def test_a_consumed_capsule_is_not_freed_twice(self):
        loader = self.loader()
        for version in (None, (1, 0)):
            capsule = loader.next().image.__dlpack__(max_version=version)
            self.assert_held(loader, 1)
            del capsule
            self.assert_held(loader, 0)

    @unittest.skipUnless(torch, "torch is not here")
    def test_kept_tensors_make_further_batches_copies(self):
        loader = self.loader(batch_size=1)
        with self.assertWarnsRegex(RuntimeWarning, "copied out"):
            tensors = [torch.from_dlpack(batch.index) for batch in loader]
        self.assertEqual(torch.cat(tensors).tolist(), list(range(21)))
        loader.close()
        self.assertEqual(torch.cat(tensors).tolist(), list(range(21)))


if __name__ == "__main__":
    support.main()
