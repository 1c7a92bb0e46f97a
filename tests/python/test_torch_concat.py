# SPDX-License-Identifier: Apache-2.0
"""millrace.torch's DataLoader on a ConcatDataset: torch's samples, order and labels, and what is
left to torch.
"""
import os
import pickle
import shutil
import subprocess

import pytest

from support import module, write_tar

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from torch.utils import data
from torch.utils.data import ConcatDataset, Subset
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets
from torchvision import transforms as T

from millrace import preview
from millrace.torch import DataLoader, Dataset, ImageFolder, explain

pytestmark = [
    pytest.mark.filterwarnings("error:millrace:"),
    pytest.mark.filterwarnings("ignore:.*are held at once")
]
EVAL = T.Compose([T.Resize(24), T.CenterCrop(16), T.ToTensor()])


@pytest.fixture(scope="module")
def others(make_folder):
    """A second folder, of 2 classes of 5 images each."""
    return make_folder(2, 5)


@pytest.fixture
def pair(images, others):
    """The transforms are two equal objects."""
    return ConcatDataset([ImageFolder(images, EVAL), ImageFolder(others, T.Compose(list(
        EVAL.transforms)))])


def passes(loader, n=2):
    torch.manual_seed(3)
    return [batch for _ in range(n) for batch in loader]


def native(dataset, **options):
    loader = DataLoader(dataset, **{"batch_size": 4, "num_workers": 1, **options})
    assert explain(loader)["native"], explain(loader)["reason"]
    return loader


def expect_same(dataset, **options):
    """Both loaders give the same batches in two passes."""
    ours = native(dataset, **options)
    torchs = data.DataLoader(dataset, **{"batch_size": 4, "num_workers": 1, **options})
    got, expected = passes(ours), passes(torchs)
    assert len(got) == len(expected) > 0
    for mine, other in zip(got, expected):
        assert len(mine) == len(other) == 2
        for a, b in zip(mine, other):
            assert a.dtype == b.dtype
            assert torch.equal(a, b)
    return ours


def expect_fallback(dataset, words):
    with pytest.warns(UserWarning, match=words) as caught:
        loader = DataLoader(dataset, batch_size=4)
    assert len([one for one in caught if "millrace:" in str(one.message)]) == 1
    assert not explain(loader)["native"]


@pytest.mark.parametrize("options", [
    {}, {"shuffle": True, "drop_last": True}, {"shuffle": True, "num_workers": 0},
    {"sampler": lambda n: data.SequentialSampler(range(n))},
    {"sampler": lambda n: data.RandomSampler(range(n), True, 50)},
    {"sampler": lambda n: DistributedSampler(range(n), 3, 1, seed=5)},
    {"sampler": lambda n: data.SubsetRandomSampler(range(5, n - 2))},
    {"batch_sampler": lambda n: data.BatchSampler(DistributedSampler(range(n), 2, 0), 7, False)}])
def test_samples_order_and_labels_are_torchs(pair, options):
    made = {key: value(len(pair)) if callable(value) else value for key, value in options.items()}
    expect_same(pair, **({"batch_size": 1, **made} if "batch_sampler" in made else made))


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_sampler_of_weights_draws_as_torchs(pair, replacement, workers):
    """Each dataset has half of the weight, whatever its size."""
    weights = [1 / len(member) for member in pair.datasets for _ in range(len(member))]
    n_draws = 60 if replacement else len(pair)
    expect_same(pair, num_workers=workers,
                sampler=data.WeightedRandomSampler(weights, n_draws, replacement))
    generator = torch.Generator().manual_seed(11)
    ours, torchs = (kind(pair, 4, sampler=data.WeightedRandomSampler(
        weights, n_draws, replacement, generator.manual_seed(11)))
                    for kind in (DataLoader, data.DataLoader))
    got = [labels.tolist() for _, labels in ours]
    generator.manual_seed(11)
    assert got == [labels.tolist() for _, labels in torchs]


