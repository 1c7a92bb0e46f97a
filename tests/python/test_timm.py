# SPDX-License-Identifier: Apache-2.0
"""millrace.timm's create_loader beside timm's own: the same order, the same pixels, and what is not
recognised.
"""
import math
import os
import warnings

import pytest

from support import module, n_lent

if not all(map(module, ("numpy", "torch", "torchvision"))):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)
pytest.importorskip("timm", reason="timm is not here; test_timm_goldens.py has what it gives")

import torch
import torch.distributed as dist
from timm.data import FastCollateMixup, ImageDataset
from timm.data import create_loader as timms
from timm.data import create_transform
from timm.data.loader import PrefetchLoader
from torch.utils import data
from torchvision import datasets

import millrace
from millrace.timm import create_loader, explain

pytestmark = [
    pytest.mark.filterwarnings("error:millrace:"),
    pytest.mark.filterwarnings("ignore::ResourceWarning")
]
CPU = torch.device("cpu")
NEAR = 1e-6  # the library has one fma for each float, timm a subtraction and a division


def make_dataset(images):
    """Each label is its index."""
    dataset = ImageDataset(images)
    dataset.reader.samples = [(path, i) for i, (path, _) in enumerate(dataset.reader.samples)]
    return dataset


@pytest.fixture
def create(images):
    """A loader for images on the CPU, which millrace must make itself."""
    def make(input_size=16, batch_size=4, dataset=None, **options):
        loader = create_loader(dataset or make_dataset(images),
                               input_size,
                               batch_size,
                               device=CPU,
                               **{"num_workers": 1, **options})
        assert explain(loader)["native"], explain(loader)["reason"]
        return loader

    return make


@pytest.fixture
def group():
    """Makes this process a rank of a group whose other ranks do not exist."""
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg",
                               reason="this torch has no group for tests")

    def begin(rank, world):
        dist.init_process_group("fake", rank=rank, world_size=world, store=fake.FakeStore())

    yield begin
    dist.destroy_process_group()


def labels_of(loader):
    return [y.tolist() for _, y in loader]


def test_evaluation_is_timms(images, create):
    for options in ({}, {"num_workers": 0, "crop_pct": 1.0,
                         "interpolation": "bicubic"}, {"crop_mode": "squash"},
                    {"input_size": (3, 16, 20),
                     "crop_mode": "squash"}, {"mean": (0.5, ) * 3, "std": (0.25, 0.5, 1)}):
        arguments = {"input_size": (3, 16, 16), "batch_size": 4, **options}
        ours, theirs = create(**arguments), timms(make_dataset(images),
                                                  device=CPU,
                                                  **{**arguments, "num_workers": 0})
        assert isinstance(ours, PrefetchLoader)
        assert len(ours) == len(theirs) == 6
        for (x, y), (a, b) in zip(ours, theirs):
            assert (x.dtype, x.shape, y.dtype) == (a.dtype, a.shape, b.dtype)
            assert torch.equal(y, b)
            assert (x - a).abs().max() < NEAR


def test_a_slot_is_held_until_its_batch_is_on_the_gpu(create, monkeypatch):
    """A library without CUDA delivers on the host. Meta tensors play those of a GPU, and a copy
    ends when the test waits for it.
    """
    loader, seen, n_taken = create(), [], 0

    class Event:
        def record(self, stream):
            self.number = n_taken
            seen.append(("copy", stream, self.number))

        def synchronize(self):
            seen.append(("end", n_lent(loader.loader._native) > 0, self.number))

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    loader.device, loader.is_cuda = torch.device("meta"), True
    for images, target in loader:
        assert images.is_meta and target.is_meta
        n_taken += 1
    assert seen == [
        words for i in range(6) for words in (("copy", "stream of meta", i), ("end", True, i))
    ]
    for images, _ in loader:
        break
    assert [words[0] for words in seen[12:]] == ["copy", "end"]


