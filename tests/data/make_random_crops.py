#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random_crops.json anew: torchvision v1's RandomCrop with each padding mode, on PIL images.

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


def make_cases():
    for number, (width, height, crop_height, crop_width, padding) in enumerate(SIZES):
        image = synthetic(width, height)
        for arguments, text in WAYS:
            crop = transforms.RandomCrop((crop_height, crop_width), padding=padding, **arguments)
            torch.manual_seed(number)
            hashes = ["%08x" % zlib.crc32(crop(image).tobytes()) for _ in range(N_DRAWS)]
            yield [
                number, width, height,
                "random_crop(%d:%d,padding=%d,%s)" % (crop_height, crop_width, padding, text)
            ] + hashes


def main():
    content = {
        "source": "torchvision %s, Pillow %s, numpy %s: RandomCrop of the synthetic image, "
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
