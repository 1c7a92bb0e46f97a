# SPDX-License-Identifier: Apache-2.0
"""Recognises transforms of an image and its target: torchvision's v2 on masks or boxes, and classes
of torchvision's references, which programs have copies of.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch
from PIL import Image

from ._recipe import JointPreset, Look, Recipe, Writer, class_of, fill_of, is_v2, unwrap
from ._words import find_module, foresee, join, needs, number, size_of

tv_tensors = find_module("torchvision.tv_tensors")
_MASKS = {torch.uint8: "u8", torch.int16: "i16", torch.int64: "i64"}
_OVERLAPS = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
_WARPS = ("RandomRotation", "RandomAffine", "RandomPerspective")
_RESIZES = ("Resize", "RandomResize", "RandomShortestSize", "ScaleJitter", "RandomResizedCrop",
            *_WARPS)
_POLICIES = ("AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix")
_CONVERTERS = ("ToImage", "PILToTensor", "ToTensor", "ToDtype", "Normalize")


class _Class(NamedTuple):
    """A class of the references: what it must be, since a program may have another of its name."""
    attributes: str
    """of its objects, as in vars()"""
    names: str
    """that its functions use, at most"""
    number: Any
    """that its functions, or those that they call, have as a constant"""
    add: Callable[[JointWriter, Any], None]


def _names_of(kind: type) -> tuple[set[str], set[Any]]:
    """Names and constants of the functions of a class, and of the functions of its module that
    these call."""
    names, constants = set(), set()
    waiting = [f for name, f in vars(kind).items() if name != "__init__" and hasattr(f, "__code__")]
    for function in waiting:
        code = function.__code__
        names.update(code.co_names)
        constants.update(code.co_consts)
        own = (vars(kind).get(name, function.__globals__.get(name)) for name in code.co_names)
        waiting.extend(f for f in own if getattr(f, "__module__", "") == kind.__module__
                       and hasattr(f, "__code__") and f not in waiting)
    return names, constants


def _find_reference(t: Any) -> _Class | None:
    """The class of the references that an object of the program is of."""
    found, kind = _REFERENCES.get(type(t).__name__), type(t)
    if found is None or kind.__module__.startswith("torchvision"):
        return None
    attributes = {name for name in vars(t) if not hasattr(torch.nn.Module(), name)}
    names, constants = _names_of(kind)
    needs(attributes == set(found.attributes.split()) and names <= set(found.names.split())
          and (found.number is None or found.number in constants) and (kind.__bases__ == (
              object, ) or kind.__bases__[0].__module__.startswith(("torch.", "torchvision."))),
          f"the transform {kind.__module__}.{kind.__name__}, which is not the one of torchvision's "
          "references")
    return found


class JointWriter(Writer):
    """target: "mask" (tv_tensors.Mask), "boxes", or "pil" for a mask that is a PIL image, which
    only the references' own transforms take. are_whole: all boxes have whole numbers."""

    def __init__(self, exact_resize: bool, target: str, are_whole: bool = False) -> None:
        super().__init__(exact_resize)
        self.target = target
        self.are_whole = are_whole
        self.fills: set[int] = set()  # of masks
        self.mask_dtype = "u8"
        self.keeps_whole = True
        self.is_pure = False

    def add(self, t: Any) -> None:
        t = unwrap(t, JointPreset)
        reference = _find_reference(t)
        if reference is not None:
            needs(not self.is_pure, f"{type(t).__name__} after ToPureTensor")
            reference.add(self, t)
            return
        name = class_of(t)
        needs(self.target != "pil", f"{name} on a mask that is a PIL image, which it does not "
              "take as a mask: wrap the dataset by wrap_dataset_for_transforms_v2()")
        needs(is_v2(t) or name == "Identity", f"v1's {name} of an image and a target")
        needs(not self.is_pure or name in ("Compose", "Identity", "ToPureTensor"),
              f"{name} after ToPureTensor")
        own = getattr(self, "add_" + name, None)
        if own is not None:
            own(t)
            return
        self.check(name, t)
        super().add(t)

    def check(self, name: str, t: Any) -> None:
        """Note what an operation, and those inside it, do to targets."""
        needs(name not in _POLICIES, f"{name} of {self.target}, which torchvision refuses")
        for inner in getattr(t, "transforms", ()):
            self.check(class_of(inner), inner)
        if name in ("CenterCrop", "Pad", "RandomZoomOut", *_WARPS) or name == "RandomCrop" and (
                t.padding or t.pad_if_needed):
            self.add_fill(getattr(t, "fill", 0))
        resizes = name in _RESIZES
        needs(
            not (resizes and self.are_whole and self.keeps_whole),
            f"{name} of boxes with whole numbers, which torchvision cuts there: put "
            "v2.ToDtype({tv_tensors.BoundingBoxes: torch.float32, 'others': None}) before it")
        self.keeps_whole &= not resizes

    def add_fill(self, fill: Any) -> None:
        """What a border shows in masks."""
        if self.target == "boxes":
            return
        fill = fill_of(fill, tv_tensors.Mask if tv_tensors else object) or 0
        needs(isinstance(fill, (int, float)) and fill == int(fill), f"a fill of masks of {fill}")
        self.fills.add(int(fill))
        needs(len(self.fills) == 1, f"masks with the fills {sorted(self.fills)}: millrace has one")

    def add_crop(self, item: str) -> None:
        self.items.append(item)
        self.has_size = True

    def add_Compose(self, t: Any) -> None:
        for inner in t.transforms:
            self.add(inner)

    # Classes of v2 that are about boxes.

    def add_ConvertBoundingBoxFormat(self, t: Any) -> None:
        word = getattr(t.format, "name", t.format)
        needs(str(word).upper() == "XYXY", f"ConvertBoundingBoxFormat to {word}: XYXY is native; "
              "torchvision.ops.box_convert() takes batches in the loop")

    def add_SanitizeBoundingBoxes(self, t: Any) -> None:
        needs(self.target == "boxes", "SanitizeBoundingBoxes without boxes")
        needs(t.labels_getter == "default", "SanitizeBoundingBoxes with a labels_getter")
        self.items.append(f"sanitize({number(t.min_size)},{number(t.min_area)})")

    def add_RandomIoUCrop(self, t: Any) -> None:
        needs(self.target == "boxes", "RandomIoUCrop without boxes")
        needs(list(t.options) == _OVERLAPS, "RandomIoUCrop with sampler_options")
        scale, ratio = (t.min_scale, t.max_scale), (t.min_aspect_ratio, t.max_aspect_ratio)
        self.items.append(f"random_iou_crop({join(scale)},{join(ratio)},{t.trials})")
        self.has_size = False

    # Classes of v2 that do more to masks and boxes than to images.

    def add_ToPureTensor(self, t: Any) -> None:
        self.is_pure, self.is_image = True, False

    def add_ToDtype(self, t: Any) -> None:
        if not isinstance(t.dtype, dict):
            self.convert("ToDtype", t)
            return

        def find(kind: type) -> Any:
            needs(kind in t.dtype or "others" in t.dtype, f"ToDtype without a type of {kind}")
            return t.dtype.get(kind, t.dtype.get("others"))

        kind = Image.Image if self.form == "pil" else tv_tensors.Image if (
            self.is_image) else torch.Tensor
        if find(kind) is not None:
            self.convert_dtype("ToDtype", find(kind), t.scale, True)
        dtype = find(tv_tensors.BoundingBoxes if self.target == "boxes" else tv_tensors.Mask)
        if dtype is None:
            return
        known = {torch.float32: ""} if self.target == "boxes" else _MASKS
        needs(dtype in known, f"ToDtype of {self.target} to {dtype}")
        self.mask_dtype, self.keeps_whole = known[dtype], False

    def add_ConvertImageDtype(self, t: Any) -> None:
        needs(False, f"v2's ConvertImageDtype, which converts {self.target} too: ToDtype(..., "
              "scale=True) converts the image alone")

    def finish_joint(self) -> Recipe:
        if self.target != "boxes":
            fill = next(iter(self.fills), 0)
            nearest = "pil" if self.target == "pil" else "torch"
            self.items.append(f"mask(nearest={nearest},fill={fill},dtype={self.mask_dtype})")
        return self.finish(Look(self.is_pure or self.target == "pil", self.keeps_whole))


