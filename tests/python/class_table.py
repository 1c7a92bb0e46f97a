#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table in docs/recipes.md of every public class of torchvision.transforms and its v2: native,
or loaded by torch and why. test_classes.py compares it with the installed torchvision.

usage: PYTHONPATH=python tests/python/class_table.py
    (needs torchvision 0.29; writes the table anew)
"""
import enum
import inspect
import os
import re

import torch
from torchvision import transforms as v1

from millrace.torch._joint import recognise_joint
from millrace.torch._recipe import recognise
from millrace.torch._words import Unknown

try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None
if not hasattr(v2, "ToPureTensor"):  # its first versions were drafts
    v2 = None

PAGE = os.path.join(os.path.dirname(__file__), "../../docs/recipes.md")
HEAD = "| class | v1 | v2 | here, or why torch loads it |\n|---|---|---|---|\n"
# Arguments of classes that need some.
ARGUMENTS = {
    "CenterCrop": (8,), "Resize": (8,), "RandomCrop": (8,), "RandomResizedCrop": (8,), "Pad": (2,),
    "GaussianBlur": (3,), "RandomAdjustSharpness": (2,), "RandomPosterize": (4,), "RandomSolarize":
    (128,), "RandomRotation": (15,), "RandomAffine": (15,), "FiveCrop": (4,), "TenCrop": (4,),
    "Lambda": (abs,), "Normalize": ([0.5], [0.5]), "ConvertImageDtype": (torch.float32,),
    "LinearTransformation": (torch.eye(192), torch.zeros(192)), "JPEG": (50,), "RandomResize":
    (8, 16), "RandomShortestSize": (8,), "ScaleJitter": ((8, 8),), "UniformTemporalSubsample": (2,),
    "ConvertBoundingBoxFormat": ("XYXY",), "SetClampingMode": ("soft",), "MixUp": (), "CutMix": ()
}
FOR_BOXES = ("ConvertBoundingBoxFormat", "RandomIoUCrop", "SanitizeBoundingBoxes")
ON_FLOATS = ("Normalize", "RandomErasing", "GaussianNoise", "LinearTransformation")
DRAW_SIZES = ("RandomResize", "RandomShortestSize", "RandomZoomOut", "ScaleJitter")
CONVERTERS = ("ToTensor", "PILToTensor", "ToImage", "ConvertImageDtype", "ToDtype")
INNER = ("RandomApply", "RandomChoice", "RandomOrder", "Compose")


def classes(version):
    """The names of all public classes."""
    return sorted(
        name for name, thing in vars(version).items()
        if inspect.isclass(thing) and not name.startswith("_") and not issubclass(thing, enum.Enum))


def make(version, name):
    if name in INNER:
        return getattr(version, name)([version.RandomInvert()])
    if name == "ToDtype":
        return version.ToDtype(torch.float32, scale=True)
    if name in ("MixUp", "CutMix"):
        return getattr(version, name)(num_classes=2)
    return getattr(version, name)(*ARGUMENTS.get(name, ()))


def find(version, name):
    """("native", names of operations in the text), or ("torch", the reason)."""
    thing = make(version, name)
    floats = [v1.PILToTensor(), v1.ConvertImageDtype(torch.float32)]
    if name in ("ConvertImageDtype", "ToDtype"):
        whole = [v1.PILToTensor(), thing]
    elif name in CONVERTERS:
        whole = [thing]
    elif name in DRAW_SIZES:
        whole = [thing, v1.CenterCrop(8), *floats]
    else:
        whole = [*floats, thing] if name in ON_FLOATS else [thing, *floats]
    try:
        if name in FOR_BOXES:
            text = recognise_joint(v2.Compose([thing, v2.ToImage()]), "boxes").text
        else:
            text = recognise(v1.Compose(whole)).text
    except Unknown as reason:
        return "torch", re.sub(r"^the transform (v2\.)?\w+: ", "", str(reason))
    if name in CONVERTERS:
        return "native", "`dtype` of the loader"
    if name == "Compose":
        return "native", "`+`"
    ops = re.findall(r"(?:^|\+)(\w+)", re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", text)))
    ops = ops[:1] if name in DRAW_SIZES else ops
    names = [f"`{op}`" for op in ops if op not in ("none", "normalize") or name == "Normalize"]
    return "native", ", ".join(names) or "`none`"


def rows():
    """For each class, in the order of names: the cells of its row."""
    versions = [v for v in (v1, v2) if v]
    for name in sorted({name for version in versions for name in classes(version)}):
        found = [find(v, name) if v and name in classes(v) else ("–", "") for v in (v1, v2)]
        words = list(dict.fromkeys(text for _, text in found if text))
        yield [f"`{name}`", found[0][0], found[1][0], ", ".join(words)]


def main():
    with open(PAGE, encoding="utf-8") as file:
        before, _, after = file.read().partition(HEAD)
    rest = after[after.index("\n\n"):]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(before + HEAD + table + rest)


if __name__ == "__main__":
    main()
