# SPDX-License-Identifier: Apache-2.0
"""Recognises torchvision's transforms, and writes them as the text of a millrace transform.

Only transforms with the same pixels are recognised: operations on PIL images, then the conversion
to a tensor, then flips and a Normalize. For anything else Unknown is raised, and its text names it.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch
from PIL import Image

from .. import Error, Transform
from ._timm import timm_erasing, timm_operation
from ._words import Unknown, filter_of, foresee, is_timm, join, needs, number, size_of


class Look(NamedTuple):
    """What targets with masks or boxes are made of."""
    is_pure: bool
    """Tensors, not tv_tensors."""
    keeps_whole: bool
    """Boxes of whole numbers stay so: no operation resizes, and none converts them."""


class Recipe(NamedTuple):
    text: str
    dtype: Any
    """The word of the loader's option."""
    has_size: bool
    """All images come out with the same size."""
    note: str = ""
    """How the pixels differ from torch's, which the program has accepted."""
    is_image: bool = False
    """Images of annotated datasets are tv_tensors.Image, not tensors."""
    look: Look | None = None


def is_v2(t: Any) -> bool:
    return type(t).__module__.startswith("torchvision.transforms.v2")


def _version(t: Any) -> str:
    """The end of the names of operations for which v1 and v2 differ."""
    return "_v2" if is_v2(t) else ""


def fill_of(fill: Any, kind: type) -> Any:
    """The value for images, or masks, of this type. None counts as 0."""
    return fill.get(kind, fill.get("others")) if isinstance(fill, dict) else fill


def _fill(fill: Any) -> str:
    """The argument "fill" with its comma; "" for zero."""
    fill = fill_of(fill, Image.Image)
    if fill is None or fill == 0:
        return ""
    return f",fill={join(fill) if isinstance(fill, (list, tuple)) else number(fill)}"


def _random_resized_crop(t: Any) -> str:
    return (f"random_resized_crop({size_of(t.size)},scale={join(t.scale)},ratio={join(t.ratio)},"
            f"interp={filter_of(t.interpolation)})")


def _resize(t: Any) -> str:
    needs(t.size is not None, "Resize without a size")
    size = t.size if isinstance(t.size, int) or len(t.size) == 2 else t.size[0]
    longest = "" if getattr(t, "max_size", None) is None else f",max_size={t.max_size}"
    return f"resize({size_of(size)}{longest},interp={filter_of(t.interpolation)})"


def _random_shortest_size(t: Any) -> str:
    needs(len(t.min_size) <= 16, "RandomShortestSize with more than 16 sizes")
    longest = "" if t.max_size is None else f",max_size={t.max_size}"
    return f"random_shortest_size({join(t.min_size)}{longest},interp={filter_of(t.interpolation)})"


