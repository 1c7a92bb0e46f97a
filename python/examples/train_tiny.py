# SPDX-License-Identifier: Apache-2.0
"""train_tiny.py [EPOCHS]: trains a small network with PyTorch, on the CPU, on images that it draws.

The loop is that of any PyTorch program, with mr.Loader in place of a DataLoader.
"""
import os
import random
import sys
import tempfile

import torch
from torch import nn

import millrace as mr

CLASSES, SIDE = 4, 32


def draw_picture(label, noise):
    """An image in CIFAR-10's form: noise, and a bright bar in one of four directions."""
    across = [
        lambda x, y: x, lambda x, y: y, lambda x, y: (x + y) // 2, lambda x, y: (x - y + SIDE) // 2
    ][label]
    middle = noise.randrange(12, 20)
    plane = [min(255, noise.randrange(120) + 120 * (abs(across(x, y) - middle) < 2))
             for y in range(SIDE) for x in range(SIDE)]
    return bytes([label]) + bytes(plane) * 3


def draw_dataset(folder, n_train=600, n_test=200):
    """CIFAR-10's binary layout: five files to train with, one to test with."""
    noise = random.Random(1)
    for name, n in [(f"data_batch_{i}.bin", n_train // 5)
                    for i in range(1, 6)] + [("test_batch.bin", n_test)]:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"".join(draw_picture(i % CLASSES, noise) for i in range(n)))


def main(n_epochs):
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        draw_dataset(folder)
        train = mr.Loader(f"cifar10:{folder}?split=train",
                          "random_crop(32,padding=4)",
                          dtype="f32",
                          batch_size=50,
                          seed=1)
        test = mr.Loader(f"cifar10:{folder}?split=test",
                         "none",
                         dtype="f32",
                         batch_size=100,
                         no_shuffle=True)
        model = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2), nn.ReLU(),
                              nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for epoch in range(n_epochs):
            train.set_epoch(epoch)
            for batch in train:
                image, label = torch.from_dlpack(batch.image), torch.from_dlpack(batch.label)
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(image), label)
                loss.backward()
                optimizer.step()
            test.set_epoch(epoch)
            with torch.no_grad():
                right = sum(
                    (model(torch.from_dlpack(b.image)).argmax(1) == torch.from_dlpack(b.label)
                     ).sum().item() for b in test)
            print(f"epoch {epoch}: loss {loss.item():.3f}, "
                  f"{100 * right / test.n_samples:.1f} % of the test images right")
        return right / test.n_samples


if __name__ == "__main__":
    sys.exit(0 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 6) > 0.5 else 1)
