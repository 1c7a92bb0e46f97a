# SPDX-License-Identifier: Apache-2.0
"""Arrays of a batch by every protocol, and how long an array holds the batch's slot."""
import ctypes
import functools
import gc
import sys

import pytest

import millrace as mr

from support import is_capsule, module, n_lent

numpy, torch = module("numpy"), module("torch")
needs_numpy = pytest.mark.skipif(not numpy, reason="NumPy is not here, or too old")
needs_torch = pytest.mark.skipif(not torch, reason="torch is not here, or too old")


@pytest.fixture
def make_loader(make_loader):
    return functools.partial(make_loader, num_workers=1, no_shuffle=True)


def test_shapes_and_types(make_loader):
    expected = {
        "image": ("f32", (4, 3, 16, 16), (3072, 1024, 64, 4)), "label": ("i64", (4, ), (8, )),
        "index": ("i64", (4, ), (8, )), "mask": ("u8", (4, ), (1, )),
        "geometry": ("i32", (4, 8), (32, 4)),
    }
    batch = make_loader(dtype="f32").next()
    assert batch.keys() == list(expected)
    for name, (dtype, shape, strides) in expected.items():
        array = batch[name]
        assert (array.name, array.dtype, array.shape, array.strides) == (name, dtype, shape,
                                                                         strides)
        assert (array.device, array.ndim, len(array)) == ("host", len(shape), 4)
        assert array.nbytes == len(array.tobytes())
        assert array is batch[name]
        assert name in repr(array)
    assert batch.image is batch["image"]
    assert "data" not in batch
    with pytest.raises(KeyError, match="no array 'data', only image, label"):
        batch.data
    assert (batch.size, batch.n_valid, batch.epoch, batch.number, batch.n_parts) == (4, 4, 0, 0, 1)


def test_buffers_have_format_and_shape(make_loader):
    batch = make_loader(dtype="f32").next()
    view = batch.image.__buffer__(0)
    assert (view.format, view.shape, view.readonly) == ("f", (4, 3, 16, 16), False)
    assert view.tobytes() == batch.image.tobytes()
    assert batch.label.tolist() == [0, 0, 0, 0]
    assert len(batch.geometry.tolist()[3]) == 8
    if sys.version_info >= (3, 12):
        assert memoryview(batch.index).tolist() == [0, 1, 2, 3]
    half = make_loader(dtype="bf16").next().image
    with pytest.raises(BufferError, match="bf16"):
        half.__buffer__(0)
    assert not hasattr(half, "__array_interface__")


def test_an_empty_batch_has_empty_arrays(make_loader):
    order = {"tail": "exact", "world_size": 20, "rank": 19, "batch_size": 1}
    batches = [(batch.size, batch.label.tolist(), batch.image.shape[0],
                batch.image.tobytes() == b"") for batch in make_loader(**order)]
    assert batches[0][:3] == (1, [2], 1)
    assert batches[1:] == [(0, [], 0, True)]


@pytest.mark.parametrize("options, name", [({}, b"dltensor"), ({"max_version": None}, b"dltensor"),
                                           ({"max_version": (0, 8)}, b"dltensor"),
                                           ({"max_version": (1, 0)}, b"dltensor_versioned"),
                                           ({"max_version": (2, 3)}, b"dltensor_versioned"),
                                           ({"copy": False}, b"dltensor"),
                                           ({"copy": True}, b"dltensor"),
                                           ({"dl_device": (1, 0), "stream": None}, b"dltensor")])
def test_capsules_have_the_version_that_is_asked_for(make_loader, options, name):
    assert is_capsule(make_loader().next().image.__dlpack__(**options), name)


def test_capsules_are_of_the_cpu(make_loader):
    image = make_loader().next().image
    assert image.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        image.__dlpack__(dl_device=(2, 0))