def _border(padding: Any) -> list[int]:
    """left, top, right, bottom"""
    if isinstance(padding, int):
        return [padding] * 4
    return list(padding) * (4 // len(padding))


def _pad_look(t: Any) -> str:
    mode = _word_of(t.padding_mode)
    return (_fill(t.fill) if mode == "constant" else "") + f",padding_mode={mode}"


def _pad(t: Any) -> str:
    return f"pad({join(_border(t.padding))}{_pad_look(t)})"


def _random_crop(t: Any) -> str:
    border = _border(t.padding or 0)
    if t.padding and is_v2(t):  # which keeps left, right, top, bottom
        border = [border[i] for i in (0, 2, 1, 3)]
    if_needed = ",pad_if_needed" if t.pad_if_needed else ""
    # v1 pads twice, so a mirror image is mirrored again, in another place.
    needs(
        not t.pad_if_needed or len(set(border)) == 1 and
        (is_v2(t) or border[0] == 0 or _word_of(t.padding_mode) in ("constant", "edge")),
        "RandomCrop with pad_if_needed and a padding that is unequal, or mirrored (v1)")
    if len(set(border)) == 1:
        return f"random_crop({size_of(t.size)},padding={border[0]}{if_needed}{_pad_look(t)})"
    return f"pad({join(border)}{_pad_look(t)})+random_crop({size_of(t.size)})"


def _word_of(value: Any) -> str:
    return str(getattr(value, "value", value))


def _color_jitter(t: Any) -> str:
    parts = [
        f"{name}={join(getattr(t, name))}"
        for name in ("brightness", "contrast", "saturation", "hue") if getattr(t, name) is not None
    ]
    return f"color_jitter({','.join(parts)})"


def _gaussian_blur(t: Any) -> str:
    needs(len(set(t.kernel_size)) == 1, "GaussianBlur with a kernel that is not square")
    return f"gaussian_blur({t.kernel_size[0]},sigma={join(t.sigma)})"


def _rotation(t: Any) -> str:
    expand = ",expand=1" if t.expand else ""
    center = f",center={join(t.center)}" if t.center is not None else ""
    return (f"rotation({join(t.degrees)},interp={filter_of(t.interpolation)}{center}{_fill(t.fill)}"
            f"{expand})")


def _affine(t: Any) -> str:
    parts = [
        f"{name}={join(getattr(t, name))}" for name in ("translate", "scale", "shear", "center")
        if getattr(t, name) is not None
    ]
    return (f"affine{_version(t)}({','.join([join(t.degrees), *parts])},"
            f"interp={filter_of(t.interpolation)}{_fill(t.fill)})")


def _perspective(t: Any) -> str:
    return (f"perspective({number(t.distortion_scale)},{number(t.p)},"
            f"interp={filter_of(t.interpolation)}{_fill(t.fill)})")


def _policy(name: str, fields: tuple[str, ...]) -> Callable[[Any], str]:
    def write(t: Any) -> str:
        values = [f"{field}={_word_of(getattr(t, field))}" for field in fields]
        values.append("interp=" + filter_of(t.interpolation))
        return f"{name}{_version(t)}({','.join(values)}{_fill(t.fill)})"
    return write


def _augmix(t: Any) -> str:
    """A fill of 0 is not the same as none: it darkens the pixels at the border."""
    depth = t.chain_depth if t.chain_depth > 0 else -1
    fill = ",fill=0" if t.fill == 0 else _fill(t.fill)
    return (f"augmix{_version(t)}({t.severity},{t.mixture_width},{depth},{number(t.alpha)},"
            f"{int(t.all_ops)},interp={filter_of(t.interpolation)}{fill})")


def _inner(t: Any) -> list[str]:
    """The operations inside a structure."""
    for inner in t.transforms:
        name = class_of(inner)
        needs(
            name not in _SIZES and not getattr(inner, "expand", False),
            f"{name}{' with expand' * (name not in _SIZES)} inside {type(t).__name__}, which "
            "changes an image's size: millrace has it outside only")
    return [_operation(inner) for inner in t.transforms]


def _random_apply(t: Any) -> str:
    return f"random_apply({'+'.join(_inner(t))},{number(t.p)})"


def _alternatives(name: str) -> Callable[[Any], str]:
    def write(t: Any) -> str:
        weights = getattr(t, "p", None)
        needs(weights is None or len(set(weights)) == 1, "RandomChoice with weights")
        return f"{name}({','.join(_inner(t))})"
    return write


# Classes of torchvision.transforms and of its v2, which draw and compute the same on PIL images,
# except for those with another name for v2.
_OPERATIONS: dict[str, Callable[[Any], str]] = {
    "RandomResizedCrop": _random_resized_crop, "Resize": _resize,
    "CenterCrop": lambda t: f"center_crop({size_of(t.size)})", "RandomCrop": _random_crop,
    "Pad": _pad,
    "RandomResize": lambda t:
    f"random_resize({t.min_size},{t.max_size},interp={filter_of(t.interpolation)})",
    "RandomShortestSize": _random_shortest_size, "ScaleJitter": lambda t:
    f"scale_jitter({size_of(t.target_size)},{join(t.scale_range)},"
    f"interp={filter_of(t.interpolation)})", "RandomZoomOut": lambda t:
    f"random_zoom_out(side_range={join(t.side_range)},p={number(t.p)}{_fill(t.fill)})",
    "RandomHorizontalFlip": lambda t: f"hflip({number(t.p)})",
    "RandomVerticalFlip": lambda t: f"vflip({number(t.p)})", "ColorJitter": _color_jitter,
    "Grayscale": lambda t: f"grayscale({t.num_output_channels})",
    "RandomGrayscale": lambda t: f"random_grayscale({number(t.p)})", "RGB": lambda t: "rgb",
    "GaussianBlur": _gaussian_blur, "RandomInvert": lambda t: f"invert({number(t.p)})",
    "RandomAutocontrast": lambda t: f"autocontrast({number(t.p)})",
    "RandomEqualize": lambda t: f"equalize({number(t.p)})",
    "RandomPosterize": lambda t: f"posterize({t.bits},{number(t.p)})",
    "RandomSolarize": lambda t: f"solarize({number(t.threshold)},{number(t.p)})",
    "RandomAdjustSharpness": lambda t:
    f"adjust_sharpness({number(t.sharpness_factor)},{number(t.p)})", "RandomRotation": _rotation,
    "RandomAffine": _affine, "RandomPerspective": _perspective, "RandomApply": _random_apply,
    "Compose": lambda t: "+".join(_inner(t)),
    "RandomChoice": _alternatives("random_choice"), "RandomOrder": _alternatives("random_order"),
    "JPEG": lambda t: f"jpeg({join(t.quality)})",
    "RandomChannelPermutation": lambda t: "channel_permutation",
    "RandomPhotometricDistort": lambda t: "photometric_distort({},{},{},{},{})".format(
        *map(join, (t.brightness, t.contrast, t.saturation, t.hue)), number(t.p)),
    "RandAugment": _policy("rand_augment", ("num_ops", "magnitude", "num_magnitude_bins")),
    "TrivialAugmentWide": _policy("trivial_augment_wide", ("num_magnitude_bins",)),
    "AutoAugment": _policy("auto_augment", ("policy",)), "AugMix": _augmix,
}
# What to do instead of classes that torch loads.
_BOXES = ("for boxes, which VOCDetection and CocoDetection have in "
          "wrap_dataset_for_transforms_v2()")
_POINTS = "for points, which millrace does not load"
_HINTS = {
    "CutMix": "mixes a batch: call it on batches in the loop, or use millrace.Loader with cutmix",
    "MixUp": "mixes a batch: call it on batches in the loop, or use millrace.Loader with mixup",
    "ElasticTransform": "displacements are blurred random numbers, sampled in floats; RandomAffine "
                        "and RandomPerspective are native",
    "FiveCrop": "five images of one; millrace.Loader has five_crop",
    "TenCrop": "ten images of one; millrace.Loader has ten_crop",
    "GaussianNoise": "noise of torch's generator; add it to batches in the loop",
    "Lambda": "a Python function; a class of torchvision that does the same is native",
    "LinearTransformation": "a matrix for whole images; call it on batches in the loop",
    "Transform": "the base class of others",
    "ToPILImage": "back to an image; put the operations before the tensor is made",
    "UniformTemporalSubsample": "it is for videos",
    **dict.fromkeys(("ConvertBoundingBoxFormat", "RandomIoUCrop", "SanitizeBoundingBoxes"), _BOXES),
    **dict.fromkeys(("ClampKeyPoints", "SanitizeKeyPoints"), _POINTS),
    **dict.fromkeys(("ClampBoundingBoxes", "SetClampingMode"),
                    "boxes are clamped where v2's operations clamp them by default"),
}
FLOATS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_FLIPS = ("RandomHorizontalFlip", "RandomVerticalFlip")
_DRAW_SIZES = ("RandomResize", "RandomShortestSize", "ScaleJitter", "RandomZoomOut")
_CROPS = ("CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomResizedCropAndInterpolation")
_SIZES = (*_DRAW_SIZES, *_CROPS, "Resize", "Pad")


def _is_known(t: Any) -> bool:
    return type(t).__module__.startswith(("torchvision.transforms", "timm.data."))


def class_of(t: Any) -> str:
    """The name of a class of torchvision or timm. Subclasses are refused: they may do something
    else."""
    if isinstance(t, torch.nn.Identity):
        return "Identity"
    if not _is_known(t):
        advice = ": a DataLoader takes torchvision's, a millrace.Loader texts" if isinstance(
            t, (str, Transform)) else ""
        raise Unknown(f"the transform {type(t).__name__}{advice}")
    needs(not getattr(t, "_forward_hooks", None) and not getattr(t, "_forward_pre_hooks", None),
          f"the transform {type(t).__name__} with hooks")
    return type(t).__name__


def _operation(t: Any) -> str:
    name = class_of(t)
    if type(t).__module__.startswith("timm.data."):
        return timm_operation(t)
    write = _OPERATIONS.get(name)
    if write is None:
        hint = f": {_HINTS[name]}" if name in _HINTS else ""
        raise Unknown(f"the transform {'v2.' if is_v2(t) else ''}{name}{hint}")
    return write(t)


def _normalize(mean: Any, std: Any, exact: str = "exact") -> str:
    words = (number(v) if isinstance(v, (int, float)) else join(v) for v in (mean, std))
    return "normalize(mean={},std={},{})".format(*words, exact)


def _erasing(t: Any) -> str:
    value = [t.value] if isinstance(t.value, (int, float)) else t.value
    value = "random" if value in (None, "random") else join(value)  # v2 has None for "random"
    return (f"random_erasing({number(t.p)},scale={join(t.scale)},ratio={join(t.ratio)},"
            f"value={value})")


class _Preset:
    """The form of the presets in torchvision's references."""

    def __call__(self, img: Any) -> Any:
        return self.transforms(img)  # type: ignore[attr-defined]


class JointPreset:
    """The form of those for an image and its target."""

    def __call__(self, img: Any, target: Any) -> Any:
        return self.transforms(img, target)  # type: ignore[attr-defined]


def unwrap(t: Any, preset: Any = _Preset) -> Any:
    """The transform inside an object of the program, if calling the object only calls that
    transform, as in the preset."""
    code, pattern = getattr(getattr(type(t), "__call__", None), "__code__",
                            None), preset.__call__.__code__
    if code is None or _is_known(t) or code.co_freevars or len(
            code.co_names) != 1 or code.co_argcount != pattern.co_argcount:
        return t
    return getattr(t, code.co_names[0], t) if code.co_code == pattern.co_code else t


class Writer:
    """The text written so far, and the form of an image at this point: "pil", or the dtype of a
    tensor."""

    def __init__(self, exact_resize: bool) -> None:
        self.exact_resize = exact_resize
        self.items: list[str] = []
        self.form = "pil"
        self.converter = ""  # what made the tensor
        self.note = ""
        self.normal = ""
        self.erasing = ""
        self.has_size = False
        self.drawn = ""  # the last class that draws an image's size
        self.is_image = False
        # v2 makes floats as x * (1 / 255), as the library does; the others as x / 255.
        self.multiplies = False

    def add(self, t: Any) -> None:
        t = unwrap(t)
        name = class_of(t)
        if name == "Compose":
            for inner in t.transforms:
                self.add(inner)
        elif name == "ImageClassification":
            self.add_preset(t)
        elif self.erasing:
            needs(name in ("Identity", "ToPureTensor"), f"{name} after RandomErasing")
            self.is_image &= name != "ToPureTensor"
        elif name in ("ToTensor", "PILToTensor", "ToImage", "ConvertImageDtype", "ToDtype"):
            self.convert(name, t)
        elif is_timm(t, "transforms.MaybeToTensor") or is_timm(t, "transforms.MaybePILToTensor"):
            self.convert(name[len("Maybe"):], t)
        elif is_timm(t, "random_erasing.RandomErasing"):
            needs(bool(self.normal), "RandomErasing where the image is not normalised")
            self.erasing = timm_erasing(t)
        elif name == "RandomErasing":
            needs(self.form == "f32", "RandomErasing where the image is not a tensor of float32")
            self.erasing = _erasing(t)
        elif name == "Normalize":
            needs(self.form in FLOATS.values() and not self.normal,
                  "Normalize where the image is not a tensor of floats")
            self.normal = _normalize(
                t.mean, t.std, "exact" + "_v2" * self.multiplies + "_half" * (self.form != "f32"))
        elif name == "ToPureTensor":
            self.is_image = False
        elif name != "Identity":
            if self.form != "pil":
                self.check_on_tensor(name, t)
            self.items.append(_operation(t))
            if name in _DRAW_SIZES or getattr(t, "expand", False):
                self.has_size, self.drawn = False, name
            self.has_size |= name in _CROPS or name == "Resize" and not isinstance(
                t.size, int) and len(t.size) == 2

    def check_on_tensor(self, name: str, t: Any) -> None:
        """Pass an operation that makes the same pixels of a tensor as of an image, or nearly the
        same if the program has accepted that."""
        if name not in _OPERATIONS:
            return  # _operation() says why
        needs(not isinstance(getattr(t, "fill", 0), dict), f"{name} of a tensor with a fill by "
              "type")
        before = f"put it before {self.converter}"
        is_cut = (name in ("CenterCrop", "RandomCrop", "Pad", "RandomZoomOut") and not self.normal
                  and (self.form == "u8" or not getattr(t, "fill", 0)))
        is_mix = name == "AugMix" and self.form == "u8"  # which makes a tensor of an image first
        if name in _FLIPS or is_cut or is_mix or name == "RGB":
            return
        needs(self.form == "u8" and name in ("Resize", "RandomResizedCrop"),
              f"{name} on a tensor, whose pixels differ from those on an image: {before}")
        needs(
            getattr(t, "antialias", False) is True
            and filter_of(t.interpolation) in ("bilinear", "bicubic"),
            f"{name} on a tensor without antialias, or not bilinear or bicubic")
        needs(
            not self.exact_resize,
            f"{name} on a tensor, which torchvision resamples to other bits than an image: {before}"
            f", or accept Pillow's resampling with DataLoader(..., exact_resize=False)")
        self.note = "images are resampled as Pillow's, not as tensors: exact_resize=False"

    def convert(self, name: str, t: Any) -> None:
        self.converter = self.converter or name
        if name == "ToTensor":
            needs(self.form == "pil", "ToTensor of a tensor")
            needs(torch.get_default_dtype() is torch.float32,
                  f"ToTensor with the default dtype {torch.get_default_dtype()}")
            self.form = "f32"
        elif name in ("PILToTensor", "ToImage"):
            needs(self.form == "pil", f"{name} of a tensor")
            self.form, self.is_image = "u8", name == "ToImage"
        else:
            self.convert_dtype(name, t.dtype, getattr(t, "scale", True), is_v2(t))

    def convert_dtype(self, name: str, dtype: Any, scale: bool, multiplies: bool) -> None:
        if dtype == torch.uint8 and self.form == "u8":
            return
        needs(dtype in FLOATS and scale,
              f"{name} to another type than scaled float32, float16 or bfloat16")
        needs(self.form in ("u8", FLOATS[dtype]), f"{name} of an image that is not a tensor of "
              "bytes")
        if self.form == "u8":
            self.form, self.multiplies = FLOATS[dtype], multiplies

    def add_preset(self, t: Any) -> None:
        """The transforms() of a network's weights."""
        needs(self.form == "pil", "a preset on a tensor")
        word = filter_of(t.interpolation)
        self.items += [
            f"resize({size_of(t.resize_size[0])},interp={word})",
            f"center_crop({size_of(t.crop_size[0])})"
        ]
        self.form, self.normal, self.has_size = "f32", _normalize(t.mean, t.std), True

    def finish(self, look: Look | None = None) -> Recipe:
        needs(self.form != "pil", "samples are PIL images: no ToTensor or the like")
        divides = self.form in FLOATS.values() and not self.multiplies
        normal = self.normal or (_normalize([0], [1]) if divides else "")
        text = "+".join(item for item in (*self.items, normal, self.erasing) if item) or "none"
        try:
            return Recipe(str(Transform(text)), self.form, self.has_size, self.note,
                          self.is_image, look)
        except Error as error:
            raise Unknown(str(error)) from None


def recognise(transform: Any, exact_resize: bool = True) -> Recipe:
    """The text and dtype with which the library makes the same pixels from an image file as the
    transform from its PIL image. Raises Unknown. exact_resize=False: an image that torch would
    resample as a tensor may be resampled as Pillow does."""
    needs(transform is not None, "no transform: samples are PIL images")
    writer = Writer(exact_resize)
    with foresee("a transform"):
        writer.add(transform)
    needs(writer.has_size or not writer.drawn,
          f"{writer.drawn} without a crop after it: images of random sizes")
    return writer.finish()
