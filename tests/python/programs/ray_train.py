# SPDX-License-Identifier: Apache-2.0
"""A loop in two workers of Ray Train. test_frameworks.py runs it with torch's DataLoader and, after
one changed line, with millrace's.

    ray_train.py DATA OUT    OUT is a folder for Ray's files
"""
import hashlib
import json
import os
import sys

import ray
import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from torchvision import transforms
from torchvision.datasets import ImageFolder


def train(config):
    from torch.utils.data import DataLoader

    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(1 + rank)
    train_set = ImageFolder(
        os.path.join(config["data"], "train"),
        transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()]))
    test_set = ImageFolder(
        os.path.join(config["data"], "val"),
        transforms.Compose(
            [transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor()]))
    # Ray replaces them by loaders with a DistributedSampler.
    loader, test_loader = map(ray.train.torch.prepare_data_loader, (
        DataLoader(train_set, batch_size=8, shuffle=True, num_workers=2, drop_last=True),
        DataLoader(test_set, batch_size=8, num_workers=2)))
    # Not len(train_set.classes): the name makes cloudpickle pickle torch.classes, and fail.
    model = ray.train.torch.prepare_model(torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 1 + max(train_set.targets))))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    labels, pixels = [], hashlib.sha256()
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
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
    with open(f"{config['out']}/rank{rank}", "w", encoding="utf-8") as file:
        json.dump([rank, labels, pixels.hexdigest(), random.hexdigest()], file)


def main(data, out):
    os.makedirs(out, exist_ok=True)
    ray.init(num_cpus=4, include_dashboard=False)
    ray.train.torch.TorchTrainer(train, train_loop_config={"data": data, "out": out},
                                 scaling_config=ScalingConfig(num_workers=2),
                                 run_config=RunConfig(storage_path=out)).fit()
    for rank in range(2):
        with open(f"{out}/rank{rank}", encoding="utf-8") as file:
            sys.stdout.write(f"\n{file.read()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
