# SPDX-License-Identifier: Apache-2.0
"""Batches on a GPU, and page-locked ones, on the double of the CUDA runtime. The double says on its own, by its exit status,
whether accesses were without an order.

MILLRACE_LIBRARY is a library on the double, MR_DOUBLE the double itself, MR_CUDA_DOUBLE="devices=2,policy=late".
"""
import ctypes
import os

import millrace as mr

import support
from test_arrays import is_valid, n_lent

HOST_TO_DEVICE = 1
double = ctypes.CDLL(os.environ["MR_DOUBLE"], mode=ctypes.RTLD_GLOBAL)
double.double_host_view.restype = ctypes.c_void_p
double.double_host_view.argtypes = [ctypes.c_void_p]
double.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
double.cudaMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
double.cudaFree.argtypes = double.cudaStreamSynchronize.argtypes = double.cudaStreamDestroy.argtypes = [ctypes.c_void_p]


def must(status):
    if status != 0:
        raise RuntimeError(f"CUDA error {status}")


def view(address, n):
    """The bytes at an address of a device."""
    return ctypes.string_at(double.double_host_view(address), n)


class Stream:
    """As torch's: it has the address as cuda_stream."""

    def __init__(self):
        stream = ctypes.c_void_p()
        must(double.cudaStreamCreateWithFlags(ctypes.byref(stream), 1))
        self.cuda_stream = stream.value


class DeviceCase(support.FolderCase):
    def loader(self, **options):
        made = mr.Loader(self.images, "eval:20:16", **{"batch_size": 4, "num_workers": 1, "no_shuffle": True, **options})
        self.addCleanup(made.close)
        return made

    def stream(self):
        made = Stream()
        self.addCleanup(lambda: (must(double.cudaStreamSynchronize(made.cuda_stream)),
                                 must(double.cudaStreamDestroy(made.cuda_stream))))
        return made


class GpuTest(DeviceCase):
    def test_arrays_are_the_hosts_on_the_gpu(self):
        options = {"dtype": "f32"}
        expected = [batch.image.tobytes() for batch in self.loader(**options)]
        for i, batch in enumerate(self.loader(device="cuda:1", **options)):
            self.assertEqual(batch.image.device, "cuda:1")
            self.assertEqual(view(batch.image._data, batch.image.nbytes), expected[i])

    def test_dlpack_knows_streams(self):
        loader, stream = self.loader(device="cuda:1"), self.stream()
        batch = loader.next()
        self.assertEqual(batch.image.__dlpack_device__(), (2, 1))
        must(double.cudaSetDevice(1))
        own = self.stream()
        for number in (None, 1, -1, own.cuda_stream):
            for version, name in ((None, b"dltensor"), ((1, 0), b"dltensor_versioned")):
                self.assertTrue(is_valid(batch.label.__dlpack__(stream=number, max_version=version), name))
        must(double.cudaSetDevice(0))
        with self.assertRaises(mr.InvalidError):  # a stream of the other device
            batch.image.__dlpack__(stream=stream.cuda_stream)
        self.assertRaises(BufferError, batch.image.__dlpack__, copy=True)
        self.assertRaises(BufferError, batch.image.__dlpack__, dl_device=(1, 0))
        batch.use(own)
        batch.release(own)
        self.assertEqual(n_lent(loader), 0)

    def test_the_host_cannot_look(self):
        image = self.loader(device="cuda:0").next().image
        self.assertRaises(BufferError, image.tobytes)
        self.assertRaises(BufferError, image.__buffer__, 0)
        self.assertFalse(hasattr(image, "__array_interface__"))

    def test_kept_batches_are_refused_with_the_remedy(self):
        loader = self.loader(device="cuda:0", batch_size=1)
        self.assertRaisesRegex(mr.StateError, "release a batch or raise n_buffers", list, loader)
        self.assertEqual(n_lent(loader), 0)
        self.assertEqual(loader.next().index.shape, (1,))

    def test_a_plain_loop_goes_on(self):
        loader = self.loader(device="cuda:0", batch_size=1)
        for _ in range(2):
            self.assertEqual(sum(batch.size for batch in loader), 21)


class PinnedTest(DeviceCase):
    def copies(self, tell):
        """What arrives of each batch's images that a stream copies while the batches are released. All copies run late."""
        loader, stream = self.loader(pin_memory=True, batch_size=1, n_slots=3), self.stream()
        self.assertTrue(loader.options["pin_memory"])
        memory, n = ctypes.c_void_p(), 3 * 16 * 16
        must(double.cudaMalloc(memory, 21 * n))
        for i in range(21):
            with loader.next() as batch:
                must(double.cudaMemcpyAsync(memory.value + i * n, batch.image._data, n, HOST_TO_DEVICE, stream.cuda_stream))
                if tell:
                    batch.use(stream)
        must(double.cudaStreamSynchronize(stream.cuda_stream))
        arrived = view(memory.value, 21 * n)
        must(double.cudaFree(memory))
        return arrived

    def expected(self):
        return b"".join(batch.image.tobytes() for batch in self.loader())

    def test_a_copy_that_nobody_names_races_with_the_slots_next_batch(self):
        self.assertNotEqual(self.copies(tell=False), self.expected())

    def test_a_stream_that_is_named_has_its_copy_first(self):
        self.assertEqual(self.copies(tell=True), self.expected())


if __name__ == "__main__":
    support.main()