class VersionedTensor(ctypes.Structure):
    """The head of DLPack's DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p), ("device", ctypes.c_int),
                ("device_id", ctypes.c_int32)]


@pytest.mark.parametrize("copy", [None, False, True])
def test_a_capsule_says_whether_it_is_a_copy(make_loader, copy):
    image = make_loader().next().image
    capsule = image.__dlpack__(max_version=(1, 1), copy=copy)
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = VersionedTensor.from_address(address(capsule, b"dltensor_versioned"))
    is_copied = 2
    assert (tensor.major, tensor.flags, tensor.device) == (1, is_copied if copy else 0, 1)
    assert (tensor.data == image._data) is not bool(copy)
    assert ctypes.string_at(tensor.data, image.nbytes) == image.tobytes()


@needs_numpy
@pytest.mark.parametrize("dtype, name", [("u8", "uint8"), ("f32", "float32"), ("f16", "float16")])
def test_numpy_sees_the_same_memory(make_loader, dtype, name):
    batch = make_loader(dtype=dtype).next()
    image = numpy.asarray(batch.image)
    assert (image.dtype.name, image.shape) == (name, batch.image.shape)
    assert image.tobytes() == batch.image.tobytes()
    image[0, 0, 0, 0] = 7
    assert numpy.asarray(batch.image)[0, 0, 0, 0] == 7
    assert batch.image.__array_interface__["data"] == (batch.image._data, False)
    for way in ({}, {"copy": True}):
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0" or not way:
            assert numpy.from_dlpack(batch.image, **way).tobytes() == batch.image.tobytes()


@needs_numpy
def test_numpy_has_no_bf16(make_loader):
    with pytest.raises(TypeError, match="bf16"):
        numpy.asarray(make_loader(dtype="bf16").next().image)


@needs_torch
@pytest.mark.parametrize("dtype, name", [("u8", "uint8"), ("f32", "float32"), ("f16", "float16"),
                                         ("bf16", "bfloat16")])
def test_torch_sees_the_same_memory(make_loader, dtype, name):
    batch = make_loader(dtype=dtype).next()
    image, label = torch.from_dlpack(batch.image), torch.from_dlpack(batch.label)
    assert (image.dtype, tuple(image.shape)) == (getattr(torch, name), batch.image.shape)
    assert (label.dtype, label.tolist()) == (torch.int64, [0, 0, 0, 0])
    assert image.data_ptr() == batch.image._data
    assert image.device.type == "cpu"
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 9):
        copy = torch.from_dlpack(batch.image, copy=True)
        assert torch.equal(copy, image)
        assert copy.data_ptr() != image.data_ptr()


def assert_held(loader, n):
    gc.collect()
    assert n_lent(loader) == n


def test_a_batch_holds_its_slot(make_loader):
    loader = make_loader()
    batch = loader.next()
    assert_held(loader, 1)
    batch.release()
    assert_held(loader, 0)
    batch.release()
    with pytest.raises(mr.StateError, match="released"):
        batch.image
    with pytest.raises(mr.StateError):
        batch.size
    with loader.next() as batch:
        assert_held(loader, 1)
    assert_held(loader, 0)
    del batch
    batch = loader.next()
    del batch
    assert_held(loader, 0)


HOLDERS = {
    "array": lambda array: array, "buffer": lambda array: array.__buffer__(0),
    "capsule": lambda array: array.__dlpack__(),
    "versioned capsule": lambda array: array.__dlpack__(max_version=(1, 0)),
}
if numpy:
    HOLDERS.update(
        {"numpy": numpy.asarray, "view of numpy": lambda array: numpy.asarray(array)[1:, :1].T})
if torch:
    HOLDERS.update({
        "torch": torch.from_dlpack,
        "view of torch": lambda array: torch.from_dlpack(array).view(-1)[5:]
    })


@pytest.mark.parametrize("holder", HOLDERS)
def test_whoever_has_an_array_holds_its_slot(make_loader, holder):
    loader = make_loader()
    with loader.next() as batch:
        held = HOLDERS[holder](batch.image)
    del batch
    assert_held(loader, 1)
    del held
    assert_held(loader, 0)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_consumed_capsule_is_not_freed_twice(make_loader, version):
    loader = make_loader()
    capsule = loader.next().image.__dlpack__(max_version=version)
    assert_held(loader, 1)
    del capsule
    assert_held(loader, 0)


@needs_torch
def test_kept_tensors_make_further_batches_copies(make_loader):
    loader = make_loader(batch_size=1)
    with pytest.warns(RuntimeWarning, match="copied out"):
        tensors = [torch.from_dlpack(batch.index) for batch in loader]
    assert torch.cat(tensors).tolist() == list(range(21))
    loader.close()
    assert torch.cat(tensors).tolist() == list(range(21))
