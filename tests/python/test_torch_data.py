# SPDX-License-Identifier: Apache-2.0
"""millrace.torch's DataLoader: packs and lists in a folder's place, presets, erasing, and what is
read ahead.
"""
import os
import pickle
import subprocess

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from torch.utils import data
from torchvision import transforms as T

from millrace.torch import DataLoader, Dataset, ImageFolder, explain

pytestmark = pytest.mark.filterwarnings("error:millrace:")
none_is_copied = pytest.mark.filterwarnings("error:.*are held at once")
NORMAL = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
EVAL = T.Compose([T.Resize(24), T.CenterCrop(16), T.ToTensor(), NORMAL])
TO_U8 = T.Compose([T.Resize((16, 16)), T.PILToTensor()])


@pytest.fixture(scope="module")
def pack(images, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("packs") / "pack")
    subprocess.run([os.environ["MR_COMMAND"], "pack", images, folder],
                   check=True,
                   capture_output=True)
    return "pack:" + folder


@pytest.fixture
def folder(images):
    return ImageFolder(images, EVAL)


def assert_same_batches(ours, torchs):
    ours, torchs = list(ours), list(torchs)
    assert len(ours) == len(torchs)
    for (x, y), (u, v) in zip(ours, torchs):
        assert torch.equal(x, u)
        assert torch.equal(y, v)


def native(dataset, **options):
    loader = DataLoader(dataset, **{"batch_size": 4, "num_workers": 1, **options})
    assert explain(loader)["native"], explain(loader)["reason"]
    return loader


def test_a_pack_stands_for_its_folder(pack, folder):
    packed = Dataset(pack, EVAL)
    assert (packed.classes, packed.class_to_idx,
            packed.targets) == (folder.classes, folder.class_to_idx, folder.targets)
    assert_same_batches(native(packed), data.DataLoader(folder, batch_size=4))
    assert_same_batches(native(data.Subset(packed, [20, 3, 3])),
                        data.DataLoader(data.Subset(folder, [20, 3, 3]), 4))


def test_one_sample_of_a_pack_is_that_of_its_folder(pack, folder):
    packed = pickle.loads(pickle.dumps(Dataset(pack, EVAL)))
    for index in (0, 5, -1):
        assert torch.equal(packed[index][0], folder[index][0])
        assert packed[index][1] == folder[index][1]
    packed.transform = None
    assert packed[0][0].size == folder.loader(folder.samples[0][0]).size
    with pytest.raises(IndexError):
        packed[len(packed)]


def test_one_sample_that_is_no_image_is_refused(tmp_path):
    (tmp_path / "ids").write_bytes(bytes(100))
    with pytest.raises(TypeError, match="sample 2 is not an image; millrace.Loader has its array"):
        Dataset(f"tokens:{tmp_path}/ids?dtype=u8&window=8")[2]


def test_torch_loads_a_pack_too(pack, folder):
    assert_same_batches(data.DataLoader(Dataset(pack, EVAL), batch_size=4, num_workers=1),
                        data.DataLoader(folder, batch_size=4))


def test_a_pack_whose_images_differ_in_size_is_left_to_torch(pack):
    with pytest.warns(UserWarning, match="images that come out with different sizes"):
        loader = DataLoader(Dataset(pack, T.PILToTensor()), batch_size=1)
    assert not explain(loader)["native"]


class Preset:
    """As in torchvision's references."""

    def __init__(self, *transforms):
        self.transforms = T.Compose(transforms)

    def __call__(self, img):
        return self.transforms(img)


class TurningPreset(Preset):
    def __call__(self, img):
        return self.transforms(img.rotate(90))


def test_a_preset_is_what_it_calls(folder):
    folder.transform = Preset(*EVAL.transforms)
    assert_same_batches(native(folder), data.DataLoader(folder, batch_size=4))
    folder.transform = T.Compose([T.Resize(24), Preset(T.CenterCrop(16), T.ToTensor())])
    assert_same_batches(native(folder), data.DataLoader(folder, batch_size=4))


@pytest.mark.parametrize("preset",
                         [TurningPreset(*EVAL.transforms), lambda img: EVAL(img),
                          T.Lambda(EVAL)])
def test_a_preset_that_does_more_is_left_to_torch(folder, preset):
    folder.transform = preset
    with pytest.warns(UserWarning, match="the transform "):
        loader = DataLoader(folder, batch_size=4)
    assert not explain(loader)["native"]


@pytest.mark.parametrize("value", [0, 0.5, (1.0, 2.0, 3.0), "random"])
def test_erasing_changes_a_box_and_nothing_else(folder, value):
    def images(*end):
        folder.transform = T.Compose([*EVAL.transforms, *end])
        torch.manual_seed(1)
        return torch.cat([x for x, _ in native(folder)])

    whole, erased = images(), images(T.RandomErasing(1.0, value=value))
    for before, after in zip(whole, erased):
        rows, columns = (before != after).any(0).nonzero(as_tuple=True)
        box = after[:, min(rows) : max(rows) + 1, min(columns) : max(columns) + 1]
        assert 0.01 * 256 <= box[0].numel() <= 0.4 * 256
        if value != "random":
            assert torch.equal(
                box,
                torch.tensor(value, dtype=torch.float32).reshape(-1, 1, 1).expand_as(box))


def test_what_comes_after_erasing_is_left_to_torch(folder):
    for transforms in ([T.ToTensor(), T.RandomErasing(),
                        NORMAL], [T.PILToTensor(), T.RandomErasing()]):
        folder.transform = T.Compose([T.Resize((16, 16)), *transforms])
        with pytest.warns(UserWarning, match="RandomErasing"):
            assert not explain(DataLoader(folder, batch_size=4))["native"]


@pytest.mark.parametrize("structure", [T.RandomApply, T.RandomChoice, T.RandomOrder])
def test_what_changes_sizes_inside_a_structure_is_left_to_torch(folder, structure):
    flip = T.Compose([T.RandomHorizontalFlip(1), T.RandomInvert(1)])
    for inner, name in ((T.RandomRotation(9, expand=True), "RandomRotation with expand"),
                        (T.RandomCrop(16), "RandomCrop"), (T.Resize(16), "Resize"), (flip, "")):
        folder.transform = T.Compose([structure([inner]), *EVAL.transforms])
        if name == "":
            assert "(hflip(1)+invert(1)" in explain(native(folder))["transform"]
            continue
        with pytest.warns(UserWarning, match=f"{name} inside {structure.__name__}, which changes"):
            DataLoader(folder, batch_size=4)


@none_is_copied
def test_prefetch_factor_lets_so_many_batches_wait_and_be_held(folder):
    loader = native(folder, num_workers=2, prefetch_factor=3)
    stream = iter(loader)
    held = [next(stream) for _ in range(6)]  # the default would warn: "are held at once"
    assert len(held) == len(loader)


@none_is_copied
def test_pinned_batches_are_copies_that_torch_made(folder, monkeypatch):
    pinned = []

    def pin(tensor, *device):
        pinned.append(tensor)
        return tensor.clone()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    loader = native(folder, pin_memory=True)
    batches = []
    for batch in loader:  # none of them holds a slot
        pinned.clear()
        batches.append(batch)
    assert type(batches[0]) is list
    monkeypatch.undo()
    assert_same_batches(batches, data.DataLoader(folder, batch_size=4))