# What the references' classes become. Those of an image and a mask that is a PIL image:


def _add_random_resize(writer: JointWriter, t: Any) -> None:
    lo, hi = t.min_size, t.max_size  # both can be drawn
    writer.items.append(f"resize({lo})" if lo == hi else f"random_resize({lo},{hi + 1})")
    writer.has_size = False


def _add_random_crop(writer: JointWriter, t: Any) -> None:
    writer.add_fill(255)
    writer.add_crop(f"pad_if_smaller({t.size})+random_crop({t.size})")


def _add_center_crop(writer: JointWriter, t: Any) -> None:
    writer.add_fill(0)
    writer.add_crop(f"center_crop({size_of(t.size)})")


def _add_converter(writer: JointWriter, t: Any) -> None:
    name = type(t).__name__
    writer.convert(name, t)
    writer.mask_dtype = "i64" if name == "PILToTensor" else writer.mask_dtype


def _add_normalize(writer: JointWriter, t: Any) -> None:
    from torchvision.transforms import Normalize

    Writer.add(writer, Normalize(t.mean, t.std))


def _of_masks(add: Callable[[JointWriter, Any], None]) -> Callable[[JointWriter, Any], None]:
    def check(writer: JointWriter, t: Any) -> None:
        needs(writer.target == "pil", f"{type(t).__module__}.{type(t).__name__} of torchvision's "
              "references for segmentation, which takes a mask that is a PIL image")
        if type(t).__name__ not in _CONVERTERS:
            needs(writer.form == "pil", f"{type(t).__name__} of tensors")
        add(writer, t)
    return check


