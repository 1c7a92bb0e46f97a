#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes draws.json: what torchvision's transforms draw from torch's generator, as a CRC-32 for each
case. They are v1's, and those of v2 that v1 lacks.

usage: make_draws.py > draws.json
    (needs torch and torchvision 0.29, on a CPU with AVX2; the tests do not)

torchvision.transforms.functional and v2's are replaced by recorders, so nothing is computed of
pixels.
tests/transforms/test_draws.c makes the same lines of the calls that the same text draws from the
same stream. Doubles have 12 digits there: f32 has 9, and the libraries' atan() may differ in the
last bit of a double.

RandomChoice and RandomOrder draw from Python's random module, not from torch's generator: they
cannot be replayed.
"""
import json
import math
import sys
import zlib

import torch
import torchvision
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import functional as F
from torchvision.transforms import v2

NAN = float("nan")
N_SEEDS = 250
N_IMAGES = 4  # of a seed, one after the other from one stream


class Record:
    """One image: the crop and the flips, and the calls after them."""

    def __init__(self, size):
        self.box = [0, 0, *size]
        self.flips = [0, 0]
        self.calls = []

    def text(self):
        return "box %d %d %d %d %d %d\n" % (*self.box, *self.flips) + "".join(
            call + "\n" for call in self.calls)


record = Record((1, 1))


def add(name, *values):
    record.calls.append(
        " ".join([name] +
                 [value if isinstance(value, str) else "%.12g" % value for value in values]))


v2.Transform._call_kernel = lambda _, function, image, *args, **named: function(
    image, *args, **named)


def replace(name):
    """Replace a function by a recorder. It returns the image unless the recorder returns another
    one.
    """

    def put(recorder):
        for module in (F, v2.functional):
            setattr(module, name, lambda img, *args, **names: recorder(img, *args, **names) or img)

    return put


for function in ("brightness", "contrast", "saturation", "hue", "sharpness"):
    replace("adjust_" + function)(lambda img, *args, call="adjust_" + function, **named: add(
        call, *args, *named.values()))
for function in ("invert", "autocontrast", "equalize"):
    replace(function)(lambda img, name=function: add(name))
replace("posterize")(lambda img, bits: add("posterize", bits))
replace("solarize")(lambda img, threshold: add("solarize", threshold))
replace("rgb_to_grayscale")(
    lambda img, num_output_channels: add("rgb_to_grayscale", num_output_channels))
replace("permute_channels")(lambda img, permutation: add("v2.permute_channels", *permutation))
replace("jpeg")(lambda img, quality: add("v2.jpeg", quality))
replace("gaussian_blur")(lambda img, kernel, sigma: add("gaussian_blur", kernel[0], sigma[0]))


def fill_of(fill):
    return fill if isinstance(fill, (tuple, list)) else [fill or 0] * 3


def filter_of(interpolation):
    """v2 takes words too."""
    return getattr(interpolation, "value", interpolation)


@replace("rotate")
def rotate(img, angle, interpolation, expand=False, center=None, fill=None):
    add("rotate", angle, filter_of(interpolation), *fill_of(fill), *(center or (NAN, NAN)))


@replace("affine")
def affine(img, angle, translate, scale, shear, interpolation, fill, center=None):
    add("affine", angle, *translate, scale, *shear, filter_of(interpolation), *fill_of(fill),
        *(center or (NAN, NAN)))


@replace("perspective")
def perspective(img, startpoints, endpoints, interpolation, fill):
    """Least squares give some 1e-16 for a 0."""
    coefficients = [
        0.0 if abs(x) < 1e-13 else x for x in F._get_perspective_coeffs(startpoints, endpoints)
    ]
    add("PIL.transform", *coefficients, interpolation.value, *fill_of(fill))


@replace("resized_crop")
def resized_crop(img, top, left, height, width, size, interpolation, antialias):
    record.box = [left, top, width, height]
    return img.resize(size[::-1])


@replace("crop")
def crop(img, top, left, height, width):
    """The box in the image without its padding."""
    record.box = [record.box[0] + left, record.box[1] + top, width, height]
    return Image.new("RGB", (width, height))


@replace("pad")
def pad(img, padding, fill, mode):
    record.box = [-padding, -padding, 0, 0]
    return Image.new("RGB", (img.width + 2 * padding, img.height + 2 * padding))


@replace("hflip")
def hflip(img):
    record.flips[0] ^= 1


@replace("vflip")
def vflip(img):
    record.flips[1] ^= 1


BILINEAR, BICUBIC = T.InterpolationMode.BILINEAR, T.InterpolationMode.BICUBIC
POLICY = T.AutoAugmentPolicy

SIMCLR = [
    T.RandomResizedCrop(224),
    T.RandomHorizontalFlip(),
    T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
    T.RandomGrayscale(0.2),
    T.RandomApply([T.GaussianBlur(23, (0.1, 2.0))], 0.5),
]


def cases():
    """Text, transform, [width, height]."""
    yield "random_resized_crop(224)", T.RandomResizedCrop(224), [500, 375]
    yield "random_resized_crop(96:64,scale=0.3:1,ratio=0.5:2)", T.RandomResizedCrop(
        (96, 64), (0.3, 1), (0.5, 2)), [61, 333]
    yield "random_crop(32,padding=4)", T.RandomCrop(32, 4), [32, 32]
    yield "random_crop(224:100)", T.RandomCrop((224, 100)), [500, 375]
    yield "hflip(0.3)+vflip(0.6)", T.Compose(
        [T.RandomHorizontalFlip(0.3), T.RandomVerticalFlip(0.6)]), [9, 9]
    for text, arguments in (
        ("0.4,0.4,0.4,0.1", (0.4, 0.4, 0.4, 0.1)),
        ("0.8,0.8,0.8,0.2", (0.8, 0.8, 0.8, 0.2)),
        ("0.3,contrast=0.7:1.3", (0.3, (0.7, 1.3))),
        ("saturation=2,hue=0.5", (0, 0, 2, 0.5)),
        ("1:1,0.5:0.5,0,-0.3:0.1", ((1, 1), (0.5, 0.5), 0, (-0.3, 0.1))),
    ):
        yield f"color_jitter({text})", T.ColorJitter(*arguments), [64, 64]
    for p in (0.1, 0.2, 0.5, 0.7):
        yield f"random_grayscale({p})", T.RandomGrayscale(p), [64, 64]
        yield f"invert({p})", T.RandomInvert(p), [64, 64]
        yield f"autocontrast({p})", T.RandomAutocontrast(p), [64, 64]
        yield f"equalize({p})", T.RandomEqualize(p), [64, 64]
        yield f"posterize(3,{p})", T.RandomPosterize(3, p), [64, 64]
        yield f"solarize(130.5,{p})", T.RandomSolarize(130.5, p), [64, 64]
        yield f"adjust_sharpness(1.7,{p})", T.RandomAdjustSharpness(1.7, p), [64, 64]
        yield f"random_apply(invert(1)+equalize(0.3),{p})", T.RandomApply([
            T.RandomInvert(1), T.RandomEqualize(0.3)
        ], p), [64, 64]
    for text, sigma in ((",0.1:2", (0.1, 2.0)), ("", (0.1, 2.0)), (",0.3", 0.3), (",0.7:1.9",
                                                                                  (0.7, 1.9))):
        yield f"gaussian_blur(23{text})", T.GaussianBlur(23, sigma), [64, 64]
    modes, size = T.InterpolationMode, [120, 91]
    yield "rotation(30)", T.RandomRotation(30), size
    yield "rotation(-5.5:170,bicubic,10:-20.5,1:2:3)", T.RandomRotation(
        (-5.5, 170), modes.BICUBIC, False, (10, -20.5), (1, 2, 3)), size
    yield "affine(0)", T.RandomAffine(0), size
    yield "affine(15,0.1:0.25)", T.RandomAffine(15, (0.1, 0.25)), size
    yield "affine(-7:15,scale=0.8:1.3,shear=10,bilinear,fill=7)", T.RandomAffine(
        (-7, 15), None, (0.8, 1.3), 10, modes.BILINEAR, 7), size
    yield "affine(25,0.5:0,0.3:0.4,-1:2:-3:4.5,nearest,1:2:3,0:0.5)", T.RandomAffine(
        25, (0.5, 0), (0.3, 0.4), (-1, 2, -3, 4.5), modes.NEAREST, (1, 2, 3), (0, 0.5)), size
    yield "affine(25,shear=3:4)", T.RandomAffine(25, shear=(3, 4)), size
    yield "perspective", T.RandomPerspective(), [224, 224]
    yield "perspective(0.7,0.9,nearest,1:2:3)", T.RandomPerspective(0.7, 0.9, modes.NEAREST,
                                                                    (1, 2, 3)), [500, 375]
    yield "perspective(0.3,0.1)", T.RandomPerspective(0.3, 0.1), [75, 60]
    yield "grayscale(3)", T.Grayscale(3), [64, 64]
    yield from policies(T, "")
    yield from recipes()
    yield from policies(v2, "_v2")
    yield "jpeg(50)", v2.JPEG(50), [64, 64]
    yield "jpeg(5:95)", v2.JPEG((5, 95)), [64, 64]
    yield "channel_permutation", v2.RandomChannelPermutation(), [64, 64]
    yield "photometric_distort", v2.RandomPhotometricDistort(), [64, 64]
    yield "photometric_distort(0.5:2,1:3,0:0.5,-0.5:0.2,0.8)", v2.RandomPhotometricDistort(
        (0.5, 2), (1, 3), (0, 0.5), (-0.5, 0.2), 0.8), [64, 64]


def policies(version, suffix):
    """Those of v1 or of v2."""
    for text, arguments in (("", {}), ("(3,5)", dict(num_ops=3,
                                                     magnitude=5)), ("(1,30,interp=bilinear)",
                                                                     dict(num_ops=1,
                                                                          magnitude=30,
                                                                          interpolation=BILINEAR)),
                            ("(4,0,bicubic)", dict(num_ops=4, magnitude=0, interpolation=BICUBIC)),
                            ("(8,7,10)", dict(num_ops=8, magnitude=7,
                                              num_magnitude_bins=10)), ("(8,1,2)",
                                                                        dict(num_ops=8,
                                                                             magnitude=1,
                                                                             num_magnitude_bins=2)),
                            ("(8,400,1000)", dict(num_ops=8, magnitude=400,
                                                  num_magnitude_bins=1000)),
                            ("(num_magnitude_bins=17,magnitude=12,fill=128)",
                             dict(num_magnitude_bins=17, magnitude=12, fill=128)),
                            ):
        for size in ([224, 224], [500, 375], [1, 33]):
            yield f"rand_augment{suffix}{text}", version.RandAugment(**arguments), size
    for text, arguments in (("", {}), ("(interp=bilinear)",
                                       dict(interpolation=BILINEAR)), ("(31,bicubic,fill=1:2:255)",
                                                                       dict(interpolation=BICUBIC,
                                                                            fill=[1, 2, 255])),
                            *((f"({bins})", dict(num_magnitude_bins=bins))
                              for bins in (2, 3, 5, 10, 11, 12, 14, 16, 19, 20, 64, 255, 1000)),
                            ):
        yield f"trivial_augment_wide{suffix}{text}", version.TrivialAugmentWide(
            **arguments), [224, 224]
    for text, arguments in (
        ("", {}),
        ("(imagenet)", dict(policy=POLICY.IMAGENET)),
        ("(cifar10,interp=bilinear)", dict(policy=POLICY.CIFAR10, interpolation=BILINEAR)),
        ("(svhn,fill=7)", dict(policy=POLICY.SVHN, fill=7)),
    ):
        for size in ([224, 224], [32, 32], [333, 500], [7, 5]):
            yield f"auto_augment{suffix}{text}", version.AutoAugment(**arguments), size


def chances(policy):
    """The calls that auto_augment becomes, by their names, and how often."""
    names = {
        "ShearX": "affine", "ShearY": "affine", "TranslateX": "affine", "TranslateY": "affine",
        "Rotate": "rotate", "Brightness": "adjust_brightness", "Color": "adjust_saturation",
        "Contrast": "adjust_contrast", "Sharpness": "adjust_sharpness",
    }
    outcomes = {}
    pairs = T.AutoAugment(policy).policies
    for pair in pairs:
        for made in ((0, 0), (0, 1), (1, 0), (1, 1)):
            p = math.prod(chance if is_made else 1 - chance
                          for (_, chance, _), is_made in zip(pair, made))
            text = " ".join(
                names.get(name, name.lower()) for (name, _, _), is_made in zip(pair, made)
                if is_made)
            outcomes[text] = outcomes.get(text, 0) + p / len(pairs)
    return [[text, round(p, 12)] for text, p in outcomes.items() if p > 0]


def recipes():
    """Several operations from one stream."""
    crop = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
    for text, more in (
        ("trivial_augment_wide(interp=bilinear)", T.TrivialAugmentWide(interpolation=BILINEAR)),
        ("rand_augment(interp=bilinear)", T.RandAugment(interpolation=BILINEAR)),
        ("auto_augment(interp=bilinear)", T.AutoAugment(interpolation=BILINEAR)),
    ):
        yield "train:224+" + text, T.Compose(crop + [more]), [500, 375]
    simclr = ("random_apply(color_jitter(0.8,0.8,0.8,0.2),0.8)+random_grayscale(0.2)+"
              "random_apply(gaussian_blur(23,0.1:2),0.5)")
    yield "train:224+" + simclr, T.Compose(SIMCLR), [500, 375]


def main():
    global record
    if not torchvision.__version__.startswith("0.29") or torch.backends.cpu.get_cpu_capability(
    ) == "DEFAULT":
        sys.exit(
            f"torchvision {torchvision.__version__}, CPU {torch.backends.cpu.get_cpu_capability()}")
    rows = []
    for text, transform, size in cases():
        crc, first = 0, None
        for seed in range(N_SEEDS):
            torch.manual_seed(seed)
            for _ in range(N_IMAGES):
                record = Record(size)
                transform(Image.new("RGB", size))
                first = first or record.text()
                crc = zlib.crc32(record.text().encode(), crc)
        rows.append("    " + json.dumps({"text": text, "size": size, "crc32": crc, "first": first}))
    versions = json.dumps({
        "torch": torch.__version__.split("+")[0],
        "torchvision": torchvision.__version__.split("+")[0]
    })
    print(
        f'{{\n  "made_with": {versions},\n  "seeds": {N_SEEDS},\n  "images": {N_IMAGES},\n'
        '  "cases": ['
    )
    print(",\n".join(rows) + '\n  ],\n  "chances": {')
    rows = [
        f'    "auto_augment({policy.value})": {json.dumps(chances(policy))}' for policy in POLICY
    ]
    print(",\n".join(rows) + "\n  }\n}")


main()
