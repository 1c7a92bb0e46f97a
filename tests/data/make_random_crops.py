#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random_crops.json anew: torchvision v1's RandomCrop with each padding mode, its Pad and its
Resize with max_size, on PIL images; v2's operations for detection, FixedSizeCrop of its references,
and letterbox as a program for Pillow.

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
from torchvision.transforms import v2

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


def fixed_size_crop(height, width, fill):
    """FixedSizeCrop of torchvision's references/detection."""

    def run(image):
        beside, below = (max(have - want, 0) for have, want in zip(image.size, (width, height)))
        if beside or below:
            r = torch.rand(1)
            image = v2.functional.crop(image, int(below * r), int(beside * r),
                                       image.height - below, image.width - beside)
        return v2.functional.pad(image, [0, 0, width - image.width, height - image.height], fill)

    return run


def letterbox(height, width, fill):
    """What letterbox() is, for Pillow."""

    def run(image):
        ratio = min(height / image.height, width / image.width)
        image = image.resize((round(image.width * ratio), round(image.height * ratio)),
                             Image.Resampling.BILINEAR)
        canvas = Image.new("RGB", (width, height), fill)
        canvas.paste(image, ((width - image.width) // 2, (height - image.height) // 2))
        return canvas

    return run


COLOR = (123, 117, 104)
# Transforms and their texts, before a crop that shows the borders.
DETECTION = [
    (v2.RandomZoomOut(COLOR), "random_zoom_out(123:117:104)"),
    (v2.RandomZoomOut(side_range=(1.5, 1.9), p=1), "random_zoom_out(side_range=1.5:1.9,p=1)"),
    (v2.RandomZoomOut(77, p=0.9), "random_zoom_out(77,p=0.9)"),
    (v2.ScaleJitter((60, 90)), "scale_jitter(60:90)"),
    (v2.ScaleJitter((40, 31), (0.7, 1.1), interpolation=transforms.InterpolationMode.BICUBIC),
     "scale_jitter(40:31,0.7:1.1,bicubic)"),
    (v2.RandomShortestSize([20, 30, 41, 50], 61), "random_shortest_size(20:30:41:50,61)"),
    (v2.RandomShortestSize(range(9, 25)),
     "random_shortest_size(9:10:11:12:13:14:15:16:17:18:19:20:21:22:23:24)"),
]


def make_detection():
    for number, (width, height) in enumerate(((50, 40), (41, 57), (33, 33), (100, 75), (90, 31))):
        for transform, text in DETECTION:
            for crop in ((70, 90), (30, 25)):
                yield make_case(number, width, height,
                                v2.Compose([transform, v2.CenterCrop(crop)]),
                                text + "+center_crop(%d:%d)" % crop)
        for size in ((64, 64), (20, 90), (40, 50), (99, 30)):
            yield make_case(number, width, height, fixed_size_crop(*size, COLOR),
                            "fixed_size_crop(%d:%d,fill=123:117:104)" % size)
            yield make_case(number, width, height, letterbox(*size, COLOR),
                            "letterbox(%d:%d,123:117:104)" % size)
            yield make_case(number, width, height, letterbox(*size, (114, ) * 3),
                            "letterbox(%d:%d)" % size)
        # A second fill beyond the first one, flips and a resize of what is filled.
        yield make_case(
            number, width, height,
            transforms.Compose([v2.ScaleJitter((64, 64)), fixed_size_crop(64, 64, COLOR),
                                v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(),
                                v2.RandomCrop((70, 75), pad_if_needed=True, fill=9),
                                v2.Resize((31, 40)), v2.Pad([3, 4])]),
            "scale_jitter(64)+fixed_size_crop(64,123:117:104)+hflip+vflip+random_crop(70:75,"
            "pad_if_needed,fill=9)+resize(31:40)+pad(3:4)")


def make_cases():
    yield from make_detection()
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