# Those of v2.


def _add_pad_if_smaller(writer: JointWriter, t: Any) -> None:
    needs(writer.form == "pil", "PadIfSmaller of a tensor")
    writer.add_fill(t.fill)
    fill = fill_of(t.fill, Image.Image) or 0
    word = join(fill) if isinstance(fill, (list, tuple)) else number(fill)
    writer.items.append(f"pad_if_smaller({t.size},fill={word})")


def _add_fixed_size_crop(writer: JointWriter, t: Any) -> None:
    needs(writer.target == "boxes", "FixedSizeCrop without boxes")
    needs(writer.form == "pil", "FixedSizeCrop of a tensor")
    needs(t.padding_mode == "constant", f"FixedSizeCrop with padding_mode {t.padding_mode}")
    fill = join(t.fill) if isinstance(t.fill, (list, tuple)) else number(t.fill)
    writer.add_crop(f"fixed_size_crop({t.crop_height}:{t.crop_width},fill={fill})")


_REFERENCES = {
    "Compose": _Class("transforms", "transforms", None, JointWriter.add_Compose),
    "RandomResize": _Class(
        "min_size max_size", "random randint min_size max_size F resize T InterpolationMode "
        "NEAREST", None, _of_masks(_add_random_resize)),
    "RandomHorizontalFlip": _Class(
        "flip_prob", "random flip_prob F hflip", None, _of_masks(
            lambda writer, t: writer.items.append(f"hflip({number(t.flip_prob)})"))),
    "RandomCrop": _Class(
        "size", "pad_if_smaller size T RandomCrop get_params F crop min max pad", 255,
        _of_masks(_add_random_crop)),
    "CenterCrop": _Class("size", "F center_crop size", None, _of_masks(_add_center_crop)),
    "PILToTensor": _Class("", "F pil_to_tensor torch as_tensor np array int64", None,
                          _of_masks(_add_converter)),
    "ConvertImageDtype": _Class("dtype", "F convert_image_dtype dtype torch as_tensor int64", None,
                                _of_masks(_add_converter)),
    "ToDtype": _Class("dtype scale", "scale to dtype F convert_image_dtype", None,
                      _of_masks(_add_converter)),
    "Normalize": _Class("mean std", "F normalize mean std", None, _of_masks(_add_normalize)),
    "PadIfSmaller": _Class(
        "size fill", "v2 utils _utils query_chw query_size size max any dict fill type functional "
        "pad _geometry _get_fill _convert_fill_arg _setup_fill_arg", None, _add_pad_if_smaller),
    "FixedSizeCrop": _Class(
        "crop_height crop_width fill padding_mode", "F get_dimensions min max crop_height "
        "crop_width torch rand int _crop _pad isinstance len pad fill padding_mode crop clamp_",
        None, _add_fixed_size_crop),
}


def recognise_joint(transforms: Any,
                    target: str,
                    exact_resize: bool = True,
                    are_whole: bool = False) -> Recipe:
    """As recognise(), for a transform of an image and its target. `target` and `are_whole` are
    JointWriter's."""
    needs(transforms is not None, "no transforms: samples are PIL images")
    writer = JointWriter(exact_resize, target, are_whole)
    with foresee("a transform"):
        writer.add(transforms)
    return writer.finish_joint()
