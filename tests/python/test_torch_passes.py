# SPDX-License-Identifier: Apache-2.0
"""Passes over millrace.torch's DataLoader: in notebooks, in forked children, in copies."""
import copy
import io
import json
import os
import pickle
import re
import warnings

import pytest

from support import module, write_tar

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from PIL import Image
from torch.utils import data
from torchvision import transforms as T

import millrace
from millrace.torch import DataLoader, Dataset, ImageFolder, explain

pytestmark = pytest.mark.filterwarnings("error:millrace:")
EVAL = T.Compose([T.Resize(24), T.CenterCrop(16), T.ToTensor()])


@pytest.fixture
def folder(images):
    return ImageFolder(images, EVAL)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_notebook_holds_batches_without_a_warning(folder, workers):
    """A first look, a loop that fails in a function, whose traceback lives on, and a loop."""
    loader = DataLoader(folder, batch_size=2, num_workers=workers)

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
                         [(4, 0, {}, 4), (4, 1, {}, 7), (10, 1, {}, 6),
                          (1, 2, {}, 15), (4, 2, {"prefetch_factor": 3}, 8)])
def test_two_slots_more_than_the_librarys_default(folder, batch_size, workers, options, n_slots):
    loader = DataLoader(folder, batch_size=batch_size, num_workers=workers, **options)
    next(iter(loader))
    assert loader._native.options["n_slots"] == n_slots
    with millrace.Loader(loader._source.dataset, batch_size=batch_size,
                         num_workers=workers) as plain:
        assert options or plain.options["n_slots"] == n_slots - 2 * (workers > 0)


@pytest.mark.parametrize("batch_size, options, n_slots",
                         [(21, {}, 4), (1000, {}, 4), (12, {}, 5), (12, {"drop_last": True}, 4),
                          (12, {"prefetch_factor": 9}, 5)])
def test_a_pass_of_few_batches_has_few_slots(folder, batch_size, options, n_slots):
    """Because its batches may be large. A notebook nevertheless holds them without a copy."""
    loader = DataLoader(folder, batch_size=batch_size, num_workers=1, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = next(iter(loader))
        for _ in range(3):
            for x, y in loader:
                before = x
    assert len(first[0]) == len(before) or len(before) == 9
    assert loader._native.options["n_slots"] == n_slots
    assert not loader._native._copied


def test_without_workers_three_batches_are_held(folder):
    """Before the first batch the caller waits for the memory of all slots, so there are four."""
    loader = DataLoader(folder, batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = next(iter(loader))
        for x, y in loader:
            before = x
    assert len(first[0]) == 4 and len(before) == 1
    assert not loader._native._copied


def test_a_sampler_that_grows_has_more_slots(folder):
    sampler = data.SubsetRandomSampler(range(4))
    loader = DataLoader(folder, batch_size=4, sampler=sampler, num_workers=1)
    for indices, n_slots in ((range(4), 4), (range(8), 5), (range(21), 7), (range(4), 7)):
        sampler.indices = indices
        assert sorted(torch.cat([y for _, y in loader]).tolist()) == sorted(
            folder.targets[i] for i in indices)
        assert loader._native.options["n_slots"] == n_slots


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


@pytest.mark.parametrize("begun", [False, True])
def test_a_forked_child_continues_a_pass_without_workers(folder, begun):
    """As with torch; the parent continues too."""
    found = []
    for kind in (DataLoader, data.DataLoader):
        torch.manual_seed(5)
        going = iter(kind(folder, batch_size=4, shuffle=True))
        if begun:
            next(going)
        found += [in_child(lambda: [y.tolist() for _, y in going]),
                  repr([y.tolist() for _, y in going])]
    assert found[0] == found[1] == found[2] == found[3]
    assert "Error" not in found[0]


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": 30}])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_that_is_broken_off_leaves_the_generator_as_torch_does(folder, workers, options):
    """RandomSampler draws once more when it is exhausted. torch's workers take batches ahead."""
    states = []
    for kind in (DataLoader, data.DataLoader):
        generator = torch.Generator().manual_seed(7)
        loader = kind(folder, **{"batch_size": 4, **options}, shuffle=True, num_workers=workers,
                      generator=generator)
        states.append([])
        for n_batches in (0, 1, 2, 5, 6, 7):
            going = iter(loader)
            taken = [batch[1].tolist() for batch, _ in zip(going, range(n_batches))]
            states[-1] += [taken, generator.get_state().tolist()]
            del going
    assert states[0] == states[1]


class Long:
    """A sampler that yields more than its length."""

    def __len__(self):
        return 3

    def __iter__(self):
        while True:
            yield int(torch.randint(21, ()))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sampler_that_yields_more_than_its_length_is_torchs(folder, workers):
    """torch draws the same numbers as if millrace had not drawn them before."""
    loaders = DataLoader(folder, sampler=Long(), num_workers=workers), data.DataLoader(
        folder, sampler=Long(), num_workers=workers)
    found = []
    for loader in loaders:
        torch.manual_seed(3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.append([y.item() for (_, y), _ in zip(loader, range(8))])
    assert found[0] == found[1]
    assert "Long, which yields more than its length of 3" in explain(loaders[0])["reason"]


class Repeat:
    """A batch sampler without an end, as timm's MultiEpochsDataLoader has."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        while True:
            yield from self.batches


class Endless:
    """Mixed into a loader: its workers live on between passes."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
        self.going = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.batches)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.going)


def test_a_subclass_may_replace_the_batch_sampler(folder):
    """By one that torch's code needs to load."""
    found = []
    for kind in (DataLoader, data.DataLoader):
        torch.manual_seed(3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = type("Loader", (Endless, kind), {})(folder, batch_size=4, shuffle=True)
        found.append([y.tolist() for _ in range(3) for _, y in loader])
        assert len(caught) == (kind is DataLoader)
        assert all("the batch sampler Repeat, which has no length" in str(one.message)
                   for one in caught)
    assert found[0] == found[1] and len(found[0]) == 18


def test_a_batch_sampler_that_was_replaced_is_used(folder):
    loader = DataLoader(folder, batch_size=4, num_workers=1)
    assert len(list(loader)) == 6
    object.__setattr__(loader, "batch_sampler", [[2, 0], [5, 1]])
    assert [y.tolist() for _, y in loader] == [[0, 0], [0, 0]]
    assert explain(loader)["native"]


@pytest.mark.parametrize("name, value, reason", [
    ("target_transform", lambda label: label + 10, "a target_transform"),
    ("loader", lambda path: Image.open(path).convert("RGB").rotate(90), "another loader")])
def test_functions_that_are_set_later_are_called(folder, name, value, reason):
    loader = DataLoader(data.Subset(folder, range(4)), batch_size=4)
    setattr(folder, name, value)
    with pytest.warns(UserWarning, match=reason):
        mine = next(iter(loader))
    other = next(iter(data.DataLoader(folder, batch_size=4)))
    assert torch.equal(mine[0], other[0]) and torch.equal(mine[1], other[1])


# Positions

RANDOM = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ToTensor()])


