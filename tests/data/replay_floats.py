#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the lines of `millrace export --explain` up to the erased and mixed floats, and compares
the bits.

usage: replay_floats.py FOLDER X.npy FILE.jsonl MEAN STD BATCH
    (needs Pillow 13, torch, torchvision 0.29; the tests do not)

FOLDER is the dataset's folder. X.npy was exported as f32, nchw, with
normalize(mean=MEAN,std=STD,exact) and random_erasing, mixup or cutmix, in batches of BATCH rows.
MEAN and STD are numbers with commas between. Boxes of value=random are compared by mean and
deviation alone: their numbers are not torch's. Where rows are mixed too, they are not replayed.
Prints what differs, and exits 1 if anything does.
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


def erased(folder, sample, mean, std, got, drawn):
    """The floats of one sample, ahead of mixing."""
    image = Image.open(os.path.join(folder, sample["name"])).convert("RGB")
    want = F.normalize(F.to_tensor(replay(image, sample["calls"])), numbers(mean), numbers(std))
    for name, box in sample.get("after", []):
        assert name == "erase", sample
        i, j, h, w, v = box["i"], box["j"], box["h"], box["w"], box["v"]
        if v == "random":
            inside = got[:, i : i + h, j : j + w]
            drawn.append(inside.flatten().clone())
            v = inside.clone()
        else:
            v = torch.tensor(v, dtype=torch.float32)[:, None, None]
        want = F.erase(want, i, j, h, w, v)
    return want


def mixed(batch, samples):
    """As torchvision's v2.MixUp and v2.CutMix, each with one lambda and box for the batch."""
    out = batch.clone()
    rolled = batch.roll(1, 0)
    for row, sample in enumerate(samples):
        mix = sample.get("mix")
        if mix is None:
            continue
        assert mix["row"] == (row - 1) % len(samples), sample
        if mix["kind"] == "mixup":
            lam = mix["lambda"]
            out[row] = rolled[row].mul(1.0 - lam).add_(batch[row].mul(lam))
        else:
            x1, y1, x2, y2 = mix["box"]
            out[row, :, y1:y2, x1:x2] = rolled[row, :, y1:y2, x1:x2]
    return out


def main():
    folder, array, path, mean, std, size = sys.argv[1:]
    rows = np.load(array, mmap_mode="r")
    with open(path, encoding="utf-8") as lines:
        samples = [json.loads(line) for line in lines]
    assert len(samples) == len(rows)
    n_differ, n_boxes, n_mixed, drawn = 0, 0, 0, []
    for first in range(0, len(rows), int(size)):
        part = samples[first : first + int(size)]
        got = torch.from_numpy(np.array(rows[first : first + int(size)]))
        want = torch.stack(
            [erased(folder, s, mean, std, g, drawn) for s, g in zip(part, got, strict=True)])
        want = mixed(want, part)
        for sample, w, g in zip(part, want, got, strict=True):
            n_boxes += len(sample.get("after", []))
            n_mixed += sample.get("mix") is not None
            if not torch.equal(w, g):
                n_differ += 1
                print(f"differs by {(w - g).abs().max()}: {sample}", file=sys.stderr)
    print(f"{len(rows)} rows, {n_differ} differ, {n_boxes} boxes, {n_mixed} mixed")
    if drawn:
        drawn = torch.cat(drawn).double()
        print(f"{len(drawn)} drawn values: mean {drawn.mean():.4f}, deviation {drawn.std():.4f}")
    sys.exit(n_differ > 0)


if __name__ == "__main__":
    main()
