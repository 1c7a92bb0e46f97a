# SPDX-License-Identifier: Apache-2.0
"""Passes over millrace.torch's DataLoader: in notebooks, in forked children, in copies."""
import copy
import os
import pickle
import warnings

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from torch.utils import data
from torchvision import transforms as T

import millrace
from millrace.torch import DataLoader, ImageFolder, explain

pytestmark = pytest.mark.filterwarnings("error:millrace:")
EVAL = T.Compose([T.Resize(24), T.CenterCrop(16), T.ToTensor()])


@pytest.fixture
def folder(images):
    return ImageFolder(images, EVAL)


def test_a_notebook_holds_batches_without_a_warning(folder):
    """A first look, a loop that fails in a function, whose traceback lives on, and a loop."""
    loader = DataLoader(folder, batch_size=2, num_workers=1)

    def train():
        for i, (x, y) in enumerate(loader):
            if i == 3:
                raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = next(iter(loader))
        with pytest.raises(KeyboardInterrupt) as interrupt:
            train()
        for _ in range(2):
            for x, y in loader:
                before = x
            for x, y in loader:
                break
    assert first[0].shape[1:] == before.shape[1:]
    assert interrupt.tb is not None


@pytest.mark.parametrize("batch_size, workers, options, n_slots",
                         [(4, 0, {}, 6), (4, 1, {}, 7), (64, 2, {}, 6),
                          (1, 2, {}, 15), (4, 2, {"prefetch_factor": 3}, 8)])
def test_two_slots_more_than_the_librarys_default(folder, batch_size, workers, options, n_slots):
    loader = DataLoader(folder, batch_size=batch_size, num_workers=workers, **options)
    next(iter(loader))
    assert loader._native.options["n_slots"] == n_slots
    with millrace.Loader(loader._source.dataset, batch_size=batch_size,
                         num_workers=workers) as plain:
        assert options or plain.options["n_slots"] == n_slots - 2


def in_child(work):
    """What work() returns, as text, in a forked child."""
    from_child, to_parent = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            words = repr(work())
        except BaseException as error:
            words = repr(error)
        os.write(to_parent, words.encode())
        os._exit(0)
    os.close(to_parent)
    with open(from_child, encoding="utf-8") as pipe:
        words = pipe.read()
    os.waitpid(child, 0)
    return words


@pytest.mark.parametrize("workers", [0, 2])
def test_a_forked_child_starts_anew(folder, workers):
    """Also after the parent has taken a batch, and the parent continues."""
    subset, options, found = data.Subset(folder, range(
        1, 18)), {"batch_size": 4, "shuffle": True, "num_workers": workers}, []
    ours, torchs = DataLoader(subset, **options), data.DataLoader(subset, **options)
    for loader in (ours, torchs):
        torch.manual_seed(5)
        assert len(next(iter(loader))[0]) == 4
        found.append(
            in_child(lambda: [(y.tolist(), x.sum().item()) for _ in range(2) for x, y in loader]))
        found.append(repr([(y.tolist(), x.sum().item()) for x, y in loader]))
    assert found[:2] == found[2:] and "Error" not in found[0]


@pytest.mark.parametrize("duplicate",
                         [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_loader_may_be_copied_and_pickled(folder, duplicate):
    loader = DataLoader(data.Subset(folder, [20, 3, 11, 7]), batch_size=2, num_workers=1)
    expected = list(loader)  # its workers run now
    other = duplicate(loader)
    assert explain(other) == explain(loader)
    for (x, y), (u, v) in zip(expected, list(other)):
        assert torch.equal(x, u)
        assert torch.equal(y, v)
    assert len(list(loader)) == 2
