#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden resizes of this folder anew, with the Pillow that is installed. They are Pillow
13.0.0's.

    python3 tests/data/make_resizes.py
    needs pillow==13.0.0 and numpy; tests read only the files

resize_bilinear.json keeps its sizes and boxes; resize_filters.json has every filter and the sizes
below. What changes in a file is a difference between two versions of Pillow.
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
        cases = ",\n".join(map(json.dumps, content.pop("cases")))
        head = ",\n".join("%s: %s" % (json.dumps(key), json.dumps(value))
                          for key, value in content.items())
        file.write('{\n%s,\n"cases": [\n%s\n]\n}\n' % (head, cases))


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
    content["source"] = (
        "Pillow %s crop(box).resize((out_w,out_h), BILINEAR) on the synthetic image below, "
        "RGB bytes row by row" % PIL.__version__)
    content.pop("note", None)
    print("resize_bilinear.json: %d of %d cases changed" % (changed, len(content["cases"])))
    write("resize_bilinear.json", content)


# Width and height, before and after: smaller, larger, tall and wide, one side alone, single pixels.
SIZES = [(500, 375, 224, 224), (375, 500, 224, 224), (287, 273, 224, 224), (180, 400, 224, 224),
         (224, 375, 224, 224), (500, 224, 224, 224), (211, 190, 224, 224), (100, 75, 224, 224),
         (448, 448, 224, 224), (449, 336, 224, 224), (673, 674, 224, 224), (1200, 900, 224, 224),
         (1701, 1303, 224, 224), (500, 375, 309, 232), (231, 500, 232, 502), (160, 800, 40, 50),
         (800, 160, 40, 50), (64, 64, 63, 65), (65, 63, 64, 64), (3, 224, 224, 3), (224, 3, 3, 224),
         (1, 1, 1, 1), (1, 1, 224, 224), (1, 300, 224, 224), (300, 1, 224, 224), (2, 2, 97, 3),
         (2, 5, 5, 2), (5, 2, 2, 5), (7, 4000, 5, 13), (4000, 7, 13, 5), (97, 89, 1, 1),
         (33, 70, 1, 70), (70, 33, 70, 1), (13, 17, 333, 29), (3000, 40, 7, 40), (40, 3000, 40, 7),
         (640, 480, 32, 32), (333, 499, 96, 160), (17, 13, 6, 200), (50, 90, 49, 45),
         (90, 50, 45, 49), (129, 257, 64, 128), (1000, 10, 999, 9), (10, 1000, 9, 999),
         (256, 256, 255, 256), (256, 256, 256, 255), (41, 37, 82, 74), (23, 29, 31, 30),
         (12, 345, 67, 8), (345, 12, 8, 67), (6, 6, 3, 3), ]


def noise(width, height):
    """image_fill() of tests/transforms/reference.c with seed 0."""
    u64 = numpy.uint64
    z = numpy.arange(1, width * height * 3 + 1, dtype=u64) * u64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> u64(30))) * u64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> u64(27))) * u64(0x94d049bb133111eb)
    z = z ^ (z >> u64(31))
    extreme = numpy.where(z & u64(0x400), 255, 0).astype(u64)
    values = numpy.where(z & u64(0x300), z & u64(255), extreme)
    return Image.fromarray(values.astype(numpy.uint8).reshape(height, width, 3))


def make_filters():
    filters = []
    for name in ("bilinear", "nearest", "box", "hamming", "bicubic", "lanczos"):
        rows = []
        for size in SIZES:
            crcs = [crc(image(*size[:2]).resize(size[2:], Image.Resampling[name.upper()]))
                    for image in (synthetic, noise)]
            rows.append(json.dumps(list(size) + crcs))
        filters.append('"%s": [\n%s\n]' % (name, ",\n".join(rows)))
    source = "Pillow %s resize((out_w,out_h), FILTER), RGB bytes row by row" % PIL.__version__
    row = "in_w, in_h, out_w, out_h, crc32 of the synthetic image, crc32 of noise"
    with open(os.path.join(HERE, "resize_filters.json"), "w") as file:
        file.write('{\n"source": "%s",\n"row": "%s",\n' % (source, row))
        file.write('"filters": {\n%s\n}\n}\n' % ",\n".join(filters))
    print("resize_filters.json: %d resizes" % (2 * len(SIZES) * len(filters)))


if __name__ == "__main__":
    make_bilinear()
    make_filters()