def make(images, seed, **options):
    """A loader whose labels are indices, in a program that was started with a seed."""
    torch.manual_seed(seed)
    dataset = ImageFolder(images, RANDOM)
    dataset.samples = [(path, i) for i, (path, _) in enumerate(dataset.samples)]
    return DataLoader(dataset, **{"batch_size": 4, "shuffle": True, **options})


def contents(batches):
    return [(y.tolist(), x.sum().item()) for x, y in batches]


def saved(loader):
    """A state as a checkpoint has it."""
    file = io.BytesIO()
    torch.save(loader.state_dict(), file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_sampler": [[3, 3], [4, 3]]}, {
    "sampler": data.WeightedRandomSampler([1.0] * 21, 30)
}])
@pytest.mark.parametrize("n_passes, n_batches", [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1)])
def test_a_position_continues_in_another_program(images, workers, options, n_passes, n_batches):
    """The rest of the pass and the next one, though the generator is in another state."""
    if options:
        options = {"shuffle": False, **options}
    if "batch_sampler" in options:
        options["batch_size"] = 1
    loader = make(images, 1, num_workers=workers, **options)
    for _ in range(n_passes):
        contents(loader)
    going = iter(loader)
    for _ in range(n_batches):
        next(going)
    state = saved(loader)
    generator = torch.get_rng_state()
    rest = contents(going)
    between = saved(loader)
    following = contents(loader)
    other = make(images, 2, num_workers=workers, **options)
    other.load_state_dict(state)
    assert saved(other).keys() == state.keys()
    torch.set_rng_state(generator)
    assert contents(other) == rest
    assert contents(other) == following
    third = make(images, 3, num_workers=workers, **options)
    third.load_state_dict(between)
    torch.manual_seed(1)
    assert len(contents(third)) == len(following)
    assert third.state_dict()["epoch"] == other.state_dict()["epoch"] == n_passes + 1


