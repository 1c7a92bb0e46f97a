#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes masks.json: what torchvision's v2 makes of masks, as a CRC-32 of each 25.

usage: make_masks.py > masks.json
    (needs torch, torchvision 0.29 and Pillow 13, on a CPU with AVX2; the tests do not)

The transforms are v2's classes, on a PIL image with its mask; for nearest=pil, on the mask as a PIL
image. They draw from torch's generator. Products of matrices are fused (fused_grids.py).
tests/transforms/test_mask_run.c makes the same masks with the same stream.
"""
import json
import sys
import zlib

import numpy
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

from fused_grids import fused_grids
from make_boxes import Numbers

N_IMAGES, GROUP = 100, 25
FILLS = {8: 200, 16: 51966}  # by the bits of an index


def cases(fill, interpolation):
    look = dict(fill=fill, interpolation=interpolation)
    return {
        "rotation(180)": [v2.RandomRotation(180, **look)],
        "rotation(60,center=3:70)": [v2.RandomRotation(60, center=(3, 70), **look)],
        "rotation(180,expand=1)+center_crop(20)":
            [v2.RandomRotation(180, expand=True, **look), v2.CenterCrop(20)],
        "rotation(90:90)": [v2.RandomRotation((90, 90), **look)],
        "affine_v2(90,translate=0.2:0.1,scale=0.5:2,shear=-20:20:-10:10)":
            [v2.RandomAffine(90, (0.2, 0.1), (0.5, 2), (-20, 20, -10, 10), **look)],
        "affine_v2(0,translate=0.2:0.1,center=9:8)":
            [v2.RandomAffine(0, (0.2, 0.1), center=(9, 8), **look)],
        "perspective(0.6,p=0.8)": [v2.RandomPerspective(0.6, 0.8, **look)],
        "resize(90:80)+rotation(20)+random_crop(70,padding=6)+perspective(0.3,p=1)+hflip(0.5)":
            [v2.Resize((90, 80), interpolation), v2.RandomRotation(20, **look),
             v2.RandomCrop(70, padding=6, fill=fill), v2.RandomPerspective(0.3, 1, **look),
             v2.RandomHorizontalFlip()],
    }


def make_mask(i, n_bits):
    numbers = Numbers(i)
    width, height = 20 + numbers.below(200), 20 + numbers.below(200)
    if i % 7 == 0:
        height = width
    x, y = numpy.arange(width)[None], numpy.arange(height)[:, None]
    return (x * 257 + y * 1031 + x * y * 3 + i * 77) % 2**n_bits


def move(transforms, i, n_bits):
    mask = make_mask(i, n_bits)
    torch.manual_seed(i)
    with fused_grids():
        _, found = v2.Compose(transforms)(Image.new("RGB", mask.shape[::-1]),
                                          tv_tensors.Mask(torch.from_numpy(mask)[None]))
    return found[0].numpy().astype("<i8").tobytes()


def move_as_image(transforms, i):
    mask = Image.fromarray(make_mask(i, 8).astype(numpy.uint8))
    torch.manual_seed(i)
    return numpy.asarray(v2.Compose(transforms)(mask)).astype("<i8").tobytes()


def digest(moved):
    return [zlib.crc32(b"".join(moved[i:i + GROUP])) for i in range(0, N_IMAGES, GROUP)]


def main():
    goldens = {}
    for n_bits, fill in FILLS.items():
        rule = f"mask(nearest=torch,fill={fill},dtype=i64)"
        mask_fill = {tv_tensors.Mask: fill, "others": 0}
        for text, transforms in cases(mask_fill, v2.InterpolationMode.BILINEAR).items():
            moved = [move(transforms, i, n_bits) for i in range(N_IMAGES)]
            goldens[f"{text}+{rule}"] = [n_bits, *digest(moved)]
    rule = f"mask(nearest=pil,fill={FILLS[8]},dtype=i64)"
    for text, transforms in cases(FILLS[8], v2.InterpolationMode.NEAREST).items():
        moved = [move_as_image(transforms, i) for i in range(N_IMAGES)]
        goldens[f"{text}+{rule}"] = [8, *digest(moved)]
    json.dump(goldens, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
