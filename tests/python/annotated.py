# SPDX-License-Identifier: Apache-2.0
"""Generated datasets with masks and boxes, the replay of what was done to a sample of them, and
classes of the form of torchvision's references (references/detection, references/segmentation).
"""
import json
import os
import random
import sys

import numpy as np
import torch
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../data"))
from replay_explain import find

NAMES = ("aeroplane", "cat", "person", "tvmonitor")
N = 14


def random_image(draws):
    size = draws.randrange(30, 90), draws.randrange(30, 90)
    return Image.frombytes("RGB", size, draws.randbytes(size[0] * size[1] * 3))


def draw_corners(draws, size):
    """Two corners of a box of whole numbers."""
    corners = [sorted(draws.sample(range(side), 2)) for side in size]
    return [corners[0][0], corners[1][0], corners[0][1], corners[1][1]]


def make_voc(root, year=2012):
    """A tree of VOC with the set "train", in no order, whose images have many sizes. They are PNG
    files, whose pixels do not depend on a decoder."""
    draws, base = random.Random(year), os.path.join(root, f"VOCdevkit/VOC{year}")
    names = [f"{draws.randrange(10**6):06}" for _ in range(N)]
    for folder in ("ImageSets/Main", "ImageSets/Segmentation", "JPEGImages", "Annotations",
                   "SegmentationClass"):
        os.makedirs(os.path.join(base, folder))
    for folder in ("Main", "Segmentation"):
        with open(os.path.join(base, "ImageSets", folder, "train.txt"), "w") as file:
            file.write("\n".join(names) + "\n")
    for name in names:
        image = random_image(draws)
        image.save(os.path.join(base, "JPEGImages", name + ".jpg"), "PNG")
        mask = Image.frombytes("P", image.size, draws.randbytes(image.width * image.height))
        mask.putpalette(bytes(range(256)) * 3)
        mask.save(os.path.join(base, "SegmentationClass", name + ".png"))
        objects = ""
        for _ in range(draws.choice([1, 2, 9])):
            box = "".join(f"<{key}>{value}</{key}>" for key, value in zip(
                ("xmin", "ymin", "xmax", "ymax"), draw_corners(draws, image.size)))
            objects += (f"<object><name>{draws.choice(NAMES)}</name><difficult>"
                        f"{draws.randrange(2)}</difficult><bndbox>{box}</bndbox></object>")
        with open(os.path.join(base, "Annotations", name + ".xml"), "w") as file:
            file.write(f"<annotation><size><width>{image.width}</width><height>{image.height}"
                       f"</height></size>{objects}</annotation>")
    return str(root)


def make_coco(root, empty=2):
    """A folder of images and its annotation file. The last images have no boxes, some only boxes of
    whole numbers."""
    draws = random.Random(8)
    ids = draws.sample(range(10**6), N)
    images, things = [], []
    for k, i in enumerate(ids):
        image = random_image(draws)
        image.save(os.path.join(root, f"{i}.png"))
        images.append({"id": i, "file_name": f"{i}.png", "width": image.width,
                       "height": image.height})
        for _ in range(draws.choice([1, 3, 8]) if k < N - empty else 0):
            x1, y1, x2, y2 = draw_corners(draws, image.size)
            bbox = [x1, y1, x2 - x1, y2 - y1]
            things.append({
                "id": len(things) + 1, "image_id": i, "iscrowd": draws.randrange(2), "category_id":
                draws.choice([1, 3, 90]), "area": draws.uniform(1, 900), "segmentation":
                [[draws.random(), 2, 3, 4, 5, 6]], "bbox":
                bbox if k % 3 == 0 else [number - 0.25 for number in bbox]
            })
    draws.shuffle(things)
    categories = [{"id": i, "name": name} for i, name in ((90, "cat"), (1, "dog"), (3, "cow"))]
    path = os.path.join(root, "boxes.json")
    with open(path, "w") as file:
        json.dump({"images": images, "annotations": things, "categories": categories}, file)
    return str(root), path


def replay_sample(image, target, calls, mask_fill=0, functional=None):
    """The PIL image and its target, a mask or a dict of boxes and labels, after the calls of
    millrace.explain(): each call on both, by functions of torchvision's v2. functional: of masks
    that are PIL images."""
    for name, args in calls:
        fill = {"fill": mask_fill} if name == "pad" else {}
        if functional is not None:
            nearest = {"interpolation": 0} if name == "resize" else {}
            target = getattr(functional, name)(target, **{**args, **nearest, **fill})
        elif name == "sanitize_bounding_boxes":
            boxes, valid = move(name)(target["boxes"], **args)
            target = {**target, "boxes": boxes, "labels": target["labels"][valid]}
            continue
        elif isinstance(target, dict):
            target = {**target, "boxes": move_boxes(target["boxes"], name, args)}
        elif is_geometry(name):
            target = move(name)(target, **{**args, **fill})
        if name == "v2.RandomIoUCrop":
            image = F.crop(image, **args)
        else:
            image = find(name)(image, **args)
    return image, target


