#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes mixing.json: batches mixed by torchvision's MixUp and CutMix, and by timm's
FastCollateMixup.

usage: make_mixing.py > mixing.json
    (needs torch, torchvision 0.29 and timm 1.0; the tests do not)

A case has the parameters that were drawn, u8 rows [N,3,H,W], and what came out: torchvision's rows
are f32, normalized before they are mixed, timm's are u8. Bytes and floats are in hexadecimal, soft
labels are f32.
"""
import json
import random
import sys

import numpy as np
import torch
from timm.data import mixup as timm_mixup
from torchvision.transforms import functional as F
from torchvision.transforms import v2

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
N_CLASSES = 5


def fixed(values):
    it = iter(values)
    return lambda *args, **kwargs: next(it)


def hexed(tensor):
    return tensor.contiguous().numpy().tobytes().hex()


def torchvision_case(rng, kind, n, height, width, images, labels, lam, x, y):
    floats = F.normalize(images.float() / 255, MEAN, STD)
    mix = (v2.MixUp if kind == "mixup" else v2.CutMix)(alpha=1.0, num_classes=N_CLASSES)
    mix._dist.sample = lambda shape: torch.tensor([lam])
    real, torch.randint = torch.randint, fixed([torch.tensor([x]), torch.tensor([y])])
    params = mix.make_params([floats])
    torch.randint, again = fixed([torch.tensor([x]), torch.tensor([y])]), real
    out, soft = mix(floats, labels)
    torch.randint = again
    weight = params.get("lam", params.get("lam_adjusted"))
    return {"out": hexed(out), "soft": hexed(soft), "weight": float(np.float32(weight)),
            "box": list(params.get("box", [0, 0, 0, 0]))}


def timm_case(rng, kind, n, height, width, images, labels, lam, x, y):
    collate = timm_mixup.FastCollateMixup(label_smoothing=0.1, num_classes=N_CLASSES)
    collate._params_per_batch = lambda: (lam, kind == "cutmix")
    real, np.random.randint = np.random.randint, fixed([y, x])
    out, soft = collate([(images[i], int(labels[i])) for i in range(n)])
    np.random.randint = fixed([y, x])
    box, weight = [0, 0, 0, 0], lam
    if kind == "cutmix":
        (yl, yh, xl, xh), weight = timm_mixup.cutmix_bbox_and_lam((3, height, width), lam)
        box = [int(xl), int(yl), int(xh), int(yh)]
    np.random.randint = real
    return {"out": hexed(out), "soft": hexed(soft), "weight": float(np.float32(weight)), "box": box}


def main():
    rng, cases = random.Random(18), []
    for i in range(48):
        by = "torchvision" if i % 2 else "timm"
        kind = "mixup" if i // 2 % 2 else "cutmix"
        n = (2 + i % 3) if by == "torchvision" else 2 * (1 + i % 2)
        height, width = rng.randint(1, 6), rng.randint(1, 7)
        lam = float(np.float32([rng.random(), 0.0, 1.0, rng.random() ** 8][i // 4 % 4]))
        x, y = rng.randrange(width), rng.randrange(height)
        images = torch.tensor([rng.randrange(256) for _ in range(n * 3 * height * width)],
                              dtype=torch.uint8)
        images = images.reshape(n, 3, height, width)
        labels = torch.tensor([rng.randrange(N_CLASSES) for _ in range(n)])
        made = (torchvision_case if by == "torchvision" else timm_case)(rng, kind, n, height, width,
                                                                        images, labels, lam, x, y)
        cases.append({
            "by": by, "kind": kind, "n": n, "height": height, "width": width, "lambda": lam, "x": x,
            "y": y, "labels": labels.tolist(), "in": hexed(images), **made
        })
    sys.stdout.write('{"classes":%d,"cases":[\n' % N_CLASSES +
                     ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