def test_without_a_prefetcher_it_is_a_dataloader(images, create):
    ours, theirs = create(use_prefetcher=False), timms(make_dataset(images),
                                                       16,
                                                       4,
                                                       num_workers=0,
                                                       use_prefetcher=False)
    assert isinstance(ours, data.DataLoader)
    for (x, y), (a, b) in zip(ours, theirs):
        assert torch.equal(x, a)
        assert torch.equal(y, b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_types_of_floats(images, create, dtype):
    (x, _), (a, _) = next(iter(create(
        img_dtype=dtype))), next(iter(timms(make_dataset(images), 16, 4, num_workers=0,
                                            device=CPU)))
    assert x.dtype == dtype
    assert (x.float() - a).abs().max() < 0.02


def test_training_has_timms_order(images, create):
    ours, theirs = create(is_training=True), timms(make_dataset(images),
                                                   16,
                                                   4,
                                                   is_training=True,
                                                   device=CPU,
                                                   num_workers=1)
    orders = []
    for loader in (ours, theirs):
        torch.manual_seed(5)
        orders.append([labels_of(loader) for _ in range(2)])
    assert orders[0] == orders[1]
    assert len(orders[0][0]) == len(ours) == 5


def test_files_are_sorted_by_a_natural_key(images, tmp_path, create):
    (tmp_path / "c").mkdir()
    for i, name in enumerate(("10.jpg", "9.jpg", "b2.jpg", "b10.jpg", "B1.jpg")):
        os.symlink(make_dataset(images).reader.samples[i][0], tmp_path / "c" / name)
    dataset, paths = ImageDataset(str(tmp_path)), []
    loader = create(dataset=dataset)
    paths = [loader.loader._source.dataset.name(i) for i in range(5)]
    assert paths == [path for path, _ in dataset.reader.samples]
    assert paths != sorted(paths)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("options",
                         [{}, {"is_training": True}, {"is_training": True, "num_aug_repeats": 3}],
                         ids=str)
def test_distributed_orders_are_timms(images, create, group, world, options):
    rank = world - 1
    group(rank, world)
    ours = create(batch_size=2, distributed=True, **options)
    theirs = timms(make_dataset(images),
                   16,
                   2,
                   distributed=True,
                   device=CPU,
                   num_workers=0,
                   **options)
    for epoch in (0, 3):
        if options:
            ours.sampler.set_epoch(epoch)
            theirs.sampler.set_epoch(epoch)
        assert labels_of(ours) == [list(batch) for batch in theirs.batch_sampler]
    assert len(ours) == len(theirs)


def test_repetitions_have_draws_of_their_own(create, group):
    group(0, 1)
    loader = create(batch_size=21, is_training=True, distributed=True, num_aug_repeats=3)
    images, labels = next(iter(loader))
    assert labels[0] == labels[1] == labels[2]
    assert not torch.equal(images[0], images[1])
    assert not torch.equal(images[1], images[2])


def test_repetitions_continue_at_a_position(create, group):
    group(0, 1)
    options = {"batch_size": 4, "is_training": True, "distributed": True, "num_aug_repeats": 3}
    loader, other = create(**options), create(**options)
    loader.sampler.set_epoch(3)  # the other learns it from the state
    going = iter(loader)
    next(going)
    state = loader.loader.state_dict()
    rest = [(images.clone(), labels.tolist()) for images, labels in going]
    other.loader.load_state_dict(state)
    found = list(other)
    assert [labels.tolist() for _, labels in found] == [labels for _, labels in rest]
    assert all(torch.equal(x, y) for (x, _), (y, _) in zip(found, rest))


POLICIES = {
    "rand-m9-mstd0.5-inc1": "rand-m9-mstd0.5-inc1",
    "rand-m5-n3-p0.25-mstd101-mmax20": "rand-m5-mstd101-n3-p0.25-mmax20",
    "rand-tweights": "rand-m10-tweights", "rand-m7-t3a": "rand-m7-t3a",
    "rand-m7-n1-t3aw": "rand-m7-n1-t3aw", "original-mstd0.5": "original-mstd0.5",
    "originalr": "originalr", "v0": "v0", "v0r-mstd1": "v0r-mstd1", "3a": "3a",
}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_are_recognised(create, policy):
    words = explain(create(is_training=True, auto_augment=policy,
                           interpolation="random"))["transform"]
    assert f'timm("{POLICIES[policy]}",interp=random,fill=124:116:104)' in words
    assert "interp=random)+hflip(0.5)" in words
    assert ("color_jitter(0.6:1.4" in words) == ("3a" in policy)


def test_other_arguments_of_training(create):
    words = explain(
        create(is_training=True,
               scale=(0.5, 1),
               hflip=0,
               vflip=0.25,
               color_jitter=(0.1, 0.2, 0.3, 0.4),
               color_jitter_prob=0.8,
               grayscale_prob=0.2,
               gaussian_blur_prob=0.3,
               mean=(0.5, 0.25, 0),
               auto_augment=None,
               interpolation="bicubic",
               re_prob=0.3,
               re_mode="pixel",
               re_count=3))["transform"]
    for part in ("scale=0.5:1,", "interp=bicubic)+vflip(0.25)",
                 "random_apply(color_jitter(0.9:1.1,0.8:1.2,0.7:1.3,-0.4:0.4),0.8)",
                 "random_grayscale(0.2)", "random_apply(gaussian_blur(23,",
                 "normalize(mean=0.5:0.25:0,", "random_erasing(0.3,scale=0.02:0.333",
                 "value=random,count=3)"):
        assert part in words
    assert "random_erasing" not in explain(create(is_training=True, no_aug=True,
                                                  re_prob=0.3))["transform"]
    assert "random_erasing" not in explain(create(re_prob=0.3))["transform"]


def test_erased_boxes_are_the_mean(create):
    images, _ = next(iter(create(batch_size=21, is_training=True, re_prob=1, scale=(1, 1))))
    erased = (images == 0).all(dim=1).flatten(1).sum(1)
    assert erased.min() > 0
    assert erased.max() <= math.ceil(16 * 16 / 3) + 16


def test_without_a_prefetcher_floats_are_erased_too(create):
    loader = create(is_training=True,
                    use_prefetcher=False,
                    re_prob=1,
                    re_mode="rand",
                    batch_size=21)
    assert "value=rand" in explain(loader)["transform"]
    assert next(iter(loader))[0].shape == (21, 3, 16, 16)


def test_other_datasets(images, create):
    for dataset in (datasets.ImageFolder(images), make_dataset(images)):
        assert sum(len(y) for _, y in create(dataset=dataset)) == 21


def test_a_damaged_file_gives_way_to_the_next(images, create, tmp_path):
    dataset = make_dataset(images)
    (tmp_path / "x.jpg").write_bytes(b"no image")
    dataset.reader.samples[3] = (str(tmp_path / "x.jpg"), 3)
    assert labels_of(create(batch_size=7, dataset=dataset))[0] == [0, 1, 2, 4, 4, 5, 6]


@pytest.mark.parametrize("mixing", [None, FastCollateMixup(num_classes=21)])
def test_a_preview(create, mixing):
    loader = create(is_training=True, collate_fn=mixing, auto_augment="rand-m9", re_prob=0.5)
    assert millrace.preview(loader).count("<figure") == 8
    next(iter(loader))
    assert millrace.preview(loader, 4).count("<figure") == 4


def test_mixing(create):
    mixing = FastCollateMixup(mixup_alpha=0.8,
                              cutmix_alpha=1.0,
                              label_smoothing=0.1,
                              num_classes=21)
    loader = create(batch_size=10,
                    is_training=True,
                    collate_fn=mixing,
                    scale=(1, 1),
                    hflip=0,
                    color_jitter=None)
    assert "timm_mixup(mixup=0.8,cutmix=1," in explain(loader)["transform"]
    for images, target in loader:
        assert (images.shape, target.shape, target.dtype) == ((10, 3, 16, 16), (10, 21),
                                                              torch.float32)
        assert torch.allclose(target.sum(1), torch.ones(10), atol=1e-5)
        # Rows i and n - 1 - i are mixed with each other.
        assert torch.equal(
            target.topk(2).indices.sort(1).values,
            target.flip(0).topk(2).indices.sort(1).values)
    assert loader.mixup_enabled
    loader.mixup_enabled = False
    _, target = next(iter(loader))
    assert torch.allclose(target.max(1).values, torch.full((10,), 0.9 + 0.1 / 21), atol=1e-6)


@pytest.mark.parametrize("reason, options", [
    ("an iterable dataset", {"dataset": "iterable"}),
    ("num_aug_splits", {"is_training": True, "num_aug_splits": 2, "auto_augment": "rand-m9"}),
    ("re_split", {"is_training": True, "re_split": True, "re_prob": 0.1}),
    ("timm's AugMixAugment", {"is_training": True, "auto_augment": "augmix-m3"}),
    ("timm's ResizeKeepRatio", {"crop_mode": "border"}),
    ("timm's ResizeKeepRatio", {"is_training": True, "train_crop_mode": "rkrr"}),
    ("img_dtype torch.float64", {"img_dtype": torch.float64}),
    ("use_multi_epochs_loader", {"is_training": True, "use_multi_epochs_loader": True}),
    ("the collate_fn list", {"collate_fn": list}),
    ("re_count 5", {"is_training": True, "re_prob": 0.5, "re_count": 5}),
    ("mixing in batches of 3, an odd number",
     {"is_training": True, "batch_size": 3, "collate_fn": FastCollateMixup()}),
    ("mixing without is_training", {"collate_fn": FastCollateMixup()}),
    ("a FastCollateMixup with cutmix_minmax",
     {"is_training": True, "collate_fn": FastCollateMixup(cutmix_minmax=(0.2, 0.8))}),
    ("a FastCollateMixup of mode elem",
     {"is_training": True, "collate_fn": FastCollateMixup(mode="elem")}),
    ("input_img_mode", {"dataset": "load_bytes"}),
],
                         ids=str)
def test_what_is_not_known_is_named_once(images, reason, options):
    dataset = make_dataset(images)
    if options.get("dataset") == "iterable":
        dataset = Stream()
    elif options.get("dataset") == "load_bytes":
        dataset.input_img_mode = "L"
    options = {name: value for name, value in options.items() if name != "dataset"}
    with pytest.warns(UserWarning, match="timm's own create_loader is used: ") as seen:
        loader = create_loader(dataset, 16,
                               **{"batch_size": 4, "num_workers": 0, "device": CPU, **options})
    ours = [warning for warning in seen if str(warning.message).startswith("millrace")]
    assert len(ours) == 1
    assert ours[0].filename == __file__
    found = explain(loader)
    assert not found["native"]
    assert reason in found["reason"]
    assert found["reason"] in str(ours[0].message)


class Stream(data.IterableDataset):
    transform = None

    def __iter__(self):
        return iter(())


def test_what_is_not_known_is_loaded_by_timm(images):
    with pytest.warns(UserWarning, match="ResizeKeepRatio"):
        loader = create_loader(make_dataset(images),
                               16,
                               4,
                               crop_mode="border",
                               num_workers=0,
                               device=CPU)
    assert [y for batch in labels_of(loader) for y in batch] == list(range(21))
    assert explain(timms(make_dataset(images), 16, 4,
                         device=CPU))["reason"] == "it is timm's own loader"


def test_the_transform_of_the_dataset_is_timms(images, create):
    dataset = make_dataset(images)
    create(dataset=dataset)
    assert repr(dataset.transform) == repr(create_transform(16, use_prefetcher=True))


def test_no_warning_where_all_is_known(images):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        create_loader(make_dataset(images), 16, 4, device=CPU, num_workers=1)
    assert not [warning for warning in seen if "millrace" in str(warning.message)]
