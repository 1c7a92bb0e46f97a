#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden resizes of this folder anew, with the Pillow that is installed. They are Pillow 13.0.0's.

    python3 tests/data/make_resizes.py       needs pillow==13.0.0 and numpy; tests read only the files

resize_bilinear.json keeps its sizes and boxes. What changes in a file is a difference between two versions of Pillow.
"""
import json
import os
import zlib

import numpy
import PIL
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))


def synthetic(width, height):
    """image_synthetic() of tests/transforms/reference.c."""
    y, x, c = numpy.mgrid[0:height, 0:width, 0:3]
    return Image.fromarray((((7 * x + 13 * y + 29 * c) ^ ((x * y) >> 3)) & 255).astype(numpy.uint8))


def crc(image):
    return "%08x" % zlib.crc32(image.tobytes())


def write(name, content):
    with open(os.path.join(HERE, name), "w") as file:
        json.dump(content, file, indent=0)
        file.write("\n")


def make_bilinear():
    with open(os.path.join(HERE, "resize_bilinear.json")) as file:
        content = json.load(file)
    changed = 0
    for case in content["cases"]:
        image = synthetic(case["in_w"], case["in_h"]).crop(case["box_left_top_right_bottom"])
        image = image.resize((case["out_w"], case["out_h"]), Image.Resampling.BILINEAR)
        changed += case["crc32_rgb_hwc"] != crc(image)
        case["crc32_rgb_hwc"] = crc(image)
        case["first_pixels"] = list(image.tobytes()[:12])
        case.pop("crc32_rgb_hwc_pillow_13", None)
    content["source"] = ("Pillow %s crop(box).resize((out_w,out_h), BILINEAR) on the synthetic image below, RGB bytes "
                         "row by row" % PIL.__version__)
    content.pop("note", None)
    write("resize_bilinear.json", content)
    print("resize_bilinear.json: %d of %d cases changed" % (changed, len(content["cases"])))


if __name__ == "__main__":
    make_bilinear()