def test_a_position_is_loaded_in_a_loader_that_has_passed(images):
    loader = make(images, 1, num_workers=1)
    going = iter(loader)
    next(going)
    state, rest = saved(loader), contents(going)
    contents(loader)
    other = make(images, 2, num_workers=1)
    contents(other)
    for one in (loader, other):
        one.load_state_dict({})
        one.load_state_dict(state)
        one.set_epoch(9)  # of the pass that continues, so it does not name the next one
        assert contents(one) == rest
        assert one.state_dict()["epoch"] == 0
        next(iter(one))
        assert one.state_dict()["epoch"] == 1


def test_a_position_may_be_json(images):
    loader = make(images, 1)
    going = iter(loader)
    next(going)
    state = json.dumps(loader.state_dict(), default=torch.Tensor.tolist)
    other = make(images, 2)
    other.load_state_dict(json.loads(state))
    assert contents(other) == contents(going)


def make_rank(images, rank, n_ranks=2, workers=1, epoch=3):
    loader = make(images, 1, shuffle=False, num_workers=workers, batch_size=3, sampler=(
        data.distributed.DistributedSampler(range(21), n_ranks, rank)))
    loader.sampler.set_epoch(epoch)
    return loader


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("saver", [0, 1])
def test_ranks_continue_with_the_state_of_one(images, saver, workers):
    """Lightning's checkpoint has the state of rank 0 alone."""
    loaders = [make_rank(images, rank, workers=workers) for rank in (0, 1)]
    going = []
    for loader in loaders:
        torch.manual_seed(1)  # each rank is a program
        going.append(iter(loader))
    for _ in range(2):
        assert len({str(next(one)[1]) for one in going}) == 2
    state = saved(loaders[saver])
    rests = [contents(one) for one in going]
    assert len(rests[0]) == len(rests[1]) == 2
    for rank in (0, 1):
        other = make_rank(images, rank, workers=workers, epoch=0)
        other.load_state_dict(state)
        assert contents(other) == rests[rank]
        other.sampler.set_epoch(4)
        assert len(contents(other)) == 4
        assert other.state_dict()["epoch"] == 4


def test_a_state_of_other_ranks_is_refused(images):
    """In mid-epoch, because the order would be another."""
    loader = make_rank(images, 0)
    going = iter(loader)
    next(going)
    state = saved(loader)
    alone = make(images, 1)
    next(iter(alone))
    for other, found, words in (
        (make_rank(images, 1, 3), state, "rank 0 of 2 in mid-epoch, this loader is of rank 1 of 3"),
        (alone, state, "rank 0 of 2 in mid-epoch, this loader is of a single process"),
        (loader, saved(alone), "a single process in mid-epoch, this loader is of rank 0 of 2"),
        (loader, {**state, "rank": [1, 2], "sampler_epoch": None}, "a sampler that draws by epoch"),
    ):
        with pytest.raises(millrace.InvalidError, match=words):
            other.load_state_dict(found)
    other = make_rank(images, 1)
    other.sampler.seed = 7  # its order would not fit the other ranks'
    with pytest.raises(millrace.InvalidError, match="has the seed 0, and this rank's has 7"):
        other.load_state_dict(state)
    list(going)
    make_rank(images, 0, 1).load_state_dict(saved(alone))  # one rank is one process
    other = make_rank(images, 1, 3)
    other.load_state_dict(saved(loader))  # the epoch has ended
    assert len(list(other)) == 3


def test_a_position_counts_damaged_batches(make_folder):
    folder = ImageFolder(make_folder(1, 4), EVAL)
    os.truncate(folder.samples[1][0], 30)
    loader = DataLoader(folder)
    going = iter(loader)
    next(going)
    with pytest.raises(millrace.DamagedError):
        next(going)
    other = DataLoader(folder)
    other.load_state_dict(saved(loader))
    assert len(list(other)) == 2


def test_positions_that_cannot_be_loaded(folder):
    loader = DataLoader(folder)
    assert loader.state_dict() == {}
    with pytest.raises(millrace.InvalidError, match="it has _snapshot, _num_yielded"):
        loader.load_state_dict({"_snapshot": {}, "_num_yielded": 3})
    for state, words in ((3, "it has int"), ({"version": 1, "draws": {}}, "it has version, draws")):
        with pytest.raises(millrace.InvalidError, match=words):
            loader.load_state_dict(state)
    list(loader)
    for wrong, words in (({"batch_size": 0}, "batches of 0"), ({"_num_yielded": -1}, "yielded -1")):
        with pytest.raises(millrace.InvalidError, match=words):
            loader.load_state_dict({**loader.state_dict(), **wrong})
    with pytest.warns(UserWarning, match="batch_size None"):
        torchs = DataLoader(folder, batch_size=None)
    assert torchs.state_dict() == {}
    with pytest.warns(UserWarning, match="begins anew instead of at the state's batch 21"):
        torchs.load_state_dict(loader.state_dict())
    with pytest.raises(millrace.StateError, match="torch's own DataLoader is used: batch_size"):
        torchs.stats()
    with pytest.raises(millrace.InvalidError, match="has the sample 20, but the dataset has 3"):
        DataLoader(data.Subset(folder, range(3))).load_state_dict(loader.state_dict())


