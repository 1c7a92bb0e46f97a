#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes timm_loader.json: what timm's evaluation transforms make of the images in python.json, and
orders of its samplers.

usage: make_timm_loader.py > timm_loader.json
    (needs timm 1.0, torchvision 0.29 and Pillow 13; the tests do not)

Keys of "pixels" are the library's texts; each value is a checksum of the u8 pixels for each image,
by name. Orders are of the first epochs of each rank.
"""
import base64
import io
import json
import os
import sys
import zlib

import PIL
import timm
from PIL import Image
from timm.data.distributed_sampler import OrderedDistributedSampler, RepeatAugSampler
from timm.data.transforms_factory import create_transform

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = [(world, rank) for world in (1, 2, 3) for rank in range(world)]

PIXELS = {
    "timm_eval:18:16": {"input_size": 16},
    "timm_a1_eval:25:24": {"input_size": (3, 24, 24), "crop_pct": 0.95, "interpolation": "bicubic"},
    "deit3_eval:20:20": {"input_size": 20, "crop_pct": 1.0,
                         "interpolation": "bicubic"}, "resize(17:22)+center_crop(16:20)": {
                             "input_size": (16, 20), "crop_pct": 0.9, "crop_mode": "squash"
                         },
    "resize(16:16)+center_crop(16)": {"input_size": (16, 16), "is_training": True, "no_aug": True},
}


def make_pixels():
    with open(os.path.join(HERE, "python.json"), encoding="utf-8") as file:
        images = json.load(file)["images"]
    opened = [
        Image.open(io.BytesIO(base64.b64decode(images[name]))).convert("RGB")
        for name in sorted(images)
    ]

    def checksum(image, arguments):
        made = create_transform(use_prefetcher=True, **arguments)(image)
        return f"{zlib.crc32(made.numpy().tobytes()):08x}"

    return {
        text: [checksum(image, arguments) for image in opened]
        for text, arguments in PIXELS.items()
    }


def make_orders():
    for world, rank in RANKS:
        yield {"sampler": "ordered", "n": 23, "world": world, "rank": rank,
               "orders": [list(OrderedDistributedSampler(range(23), world, rank))] * 2}
        sampler, orders = RepeatAugSampler(range(300), world, rank, num_repeats=3), []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            orders.append(list(sampler))
        yield {"sampler": "repeat", "n": 300, "world": world, "rank": rank, "orders": orders}


def main():
    if not timm.__version__.startswith("1.0.") or not PIL.__version__.startswith("13."):
        sys.exit(f"timm {timm.__version__}, Pillow {PIL.__version__}")
    rows = ",\n".join("    " + json.dumps(row) for row in make_orders())
    print(
        f'{{\n  "timm": "{timm.__version__}",\n  "pixels": {json.dumps(make_pixels(), indent=2)},\n'
        f'  "orders": [\n{rows}\n  ]\n}}'
    )


main()
