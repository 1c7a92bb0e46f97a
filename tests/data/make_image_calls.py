#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes image_calls.json: CRC-32 of what Pillow 13 gives for each call, argument and kind of image.

usage: make_image_calls.py > image_calls.json      (needs Pillow 13; the tests do not)

A checksum covers all sizes of a kind, as RGB and as one channel (the red one).
tests/transforms/test_image_calls.c makes the same images. torchvision.transforms.functional passes
the same calls to Pillow for a PIL image.
"""
import io
import itertools
import json
import sys
import zlib

import PIL
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

SIZES = [(1, 1), (1, 7), (7, 1), (2, 2), (3, 3), (31, 17), (64, 48), (224, 224)]
KINDS = ["flat", "gradient", "noise", "narrow", "saturated", "photograph", "nearly_flat"]


def mix(x):
    """32 bits of a number, well mixed (Wang)."""
    x = ((x ^ 61) ^ (x >> 16)) & 0xFFFFFFFF
    x = (x * 9) & 0xFFFFFFFF
    x = x ^ (x >> 4)
    x = (x * 0x27D4EB2D) & 0xFFFFFFFF
    return x ^ (x >> 15)


def wave(x, period):
    """0 to 255 and back."""
    x = x % (2 * period)
    return (x if x < period else 2 * period - x) * 255 // period


def value(kind, x, y, c, width):
    noise = mix((y * width + x) * 3 + c)
    if kind == "flat":
        return 40 + 90 * c
    if kind == "gradient":
        return (x * (c + 1) + y * (3 - c)) & 255
    if kind == "noise":
        return noise & 255
    if kind == "narrow":
        return 60 + 50 * c + noise % (10 + 30 * c)
    if kind == "saturated":
        return 255 * (noise & 1)
    if kind == "photograph":
        smooth = (wave(x + 2 * y, 90) * (3 - c) + wave(x + 31 * c, 37) + wave(y + 11 * c, 53) *
                  (c + 1)) // 5
        return max(0, min(255, smooth + noise % 17 - 8))
    return noise >> 8 & 255 if noise % 97 == 0 else 70 + 60 * c


def images(kind):
    for width, height in SIZES:
        pixels = bytes(
            value(kind, x, y, c, width) for y in range(height) for x in range(width)
            for c in range(3))
        rgb = Image.frombytes("RGB", (width, height), pixels)
        yield rgb
        yield rgb.getchannel(0)


def grayscale(image, channels):
    gray = image.convert("L")
    return Image.merge("RGB", [gray] * 3) if channels == 3 and image.mode == "RGB" else gray


def hue(image, factor):
    """torchvision's adjust_hue."""
    if image.mode == "L":
        return image
    h, s, v = image.convert("HSV").split()
    h = h.point([(x + int(factor * 255)) % 256 for x in range(256)])
    return Image.merge("HSV", (h, s, v)).convert("RGB")


def permute(image, *order):
    """torchvision v2's permute_channels."""
    return image if image.mode == "L" else Image.merge("RGB", [image.getchannel(c) for c in order])


def jpeg(image, quality):
    """torchvision v2's jpeg."""
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=quality)
    return Image.open(file)


def enhance(enhancer):
    return lambda image, factor: enhancer(image).enhance(factor)


# RandAugment's and TrivialAugmentWide's, both signs, and round ones.
FACTORS = [[1.0 + sign * most * bin / 30] for most in (0.9, 0.99) for bin in range(31)
           for sign in (1, -1) if bin or sign > 0]
FACTORS += [[0.0], [0.25], [0.5], [0.7], [1.3], [1.5], [2.0], [3.0], [100.0]]

CALLS = {
    "invert": (ImageOps.invert, [[]]),
    "posterize": (lambda image, bits: ImageOps.posterize(image, bits), [[bits]
                                                                        for bits in range(1, 9)]),
    "solarize": (lambda image, threshold: ImageOps.solarize(image, threshold),
                 [[255.0 - 8.5 * bin] for bin in range(31)] + [[256.0], [128.0], [127.5]],
                 ),
    "autocontrast": (ImageOps.autocontrast, [[]]),
    "equalize": (ImageOps.equalize, [[]]),
    "rgb_to_grayscale": (grayscale, [[1], [3]]),
    "adjust_brightness": (enhance(ImageEnhance.Brightness), FACTORS),
    "adjust_contrast": (enhance(ImageEnhance.Contrast), FACTORS),
    "adjust_saturation": (enhance(ImageEnhance.Color), FACTORS),
    "adjust_sharpness": (enhance(ImageEnhance.Sharpness), FACTORS),
    "PIL.GaussianBlur": (lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)),
                         [[radius] for radius in (0, 0.1, 0.3, 0.5, 0.8, 1, 1.3, 1.7, 2, 2.4494,
                                                  2.45, 3, 5, 9.7, 20, 40, 100, 1000)],
                         ),
    "adjust_hue": (hue, [[factor / 20] for factor in range(-10, 11)] + [[0.013], [-0.377]]),
    "hflip": (lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), [[]]),
    "vflip": (lambda image: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM), [[]]),
    "v2.jpeg": (jpeg, [[1], [10], [37], [50], [75], [90], [96], [100]]),
    "v2.permute_channels": (permute, [list(order) for order in itertools.permutations(range(3))]),
}


def main():
    if not PIL.__version__.startswith("13."):
        sys.exit(f"Pillow is {PIL.__version__}, not 13")
    print(make_json(KINDS, CALLS))


def make_json(kinds, all_calls):
    made = {kind: list(images(kind)) for kind in kinds}
    calls = []
    for name, (call, arguments) in all_calls.items():
        for args in arguments:
            crcs = []
            for kind in kinds:
                crc = 0
                for image in made[kind]:
                    crc = zlib.crc32(call(image, *args).tobytes(), crc)
                crcs.append(crc)
            calls.append({"name": name, "args": args, "crc32": crcs})
    rows = ",\n".join("    " + json.dumps(call) for call in calls)
    return (f'{{\n  "pillow": "{PIL.__version__}",\n  "kinds": {json.dumps(kinds)},\n'
            f'  "calls": [\n{rows}\n  ]\n}}')


if __name__ == "__main__":
    main()
