#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the lines of `millrace export --explain` with Pillow and torchvision and compares the
pixels.

usage: replay_explain.py FOLDER X.npy FILE.jsonl
    (needs Pillow 13, torchvision 0.29, NumPy; the tests do not)

FOLDER is the dataset's folder, X.npy was exported as u8. Prints how many rows and bytes differ, and
exits 1 if any do. gaussian_blur is torchvision's float convolution: rows with it may differ by 1
and are counted alone.
"""
import functools
import json
import os
import sys

import numpy as np
from PIL import Image, ImageFilter, ImageOps
from torchvision.transforms import functional as F

PIL = {
    "PIL.exif_transpose": ImageOps.exif_transpose,
    "PIL.convert": Image.Image.convert,
    "sanitize_bounding_boxes": lambda image, **_: image,
    "v2.RandomIoUCrop": F.crop,
    "PIL.GaussianBlur": lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)),
    # Pillow 13 refuses to keep no bits, which timm's policies may draw.
    "posterize": lambda image, bits: ImageOps.posterize(image, bits)
    if bits else image.point(lambda x: 0),
    "timm.solarize_add": lambda image, add: image.point(
        [min(255, x + add) if x < 128 else x for x in range(256)] * len(image.getbands())),
    "PIL.transform": lambda image, size, fillcolor, **args: image.transform(
        tuple(size), fillcolor=tuple(fillcolor), **args),
}

# The other calls leave masks and boxes as they are.
MOVES = ("crop", "center_crop", "resized_crop", "resize", "pad", "hflip", "vflip", "rotate",
         "affine", "perspective")
PERSPECTIVE = 2  # PIL.Image.Transform


def find(name):
    functions = F
    if name in PIL:
        return PIL[name]
    if name.startswith("v2."):
        from torchvision.transforms import v2  # older versions do not have it
        functions, name = v2.functional, name[len("v2."):]
    if name == "augmix":
        return functools.partial(augmix, functions)
    return getattr(functions, name)


def augmix(functions, image, weight, chains):
    """torchvision's AugMix after its draws. functions: those of its version."""
    tensor = functions.pil_to_tensor(image)[None]
    mixed = weight * tensor
    for weight, calls in chains:
        chained = tensor
        for name, args in calls:
            chained = getattr(functions, name.split(".")[-1])(chained, **args)
        mixed += weight * chained
    return functions.to_pil_image(mixed[0].to(tensor.dtype))


def replay(image, calls):
    for name, args in calls:
        image = find(name)(image, **args)
    return image


def as_v2(name, args):
    """The call of v2 that moves a mask or a box where this one moves a picture."""
    if name == "v2.RandomIoUCrop":
        return "crop", args
    if name == "v2.affine":
        return "affine", args
    if name == "PIL.transform" and args["method"] == PERSPECTIVE:
        return "perspective", {"startpoints": None, "endpoints": None,
                               "coefficients": args["data"]}
    return name, args


def replay_mask(mask, calls, fill=0):
    """What v2 does to a tv_tensors.Mask, here a tensor [1, H, W]. v1 does the same to a tensor."""
    try:
        from torchvision import tv_tensors
        from torchvision.transforms import v2
        functions, mask = v2.functional, tv_tensors.Mask(mask)
    except ImportError:
        functions = F
    for name, args in calls:
        name, args = as_v2(name, args)
        if "interpolation" in args:
            args = {**args, "interpolation": F.InterpolationMode.NEAREST}
        if name in ("pad", "rotate", "affine", "perspective"):
            args = {**args, "fill": fill}
        if name in MOVES:
            mask = getattr(functions, name)(mask, **args)
    return mask


def replay_boxes(boxes, size, calls):
    """What v2 does to tv_tensors.BoundingBoxes, and which of the boxes are left. size: width,
    height.
    """
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    found = tv_tensors.BoundingBoxes(torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
                                     format="XYXY", canvas_size=tuple(size)[::-1])
    rows = torch.arange(len(boxes))
    for name, args in calls:
        if name == "sanitize_bounding_boxes":
            found, valid = v2.functional.sanitize_bounding_boxes(found, **args)
            rows = rows[valid]
        elif name == "v2.RandomIoUCrop":
            top, left, height, width = (args[key] for key in ("top", "left", "height", "width"))
            x, y = (found[:, 0] + found[:, 2]) * 0.5, (found[:, 1] + found[:, 3]) * 0.5
            inside = (left < x) & (x < left + width) & (top < y) & (y < top + height)
            found = v2.RandomIoUCrop().transform(found, {**args, "is_within_crop_area": inside})
            continue
        name, args = as_v2(name, args)
        if name in MOVES:
            found = getattr(v2.functional, name)(found, **args)
    return found, rows


def compare(folder, rows, lines):
    """Rows, rows that differ, bytes that differ, the greatest difference: without and with
    gaussian_blur.
    """
    counts = {False: [0, 0, 0, 0], True: [0, 0, 0, 0]}
    for row, line in zip(rows, lines, strict=True):
        sample = json.loads(line)
        blurred, image, want = False, None, np.zeros_like(row)
        if sample["calls"] is not None:
            image = Image.open(os.path.join(folder, sample["name"])).convert("RGB")
            assert list(image.size) == sample["size"], sample
            blurred = any(name == "gaussian_blur" for name, _ in sample["calls"])
            want = np.asarray(replay(image, sample["calls"]))
            want = want.reshape(want.shape[0], want.shape[1], -1)
            want = want if want.shape == row.shape else want.transpose(2, 0, 1)
        apart = np.abs(row.astype(int) - want)
        count = counts[blurred]
        count[0] += 1
        count[1] += bool(apart.any())
        count[2] += int((apart > 0).sum())
        count[3] = max(count[3], int(apart.max()))
        if apart.max() > blurred:
            print(f"row {counts[False][0] + counts[True][0] - 1}: {line.strip()}", file=sys.stderr)
    return counts


def main():
    folder, array, path = sys.argv[1:]
    with open(path, encoding="utf-8") as lines:
        counts = compare(folder, np.load(array, mmap_mode="r"), lines)
    for blurred, (n, n_differ, n_bytes, greatest) in counts.items():
        words = "with gaussian_blur" if blurred else "exact"
        print(
            f"{words}: {n} rows, {n_differ} differ, {n_bytes} bytes differ, by {greatest} at most")
    sys.exit(counts[False][3] > 0 or counts[True][3] > 1)


if __name__ == "__main__":
    main()