def test_labels_are_those_of_each_dataset(images, others):
    first, second = ImageFolder(images, EVAL), ImageFolder(others, EVAL)
    second.samples = [(path, 100 + label) for path, label in second.samples]
    labels = torch.cat([labels for _, labels in expect_same(first + second)]).tolist()
    assert labels == first.targets + [100 + label for label in second.targets]


def test_subsets_and_nested_ones_are_followed(pair, images):
    more = ConcatDataset([Subset(ImageFolder(images, EVAL), [3, -1, 3]), pair,
                          Subset(pair, [-1, 0, 30])])
    expect_same(more, shuffle=True)
    expect_same(Subset(more, [36, 0, -2, 5, 5]))
    expect_same(more, sampler=[-1, 0, -37, 2])


def test_what_subsets_share_is_opened_once(images):
    """As with folds of a cross-validation: also of a dataset that no mixture takes."""
    folder = ImageFolder(images, EVAL)
    folds = [Subset(folder, range(i, 21, 3)) for i in range(3)]
    loader = expect_same(ConcatDataset(folds[:2]), shuffle=True)
    assert len(loader._source.dataset) == 21
    assert not loader._source.dataset.spec.startswith("mix:")


def test_a_sample_that_comes_twice_has_two_crops(images):
    crops = T.Compose([T.RandomResizedCrop(16), T.ToTensor()])
    folder = ImageFolder(images, crops)
    for twice in (ConcatDataset([folder, folder]),
                  ConcatDataset([folder, ImageFolder(images, crops)])):
        first, second = native(twice, batch_size=21)
        assert torch.equal(first[1], second[1])
        assert not any(map(torch.equal, first[0], second[0]))


def test_sources_of_several_kinds(images, others, tmp_path):
    """With a name that a mixture's text needs escaped."""
    folder = ImageFolder(images, EVAL)
    where = tmp_path / "a (b|c)"
    where.mkdir()
    members = {}
    for i, (path, label) in enumerate(folder.samples):
        with open(path, "rb") as file:
            members[f"{i:02}.{'png' if path.endswith('png') else 'jpg'}"] = file.read()
        members[f"{i:02}.cls"] = b"%d" % (label + 7)
    tar = Dataset(f"tar:{write_tar(where / 'shard.tar', members)}", EVAL)
    assert len(tar) == len(folder)
    shutil.copytree(others, where / "others")
    mixed = [tar, Dataset.from_samples(ImageFolder(str(where / "others")).samples, EVAL), folder]
    expected = torch.cat([batch for batch, _ in data.DataLoader(ConcatDataset([
        folder, ImageFolder(others, EVAL), folder]), 4)])
    got = list(native(ConcatDataset(mixed)))
    assert torch.equal(torch.cat([batch for batch, _ in got]), expected)
    assert torch.cat([labels for _, labels in got]).tolist() == [
        label for member in mixed for label in member.targets]


def test_a_file_that_changed_since_it_was_opened_is_left_to_torch(images, tmp_path):
    path = ImageFolder(images).samples[0][0]
    (tmp_path / "list").write_text(f"{path}\t1\n" * 3)
    changed = Dataset(f"list:{tmp_path / 'list'}?label=i64", EVAL)
    (tmp_path / "list").write_text(f"{path}\t1\n" * 2)
    expect_fallback(changed + ImageFolder(images, EVAL), "a dataset that has changed since")


def make_cifar(kind, n):
    made = kind.__new__(kind)
    made.data = numpy.random.default_rng(n).integers(0, 256, (n, 32, 32, 3), numpy.uint8)
    made.targets = list(range(n))
    made.transform, made.target_transform = T.ToTensor(), None
    return made


def test_cifars_are_records_one_after_the_other():
    expect_same(make_cifar(datasets.CIFAR10, 9) + make_cifar(datasets.CIFAR100, 5), shuffle=True)


