# SPDX-License-Identifier: Apache-2.0
"""A loop without a framework, in one process or in the ranks of torchrun. test_frameworks.py runs
it with torch's DataLoader and, after one changed line, with millrace's.

    plain_loop.py DATA
"""
import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder


def main(data):
    rank, n_ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if n_ranks > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(1 + rank)
    train_set = ImageFolder(
        os.path.join(data, "train"),
        transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()]))
    test_set = ImageFolder(
        os.path.join(data, "val"),
        transforms.Compose(
            [transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor()]))
    sampler = DistributedSampler(train_set, n_ranks, rank)
    loader = DataLoader(train_set, batch_size=8, sampler=sampler, num_workers=2, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=8, num_workers=2,
                             sampler=DistributedSampler(test_set, n_ranks, rank, shuffle=False))
    model = torch.nn.Sequential(torch.nn.Flatten(),
                                torch.nn.Linear(3 * 32 * 32, len(train_set.classes)))
    if n_ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    labels, pixels = [], hashlib.sha256()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for image, label in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(image), label).backward()
            optimizer.step()
            labels += label.tolist()
        with torch.no_grad():
            for image, label in test_loader:
                model(image)
                pixels.update(image.numpy().tobytes())
                labels += label.tolist()
    random = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sys.stdout.write(json.dumps([rank, labels, pixels.hexdigest(), random.hexdigest()]) + "\n")
    if n_ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
