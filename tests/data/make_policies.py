#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes image_policies.json: CRC-32 of what torchvision's operations make of images, draws and
pixels together.

usage: make_policies.py > image_policies.json
    (needs torch, torchvision 0.29 and Pillow 13; the tests do not)

Each seed of torch's generator has one image of make_image_calls.py.
tests/transforms/test_policies.c draws from the same stream and changes the same images.
"""
import json
import sys
import zlib

import PIL
import torch
import torchvision
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import v2

from make_image_calls import KINDS, SIZES, value

BILINEAR, BICUBIC = T.InterpolationMode.BILINEAR, T.InterpolationMode.BICUBIC
POLICY = T.AutoAugmentPolicy


def cases():
    """Text, number of seeds, transform."""
    yield from policies(T, "")
    yield "color_jitter(0.8,0.8,0.8,0.2)", 200, T.ColorJitter(0.8, 0.8, 0.8, 0.2)
    yield from policies(v2, "_v2")


def policies(version, suffix):
    """Those of v1 or of v2."""
    wide, rand = f"trivial_augment_wide{suffix}", f"rand_augment{suffix}"
    yield wide, 1500, version.TrivialAugmentWide()
    yield f"{wide}(interp=bilinear)", 1000, version.TrivialAugmentWide(interpolation=BILINEAR)
    yield f"{wide}(10,interp=bicubic,fill=77)", 300, version.TrivialAugmentWide(10, BICUBIC, 77)
    for magnitude in range(31):
        yield f"{rand}(1,{magnitude})", 40, version.RandAugment(1, magnitude)
    yield rand, 500, version.RandAugment()
    yield f"{rand}(5,17,interp=bilinear)", 500, version.RandAugment(5, 17, interpolation=BILINEAR)
    for policy in POLICY:
        auto = f"auto_augment{suffix}({policy.value}"
        yield f"{auto})", 500, version.AutoAugment(policy)
        yield f"{auto},interp=bilinear,fill=128)", 250, version.AutoAugment(policy, BILINEAR, 128)


def make_image(kind, width, height, channels):
    pixels = (value(kind, x, y, c, width) for y in range(height) for x in range(width)
              for c in range(channels))
    return Image.frombytes("RGB" if channels == 3 else "L", (width, height), bytes(pixels))


def image_of(seed, made={}):
    """Kinds, sizes and channels in turn."""
    key = (KINDS[seed % 7], *SIZES[seed % 8], 1 if seed % 5 == 4 else 3)
    if key not in made:
        made[key] = make_image(*key)
    return made[key]


def main():
    if not torchvision.__version__.startswith("0.29") or not PIL.__version__.startswith("13."):
        sys.exit(f"torchvision {torchvision.__version__}, Pillow {PIL.__version__}")
    rows = []
    for text, n_seeds, transform in cases():
        crc = 0
        for seed in range(n_seeds):
            torch.manual_seed(seed)
            crc = zlib.crc32(transform(image_of(seed)).tobytes(), crc)
        rows.append("    " + json.dumps({"text": text, "seeds": n_seeds, "crc32": crc}))
    print(
        f'{{\n  "torchvision": "{torchvision.__version__.split("+")[0]}",\n'
        f'  "pillow": "{PIL.__version__}",\n  "cases": ['
    )
    print(",\n".join(rows) + "\n  ]\n}")


main()
