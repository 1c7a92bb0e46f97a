#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random_crops.json anew: torchvision v1's RandomCrop with each padding mode, its Pad and its
Resize with max_size, on PIL images.

    python3 tests/data/make_random_crops.py
    needs torch, torchvision, pillow and numpy; tests read only the file

What changes in it is a difference between two versions of them.
"""
import json
import os
import zlib

import numpy
import PIL
import torch
import torchvision
from PIL import Image
from torchvision import transforms

HERE = os.path.dirname(os.path.abspath(__file__))

# Width, height, crop's height and width, padding: padding below, at and beyond the sides, nothing
# to draw, single pixels.
SIZES = [(32, 32, 32, 32, 4), (32, 32, 40, 40, 4), (20, 31, 24, 9, 8), (9, 7, 30, 30, 14),
         (5, 3, 40, 50, 24), (1, 1, 9, 9, 4), (1, 6, 11, 13, 7), (6, 1, 13, 11, 7),
         (2, 2, 17, 15, 9), (50, 40, 8, 8, 30), (60, 45, 224, 224, 100), (24, 18, 18, 24, 0), ]
# torchvision's arguments and the text's.
WAYS = [({"padding_mode": mode}, "padding_mode=" + mode)
        for mode in ("constant", "edge", "reflect", "symmetric")] + [({"fill": 77}, "fill=77"),
                                                                     ({"fill": (255, 1, 30)
                                                                       }, "fill=255:1:30")]
N_DRAWS = 3  # of one stream, one after the other


def synthetic(width, height):
    """image_synthetic() of tests/transforms/reference.c."""
    y, x, c = numpy.mgrid[0:height, 0:width, 0:3]
    return Image.fromarray((((7 * x + 13 * y + 29 * c) ^ ((x * y) >> 3)) & 255).astype(numpy.uint8))


def make_case(number, width, height, transform, text):
    image = synthetic(width, height)
    torch.manual_seed(number)
    hashes = ["%08x" % zlib.crc32(transform(image).tobytes()) for _ in range(N_DRAWS)]
    return [number, width, height, text] + hashes


def make_cases():
    for number, (width, height, crop_height, crop_width, padding) in enumerate(SIZES):
        size = (crop_height, crop_width)
        for arguments, text in WAYS:
            yield make_case(
                number, width, height, transforms.RandomCrop(size, padding=padding, **arguments),
                "random_crop(%d:%d,padding=%d,%s)" % (*size, padding, text))
            yield make_case(
                number, width, height, transforms.RandomCrop(size, pad_if_needed=True,
                                                             **arguments),
                "random_crop(%d:%d,pad_if_needed,%s)" % (*size, text))
            for border in ([padding], [padding, 3], [1, padding, 0, 40]):
                yield make_case(number, width, height, transforms.Pad(border, **arguments),
                                "pad(%s,%s)" % (":".join(map(str, border)), text))
        for few in (1, 7):
            crop = transforms.RandomCrop(size, padding=few, pad_if_needed=True,
                                         padding_mode="edge")
            yield make_case(
                number, width, height, crop,
                "random_crop(%d:%d,%d,pad_if_needed,padding_mode=edge)" % (*size, few))
    for width, height in ((50, 40), (40, 50), (61, 9), (9, 61), (33, 33), (100, 99)):
        for size, most in ((20, 21), (20, 30), (9, 100), (40, 53), (7, 8)):
            yield make_case(0, width, height, transforms.Resize(size, max_size=most),
                            "resize(%d,max_size=%d)" % (size, most))


def main():
    content = {
        "source": "torchvision %s, Pillow %s, numpy %s: calls on the synthetic image, "
        "%d draws after manual_seed()" %
        (torchvision.__version__.split("+")[0], PIL.__version__, numpy.__version__, N_DRAWS),
        "row": "seed, width, height, text, crc32 of the RGB bytes of each draw",
        "cases": list(make_cases())
    }
    rows = content.pop("cases")
    with open(os.path.join(HERE, "random_crops.json"), "w") as file:
        file.write(json.dumps(content, indent=0)[:-2] + ',\n"cases": [\n')
        file.write(",\n".join(map(json.dumps, rows)) + "\n]\n}\n")
    print("%d cases" % len(rows))


if __name__ == "__main__":
    main()
