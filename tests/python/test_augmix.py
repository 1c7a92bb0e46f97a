# SPDX-License-Identifier: Apache-2.0
"""AugMix: the calls that are explained give the same bytes by torchvision's functions on tensors,
and so does torchvision's class when it makes the same draws.
"""
import math
import os
import sys
from unittest import mock

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from PIL import Image
from torchvision import transforms as v1

import millrace
from millrace.torch import DataLoader, ImageFolder, explain

try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None
if not hasattr(v2, "ToPureTensor"):  # its first versions were drafts
    v2 = None

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../data"))
from fused_grids import fused_grids
from replay_explain import replay

VERSIONS = [pytest.param(v1, id="v1"), pytest.param(v2, id="v2", marks=pytest.mark.skipif(
    not v2, reason="this torchvision has no transforms.v2"))]
NEAREST = v1.InterpolationMode.NEAREST
ARGUMENTS = [{}, {"severity": 10, "mixture_width": 5}, {"severity": 7, "chain_depth": 6},
             {"severity": 10, "all_ops": False, "fill": 0}, {"severity": 9, "fill": [9, 200, 30]},
             {"severity": 10, "chain_depth": 3, "interpolation": NEAREST},
             {"severity": 8, "interpolation": NEAREST, "fill": 77, "alpha": 0.2},
             {"severity": 10, "mixture_width": 1, "alpha": 5.0}]
pytestmark = pytest.mark.filterwarnings("error:millrace:", "ignore:.*batches are held at once",
                                        "ignore:Argument fill should be",
                                        "ignore:Argument .interpolation. of type int")


def load(images, ops):
    """Each image beside what the native loader makes of it, and its calls."""
    loader = DataLoader(ImageFolder(images, v1.Compose(ops)), batch_size=7)
    assert explain(loader)["native"], explain(loader)["reason"]
    rows = torch.cat([image.clone() for image, _ in loader])
    text = explain(loader)["transform"]
    for i, (path, _) in enumerate(ImageFolder(images).samples):
        with Image.open(path) as image:
            image = image.convert("RGB")
        yield image, rows[i], millrace.explain(text, loader._draws.seed, 0, i, *image.size)


def pixels(image):
    return torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1)


@pytest.mark.parametrize("T", VERSIONS)
@pytest.mark.parametrize("given", ARGUMENTS)
def test_calls_replay_to_the_same_bytes(images, T, given):
    for seed in range(3):
        torch.manual_seed(seed)
        ops = [T.RandomResizedCrop((61, 40), (0.5, 1)), T.AugMix(**given), T.PILToTensor()]
        with fused_grids():
            for image, row, calls in load(images, ops):
                assert torch.equal(row, pixels(replay(image, calls))), calls


@pytest.mark.parametrize("T", VERSIONS)
def test_torchs_own_matrix_product_gives_nearly_the_same(images, T):
    """It may multiply and add in two steps. One chain of one call: other calls could make more of a
    difference."""
    n = n_apart = 0
    for seed in range(20):
        torch.manual_seed(seed)
        ops = [T.Resize((64, 50)), T.AugMix(10, 1, 1), T.PILToTensor()]
        for image, row, calls in load(images, ops):
            apart = (row.int() - pixels(replay(image, calls)).int()).abs()
            assert apart.max() <= 1, calls
            n, n_apart = n + apart.numel(), n_apart + int((apart > 0).sum())
    assert n_apart < n / 500


CHANGES = ["ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Posterize", "Solarize",
           "AutoContrast", "Equalize", "Brightness", "Color", "Contrast", "Sharpness"]
ENHANCED = {"brightness": "Brightness", "saturation": "Color", "contrast": "Contrast",
            "sharpness": "Sharpness"}


