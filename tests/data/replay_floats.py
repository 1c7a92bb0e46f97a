#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the lines of `millrace export --explain` up to the erased floats, and compares the bits.

usage: replay_floats.py FOLDER X.npy FILE.jsonl MEAN STD      (needs Pillow 13, torch, torchvision 0.29; the tests do not)

FOLDER is the dataset's folder. X.npy was exported as f32, nchw, with normalize(mean=MEAN,std=STD,exact) and
random_erasing. MEAN and STD are numbers with commas between. Boxes of value=random are compared by mean and deviation
alone: their numbers are not torch's. Prints what differs, and exits 1 if anything does.
"""
import json
import os
import sys

import numpy as np
import torch
from PIL import Image
from replay_explain import replay
from torchvision.transforms import functional as F


def numbers(text):
    return [float(value) for value in text.split(",")]


def main():
    folder, array, path, mean, std = sys.argv[1:]
    rows = np.load(array, mmap_mode="r")
    n_differ, n_boxes, drawn = 0, 0, []
    with open(path, encoding="utf-8") as lines:
        for row, line in zip(rows, lines, strict=True):
            sample = json.loads(line)
            image = Image.open(os.path.join(folder, sample["name"])).convert("RGB")
            want = F.to_tensor(replay(image, sample["calls"]))
            want = F.normalize(want, numbers(mean), numbers(std))
            got = torch.from_numpy(np.array(row))
            for name, box in sample["after"]:
                assert name == "erase", sample
                n_boxes += 1
                i, j, h, w, v = box["i"], box["j"], box["h"], box["w"], box["v"]
                if v == "random":
                    inside = got[:, i : i + h, j : j + w]
                    drawn.append(inside.flatten().clone())
                    v = inside.clone()
                else:
                    v = torch.tensor(v, dtype=torch.float32)[:, None, None]
                want = F.erase(want, i, j, h, w, v)
            if not torch.equal(want, got):
                n_differ += 1
                print(f"differs by {(want - got).abs().max()}: {line.strip()}", file=sys.stderr)
    print(f"{len(rows)} rows, {n_differ} differ, {n_boxes} boxes")
    if drawn:
        drawn = torch.cat(drawn).double()
        print(f"{len(drawn)} drawn values: mean {drawn.mean():.4f}, deviation {drawn.std():.4f}")
    sys.exit(n_differ > 0)


if __name__ == "__main__":
    main()