def move(name):
    from torchvision.transforms import v2

    return getattr(v2.functional, name)


def is_geometry(name):
    return name in ("resize", "resized_crop", "crop", "center_crop", "pad", "hflip", "vflip")


def move_boxes(boxes, name, args):
    from torchvision.transforms import v2

    if name == "v2.RandomIoUCrop":
        x, y = (boxes[:, 0] + boxes[:, 2]) * 0.5, (boxes[:, 1] + boxes[:, 3]) * 0.5
        inside = ((args["left"] < x) & (x < args["left"] + args["width"]) & (args["top"] < y) &
                  (y < args["top"] + args["height"]))
        return v2.RandomIoUCrop().transform(boxes, {**args, "is_within_crop_area": inside})
    return move(name)(boxes, **args) if is_geometry(name) else boxes


# Presets, and the classes of their modules "transforms" and "v2_extras".


class Preset:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img, target):
        return self.transforms(img, target)


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image, target):
        for step in self.transforms:
            image, target = step(image, target)
        return image, target


def pad_if_smaller(image, size, fill=0):
    width, height = image.size
    return F.pad(image, [0, 0, max(size - width, 0), max(size - height, 0)], fill)


class RandomResize:
    def __init__(self, min_size, max_size):
        self.min_size, self.max_size = min_size, max_size

    def __call__(self, image, target):
        size = random.randint(self.min_size, self.max_size)
        return F.resize(image, size), F.resize(target, size, T.InterpolationMode.NEAREST)


class RandomHorizontalFlip:
    def __init__(self, flip_prob):
        self.flip_prob = flip_prob

    def __call__(self, image, target):
        if random.random() < self.flip_prob:
            return F.hflip(image), F.hflip(target)
        return image, target


class RandomCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image, target):
        image, target = pad_if_smaller(image, self.size), pad_if_smaller(target, self.size, 255)
        place = T.RandomCrop.get_params(image, (self.size, self.size))
        return F.crop(image, *place), F.crop(target, *place)


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image, target):
        return F.center_crop(image, self.size), F.center_crop(target, self.size)


class PILToTensor:
    def __call__(self, image, target):
        return F.pil_to_tensor(image), torch.as_tensor(np.array(target), dtype=torch.int64)


class ToDtype:
    def __init__(self, dtype, scale):
        self.dtype, self.scale = dtype, scale

    def __call__(self, image, target):
        if not self.scale:
            return image.to(dtype=self.dtype), target
        return F.convert_image_dtype(image, self.dtype), target


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, image, target):
        return F.normalize(image, mean=self.mean, std=self.std), target


def cat_list(images, fill_value=0):
    shape = [max(sides) for sides in zip(*(image.shape for image in images))]
    found = images[0].new_full((len(images), *shape), fill_value)
    for image, row in zip(images, found):
        row[..., :image.shape[-2], :image.shape[-1]] = image
    return found


def collate_fn(batch):
    images, targets = list(zip(*batch))
    return cat_list(images, fill_value=0), cat_list(targets, fill_value=255)


def make_v2_extras():
    """The classes for v2, which only newer versions of torchvision have."""
    from torchvision.transforms import v2

    class PadIfSmaller(v2.Transform):
        def __init__(self, size, fill=0):
            super().__init__()
            self.size, self.fill = size, v2._utils._setup_fill_arg(fill)

        def make_params(self, sample):
            _, height, width = v2._utils.query_chw(sample)
            return dict(padding=[0, 0, max(self.size - width, 0), max(self.size - height, 0)])

        def transform(self, inpt, params):
            fill = v2._utils._get_fill(self.fill, type(inpt))
            return v2.functional.pad(inpt, fill=fill, **params)

    class FixedSizeCrop(torch.nn.Module):
        """The tests replay its calls, so it needs no more than what it is recognised by."""

        def __init__(self, size, fill=0, padding_mode="constant"):
            super().__init__()
            self.crop_height, self.crop_width = size
            self.fill, self.padding_mode = fill, padding_mode

        def forward(self, img, target=None):
            return F.crop(F.pad(img, self.fill, self.padding_mode), self.crop_height,
                          self.crop_width)

    return PadIfSmaller, FixedSizeCrop
