# SPDX-License-Identifier: Apache-2.0
"""Random Composes of torchvision's public classes, in v1 and v2: a native DataLoader gives the
pixels that torchvision makes of the same images.

With MR_REPLAYS=N there are N of each kind instead of a few.
"""
import os
import random
import sys

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

import PIL
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import functional as F

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

N = int(os.environ.get("MR_REPLAYS", "25"))
# Earlier versions of Pillow round the bytes of rotations in another way.
WARPS = ("nearest", "bilinear", "bicubic") if int(
    PIL.__version__.split(".")[0]) >= 13 else ("nearest", )
NORMAL = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
VERSIONS = [pytest.param("v1"), pytest.param("v2", marks=pytest.mark.skipif(
    not v2, reason="this torchvision has no transforms.v2"))]
pytestmark = pytest.mark.filterwarnings("error:millrace:", "ignore:.*batches are held at once",
                                        "ignore:Argument 'interpolation' of type int",
                                        "ignore:Argument fill should be")


class Maker:
    """Makes random transforms. is_fixed: their parameters leave nothing to chance."""

    def __init__(self, version, seed, is_fixed):
        self.T = {"v1": v1, "v2": v2}[version]
        self.is_v2 = version == "v2"
        self.rng = random.Random(f"{version} {seed}")
        self.is_fixed = is_fixed

    def p(self):
        return self.rng.randrange(2) if self.is_fixed else self.rng.choice([0.3, 0.7, 1.0])

    def span(self, lo, hi):
        a, b = sorted(round(self.rng.uniform(lo, hi), 3) for _ in range(2))
        return (a, a) if self.is_fixed else (a, b)

    def mode(self, *words):
        return self.T.InterpolationMode(self.rng.choice(words or WARPS))

    def fill(self):
        return self.rng.choice([0, 9, (1, 200, 30)])

    def padding(self):
        """Arguments of Pad and RandomCrop."""
        return self.rng.choice([{"fill": self.fill()}, {"padding_mode": "edge"},
                                {"padding_mode": "reflect"}, {"padding_mode": "symmetric"}])

    def image_op(self):
        """An operation that keeps the image's size, also inside structures."""
        T, rng = self.T, self.rng
        made = [
            lambda: T.RandomInvert(self.p()),
            lambda: T.RandomPosterize(rng.randint(1, 8), self.p()),
            lambda: T.RandomSolarize(rng.choice([100, 127.5, 200]), self.p()),
            lambda: T.RandomAutocontrast(self.p()),
            lambda: T.RandomEqualize(self.p()),
            lambda: T.RandomAdjustSharpness(rng.choice([0, 0.5, 2]), self.p()),
            lambda: T.RandomGrayscale(self.p()),
            lambda: T.Grayscale(3),
            lambda: T.ColorJitter(**{
                rng.choice(["brightness", "contrast", "saturation"]): self.span(0.3, 2)
            }),
            lambda: T.ColorJitter(hue=self.span(-0.5, 0.5)),
            lambda: T.RandomRotation(self.span(-90, 90), self.mode(), fill=self.fill()),
            lambda: T.RandomAffine(self.span(-30, 30), None, self.span(0.7, 1.4),
                                   self.span(-20, 20), self.mode(), self.fill()),
            lambda: T.RandomHorizontalFlip(self.p()),
            lambda: T.RandomVerticalFlip(self.p()),
        ]
        if not self.is_fixed:
            made += [
                lambda: T.ColorJitter(0.4, 0.4, 0.4, 0.1),
                lambda: T.RandomPerspective(0.4, self.p(), self.mode(), self.fill()),
                lambda: T.RandomAffine(20, (0.2, 0.1), fill=self.fill()),
                lambda: T.RandAugment(rng.randint(1, 4), rng.randrange(31),
                                      interpolation=self.mode()),
                lambda: T.TrivialAugmentWide(interpolation=self.mode(), fill=self.fill()),
                lambda: T.AutoAugment(rng.choice(list(T.AutoAugmentPolicy)),
                                      interpolation=self.mode()),
                lambda: T.AugMix(rng.randint(1, 10), rng.randint(1, 4), fill=rng.choice([None, 7])),
            ]
        if self.is_v2 and not self.is_fixed:
            made += [T.RandomChannelPermutation, T.RandomPhotometricDistort]
        if hasattr(T, "JPEG"):
            made.append(lambda: T.JPEG(80 if self.is_fixed else (20, 90)))
        return rng.choice(made)()

    def structure(self):
        T, ops = self.T, [self.image_op() for _ in range(self.rng.randint(1, 3))]
        if self.rng.randrange(3) == 0:
            ops.append(T.Compose([self.image_op(), self.image_op()]))
        if self.is_fixed:
            return T.RandomApply(ops, self.p())
        return self.rng.choice([
            lambda: T.RandomApply(ops, self.p()), lambda: T.RandomChoice(ops), lambda: T.
            RandomOrder(ops)
        ])()

    def geometry(self):
        """Operations after which all images have one size."""
        T, rng = self.T, self.rng
        size, most = (rng.randint(8, 60), rng.randint(8, 60)), rng.randint(20, 40)
        made = [
            lambda: [T.Resize(size, self.mode("nearest", "bilinear", "bicubic", "lanczos"))],
            lambda: [T.Resize(most, self.mode(), max_size=most + 5), T.CenterCrop(size)],
            lambda: [T.Pad(rng.choice([3, [4, 7], [1, 0, 30, 5]]), **self.padding()),
                     T.CenterCrop(size)],
            lambda: [T.RandomResizedCrop(size, (1, 1), (9, 9), interpolation=self.mode())],
        ]
        if not self.is_fixed:
            made += [
                lambda: [T.RandomRotation(180, self.mode(), True, fill=self.fill()),
                         T.CenterCrop(size)],
                lambda: [T.RandomResizedCrop(size, self.span(0.1, 1), interpolation=self.mode())],
                lambda: [T.RandomCrop(size, pad_if_needed=True, **self.padding())],
                lambda: [T.RandomCrop(size, [30, 25, 31, 20], **self.padding())
                         if max(size) < 45 else T.RandomCrop(size, 50, **self.padding())],
            ]
        if self.is_v2 and not self.is_fixed:
            drawn = [
                lambda: T.RandomResize(20, 60, self.mode()),
                lambda: T.RandomShortestSize([20, 33, 47], rng.choice([None, 50]), self.mode()),
                lambda: T.ScaleJitter((40, 55), self.span(0.3, 2), self.mode()),
                lambda: T.RandomZoomOut(self.fill(), (1, 2.5), self.p()),
            ]
            made.append(lambda: [rng.choice(drawn)(), T.RandomCrop(size, pad_if_needed=True)])
        return rng.choice(made)()

    def tail(self):
        """From an image to a tensor."""
        T = self.T
        if self.is_v2:
            scaled = T.ToDtype(torch.float32, scale=True)
            made = [[T.ToImage()], [T.PILToTensor()], [T.ToImage(), scaled],
                    [T.ToImage(), scaled, T.Normalize(*NORMAL)]]
        else:
            made = [[T.PILToTensor()], [T.ToTensor()], [T.ToTensor(), T.Normalize(*NORMAL)],
                    [T.PILToTensor(), T.ConvertImageDtype(torch.float32)]]
        return self.rng.choice(made)

    def compose(self):
        """All operations on images, what follows, and whether the images are blurred."""
        ops = [
            self.rng.choice([self.image_op, self.structure])() for _ in range(self.rng.randrange(3))
        ]
        place = self.rng.randint(0, len(ops))
        # What follows a blur may make more of a difference of 1.
        is_blurred = self.rng.randrange(6) == 0
        blur = [self.T.GaussianBlur(self.rng.choice([3, 5]), self.span(0.2, 2))] * is_blurred
        return ops[:place] + self.geometry() + ops[place:] + blur, self.tail(), is_blurred


