# SPDX-License-Identifier: Apache-2.0
"""Batches on a GPU, and page-locked ones, on the double of the CUDA runtime. The double says on its
own, by its exit status, whether accesses were without an order.

MILLRACE_LIBRARY is a library on the double, MR_DOUBLE the double itself,
MR_CUDA_DOUBLE="devices=2,policy=late".
"""
import ctypes
import functools
import glob
import os
import sys
from types import SimpleNamespace

import pytest

import millrace as mr

from support import is_capsule, n_lent, run_python, write_tar

HOST_TO_DEVICE = 1
double = ctypes.CDLL(os.environ["MR_DOUBLE"], mode=ctypes.RTLD_GLOBAL)
double.double_host_view.restype = ctypes.c_void_p
double.double_host_view.argtypes = [ctypes.c_void_p]
double.double_sum.restype = ctypes.c_uint64
double.double_sum.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
double.double_launch_sum.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint64)
]
double.double_launch_fill.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint8
]
double.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
double.cudaMemcpyAsync.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
]
for of_a_pointer in (double.cudaFree, double.cudaStreamSynchronize, double.cudaStreamDestroy):
    of_a_pointer.argtypes = [ctypes.c_void_p]


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


@pytest.fixture
def make_loader(make_loader):
    return functools.partial(make_loader, num_workers=1, no_shuffle=True)


@pytest.fixture
def make_stream():
    made = []

    def make():
        made.append(Stream())
        return made[-1]

    yield make
    for stream in made:
        must(double.cudaStreamSynchronize(stream.cuda_stream))
        must(double.cudaStreamDestroy(stream.cuda_stream))


def test_arrays_are_the_hosts_on_the_gpu(make_loader):
    options = {"dtype": "f32"}
    expected = [batch.image.tobytes() for batch in make_loader(**options)]
    for i, batch in enumerate(make_loader(device="cuda:1", **options)):
        assert batch.image.device == "cuda:1"
        assert view(batch.image._data, batch.image.nbytes) == expected[i]


def test_dlpack_knows_streams(make_loader, make_stream):
    loader, stream = make_loader(device="cuda:1"), make_stream()
    batch = loader.next()
    assert batch.image.__dlpack_device__() == (2, 1)
    must(double.cudaSetDevice(1))
    own = make_stream()
    for number in (None, 1, -1, own.cuda_stream):
        for version, name in ((None, b"dltensor"), ((1, 0), b"dltensor_versioned")):
            assert is_capsule(batch.label.__dlpack__(stream=number, max_version=version), name)
    must(double.cudaSetDevice(0))
    with pytest.raises(mr.InvalidError):  # a stream of the other device
        batch.image.__dlpack__(stream=stream.cuda_stream)
    with pytest.raises(BufferError):
        batch.image.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        batch.image.__dlpack__(dl_device=(1, 0))
    batch.use(own)
    batch.release(own)
    assert n_lent(loader) == 0


class Reader:
    """A framework on two GPUs: its kernels read and overwrite arrays on the default stream of each
    array's device, and run late.
    """

    def __init__(self, stream=None):
        self.stream, self.sums = stream, []

    def __call__(self, array):
        self.sums.append(ctypes.c_uint64())
        must(double.cudaSetDevice(array.__dlpack_device__()[1]))
        must(double.double_launch_sum(self.stream, array._data, array.nbytes, self.sums[-1]))
        must(double.double_launch_fill(self.stream, array._data, array.nbytes, 0))
        must(double.cudaSetDevice(0))

    def finish(self):
        for device in (1, 0):
            must(double.cudaSetDevice(device))
            must(double.cudaStreamSynchronize(self.stream))
        return [made.value for made in self.sums]


@pytest.fixture(scope="module")
def texts(images, tmp_path_factory):
    """Tar shards of the images, each with a text."""
    members = {}
    for i, path in enumerate(sorted(glob.glob(images + "/*/*"))):
        with open(path, "rb") as file:
            members[f"{i:02}{os.path.splitext(path)[1]}"] = file.read()
        members[f"{i:02}.cls"], members[f"{i:02}.txt"] = b"%d" % (i % 3), b"text %d" % i
    return "tar:" + write_tar(str(tmp_path_factory.mktemp("tar") / "texts.tar"),
                              members) + "?keep=txt:16"


@pytest.mark.parametrize("stream", [None, 1, 2])  # 2: the thread's own
@pytest.mark.parametrize("label_device", ["cuda:0", "cuda:1"])
def test_a_default_stream_is_of_the_arrays_device(make_loader, texts, label_device, stream):
    options = {
        "dataset": texts, "batch_size": 2, "transform": "eval:20:16+mixup(0.2)", "dtype": "f32"
    }
    names = ["label", "index", "mask", "geometry", "mix_label", "mix_lambda", "txt.offsets"]

    def arrays(batch):
        return [batch[name] for name in names] + [batch["txt"].values, batch.image]

    expected = [
        double.double_sum(array._data, array.nbytes) for batch in make_loader(**options)
        for array in arrays(batch)
    ]
    read = Reader(stream)
    for batch in make_loader(device="cuda:0", label_device=label_device, n_buffers=2, **options):
        for array in arrays(batch):
            capsule = array.__dlpack__(stream=stream)
            read(array)
            del array, capsule
        del batch
    assert read.finish() == expected


