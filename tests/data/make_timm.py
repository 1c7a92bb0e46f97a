#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes timm.json: what timm's own functions make of images, and how often its policies draw what.

usage: make_timm.py > timm.json      (needs timm 1.0, NumPy and Pillow 13; the tests do not)

"levels": CRC-32 of an operation with a magnitude, over RGB images of all sizes of
make_image_calls.py; "negates" and "part" stand for what Python's random would draw. "draws": of N
samples of a policy on an image of 100 x 100, how many have as their first call which one (its name,
its value in steps, its filter), and which calls at all. tests/transforms/test_timm.c has the same
questions.
"""
import collections
import json
import math
import random
import sys
import zlib

import numpy
import PIL
import timm
from PIL import Image
from timm.data import auto_augment as aa

from make_image_calls import images

KINDS = ["noise", "photograph"]
FILTERS = {"bilinear": 0, "nearest": 1, "bicubic": 4}  # enum mr_interpolation
MEAN = (124, 116, 104)
N = 200000
RARE = 100

# timm's functions: name of the call, the step of its value.
CALLS = {
    "auto_contrast": ("autocontrast", 0), "invert": ("invert", 0), "equalize": ("equalize", 0),
    "rotate": ("rotate", 5), "posterize": ("posterize", 1), "solarize": ("solarize", 32),
    "solarize_add": ("timm.solarize_add", 16), "color": ("adjust_saturation", 0.2),
    "desaturate": ("adjust_saturation", 0.2), "contrast": ("adjust_contrast", 0.2),
    "brightness": ("adjust_brightness", 0.2), "sharpness": ("adjust_sharpness", 0.2),
    "shear_x": ("PIL.transform1", 0.05), "translate_x_rel": ("PIL.transform2", 5),
    "shear_y": ("PIL.transform3", 0.05), "translate_y_rel": ("PIL.transform5", 5),
    "gaussian_blur": ("PIL.GaussianBlur", 0.2), "gaussian_blur_rand": ("PIL.GaussianBlur", 0.2),
}  # fmt: skip

POLICIES = [
    "rand-m9-mstd0.5-inc1", "rand-m5-n1-mstd101-p1", "rand-m9-n2-mstd0.5-tweights",
    "rand-m8-n3-p0.8-mmax15-mstd4-t3aw", "rand-m9-n1-t3a", "original-mstd0.5", "originalr",
    "v0-mstd1", "v0r", "3a",
]  # fmt: skip


def posterize(image, bits):
    """Pillow 13 refuses to keep 0 bits. Earlier versions make a black image, and so does this."""
    mask = 256 - (1 << 8 - max(bits, 0))
    return image.point([x & mask for x in range(256)] * 3)


class Fixed:
    """Python's random, with its draws given."""

    def __init__(self, negates, part):
        self.negates, self.part = negates, part

    def random(self):
        return 0.9 if self.negates else 0.1

    def uniform(self, a, b):
        return a + (b - a) * self.part


def levels(made):
    names = [name for name in aa.NAME_TO_OP if name not in ("TranslateX", "TranslateY")]
    for name in names:
        warps = name in ("Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
        for magnitude in (0, 0.4, 1, 3.7, 5, 9, 9.83, 10, 17.5) if aa.LEVEL_TO_ARG[name] else (5,):
            for negates in (False, True) if warps or "Increasing" in name else (False,):
                for filter in FILTERS if warps else ("bicubic",):
                    part = random.random()
                    hparams = {
                        "img_mean": MEAN, "interpolation": getattr(Image, filter.upper()),
                        "magnitude_max": 20
                    }
                    op = aa.AugmentOp(name, 1.0, magnitude, hparams)
                    usual, aa.random = aa.random, Fixed(negates, part)
                    crcs = []
                    for kind in KINDS:
                        crc = 0
                        for image in made[kind]:
                            crc = zlib.crc32(op(image).tobytes(), crc)
                        crcs.append(crc)
                    aa.random = usual
                    yield {"op": name, "magnitude": magnitude, "negates": negates, "part": part,
                           "filter": FILTERS[filter], "crc32": crcs}  # fmt: skip


def record(seen):
    """Replace timm's functions by ones that record their arguments."""

    def replace(name):
        call, step = CALLS[name]

        def note(image, *args, resample=None, fillcolor=None):
            value = args[0] if args else 0
            filter = ""
            if resample is not None and name in ("rotate", "shear_x", "shear_y", "translate_x_rel",
                                                 "translate_y_rel"):
                filter = {Image.BILINEAR: "0",
                          Image.BICUBIC: "4"}[aa._interpolation({"resample": resample})]
            if name.startswith("translate"):
                value *= 100
            if name == "desaturate":
                value = min(1.0, max(0.0, 1.0 - value))
            if name == "gaussian_blur_rand":
                value = random.uniform(0.1, 2.0 * value)
            if name == "posterize":
                value = max(0, min(8, value))
            drawn = "PIL.transform0" if "transform" in call and not value else call
            seen.append((drawn, f"{drawn}:{math.floor(value / step) if step else 0}:{filter}"))
            return image

        return note

    for name, function in aa.NAME_TO_OP.items():
        if function.__name__ in CALLS:
            aa.NAME_TO_OP[name] = replace(function.__name__)


def draws(seen):
    for policy in POLICIES:
        make = aa.rand_augment_transform if policy.startswith("rand") else aa.auto_augment_transform
        transform = make(policy, {"img_mean": MEAN})
        first, all = collections.Counter(), collections.Counter()
        for _ in range(N):
            seen.clear()
            transform(None)
            first[seen[0][1] if seen else "none"] += 1
            all[" ".join(name for name, _ in seen)] += 1
        for question, counts in (("first", first), ("all", all)):
            outcomes = {name: n for name, n in sorted(counts.items()) if n >= RARE}
            yield {"policy": policy, "question": question, "n": N, "outcomes": outcomes}


def main():
    if not timm.__version__.startswith("1.0.") or not PIL.__version__.startswith("13."):
        sys.exit(f"timm {timm.__version__}, Pillow {PIL.__version__}")
    aa.ImageOps.posterize = posterize
    random.seed(1)
    numpy.random.seed(1)
    made = {kind: [image for image in images(kind) if image.mode == "RGB"] for kind in KINDS}
    rows = ",\n".join("    " + json.dumps(row) for row in levels(made))
    seen = []
    record(seen)
    counts = ",\n".join("    " + json.dumps(row) for row in draws(seen))
    print(
        f'{{\n  "timm": "{timm.__version__}",\n  "pillow": "{PIL.__version__}",\n'
        f'  "kinds": {json.dumps(KINDS)},'
    )
    print(f'  "levels": [\n{rows}\n  ],\n  "draws": [\n{counts}\n  ]\n}}')


main()
