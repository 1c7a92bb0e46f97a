# SPDX-License-Identifier: Apache-2.0
"""torchvision's VOCSegmentation, VOCDetection and CocoDetection, also in
wrap_dataset_for_transforms_v2().

Workers read masks and boxes, and move them with the images. Targets that are only data, such as the
list of annotations that CocoDetection has without the wrapper, are made by the caller.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import os
import pickle
from typing import Any, Iterable, Iterator
from urllib.parse import quote

import numpy
import torch
from torch.utils.data import default_collate
from torchvision import datasets
from torchvision.datasets.vision import StandardTransform

from .. import Batch, Dataset, Error, Loader
from ._joint import recognise_joint
from ._memory import MemoryFile, list_name
from ._recipe import Recipe, is_v2, recognise
from ._sizes import find_largest
from ._words import Unknown, find_module, needs

tv_tensors = find_module("torchvision.tv_tensors")
_Wrapper = getattr(find_module("torchvision.tv_tensors._dataset_wrapper"),
                   "VisionDatasetTVTensorWrapper", None)
_KINDS = (datasets.VOCSegmentation, datasets.VOCDetection, datasets.CocoDetection)
# An object of VOC's XML has at least so many bytes: its tags, a name and four digits.
_OBJECT_BYTES = 100
_MOST_BYTES = {"detection": 1 << 20, "segmentation": 1 << 22}  # of a file that the library reads
_NO_MASKS = ("masks of COCO's segmentations, which millrace does not draw: target_keys="
             "['image_id', 'boxes', 'labels'] is native")


def _quote(path: str) -> str:
    return quote(os.fsencode(path), safe="/")


def _pads(collate: Any) -> bool:
    """Is it the function of the references that pads images with 0 and masks with 255?"""
    code = getattr(collate, "__code__", None)
    if code is None or code.co_names != ("list", "zip", "cat_list") or not {
            0, 255} <= set(code.co_consts):
        return False
    rows = [torch.ones(1, 2), torch.ones(2, 1)]
    padded = collate.__globals__["cat_list"](rows, fill_value=7)
    return padded.tolist() == [[[1, 1], [7, 7]], [[1, 7], [1, 7]]]


def _keeps(dataset: Any, kind: Any, *names: str) -> bool:
    return all(getattr(type(dataset), name, None) is getattr(kind, name, None) for name in names)


def is_annotated(dataset: Any) -> bool:
    return isinstance(dataset, _KINDS)


class Annotated:
    """One of these datasets. `native` has the samples; sample i of the object is indices[i] there.
    """

    def __init__(self, outer: Any) -> None:
        self.is_wrapped = _Wrapper is not None and isinstance(outer, _Wrapper)
        self.outer = outer
        inner: Any = outer._dataset if self.is_wrapped else outer
        self.inner = inner
        self.kind: Any = next(kind for kind in _KINDS if isinstance(inner, kind))
        needs(
            _keeps(inner, self.kind, "__getitem__", "__getitems__", "_load_image", "masks",
                   "annotations", "parse_voc_xml")
            and (not self.is_wrapped or _keeps(outer, _Wrapper, "__getitem__") and _keeps(
                inner, self.kind, "_load_target")), f"the dataset {type(outer).__name__} of "
            f"{type(outer).__module__}, which makes its samples in another way than torchvision's")
        needs(len(outer) > 0, "an empty dataset")
        self.memory: MemoryFile | None = None
        self.keys = self._find_keys()
        self.is_joint = self.is_wrapped or self.kind is datasets.VOCSegmentation
        if not self.is_joint:
            self.native, self.indices = self._open_files(), None
        elif self.kind is datasets.CocoDetection:
            self.native, self.indices = self._open_coco()
        else:
            self.native, self.indices = self._open_voc()
        self._has_masks = self.is_joint and not self.keys
        self._tried: Any = None
        self._parts: list[Annotated] = []  # of a mixture

    def _find_keys(self) -> set[str]:
        """The keys of the wrapper's targets."""
        keys = getattr(self.outer, "_target_keys", None)
        if not self.is_wrapped or self.kind is datasets.VOCSegmentation:
            return set()
        if self.kind is datasets.VOCDetection:
            default, others = {"boxes", "labels"}, {"annotation"}
        else:
            default = {"image_id", "boxes", "labels"}
            others = {"segmentation", "area", "iscrowd", "bbox", "category_id", "masks"}
        found = default if keys is None else default | others if keys == "all" else set(keys)
        needs("masks" not in found, _NO_MASKS)
        needs("annotation" not in found, "target_keys with annotation, the tree of an XML file")
        needs("boxes" in found, "target_keys without boxes")
        return found

    def _open_files(self) -> Dataset:
        """The images alone. Their labels are the indices, or the ids of COCO."""
        inner = self.inner
        if self.kind is datasets.VOCDetection:
            pairs: Iterable[tuple[str, int]] = zip(inner.images, range(len(inner.images)))
        else:
            pairs = ((os.path.join(inner.root, inner.coco.imgs[i]["file_name"]), i)
                     for i in inner.ids)
        lines = (b"%s\t%d\n" % (list_name(path), label) for path, label in pairs)
        self.memory = MemoryFile("millrace-list", lines)
        return Dataset(f"list:{self.memory.path}?label=i64")

    def _open_voc(self) -> tuple[Dataset, Any]:
        inner, kind = self.inner, self.kind
        folder = os.path.dirname(os.path.dirname(inner.images[0]))
        names = [os.path.splitext(os.path.basename(path))[0] for path in inner.images]
        own = [(os.path.join(folder, "JPEGImages", name + ".jpg"),
                os.path.join(folder, kind._TARGET_DIR, name + kind._TARGET_FILE_EXT))
               for name in names]
        needs(list(zip(inner.images, inner.targets)) == own,
              f"{type(inner).__name__} with other files than those of its folder")
        task = "segmentation" if kind is datasets.VOCSegmentation else "detection"
        n_bytes = max(map(os.path.getsize, filter(os.path.exists, inner.targets)), default=0)
        needs(n_bytes <= _MOST_BYTES[task], f"{type(inner).__name__} with a target of more than "
              f"{_MOST_BYTES[task]} bytes")
        self._most_boxes = max(1, n_bytes // _OBJECT_BYTES)
        native = Dataset(f"voc:{_quote(folder)}?set={_quote(inner.image_set)}&task={task}")
        places = {os.path.splitext(os.path.basename(native.name(i)))[0]: i
                  for i in range(len(native))}
        needs(places.keys() >= set(names), f"{type(inner).__name__} with images that are not in "
              f"{inner.image_set}.txt")
        return native, numpy.asarray([places[name] for name in names])

    def _open_coco(self) -> tuple[Dataset, Any]:
        """The annotations as the object has them, in a file in memory. Segmentations are left out:
        the library passes over them."""
        inner, self._whole, self._empty = self.inner, set(), set()
        self._most_boxes = 1
        images: list[dict[str, Any]] = []
        boxes: list[dict[str, Any]] = []
        for i, image in sorted(inner.coco.imgs.items()):
            found = inner._load_target(i)
            corners = [number for thing in found for number in thing["bbox"]]
            self._most_boxes = max(self._most_boxes, len(found))
            if not found:
                self._empty.add(i)
            elif all(type(number) is int for number in corners):
                self._whole.add(i)
            images.append({key: image[key] for key in ("file_name", "width", "height")
                           if key in image} | {"id": i})
            boxes += ({"image_id": i, "bbox": thing["bbox"], "category_id": thing["category_id"]}
                      for thing in found)
        names = getattr(inner.coco, "cats", {})
        labels = [{"id": label, "name": str(names.get(label, {}).get("name", label))}
                  for label in sorted({thing["category_id"] for thing in boxes})]
        text = json.dumps({"images": images, "annotations": boxes, "categories": labels})
        self.memory = MemoryFile("millrace-coco", [text.encode()])
        places = {image["id"]: place for place, image in enumerate(images)}
        native = Dataset(f"coco:{_quote(inner.root)}?annotations={self.memory.path}&index=none")
        return native, numpy.asarray([places[i] for i in inner.ids])

    def join(self, others: list[Annotated], native: Dataset) -> Annotated:
        """One for the mixture of this dataset and others. Raises Unknown."""
        made = copy.copy(self)
        made.native, made._parts = native, [self, *others]
        needs(self.is_joint and self.kind is not datasets.CocoDetection and all(
            (one.kind, one.is_wrapped, one.keys) == (self.kind, self.is_wrapped, self.keys)
            for one in others), "a ConcatDataset of datasets with masks or boxes that are not all "
              "the same class of VOC")
        made.indices, made._most_boxes = None, max(one._most_boxes for one in made._parts)
        return made

    def recognise(self, exact_resize: bool) -> Recipe:
        """The recipe of the object's transforms. Raises Unknown."""
        recipes = [part.recognise(exact_resize) for part in self._parts]
        needs(recipes == recipes[:1] * len(recipes),
              "a ConcatDataset whose datasets have different transforms")
        transforms, name = self.outer.transforms, type(self.inner).__name__
        if self.is_joint:
            needs(not isinstance(transforms, StandardTransform), f"{name} with a transform of the "
                  "image alone: give it as transforms=, which gets the target too")
            recipe = recognise_joint(
                transforms, "boxes" if self.keys else "mask" if self.is_wrapped else "pil",
                exact_resize, self.kind is datasets.VOCDetection)
        else:
            if isinstance(transforms, StandardTransform):
                needs(transforms.target_transform is None, "a target_transform")
                transforms = transforms.transform
            else:
                needs(transforms is None or is_v2(transforms), f"{name} with transforms that change"
                      " the target: wrap_dataset_for_transforms_v2() gives boxes, which are native")
            recipe = recognise(transforms, exact_resize)
        needs(recipe.has_size or "grayscale(1)" not in recipe.text, "images of one channel that "
              "come out with different sizes")
        if self._tried != recipe:
            self._try(recipe)
            self._tried = recipe
        return recipe

    def _try(self, recipe: Recipe) -> None:
        """Read the first sample: what the library refuses is left to torch."""
        try:
            with Loader(self.native, recipe.text, batch_size=1, num_workers=0, n_slots=2,
                        dtype=recipe.dtype, **self.options(recipe, None)) as loader:
                loader.set_epoch(0, [0 if self.indices is None else self.indices[0]])
                loader.next()
        except Error as error:
            raise Unknown(str(error)) from None

    def options(self, recipe: Recipe, collate: Any) -> dict[str, Any]:
        """Options of the native loader."""
        options: dict[str, Any] = {}
        if self.keys:
            options["max_boxes"] = self._most_boxes
        if recipe.has_size:
            return options
        sizes = find_largest(recipe.text, self._sizes)
        if self._has_masks and _pads(collate):
            return {"pad_batch": max(map(max, sizes))}
        n_bytes = {"u8": 1, "f32": 4}.get(recipe.dtype, 2)
        room = max(height * width for height, width in sizes) * 3 * n_bytes
        return {**options, "ragged": True, "max_row_bytes": room}

    @functools.cached_property
    def _sizes(self) -> set[tuple[int, int]]:
        """Heights and widths that images have."""
        images = self.inner.coco.imgs.values() if self.kind is datasets.CocoDetection else ()
        if images and all("height" in image and "width" in image for image in images):
            return {(image["height"], image["width"]) for image in images}
        heads = (self.native.inspect(i) for i in range(len(self.native)))
        return {(head["height"], head["width"]) for head in heads}

    def collate(self, batch: Batch, recipe: Recipe, collate: Any, copies: bool) -> Any:
        """The batch as the program gets it. copies: annotations are copied, as torch's workers
        copy them. Without workers torch too gives the dataset's own lists."""
        images = torch.from_dlpack(batch.image)
        if self._has_masks and images.ndim > 1 and (collate is default_collate or _pads(collate)):
            masks = torch.from_dlpack(batch["mask_image"])
            pair = images, masks[:, None] if self.is_wrapped else masks
            return pair if collate is not default_collate else list(pair)
        if "image.shape" in batch:
            sizes = batch["image.shape"].tolist()
        else:
            sizes = [list(batch.image.shape[-2:])] * batch.size
        rows = _unbind(batch, "image", sizes, (3, ))
        if recipe.is_image:
            rows = [tv_tensors.Image(row) for row in rows]
        if not self.is_joint:
            targets = [self._load_target(label, copies) for label in batch.label.tolist()]
        elif self.keys:
            targets = list(self._make_boxes(batch, recipe, sizes))
        else:
            targets = self._make_masks(batch, recipe, sizes)
        return collate(list(zip(rows, targets)))

    def _load_target(self, label: int, copies: bool) -> Any:
        """What the object has beside the image."""
        if self.kind is datasets.CocoDetection:
            found = self.inner._load_target(label)
            return pickle.loads(pickle.dumps(found)) if copies else found
        root = datasets.voc.ET_parse(self.inner.annotations[label]).getroot()
        return self.inner.parse_voc_xml(root)

    def _make_masks(self, batch: Batch, recipe: Recipe, sizes: list[list[int]]) -> list[Any]:
        assert recipe.look is not None
        masks = _unbind(batch, "mask_image", sizes, ())
        if self.is_wrapped:
            masks = [mask[None] for mask in masks]
        return masks if recipe.look.is_pure else [tv_tensors.Mask(mask) for mask in masks]

    def _make_boxes(self, batch: Batch, recipe: Recipe, sizes: list[list[int]]) -> Iterator[Any]:
        look = recipe.look
        assert look is not None
        values = torch.from_dlpack(batch["boxes"].values)
        labels = torch.from_dlpack(batch["box_label"].values)
        ends, is_coco = batch["boxes"].offsets.tolist(), self.kind is datasets.CocoDetection
        for i, size, first, end in zip(batch.label.tolist(), sizes, ends, ends[1:]):
            if is_coco and i in self._empty:
                yield {"image_id": i}
                continue
            target = {"image_id": i} if "image_id" in self.keys else {}
            boxes = values[first:end]
            if look.keeps_whole and (not is_coco or i in self._whole):
                boxes = boxes.to(torch.int64)
            target["boxes"] = boxes if look.is_pure else tv_tensors.BoundingBoxes(
                boxes, format="XYXY", canvas_size=tuple(size))
            if "labels" in self.keys:
                target["labels"] = labels[first:end]
            rest = self.keys - {"image_id", "boxes", "labels"}
            if rest:
                found = self._load_target(i, True)  # v2's transforms copy them too
                target.update((key, [thing[key] for thing in found]) for key in rest)
            yield target


def _unbind(batch: Batch, name: str, sizes: list[list[int]],
            channels: tuple[int, ...]) -> list[Any]:
    """The images or masks of a batch."""
    rows = torch.from_dlpack(batch[name])
    if rows.ndim > 1:
        return list(rows.unbind())
    shapes = [(*channels, *size) for size in sizes]
    return [rows[first : first + math.prod(shape)].view(shape)
            for first, shape in zip(batch[name + ".offsets"].tolist(), shapes)]
