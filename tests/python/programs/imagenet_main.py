# SPDX-License-Identifier: Apache-2.0
"""A training program whose data part is that of pytorch/examples, imagenet/main.py, as far as
torch's interfaces make it; the rest is short. test_programs.py changes four lines of it.

    imagenet_main.py DATA SIZE EPOCHS
"""
import os
import sys

import torch
import torch.utils.data
import torchvision.datasets as datasets
import torchvision.transforms as transforms


def main(data, size, epochs):
    traindir = os.path.join(data, "train")
    valdir = os.path.join(data, "val")
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])

    train_dataset = datasets.ImageFolder(
        traindir,
        transforms.Compose([
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            normalize,
        ]))
    val_dataset = datasets.ImageFolder(
        valdir,
        transforms.Compose([
            transforms.Resize(size * 8 // 7),
            transforms.CenterCrop(size),
            transforms.ToTensor(),
            normalize,
        ]))
    train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset, 1, 0)

    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=16, shuffle=(train_sampler is None),
        num_workers=2, pin_memory=True, sampler=train_sampler)
    val_loader = torch.utils.data.DataLoader(
        val_dataset, batch_size=16, shuffle=False, num_workers=2, pin_memory=True)

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
                                torch.nn.Linear(128, len(train_dataset.classes)))
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for epoch in range(epochs):
        train_sampler.set_epoch(epoch)
        model.train()
        for images, target in train_loader:
            images, target = images.to("cpu", non_blocking=True), target.to("cpu",
                                                                            non_blocking=True)
            loss = criterion(model(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum(
                (model(images).argmax(1) == target).sum().item() for images, target in val_loader)
        print(
            f"Epoch: [{epoch}] loss {loss.item():.4f} right {right} of {len(val_dataset)} "
            f"in {len(train_loader)} steps"
        )
    return train_loader, val_loader


if __name__ == "__main__":
    torch.manual_seed(1)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