def batches(images, transform):
    """The loader after a pass, and its samples."""
    loader = DataLoader(ImageFolder(images, transform), batch_size=7)
    assert explain(loader)["native"], (explain(loader)["reason"], transform)
    return loader, torch.cat([image.clone() for image, _ in loader])


def open_images(images):
    for path, _ in ImageFolder(images).samples:
        with Image.open(path) as image:
            yield image.convert("RGB")


def assert_same(mine, other, is_blurred, what):
    """A blur may differ by 1 of 255."""
    mine, other = torch.as_tensor(mine), torch.as_tensor(other)
    assert (mine.dtype, mine.shape) == (other.dtype, other.shape), what
    if not is_blurred:
        assert torch.equal(mine, other), what
        return
    apart = (mine.double() - other.double()).abs()
    step = 1 if mine.dtype == torch.uint8 else 1 / 255 / min(NORMAL[1])
    assert apart.max() <= 1.001 * step, what


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_of_random_transforms_replay_to_the_same_bytes(images, version):
    for seed in range(N):
        ops, tail, is_blurred = Maker(version, seed, False).compose()
        loader, got = batches(images, v1.Compose([*ops, *tail]))
        text, finish = explain(loader)["transform"], v1.Compose(tail)
        for i, image in enumerate(open_images(images)):
            calls = millrace.explain(text, loader._draws.seed, 0, i, *image.size)
            with fused_grids():
                want = finish(replay(image, calls))
            assert_same(got[i], want, is_blurred, (seed, i, text, calls))


@pytest.mark.parametrize("version", VERSIONS)
def test_fixed_transforms_give_torchvisions_bytes(images, version):
    """Nothing is left to chance, so parameters that were misread would show."""
    for seed in range(N):
        ops, tail, is_blurred = Maker(version, seed, True).compose()
        whole = v1.Compose([*ops, *tail])
        _, got = batches(images, whole)
        for i, image in enumerate(open_images(images)):
            assert_same(got[i], whole(image), is_blurred, (seed, i, whole))
