#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes image_tensors.json: as image_calls.json, of the calls on tensors.

usage: make_image_tensors.py > image_tensors.json
    (needs torchvision 0.29 and Pillow 13; the tests do not)

Arguments are those of transforms/image_ops/image_tensor.h; null stands for a NaN. The calls whose
bytes are those of images, posterize, solarize and equalize, are compared here.
"""
import math
import sys

import torch
import torchvision.transforms.functional as v1
from torchvision.transforms import v2

from fused_grids import fused_grids
from make_image_calls import CALLS, KINDS, images, make_json
from make_image_warps import BILINEAR, COLOR, MIDDLE, MODES, NEAREST

BLACK, NONE = (0, 0, 0), (None, None, None)
# AugMix's, both signs, and round ones.
FACTORS = [1.0 + sign * float(torch.linspace(0, 0.9, 10)[bin]) for bin in range(10)
           for sign in (1, -1) if bin or sign > 0] + [0.0, 0.5, 2.0, 100.0]


def on_tensor(call):
    """call(functions, tensor, *arguments): on an image, with the version as the last argument."""
    def run(image, *args):
        functions = v2.functional if args[-1] else v1
        made = call(functions, functions.pil_to_tensor(image)[None], *args[:-1])
        return functions.to_pil_image(made[0])

    return run


def fill_of(tensor, fill):
    return None if fill[0] is None else [float(value) for value in fill[:tensor.shape[1]]]


def rotate(functions, tensor, angle, interpolation, *fill):
    return functions.rotate(tensor, angle, MODES[interpolation], fill=fill_of(tensor, fill))


def affine(functions, tensor, angle, right, down, scale, shear_x, shear_y, interpolation, *look):
    return functions.affine(tensor, angle, [right, down], scale, [shear_x, shear_y],
                            MODES[interpolation], fill_of(tensor, look[:3]),
                            None if look[3] is None else look[3:])


def looks():
    for mode, fill in ((BILINEAR, NONE), (BILINEAR, BLACK), (BILINEAR, COLOR), (NEAREST, NONE),
                       (NEAREST, COLOR)):
        yield mode, *fill


def rotations():
    for bin in range(1, 10):
        for sign in (1, -1):
            for look in looks():
                yield sign * float(torch.linspace(0, 30, 10)[bin]), *look


def maps():
    for bin in (1, 2, 5, 9):
        for sign in (1, -1):
            slope = sign * math.degrees(math.atan(float(torch.linspace(0, 0.3, 10)[bin])))
            for look in looks():
                yield 0.0, 0, 0, 1.0, slope, 0.0, *look, 0, 0
                yield 0.0, 0, 0, 1.0, 0.0, slope, *look, 0, 0
                yield 0.0, sign * 3 * bin, 0, 1.0, 0.0, 0.0, *look, *MIDDLE
                yield 0.0, 0, sign * 7 * bin, 1.0, 0.0, 0.0, *look, *MIDDLE
    yield 25.0, 3, -4, 1.25, 10.0, -5.0, BILINEAR, *COLOR, *MIDDLE


def versions(arguments):
    return [[*args, is_v2] for is_v2 in (0, 1) for args in arguments]


FACTOR_LISTS = versions([factor] for factor in FACTORS)
TENSOR_CALLS = {
    "tensor.adjust_brightness": (on_tensor(lambda F, *args: F.adjust_brightness(*args)),
                                 FACTOR_LISTS),
    "tensor.adjust_contrast": (on_tensor(lambda F, *args: F.adjust_contrast(*args)), FACTOR_LISTS),
    "tensor.adjust_saturation": (on_tensor(lambda F, *args: F.adjust_saturation(*args)),
                                 FACTOR_LISTS),
    "tensor.adjust_sharpness": (on_tensor(lambda F, *args: F.adjust_sharpness(*args)),
                                FACTOR_LISTS),
    "tensor.autocontrast": (on_tensor(lambda F, tensor: F.autocontrast(tensor)), versions([[]])),
    "tensor.rotate": (on_tensor(rotate), versions(rotations())),
    "tensor.affine": (on_tensor(affine), versions(maps())),
}


def check_shared_calls():
    """Stop if a call has other bytes on tensors than on images."""
    thresholds = [float(value) for value in torch.linspace(255, 0, 10)]
    for name, arguments in (("equalize", [[]]), ("solarize", [[t] for t in thresholds]),
                            ("posterize", [[bits] for bits in range(1, 5)])):
        for kind in KINDS:
            for image in images(kind):
                for args in arguments:
                    want = CALLS[name][0](image, *args).tobytes()
                    for is_v2 in (0, 1):
                        same = on_tensor(lambda F, *more: getattr(F, name)(*more))
                        if same(image, *args, is_v2).tobytes() != want:
                            sys.exit(f"{name}{args} of {kind}, v2: {is_v2}: other bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_shared_calls()
    with fused_grids():
        print(make_json(KINDS, TENSOR_CALLS))
