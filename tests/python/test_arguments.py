# SPDX-License-Identifier: Apache-2.0
"""Arguments of the wrong kind or size are named, and NumPy's numbers are numbers."""
import errno
import os
import pickle

import pytest

import millrace as mr
from millrace import _abi
from millrace._errors import make_error

from support import module, run_python


class Number:
    """Like NumPy's integers: not an int, but usable as an index."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize("epoch", [-1, 1 << 64])
def test_an_epoch_outside_of_u64_is_refused(make_loader, epoch):
    with pytest.raises(mr.InvalidError, match=f"epoch {epoch} is not from 0 to"):
        make_loader(num_workers=0).set_epoch(epoch)
    with pytest.raises(mr.InvalidError, match=f"epoch {epoch} is not from 0 to"):
        mr.explain("train:16", 0, epoch, 0, 20, 20)


def test_whatever_is_an_index_is_a_number(make_loader):
    loader = make_loader(num_workers=0)
    loader.set_epoch(Number(3))
    assert loader.epoch == 3
    dataset, last = loader.dataset, len(loader.dataset) - 1
    assert dataset.label(Number(last)) == dataset.label(last)
    assert dataset.name(Number(last)) == dataset.name(last)
    assert dataset.inspect(Number(last)) == dataset.inspect(last)
    assert mr.explain("train:16",
                      *map(Number, (1, 2, 3, 40, 30))) == mr.explain("train:16", 1, 2, 3, 40, 30)


def test_an_epoch_that_is_not_an_integer_is_named(make_loader):
    with pytest.raises(TypeError, match="epoch must be an integer, not None"):
        make_loader(num_workers=0).set_epoch(None)


def test_a_text_in_place_of_a_list_is_refused(make_loader):
    with pytest.raises(mr.InvalidError,
                       match="devices is a list, not the text 'cuda:0'; use \\['cuda:0'\\]"):
        make_loader(devices="cuda:0")


def test_none_in_a_list_is_refused(make_loader):
    words = "devices\\[1\\] is None; leave it out, or use devices=None"
    with pytest.raises(TypeError, match=words):
        make_loader(devices=["host:0", None])


def test_none_as_a_dataset_is_refused():
    with pytest.raises(TypeError, match='the dataset is None; give its spec, for example "image'):
        mr.Loader(None)


def test_a_rank_without_world_size_says_what_to_set(make_loader):
    with pytest.raises(mr.InvalidError, match="rank 1 .*; set world_size to the number of ranks"):
        make_loader(rank=1)


def test_a_gpu_that_does_not_exist_says_what_to_use(make_loader):
    words = '; use device="host", or device="auto" for a GPU only if there is one'
    with pytest.raises((mr.NoDeviceError, mr.UnsupportedError), match=words):
        make_loader(device="cuda:1000")


def test_a_transform_of_another_package_is_named(make_loader):
    for ask in (lambda: make_loader(transform=Number(1)),
                lambda: mr.explain(Number(1), 0, 0, 0, 9, 9)):
        with pytest.raises(
                TypeError,
                match=
                "not a test_arguments.Number; millrace.torch.DataLoader takes those of torchvision"
        ):
            ask()


@pytest.mark.parametrize("state, words", [
    ({}, "has no position in hexadecimal digits"),
    ({"position": "no"}, "has no position in hexadecimal digits"),
    ({"position": None}, "has no position in hexadecimal digits"),
    ({"position": "00"}, "these 1 bytes are not a saved position"),
])
def test_a_state_without_a_position_is_refused(make_loader, state, words):
    with pytest.raises(mr.InvalidError, match=words):
        make_loader(num_workers=0).load_state_dict({"version": 1, "epoch": 0, **state})


def test_a_batch_says_how_its_arrays_are_taken(make_loader):
    batch = make_loader(num_workers=0).next()
    with pytest.raises(TypeError, match="not a tuple .*: use batch.image and batch.label"):
        _, _ = batch
    with pytest.raises(TypeError, match="by name, not 0: use batch.image and batch.label"):
        batch[0]
    with pytest.raises(TypeError, match="'image' has no elements by index: use torch.from_dlpack"):
        batch.image[0]
    assert len(batch) == batch.size == 4
    assert "label" in batch


@pytest.mark.parametrize("name, dtype", [("float32", "f32"), ("uint8", "u8"), ("half", "f16")])
def test_dtypes_and_devices_have_the_names_of_other_libraries(make_loader, name, dtype):
    loader = make_loader(num_workers=0, dtype=name, device="cpu")
    assert (loader.options["dtype"], loader.options["device"]) == (dtype, "host")
    for library in filter(None, map(module, ("torch", "numpy"))):
        assert make_loader(num_workers=0, dtype=getattr(library, name)).options["dtype"] == dtype
    torch = module("torch")
    if torch:
        assert make_loader(num_workers=0, device=torch.device("cpu")).options["device"] == "host"


@pytest.mark.parametrize("spec", ["{0}/none", "list:{0}/none", "pack:{0}/none",
                                  "records:{0}/none?bytes=1", "tar:{0}/none", "tar:{0}/none*",
                                  "tar:{0}/none.tar"])
def test_a_missing_file_is_a_builtin_error_with_its_name(tmp_path, spec):
    with pytest.raises(FileNotFoundError) as raised:
        mr.Dataset(spec.format(tmp_path / "a folder: b"))
    error = raised.value
    assert isinstance(error, mr.FileError)
    assert (error.errno, error.strerror) == (errno.ENOENT, "No such file or directory")
    assert error.filename.startswith(str(tmp_path / "a folder: b"))
    assert str(error).endswith(f"{error.filename}: {error.strerror}")
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), copied.errno, copied.strerror,
            copied.filename) == (type(error), str(error), error.errno, error.strerror,
                                 error.filename)


@pytest.mark.parametrize("text, path", [("cannot open the list a b", "a b"),
                                        ("a b.jpg (index 7)", "a b.jpg"),
                                        ("r.txt:1: cannot open /a", "/a"),
                                        ("trace a/x.json", "a/x.json"),
                                        ("cannot make the directory a", "a"),
                                        ("cannot open the pack's index a/index", "a/index"),
                                        ("cannot open the shard a.tar", "a.tar"),
                                        ("cannot find the folder of a/b", "a/b"),
                                        ("cannot map 9 bytes of a", None),
                                        ("cannot open the backend a", None)])
def test_a_file_that_may_not_be_opened_is_a_builtin_error(text, path):
    error = _abi.mr_error(_abi.ERR_IO, errno.EACCES, 7, f"{text}: Permission denied".encode())
    made = make_error(_abi.ERR_IO, error)
    assert isinstance(made, PermissionError)
    assert (made.filename, str(made)) == (path, f"{text}: Permission denied")


def test_a_file_in_a_files_place_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(mr.FileError) as raised:
        mr.Dataset(f"{tmp_path}/file")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOTDIR, f"{tmp_path}/file")


def test_remote_paths_are_refused_by_name():
    with pytest.raises(mr.InvalidError, match="is a URL that .* does not read"):
        mr.Dataset("tar:az://b/{a..c}.tar")


def test_tracebacks_name_exceptions_as_programs_do():
    errors = [value for value in vars(mr).values()
              if isinstance(value, type) and issubclass(value, mr.Error)]
    assert len(errors) == 15
    assert {error.__module__ for error in errors} == {"millrace"}


@pytest.mark.parametrize("library, words", [
    ("libm.so.6", "undefined symbol: mr_version; libm.so.6 is not the package's libmillrace.so"),
    (__file__, "invalid ELF header"), ("none.so", "none.so is the value of MILLRACE_LIBRARY")])
def test_a_wrong_library_is_an_import_error(library, words):
    ended = run_python("import millrace", env={**os.environ, "MILLRACE_LIBRARY": library})
    assert ended.stderr.splitlines()[-1].startswith("ImportError: millrace: ")
    assert words in ended.stderr


def test_more_workers_than_cpus_are_reported(images):
    ended = run_python("import sys, millrace as mr\n"
                       "mr.Loader(sys.argv[1], 'eval:20:16', num_workers=1000)", images)
    assert ended.stderr.startswith("1000 workers share ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("work", [
    lambda images: mr.Dataset(images + "\0b"), lambda images: mr.Transform("none\0+what"),
    lambda images: mr.Loader(images, trace="a\0b")])
def test_a_zero_byte_ends_no_text(images, work):
    with pytest.raises(mr.InvalidError, match="has a zero byte"):
        work(images)


@pytest.mark.parametrize("index", [-1, 21, 1 << 64])
def test_an_index_is_not_cut_to_64_bits(images, index):
    dataset = mr.Dataset(images)
    for look in (dataset.name, dataset.label, dataset.inspect):
        with pytest.raises(mr.InvalidError, match=f"index {index} is not from 0 to 20"):
            look(index)


def test_sizes_are_not_cut_to_32_bits():
    for width in (-5, (1 << 32) + 5):
        with pytest.raises(mr.InvalidError, match=f"width {width} is not from"):
            mr.explain("train:16", 0, 0, 0, width, 5)


@pytest.mark.parametrize("state", [None, 3, [], {}, {"version": 2}, {"version": 1, "order": ""}])
def test_what_is_no_state(images, state):
    with mr.Loader(images, num_workers=0) as loader, pytest.raises(mr.InvalidError):
        loader.load_state_dict(state)


def test_a_wait_without_an_end(images):
    with mr.Loader(images, "eval:20:16", num_workers=1) as loader:
        assert len(loader.next(float("inf"))) == 21


@pytest.mark.parametrize("timeout", [float("nan"), -1])
def test_a_wait_of_no_time_is_refused(images, timeout):
    with mr.Loader(images, "eval:20:16", num_workers=1) as loader:
        with pytest.raises(mr.InvalidError, match=f"timeout {timeout} is not a number"):
            loader.next(timeout)
