#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes boxes.json: where torchvision's v2 moves boxes, as a CRC-32 of each 25 images.

usage: make_boxes.py > boxes.json
    (needs torch and torchvision 0.29, on a CPU with AVX2; the tests do not)

Products of matrices are fused (fused_grids.py).
The transforms are v2's classes on a PIL image with float32 boxes and labels, and draw from torch's
generator. tests/transforms/test_box_run.c makes the same boxes, and moves them with the same stream.
"""
import json
import struct
import sys
import zlib

import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

from fused_grids import fused_grids

N_IMAGES, GROUP = 300, 25

CASES = {
    "hflip(0.5)+vflip(0.5)+sanitize":
        [v2.RandomHorizontalFlip(), v2.RandomVerticalFlip(), v2.SanitizeBoundingBoxes()],
    "resize(224,max_size=300)": [v2.Resize(224, max_size=300)],
    "resize(97:131)+hflip(0.5)": [v2.Resize((97, 131)), v2.RandomHorizontalFlip()],
    "random_resized_crop(64)+hflip(0.5)+sanitize":
        [v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes()],
    "random_resized_crop(224:160,scale=0.05:0.4)":
        [v2.RandomResizedCrop((224, 160), scale=(0.05, 0.4))],
    "center_crop(100:300)": [v2.CenterCrop((100, 300))],
    "center_crop(501)+vflip(0.5)": [v2.CenterCrop(501), v2.RandomVerticalFlip()],
    "random_crop(32,padding=7)": [v2.RandomCrop(32, padding=7)],
    "random_crop(700,pad_if_needed)+resize(33:34)":
        [v2.RandomCrop(700, pad_if_needed=True), v2.Resize((33, 34))],
    "pad(1:2:3:4)+sanitize(min_size=5,min_area=40)":
        [v2.Pad((1, 2, 3, 4)), v2.SanitizeBoundingBoxes(5, 40)],
    "hflip(0.5)+pad(0)": [v2.RandomHorizontalFlip(), v2.Pad(0)],
    "random_resize(130,200)+random_crop(120)": [v2.RandomResize(130, 200), v2.RandomCrop(120)],
    "random_shortest_size(48:60:72,max_size=90)+hflip(0.5)":
        [v2.RandomShortestSize([48, 60, 72], 90), v2.RandomHorizontalFlip()],
    "scale_jitter(200:120)+hflip(0.5)+sanitize":
        [v2.ScaleJitter((200, 120)), v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes()],
    "random_zoom_out+hflip(0.5)": [v2.RandomZoomOut(), v2.RandomHorizontalFlip()],
    "random_zoom_out(side_range=1:1.002,p=0.7)":
        [v2.RandomZoomOut(side_range=(1.0, 1.002), p=0.7)],
    "random_zoom_out+random_iou_crop+hflip(0.5)+sanitize":
        [v2.RandomZoomOut(), v2.RandomIoUCrop(), v2.RandomHorizontalFlip(),
         v2.SanitizeBoundingBoxes()],
    "random_iou_crop": [v2.RandomIoUCrop()],
    "random_iou_crop+hflip(0.5)+sanitize":
        [v2.RandomIoUCrop(), v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes()],
    "vflip(0.3)+random_iou_crop(scale=0.1:0.6,ratio=0.25:4,trials=5)+center_crop(77)+sanitize":
        [v2.RandomVerticalFlip(0.3), v2.RandomIoUCrop(0.1, 0.6, 0.25, 4, trials=5),
         v2.CenterCrop(77), v2.SanitizeBoundingBoxes()],
    "rotation(180)": [v2.RandomRotation(180)],
    "rotation(180,center=3:70)+hflip(0.5)+sanitize":
        [v2.RandomRotation(180, center=(3, 70)), v2.RandomHorizontalFlip(),
         v2.SanitizeBoundingBoxes()],
    "affine_v2(90,translate=0.2:0.1,scale=0.5:2,shear=-20:20:-10:10)":
        [v2.RandomAffine(90, (0.2, 0.1), (0.5, 2), (-20, 20, -10, 10))],
    "affine_v2(0,translate=0.2:0.1,center=9:8)":
        [v2.RandomAffine(0, (0.2, 0.1), center=(9, 8))],
    "perspective(0.6,p=0.8)+resize(90:80)": [v2.RandomPerspective(0.6, 0.8), v2.Resize((90, 80))],
}


class Numbers:
    """The numbers of test_box_run.c."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return (self.state >> 8) % n

    def place(self, size):
        """Up to an eighth of the side outside, in steps that are not powers of two."""
        sixtyfourths = self.below(80 * size) - 8 * size
        return torch.tensor(sixtyfourths / 64, dtype=torch.float32) * torch.tensor(1.1)


def make_image(i):
    """Size and boxes of image i: also on its edges, degenerate, inverted and outside."""
    numbers = Numbers(i)
    width, height = 40 + numbers.below(600), 40 + numbers.below(500)
    boxes = torch.zeros(i % 41, 4)
    for k, box in enumerate(boxes):
        x, y = ([numbers.place(size), numbers.place(size)] for size in (width, height))
        if k % 11 != 10:
            x, y = sorted(x), sorted(y)
        box[:] = torch.stack([x[0], y[0], x[1], y[1]])
        if k % 5 == 1:
            box[0], box[2] = 0, width
        if k % 7 == 3:
            box[3] = box[1]
    return width, height, boxes


def move(transforms, i):
    """The bytes that test_box_run.c checks."""
    width, height, boxes = make_image(i)
    torch.manual_seed(i)
    image = Image.new("RGB", (width, height))
    sample = {"boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width)),
              "labels": torch.arange(len(boxes))}
    with fused_grids():
        _, found = v2.Compose(transforms)(image, sample)
    rows = [struct.pack("<4fq", *box, label)
            for box, label in zip(found["boxes"].tolist(), found["labels"].tolist())]
    return struct.pack("<q", len(rows)) + b"".join(rows)


def main():
    goldens = {}
    for text, transforms in CASES.items():
        moved = [move(transforms, i) for i in range(N_IMAGES)]
        goldens[text] = [zlib.crc32(b"".join(moved[i:i + GROUP]))
                         for i in range(0, N_IMAGES, GROUP)]
    json.dump(goldens, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
