# SPDX-License-Identifier: Apache-2.0
"""A loop with Accelerate, in one process or in the ranks of torchrun or `accelerate launch`.
test_frameworks.py runs it with torch's DataLoader and, after one changed line, with millrace's.

    accelerate_train.py DATA
"""
import hashlib
import json
import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder


def main(data):
    accelerator = Accelerator(cpu=True)
    set_seed(1)
    train_set = ImageFolder(
        os.path.join(data, "train"),
        transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()]))
    test_set = ImageFolder(
        os.path.join(data, "val"),
        transforms.Compose(
            [transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor()]))
    model = torch.nn.Sequential(torch.nn.Flatten(),
                                torch.nn.Linear(3 * 32 * 32, len(train_set.classes)))
    model, optimizer, loader, test_loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), 0.01),
        DataLoader(train_set, batch_size=8, shuffle=True, num_workers=2),
        DataLoader(test_set, batch_size=8, num_workers=2))
    labels, pixels = [], hashlib.sha256()
    for epoch in range(2):
        loader.set_epoch(epoch)
        for image, label in loader:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(model(image), label))
            optimizer.step()
            labels += label.tolist()
        with torch.no_grad():
            for image, label in test_loader:
                model(image)
                pixels.update(image.numpy().tobytes())
                labels += accelerator.gather_for_metrics(label).tolist()
    random = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sys.stdout.write(json.dumps([accelerator.process_index, labels, pixels.hexdigest(),
                                 random.hexdigest()]) + "\n")
    accelerator.end_training()


if __name__ == "__main__":
    main(sys.argv[1])