def change_of(name, args):
    """The change and the magnitude from which torchvision's class makes the call."""
    name = name.split(".")[-1]
    if name == "affine":
        axis = 0 if args["shear"][0] or args["translate"][0] else 1
        if "center" in args:
            return f"Shear{'XY'[axis]}", math.tan(math.radians(args["shear"][axis]))
        return f"Translate{'XY'[axis]}", args["translate"][axis]
    if name.startswith("adjust_"):
        return ENHANCED[name[len("adjust_"):]], next(iter(args.values())) - 1
    value = next((args[key] for key in ("angle", "bits", "threshold") if key in args), None)
    return {"autocontrast": "AutoContrast"}.get(name, name.capitalize()), value


def draws_of(T, mix, calls, size):
    """What torch.randint and torch.rand must give the class for the same calls."""
    integers, signs = [], []
    if T is v1:
        space = mix._augmentation_space(10, size[::-1])
    else:
        space = {name: (make(10, size[1], size[0]), signed)
                 for name, (make, signed) in mix._AUGMENTATION_SPACE.items()}
    for _, chain in calls[0][1]["chains"]:
        integers.append(len(chain))
        for name, args in chain:
            change, value = change_of(name, args)
            integers.append(CHANGES.index(change))
            magnitudes, is_signed = space[change]
            if value is None:
                continue
            if T is v2 and change == "Solarize":
                value /= 255
            if change.startswith("Translate"):
                magnitudes = magnitudes.trunc()
            integers.append(int((magnitudes.double() - abs(value)).abs().argmin()))
            if is_signed:
                (integers if T is v1 else signs).append(int(value < 0) if T is v1 else value > 0)
    return integers, signs


@pytest.mark.parametrize("T", VERSIONS)
def test_the_class_gives_the_same_bytes_for_the_same_draws(images, T):
    for seed in range(6):
        torch.manual_seed(seed)
        mix = T.AugMix(10, 4)
        for image, row, calls in load(images, [T.Resize((80, 64)), mix, T.PILToTensor()]):
            image = replay(image, calls[:-1])
            integers, signs = draws_of(T, mix, calls[-1:], image.size)
            weight, chains = calls[-1][1]["weight"], calls[-1][1]["chains"]
            weights = [torch.tensor([[weight, 1]]), torch.tensor([[w for w, _ in chains]])]
            with fused_grids(), mock.patch.object(
                    mix, "_sample_dirichlet", lambda _: weights.pop(0)), mock.patch(
                        "torch.randint", lambda *_, **__: torch.tensor(integers.pop(0))
                    ), mock.patch("torch.rand", lambda *_: torch.tensor(float(signs.pop(0)))):
                made = mix(image)
            assert not integers and not signs and not weights
            assert torch.equal(row, pixels(made)), calls


def test_a_tensor_gives_the_bytes_of_an_image(images):
    """AugMix makes a tensor of an image first."""
    if not v2:
        pytest.skip("this torchvision has no transforms.v2")
    rows = []
    for ops in ([v2.AugMix(), v2.PILToTensor()], [v2.PILToTensor(), v2.AugMix()]):
        torch.manual_seed(3)
        rows.append([row for _, row, _ in load(images, [v2.CenterCrop(50), *ops])])
    assert all(map(torch.equal, *rows))


def test_texts_are_written_with_all_arguments():
    text = "augmix+augmix_v2(severity=5,mixture_width=2,all_ops=0,nearest,fill=0)"
    long = "augmix(3,3,-1,1,1,interp=bilinear)+augmix_v2(5,2,-1,1,0,interp=nearest,fill=0)"
    assert str(millrace.Transform(text)) == str(millrace.Transform(long)) == long
    with pytest.raises(millrace.InvalidError, match="severity: a whole number from 1 to 10"):
        millrace.Transform("augmix(11)")


def test_cubic_interpolation_is_refused_by_name(images):
    mix = v1.AugMix(interpolation=v1.InterpolationMode.BICUBIC)
    with pytest.warns(UserWarning, match="tensors have nearest and bilinear"):
        DataLoader(ImageFolder(images, v1.Compose([v1.CenterCrop(9), mix, v1.PILToTensor()])))
