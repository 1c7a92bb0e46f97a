#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes erasing.json: the boxes that torchvision's RandomErasing draws from torch's generator.

usage: make_erasing.py > erasing.json
    (needs torch and torchvision 0.29, on a CPU with AVX2; the tests do not)

A case has the boxes of a few images, one after the other from one stream: [i, j, h, w], or null
where nothing is erased.
"""
import json

import torch
from torchvision import transforms as T
from torchvision.transforms import functional as F

N_IMAGES = 6
SIZES = [(224, 224), (32, 32), (160, 96), (1, 1), (3, 50), (128, 127), (600, 2)]
SCALES = [(0.02, 0.33), (0.02, 1 / 3), (0.5, 1.0), (0.0, 0.01), (0.2, 0.2)]
RATIOS = [(0.3, 3.3), (0.3, 10 / 3), (1.0, 1.0), (0.01, 100.0)]
CHANCES = [1.0, 0.5, 0.25, 0.1, 0.9]


def boxes(case):
    made = []
    real = F.erase
    F.erase = lambda img, i, j, h, w, v, inplace: made.append([i, j, h, w] if (h, w) != tuple(
        img.shape[1:]) else None)
    torch.manual_seed(case["seed"])
    erasing = T.RandomErasing(case["p"], tuple(case["scale"]), tuple(case["ratio"]), value=0)
    image = torch.zeros(3, case["height"], case["width"])
    out = []
    for _ in range(N_IMAGES):
        made.clear()
        erasing(image)
        out.append(made[0] if made else None)
    F.erase = real
    return out


def main():
    cases = []
    for i in range(100):
        height, width = SIZES[i % len(SIZES)]
        case = {
            "seed": i * 31, "height": height, "width": width, "p": CHANCES[i // 7 % len(CHANCES)]
        }
        case["scale"] = SCALES[i % len(SCALES)]
        case["ratio"] = RATIOS[i // 3 % len(RATIOS)]
        cases.append({**case, "boxes": boxes(case)})
    print('{"cases":[\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}")


if __name__ == "__main__":
    main()