def test_the_next_pass_continues_a_state(pair):
    loader = native(pair, shuffle=True)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    expected = list(batches)
    other = pickle.loads(pickle.dumps(native(pair, shuffle=True)))
    other.load_state_dict(state)
    got = list(other)
    assert len(got) == len(expected) == 5
    for mine, theirs in zip(got, expected):
        assert all(map(torch.equal, mine, theirs))


def test_a_preview_has_names_of_classes_only_if_all_have_them(pair, images):
    names = [f"class_{i}" for i in range(3)]
    assert names[0] in str(preview(native(ConcatDataset([ImageFolder(images, EVAL)] * 2)), 3))
    assert pair.datasets[0].classes == names
    assert "class_0" not in str(preview(native(pair), 3))


def test_transforms_that_differ_are_named(pair):
    pair.datasets[1].transform = T.Compose([T.Resize((16, 16)), T.ToTensor()])
    expect_fallback(pair, r"a ConcatDataset whose datasets have different transforms: resize\(24\)"
                    r"\S*center_crop\S* in f32, resize\(16:16\)\S* in f32")
    pair.datasets[1].transform = T.Compose([*EVAL.transforms[:-1], T.PILToTensor()])
    expect_fallback(pair, "different transforms: .* in f32, .* in u8")


def test_a_transform_that_changes_is_seen_at_the_next_pass(pair):
    loader = native(pair)
    assert len(list(loader)) == 8
    pair.datasets[1].transform = T.Compose([T.Resize((16, 16)), T.ToTensor()])
    with pytest.warns(UserWarning, match="different transforms"):
        got = list(loader)
    assert all(map(torch.equal, got[-1], list(data.DataLoader(pair, 4))[-1]))


class Shifted(ConcatDataset):
    def __getitem__(self, index):
        return super().__getitem__((index + 1) % len(self))


class Named(ConcatDataset):
    """A subclass that loads as its base does."""

    name = "named"


def test_subclasses(pair):
    expect_same(Named(pair.datasets))
    expect_fallback(Shifted(pair.datasets), "the dataset Shifted")


def test_what_does_not_go_together_is_left_to_torch(pair, images, others):
    first, second = pair.datasets
    expect_fallback(first + make_cifar(datasets.CIFAR10, 3),
                    "a ConcatDataset: sources 0 and 1 .* one has image files, the other elements")
    expect_fallback(Dataset(f"imagefolder:{images}", EVAL) + Dataset(f"imagefolder:{others}", EVAL),
                    "a ConcatDataset: source 0 of the mixture has 3 classes, and source 1 2")
    expect_fallback(ConcatDataset([ImageFolder(images, EVAL) for _ in range(101)]),
                    "a ConcatDataset: the mixture has more than 100 sources")
    for wrong in (21, -22):
        expect_fallback(ConcatDataset([Subset(first, [0, wrong]), second]),
                        "a Subset with indices that its dataset does not have")
    second.target_transform = str
    expect_fallback(pair, "a target_transform")
    second.target_transform = None
    pair.datasets = [first, first, second]
    expect_fallback(pair, "a ConcatDataset whose datasets have another length than")


def test_a_pack_goes_together_with_itself_only(images, others, tmp_path):
    subprocess.run([os.environ["MR_COMMAND"], "pack", images, str(tmp_path / "pack")], check=True,
                   capture_output=True)
    pack, folder = Dataset(f"pack:{tmp_path / 'pack'}", EVAL), ImageFolder(images, EVAL)
    halves = [Subset(pack, range(10)), Subset(pack, range(15, 21))]
    expected = data.DataLoader(Subset(folder, [*range(10), *range(15, 21)]), 4)
    for mine, theirs in zip(native(ConcatDataset(halves)), expected):
        assert all(map(torch.equal, mine, theirs))
    expect_fallback(pack + folder, "a ConcatDataset: source 0 of the mixture is a pack")
