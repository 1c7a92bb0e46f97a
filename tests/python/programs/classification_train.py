# SPDX-License-Identifier: Apache-2.0
"""A training program whose data part is that of torchvision's references/classification, as far as
torch's interfaces make it: presets that are classes of its own, samplers, mixing in the collate
function. test_programs.py changes five lines of it.

    classification_train.py DATA SIZE EPOCHS
"""
import os
import sys

import torch
import torch.utils.data
import torchvision
from torch.utils.data.dataloader import default_collate
from torchvision.transforms import autoaugment, transforms


class PresetTrain:
    def __init__(self, crop_size):
        self.transforms = transforms.Compose([
            transforms.RandomResizedCrop(crop_size),
            transforms.RandomHorizontalFlip(0.5),
            autoaugment.TrivialAugmentWide(interpolation=transforms.InterpolationMode.BILINEAR),
            transforms.PILToTensor(),
            transforms.ConvertImageDtype(torch.float),
            transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            transforms.RandomErasing(p=0.1),
        ])

    def __call__(self, img):
        return self.transforms(img)


class PresetEval:
    def __init__(self, crop_size, resize_size):
        self.transforms = transforms.Compose([
            transforms.Resize(resize_size),
            transforms.CenterCrop(crop_size),
            transforms.PILToTensor(),
            transforms.ConvertImageDtype(torch.float),
            transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        ])

    def __call__(self, img):
        return self.transforms(img)


def mix(image, target, n_classes):
    """Each image with its neighbour."""
    share = 0.75
    target = torch.nn.functional.one_hot(target, n_classes).float()
    return share * image + (1 - share) * image.roll(
        1, 0), share * target + (1 - share) * target.roll(1, 0)


def main(data, size, epochs):
    dataset = torchvision.datasets.ImageFolder(
        os.path.join(data, "train"),
        PresetTrain(crop_size=size),
    )
    dataset_test = torchvision.datasets.ImageFolder(
        os.path.join(data, "val"),
        PresetEval(crop_size=size, resize_size=size * 8 // 7),
    )
    train_sampler = torch.utils.data.RandomSampler(dataset)
    test_sampler = torch.utils.data.SequentialSampler(dataset_test)
    n_classes = len(dataset.classes)
    collate_fn = lambda batch: mix(*default_collate(batch), n_classes)  # noqa: E731
    data_loader = torch.utils.data.DataLoader(dataset,
                                              batch_size=16,
                                              sampler=train_sampler,
                                              num_workers=2,
                                              pin_memory=True,
                                              collate_fn=collate_fn)
    data_loader_test = torch.utils.data.DataLoader(
        dataset_test, batch_size=16, sampler=test_sampler, num_workers=2, pin_memory=True)

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(),
                                torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
                                torch.nn.Linear(128, n_classes))
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        for image, target in data_loader:
            optimizer.zero_grad()
            loss = criterion(model(image), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            right = sum((model(image).argmax(1) == target).sum().item()
                        for image, target in data_loader_test)
        print(
            f"Epoch: [{epoch}] loss {loss.item():.4f} right {right} of {len(dataset_test)} "
            f"in {len(data_loader)} steps"
        )
    return data_loader, data_loader_test


if __name__ == "__main__":
    torch.manual_seed(1)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
