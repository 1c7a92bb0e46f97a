#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes python.json anew: pixels and orders of torch's DataLoader, which the Python package has to
equal.

    python3 tests/data/make_python.py
    needs torch 2.15, torchvision 0.29, Pillow 13 and NumPy; tests read only the file

What changes in it is a difference between two versions of them. The cases are in
tests/python/golden_cases.py.
"""
import base64
import io
import json
import os
import sys
import tempfile

import numpy
import PIL
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.transforms import _presets, v2

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
import golden_cases as cases  # noqa: E402


def picture(width, height, mode="RGB"):
    y, x, c = numpy.mgrid[0:height, 0:width, 0:3]
    waves = 128 + 70 * numpy.sin(x / (5 + c) + c) + 50 * numpy.cos(y / 7 - x / 11 + c)
    return Image.fromarray(waves.clip(0, 255).astype(numpy.uint8)).convert(mode)


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def make_images():
    return {
        "a/1.jpg": encoded(picture(60, 45), "JPEG", quality=80),
        "a/2.jpg": encoded(picture(33, 50), "JPEG", quality=90, subsampling=0, progressive=True),
        "b/3.jpg": encoded(picture(40, 41, "L"), "JPEG", quality=75),
        "b/4.jpg": encoded(picture(47, 38),
                           "JPEG",
                           quality=60,
                           subsampling=1,
                           restart_marker_blocks=3),
        "b/5.png": encoded(picture(31, 17), "PNG"),
        "c/6.png": encoded(picture(26, 30, "RGB").quantize(40), "PNG"),
    }


def pixels(dataset):
    """A checksum for each sample, over the bytes of its tensor."""
    return [cases.crc(image.numpy().tobytes()) for image, _ in DataLoader(dataset)]


def make_pixels(folder):
    def of(transform):
        return pixels(datasets.ImageFolder(folder, transform))

    def compose(module, make):
        return module.Compose(make(module, torch))

    return {
        "v1": {
            name: of(compose(transforms, case[2]))
            for name, case in cases.V1.items()
        },
        "v2": {
            name: of(compose(v2, case[2]))
            for name, case in cases.V2.items()
        },
        "presets": {
            name: of(_presets.ImageClassification(**case[1]))
            for name, case in cases.PRESETS.items()
        },
    }


def make_orders(folder):
    dataset = datasets.ImageFolder(
        folder, transforms.Compose([transforms.Resize((2, 2)),
                                    transforms.ToTensor()]))
    dataset.samples = [(dataset.samples[i % len(dataset.samples)][0], i)
                       for i in range(cases.N_SAMPLES)]
    for name in (*cases.SAMPLERS, *cases.DISTRIBUTED):
        for world, rank in cases.RANKS:
            found = cases.torch_orders(DataLoader, torch, dataset, name, world, rank)
            yield {"sampler": name, "world": world, "rank": rank, **found}


def make_cifar():
    cifar = cases.cifar_dataset(numpy, datasets)
    found = {}
    for name, (_, _, make) in cases.CIFAR_TRANSFORMS.items():
        cifar.transform = transforms.Compose(make(transforms, torch))
        torch.manual_seed(3)
        batches = list(DataLoader(cifar, batch_size=8, shuffle=True))
        found[name] = {"labels": [label for _, labels in batches for label in labels.tolist()],
                       "shuffled": [cases.crc(images.numpy().tobytes()) for images, _ in batches],
                       "pixels": pixels(cifar)}
    return found


def main():
    images = make_images()
    with tempfile.TemporaryDirectory() as folder:
        cases.write_images(images, folder)
        content = {
            "source": "torch %s, torchvision %s, Pillow %s" %
            (torch.__version__.split("+")[0], torchvision.__version__.split("+")[0],
             PIL.__version__),
            "images": {
                name: base64.b64encode(image).decode()
                for name, image in images.items()
            },
            "pixels": make_pixels(folder),
            "cifar": make_cifar(),
        }
        orders = list(make_orders(folder))
    with open(os.path.join(HERE, "python.json"), "w") as file:
        file.write(json.dumps(content, indent=1)[:-2] + ',\n "orders": [\n')
        file.write(",\n".join(map(json.dumps, orders)) + "\n]\n}\n")
    print("%d orders" % len(orders))


if __name__ == "__main__":
    main()
