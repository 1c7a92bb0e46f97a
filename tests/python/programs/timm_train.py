# SPDX-License-Identifier: Apache-2.0
"""A loop with timm's datasets and loaders, in one process or in the ranks of torchrun.
test_frameworks.py runs it with timm's create_loader and, after one changed line, with millrace's.

    timm_train.py DATA
"""
import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist
from timm.data import ImageDataset
from timm.data import create_loader


def main(data):
    rank, n_ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if n_ranks > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(1 + rank)
    train_set, test_set = (ImageDataset(os.path.join(data, part)) for part in ("train", "val"))
    options = {"input_size": (3, 32, 32), "batch_size": 8, "num_workers": 2,
               "distributed": n_ranks > 1, "device": torch.device("cpu")}
    loader = create_loader(train_set, is_training=True, auto_augment="rand-m7-inc1", **options)
    test_loader = create_loader(test_set, crop_pct=0.9, **options)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 1000))
    if n_ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    labels, pixels = [], hashlib.sha256()
    for epoch in range(2):
        if n_ranks > 1:
            loader.sampler.set_epoch(epoch)
        for image, label in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(image), label).backward()
            optimizer.step()
            labels += label.tolist()
        with torch.no_grad():
            for image, label in test_loader:
                model(image)
                # As bytes again: millrace's floats are rounded once, timm's at each step.
                whole = image * test_loader.std + test_loader.mean
                pixels.update(whole.round().to(torch.uint8).numpy().tobytes())
                labels += label.tolist()
    random = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sys.stdout.write(json.dumps([rank, labels, pixels.hexdigest(), random.hexdigest()]) + "\n")
    if n_ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