def default_stream(device):
    """As torch.cuda.default_stream(device)."""
    return SimpleNamespace(cuda_stream=0, device=SimpleNamespace(index=device))


def test_torchs_default_streams_are_of_their_own_device(make_loader):
    expected = [double.double_sum(array._data, array.nbytes) for batch in make_loader()
                for array in (batch.image, batch.label)]
    read = Reader()
    for batch in make_loader(device="cuda:0", label_device="cuda:1", n_buffers=2):
        batch.use(default_stream(0))
        read(batch.image)
        batch.use(default_stream(1))
        read(batch.label)
        with pytest.raises(mr.InvalidError, match="cuda:2"):
            batch.use(default_stream(2))
        batch.release()
    assert read.finish() == expected


def test_the_host_cannot_look(make_loader):
    image = make_loader(device="cuda:0").next().image
    with pytest.raises(BufferError):
        image.tobytes()
    with pytest.raises(BufferError):
        image.__buffer__(0)
    assert not hasattr(image, "__array_interface__")


def test_kept_batches_are_refused_with_the_remedy(make_loader):
    loader = make_loader(device="cuda:0", batch_size=1)
    with pytest.raises(mr.StateError, match="release a batch or raise n_buffers"):
        list(loader)
    assert n_lent(loader) == 0
    assert loader.next().index.shape == (1,)


def test_a_plain_loop_goes_on(make_loader):
    loader = make_loader(device="cuda:0", batch_size=1)
    for _ in range(2):
        assert sum(batch.size for batch in loader) == 21


@pytest.fixture
def copies(make_loader, make_stream):
    """What arrives of each batch's images that a stream copies while the batches are released. All
    copies run late.
    """
    def copy(tell):
        loader, stream = make_loader(pin_memory=True, batch_size=1, n_slots=3), make_stream()
        assert loader.options["pin_memory"]
        memory, n = ctypes.c_void_p(), 3 * 16 * 16
        must(double.cudaMalloc(memory, 21 * n))
        for i in range(21):
            with loader.next() as batch:
                must(
                    double.cudaMemcpyAsync(memory.value + i * n, batch.image._data, n,
                                           HOST_TO_DEVICE, stream.cuda_stream))
                if tell:
                    batch.use(stream)
        must(double.cudaStreamSynchronize(stream.cuda_stream))
        arrived = view(memory.value, 21 * n)
        must(double.cudaFree(memory))
        return arrived

    return copy


@pytest.fixture
def expected(make_loader):
    return b"".join(batch.image.tobytes() for batch in make_loader())


def test_a_copy_that_nobody_names_races_with_the_slots_next_batch(copies, expected):
    assert copies(tell=False) != expected


def test_a_stream_that_is_named_has_its_copy_first(copies, expected):
    assert copies(tell=True) == expected


class OnDevice:
    """As torch.cuda.device(number)."""

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        must(double.cudaSetDevice(self.number))

    def __exit__(self, *exception):
        must(double.cudaSetDevice(0))


def test_a_default_stream_of_another_gpu_has_its_copy_first(make_loader, expected, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch",
                        SimpleNamespace(cuda=SimpleNamespace(device=OnDevice)))
    loader, memory, n = make_loader(pin_memory=True, batch_size=1,
                                    n_slots=3), ctypes.c_void_p(), 3 * 16 * 16
    with OnDevice(1):
        must(double.cudaMalloc(memory, 21 * n))
    for i in range(21):
        with loader.next() as batch:
            with OnDevice(1):
                must(
                    double.cudaMemcpyAsync(memory.value + i * n, batch.image._data, n,
                                           HOST_TO_DEVICE, None))
            batch.use(default_stream(1))
    with OnDevice(1):
        must(double.cudaStreamSynchronize(None))
        assert view(memory.value, 21 * n) == expected
        must(double.cudaFree(memory))


def test_page_locked_arrays_are_of_the_cpu(make_loader):
    """torch refuses kDLCUDAHost."""
    image = make_loader(pin_memory=True).next().image
    assert (image.device, image.__dlpack_device__()) == ("host", (1, 0))
    assert is_capsule(image.__dlpack__(max_version=(1, 0)), b"dltensor_versioned")


@pytest.mark.parametrize("held", [
    "", "iterator = iter(loader)", "batch = loader.next()", "image = loader.next().image"
])
def test_a_program_that_ends_gives_back_what_its_loader_has_on_the_gpu(images, held):
    """The double reports at the end what was not freed."""
    text = ("import sys, millrace\n"
            "loader = millrace.Loader(sys.argv[1], 'eval:20:16', device='cuda:0', batch_size=4)\n")
    ended = run_python(text + held, f"imagefolder:{images}")
    assert (ended.returncode, ended.stderr) == (0, "")