def test_a_loader_that_is_left_to_torch_has_no_position(folder):
    loader = DataLoader(folder, batch_size=4)
    list(loader)
    loader.load_state_dict(loader.state_dict())
    folder.transform = lambda image: EVAL(image)
    with pytest.warns(UserWarning, match="the transform function"):
        next(iter(loader))
    assert loader.state_dict() == {}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_forked_child_has_the_position(folder, workers):
    loader = DataLoader(folder, batch_size=4, num_workers=workers)
    going = iter(loader)
    next(going)

    def rest():
        next(going)
        return loader.state_dict()["_num_yielded"]

    assert in_child(rest) == "2"
    assert loader.state_dict()["_num_yielded"] == 1


def test_statistics(folder):
    loader = DataLoader(folder, batch_size=4, num_workers=1)
    with pytest.raises(millrace.StateError, match="no batch was loaded"):
        loader.verdict()
    list(loader)
    assert loader.stats()["n_samples"] == 21
    assert "consumer" in loader.verdict() or "bound" in loader.verdict()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_preview_shows_the_newest_pass(images, workers):
    """Before the first pass, the dataset's first images. It draws nothing from torch."""
    def captions(page):
        return re.findall("<figcaption>(.*?)<", page)

    loader = make(images, 1, num_workers=workers)
    loader.dataset.classes = [f"sample {i}" for i in range(21)]
    state = torch.get_rng_state()
    assert captions(millrace.preview(loader, 3)) == ["sample 0", "sample 1", "sample 2"]
    assert torch.equal(torch.get_rng_state(), state)
    _, labels = next(iter(loader))
    for page in (millrace.preview(loader, 4), loader._repr_html_()):
        assert captions(page)[:4] == [f"sample {i}" for i in labels.tolist()]
    subset = DataLoader(data.Subset(loader.dataset, [9, -1]), batch_size=2)
    assert captions(subset._repr_html_()) == ["sample 9", "sample 20"]
    assert in_child(lambda: captions(millrace.preview(loader, 1))) == "['sample 0']"
    loader.dataset.transform = lambda image: EVAL(image)
    with pytest.warns(UserWarning, match="the transform function"):
        next(iter(loader))
    assert loader._repr_html_() is None
    with pytest.raises(millrace.StateError, match="torch's own DataLoader is used: the transform"):
        millrace.preview(loader)


# Datasets of a spec


@pytest.fixture
def shard(images, tmp_path):
    paths = [path for path, _ in ImageFolder(images).samples[:5]]
    contents_of = {}
    for i, path in enumerate(paths):
        with open(path, "rb") as file:
            contents_of[f"{i}.jpg"] = file.read()
        contents_of[f"{i}.cls"] = b"%d" % (i % 2)
        if i != 3:
            contents_of[f"{i}.txt"] = b"caption %d" % i
    (tmp_path / "names").write_text("cat\ndog\n")
    return write_tar(tmp_path / "a.tar", contents_of)


@pytest.mark.parametrize("collate", [data.default_collate, list])
def test_further_members_arrive(shard, collate):
    """In batches, as in torch's own loader of this dataset."""
    dataset = Dataset(f"tar:{shard}?keep=txt:40", EVAL)
    assert dataset[2][2] == {"txt": b"caption 2"}
    loaders = [kind(dataset, batch_size=2, collate_fn=collate)
               for kind in (DataLoader, data.DataLoader)]
    assert explain(loaders[0])["native"]
    for mine, other in zip(*loaders):
        assert repr(mine) == repr(other)
    assert repr(mine).count("caption 4") == 1
    assert len(Dataset(f"tar:{shard}", EVAL)[0]) == 2


def test_classes_of_a_tar(shard, tmp_path):
    named = Dataset(f"tar:{shard}?classes={tmp_path / 'names'}", EVAL)
    assert (named.classes, named.class_to_idx) == (["cat", "dog"], {"cat": 0, "dog": 1})
    unnamed = Dataset(f"tar:{shard}", EVAL)
    for name in ("classes", "class_to_idx"):
        with pytest.raises(AttributeError, match="a.tar: 5 samples> has no names .*classes=FILE"):
            getattr(unnamed, name)
    assert unnamed.targets == [0, 1, 0, 1, 0]
    assert len(list(DataLoader(unnamed, batch_size=2))) == 3
