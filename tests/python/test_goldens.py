# SPDX-License-Identifier: Apache-2.0
"""Pixels and orders are those of PyPI's torch, torchvision and Pillow: tests/data/python.json. The
tests run with the installed torch, or without torch.
"""
import array
import base64
import json
import os

import pytest

import millrace as mr

import golden_cases as cases
from support import indices, module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
has_torch = bool(numpy and torch and torchvision)
if has_torch:
    from torch.utils.data import DataLoader as TorchLoader
    from torchvision import datasets
    from torchvision import transforms as T

    from millrace.torch import DataLoader, explain

    try:
        from torchvision.transforms import v2
    except ImportError:
        v2 = None
    if not hasattr(v2, "ToPureTensor"):  # its first versions were drafts
        v2 = None
    try:
        from torchvision.transforms._presets import ImageClassification
    except ImportError:
        ImageClassification = None

needs_torch = pytest.mark.skipif(not has_torch,
                                 reason="NumPy, torch and torchvision are not all here, or too old")
needs_v2 = pytest.mark.skipif(not has_torch or not v2,
                              reason="there is no torchvision.transforms.v2")
needs_presets = pytest.mark.skipif(not has_torch or not ImageClassification,
                                   reason="there are no presets of torchvision's")
pytestmark = pytest.mark.filterwarnings("error:millrace:")

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def read_json(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        return json.load(file)


GOLDEN = read_json("python.json")
ORDERS = {(row["sampler"], row["world"], row["rank"]): row for row in GOLDEN["orders"]}
NAMES = [*cases.SAMPLERS, *cases.DISTRIBUTED]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = str(tmp_path_factory.mktemp("golden"))
    cases.write_images({name: base64.b64decode(text) for name, text in GOLDEN["images"].items()},
                       where)
    return where


@pytest.fixture
def read(make_loader):
    """The bytes of each sample, in order."""
    def all_of(dataset, text, dtype):
        loader = make_loader(text,
                             dataset,
                             dtype=dtype,
                             batch_size=1,
                             no_shuffle=True,
                             num_workers=1)
        return [batch.image.tobytes() for batch in loader]

    return all_of


def crcs(contents):
    return [cases.crc(content) for content in contents]


def test_the_golden_is_of_these_versions_and_cases():
    assert GOLDEN["source"].startswith("torch 2.15.0, torchvision 0.29.")
    assert GOLDEN["source"].endswith("Pillow 13.0.0")
    assert set(ORDERS) == {(name, *rank) for name in NAMES for rank in cases.RANKS}
    for kind, here in (("v1", cases.V1), ("v2", cases.V2), ("presets", cases.PRESETS)):
        assert set(GOLDEN["pixels"][kind]) == set(here)


# Pixels. The library's texts need no torch.

TEXTS = [("v1", name, case[0], case[1]) for name, case in cases.V1.items()]
TEXTS += [("v2", name, case[0], case[1]) for name, case in cases.V2.items()]
TEXTS += [("presets", name, case[0], "f32") for name, case in cases.PRESETS.items()]


@pytest.mark.parametrize("kind, name, text, dtype", TEXTS)
def test_pixels_of_a_loader(folder, read, kind, name, text, dtype):
    assert crcs(read(folder, text, dtype)) == GOLDEN["pixels"][kind][name]


def check_drop_in(folder, transform, text, expected):
    loader = DataLoader(datasets.ImageFolder(folder, transform), num_workers=1)
    found = explain(loader)
    assert found["native"], found["reason"]
    assert found["transform"] == str(mr.Transform(text))
    assert crcs(image.numpy().tobytes() for image, _ in loader) == expected


@needs_torch
@pytest.mark.parametrize("name", cases.V1)
def test_pixels_of_v1(folder, name):
    text, _, make = cases.V1[name]
    check_drop_in(folder, T.Compose(make(T, torch)), text, GOLDEN["pixels"]["v1"][name])


@needs_v2
@pytest.mark.parametrize("name", cases.V2)
def test_pixels_of_v2(folder, name):
    text, _, make = cases.V2[name]
    check_drop_in(folder, v2.Compose(make(v2, torch)), text, GOLDEN["pixels"]["v2"][name])


@needs_presets
@pytest.mark.parametrize("name", cases.PRESETS)
def test_pixels_of_presets(folder, name):
    text, arguments = cases.PRESETS[name]
    check_drop_in(folder, ImageClassification(**arguments), text, GOLDEN["pixels"]["presets"][name])


# CIFAR-10

@pytest.mark.parametrize("name", cases.CIFAR_TRANSFORMS)
def test_cifar_of_a_loader(tmp_path, read, name):
    text, dtype, _ = cases.CIFAR_TRANSFORMS[name]
    pictures, labels = cases.cifar_pixels()
    records = [bytes([label]) + picture for picture, label in zip(pictures, labels)]
    for i in range(5):  # as CIFAR-10's archive has them
        (tmp_path / f"data_batch_{i + 1}.bin").write_bytes(b"".join(records[i * 8 : i * 8 + 8]))
    (tmp_path / "batches.meta.txt").write_text("".join(f"class{i}\n" for i in range(10)))
    assert crcs(read(f"cifar10:{tmp_path}", text, dtype)) == GOLDEN["cifar"][name]["pixels"]
    assert [mr.Dataset(f"cifar10:{tmp_path}").label(i) for i in range(cases.N_CIFAR)] == labels


@needs_torch
@pytest.mark.parametrize("name", cases.CIFAR_TRANSFORMS)
def test_cifar_of_the_drop_in(name):
    golden = GOLDEN["cifar"][name]
    cifar = cases.cifar_dataset(numpy, datasets)
    cifar.transform = T.Compose(cases.CIFAR_TRANSFORMS[name][2](T, torch))
    loader = DataLoader(cifar, batch_size=8, shuffle=True, num_workers=1)
    assert explain(loader)["native"]
    torch.manual_seed(3)
    batches = [(cases.crc(images.numpy().tobytes()), labels.tolist()) for images, labels in loader]
    assert [crc for crc, _ in batches] == golden["shuffled"]
    assert [label for _, labels in batches for label in labels] == golden["labels"]


# Orders

@pytest.fixture
def records(make_loader, tmp_path):
    """Makes a loader of n records of a byte, without pixels."""
    def make(n, **options):
        (tmp_path / "bytes").write_bytes(bytes(n))
        return make_loader(None,
                           f"records:{tmp_path}/bytes?bytes=1",
                           batch_size=1024,
                           num_workers=0,
                           **options)

    return make


@pytest.mark.parametrize("world, rank", cases.RANKS)
@pytest.mark.parametrize("name", cases.DISTRIBUTED)
def test_orders_of_a_loader(records, name, world, rank):
    options = cases.DISTRIBUTED[name]
    loader = records(cases.N_SAMPLES,
                     world_size=world,
                     rank=rank,
                     seed=5,
                     no_shuffle=not options.get("shuffle", True),
                     tail="drop" if options.get("drop_last") else "pad")
    assert [indices(loader) for _ in range(cases.N_EPOCHS)] == ORDERS[name, world, rank]["orders"]


def crc_of(numbers):
    return cases.crc(array.array("q", numbers).tobytes())


DRAWN = [
    case for case in read_json("sampler_orders.json")["cases"]
    if 0 < case["count"] and case["n"] < 6000
]


@pytest.mark.parametrize("case",
                         DRAWN,
                         ids=lambda case: f"{case['kind']}-{case['n']}-{case['world_size']}")
def test_orders_of_repetition_and_weights(records, case):
    """RASampler, RepeatAugSampler and WeightedRandomSampler."""
    if case["kind"] == "repeat":
        options = {
            "repeat": case["repeat"], "repeat_form": case["form"], "no_shuffle": not case["shuffle"]
        }
    else:
        weights = [
            0.0 if case["zero_each"] and i % case["zero_each"] == 0 else float(i * 7919 % 1009 +
                                                                               1)**case["power"]
            for i in range(case["n"])
        ]
        options = {
            "weight_values": weights, "n_draws": case["n_draws"],
            "no_replacement": case["no_replacement"]
        }
    loader = records(case["n"],
                     world_size=case["world_size"],
                     rank=case["rank"],
                     seed=case["seed"],
                     epoch=case["epoch"],
                     **options)
    order = indices(loader)
    assert (len(order), order[:8], crc_of(order)) == (case["count"], case["first"], case["crc"])


@pytest.fixture(scope="module")
def numbered(folder):
    """A dataset whose labels are its indices."""
    if not has_torch:
        return None
    dataset = datasets.ImageFolder(folder, T.Compose([T.Resize((2, 2)), T.ToTensor()]))
    dataset.samples = [(dataset.samples[i % len(dataset.samples)][0], i)
                       for i in range(cases.N_SAMPLES)]
    return dataset


@needs_torch
@pytest.mark.parametrize("world, rank", cases.RANKS)
@pytest.mark.parametrize("name", NAMES)
def test_orders_of_the_drop_in(numbered, name, world, rank):
    """Four epochs, and the state of torch's generator after each, as in the golden file and as with
    the installed torch.
    """
    golden = ORDERS[name, world, rank]
    expected = {"orders": golden["orders"], "next": golden["next"]}
    for workers in (0, 1):
        assert cases.torch_orders(DataLoader,
                                  torch,
                                  numbered,
                                  name,
                                  world,
                                  rank,
                                  num_workers=workers) == expected
    assert cases.torch_orders(TorchLoader, torch, numbered, name, world, rank) == expected
