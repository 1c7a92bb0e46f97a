# SPDX-License-Identifier: Apache-2.0
"""Arguments of the wrong kind or size are named, and NumPy's numbers are numbers."""
import pytest

import millrace as mr


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
