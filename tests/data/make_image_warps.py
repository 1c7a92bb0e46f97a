#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes image_warps.json: as image_calls.json, of rotations, affine maps and perspectives.

usage: make_image_warps.py > image_warps.json
    (needs torchvision 0.29 and Pillow 13; the tests do not)

Arguments are those of transforms/image_ops/image_warp.h; null stands for a NaN.
"""
import math
import sys

import PIL
import torchvision.transforms.functional as F
from PIL import Image
from torchvision.transforms import InterpolationMode, v2

from make_image_calls import make_json

# enum mr_interpolation
BILINEAR, NEAREST, BICUBIC = 0, 1, 4
MODES = {
    BILINEAR: InterpolationMode.BILINEAR,
    NEAREST: InterpolationMode.NEAREST,
    BICUBIC: InterpolationMode.BICUBIC,
}
FILTERS = {
    BILINEAR: Image.Resampling.BILINEAR, NEAREST: Image.Resampling.NEAREST,
    BICUBIC: Image.Resampling.BICUBIC
}

BLACK, GRAY, COLOR, MIDDLE = (0, 0, 0), (128, 128, 128), (200, 3, 77), (None, None)


def fill_of(image, fill):
    return fill[:1] if image.mode == "L" else fill


def center_of(center):
    return None if center[0] is None else center


def rotate_by(expand):
    def rotate(image, angle, interpolation, r, g, b, x, y):
        return F.rotate(image, angle, MODES[interpolation], expand, center_of((x, y)),
                        fill_of(image, (r, g, b)))

    return rotate


def affine_of(functional):
    def affine(image, angle, right, down, scale, shear_x, shear_y, interpolation, r, g, b, x, y):
        fill, center = fill_of(image, (r, g, b)), center_of((x, y))
        return functional.affine(image, angle, [right, down], scale, [shear_x, shear_y],
                                 MODES[interpolation], fill, center)

    return affine


def perspective(image, *args):
    coefficients, filter, fill = args[:8], FILTERS[args[8]], fill_of(image, args[9:])
    # What torchvision's perspective() has Pillow do with its coefficients.
    return image.transform(image.size,
                           Image.PERSPECTIVE,
                           coefficients,
                           filter,
                           fillcolor=tuple(fill) if len(fill) > 1 else fill[0])


def rotations():
    for angle in (0, 90, 180, 270, -90, 360, -720, 3.7, -17.25, 45, 133.3, 180.5, 1e-7,
                  89.99999999):
        yield angle, NEAREST, *BLACK, *MIDDLE
    for angle in (0.0, 90.0, 30.0, -61.5):
        yield angle, NEAREST, *COLOR, 10, 20
        yield angle, BILINEAR, *COLOR, 0, 0
    for angle in (90, 180, 3.7, -17.25, 45, 133.3, 1e-7):
        yield angle, BILINEAR, *GRAY, *MIDDLE
    for angle in (270, -90.5, 30, 171):
        yield angle, BICUBIC, *COLOR, *MIDDLE


def magnitudes(most):
    """Of all 31 bins, both signs."""
    return [sign * most * bin / 30 for bin in range(31) for sign in (1, -1) if bin or sign > 0]


def policy_rotations():
    """The arguments of TrivialAugmentWide and RandAugment (also AutoAugment), with their default
    filter, a few with another.
    """
    for interpolation, step in ((NEAREST, 1), (BILINEAR, 7)):
        for most in (135.0, 30.0):
            for angle in magnitudes(most)[::step]:
                yield angle, interpolation, *BLACK, *MIDDLE


def policy_affines():
    for interpolation, step in ((NEAREST, 1), (BILINEAR, 7)):
        for most in (0.99, 0.3):
            for tangent in magnitudes(most)[::step]:
                degrees = math.degrees(math.atan(tangent))
                yield 0.0, 0, 0, 1.0, degrees, 0.0, interpolation, *BLACK, 0, 0
                yield 0.0, 0, 0, 1.0, 0.0, degrees, interpolation, *BLACK, 0, 0
        for most in (32.0, 150.0 / 331.0 * 224):
            for pixels in magnitudes(most)[::step]:
                yield 0.0, int(pixels), 0, 1.0, 0.0, 0.0, interpolation, *BLACK, *MIDDLE
                yield 0.0, 0, int(pixels), 1.0, 0.0, 0.0, interpolation, *BLACK, *MIDDLE


def affines():
    shears = [-0.3, -0.11, 0.02, 0.3,
              0.99]  # of RandAugment and TrivialAugmentWide, which give the tangent
    for interpolation in (NEAREST, BILINEAR):
        for tangent in shears:
            degrees = 180 / 3.141592653589793 * tangent
            yield 0.0, 0, 0, 1.0, degrees, 0.0, interpolation, *BLACK, 0, 0
            yield 0.0, 0, 0, 1.0, 0.0, degrees, interpolation, *COLOR, 0, 0
    for interpolation in (NEAREST, BILINEAR, BICUBIC):
        for right, down in ((5, 0), (-2, 0), (0, 7), (0, -32), (300, 0), (-1, 300)):
            yield 0.0, right, down, 1.0, 0.0, 0.0, interpolation, *GRAY, *MIDDLE
        for scale in (0.5, 0.73, 1.37, 2.0, 40.0):
            yield 0.0, 0, 0, scale, 0.0, 0.0, interpolation, *COLOR, *MIDDLE
        yield -25.0, 3, -4, 0.9, 10.0, -7.5, interpolation, *COLOR, *MIDDLE
        yield 170.3, -1, 2, 1.3, -33.0, 12.0, interpolation, *GRAY, *MIDDLE
        yield 63.0, 0, 0, 0.31, 0.0, 0.0, interpolation, *BLACK, 17.5, -3.25
    for interpolation in (NEAREST, BILINEAR):  # far away
        yield 10.0, 0, 0, 0.002, 40.0, 0.0, interpolation, *GRAY, *MIDDLE
        yield 10.0, 0, 0, 1.0, 89.99, 0.0, interpolation, *GRAY, 3, 3
        yield 0.0, 0, 0, 0.001, 0.0, 0.0, interpolation, *COLOR, *MIDDLE
    for interpolation in (NEAREST, BILINEAR,
                          BICUBIC):  # places above 1e30, which cancel each other in some pixels
        yield 0.0, 0, 0, 1.0, 90.0, 90.0, interpolation, *COLOR, *MIDDLE


def apart():
    """Places in the middle of a pixel, of which v1 and v2 make other bytes."""
    for angle, scale, shear_x, shear_y in ((66.6, 0.8, 17.6, 5.5), (36.5, 0.5, -1.0, 0.0),
                                           (-21.6, 0.8, 13.1, 5.5), (73.7, 1.25, 2.0, 5.5)):
        yield angle, 0, 0, scale, shear_x, shear_y, BILINEAR, *COLOR, *MIDDLE


def perspectives():
    for n, (width, height, ends) in enumerate((
        (224, 224, [[20, 35], [190, 8], [223, 210], [3, 170]]),
        (224, 224, [[0, 0], [223, 55], [168, 223], [11, 180]]),
        (64, 48, [[5, 9], [60, 1], [40, 47], [12, 36]]),
        (31, 17, [[7, 0], [23, 4], [30, 16], [0, 13]]),
    )):
        starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        coefficients = F._get_perspective_coeffs(starts, ends)
        for interpolation in (NEAREST, BILINEAR, BICUBIC):
            yield *coefficients, interpolation, *(BLACK, COLOR, GRAY)[n % 3]
    for interpolation in (NEAREST, BILINEAR, BICUBIC):
        yield 1, 0, 0, 0, 1, 0, 0, 0, interpolation, *BLACK
        # A horizon in the image, and one through the middle of a pixel.
        yield 1, 0.25, -3, 0.1, 0.5, 10, -0.02, 0.01, interpolation, *COLOR
        yield 1, 0, 3, 0, 1, 3, -0.4, 0, interpolation, *GRAY


CALLS = {
    "rotate": (rotate_by(False), list(map(list, [*rotations(), *policy_rotations()]))),
    "rotate expand": (rotate_by(True), list(map(list, rotations()))),
    "affine": (affine_of(F), list(map(list, [*affines(), *policy_affines(), *apart()]))),
    "v2.affine": (affine_of(v2.functional), list(map(list, [*affines(), *apart()]))),
    "PIL.transform": (perspective, list(map(list, perspectives()))),
}


def main():
    if not PIL.__version__.startswith("13."):
        sys.exit(f"Pillow is {PIL.__version__}, not 13")
    print(make_json(["noise", "photograph"], CALLS))


if __name__ == "__main__":
    main()
