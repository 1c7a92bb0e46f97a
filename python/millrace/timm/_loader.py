# SPDX-License-Identifier: Apache-2.0
"""timm's create_loader with the library's workers, if its arguments are recognised.

timm makes the transform and the samplers. The library's workers decode, transform, normalise, erase
and mix.
"""

from __future__ import annotations

import array
import inspect
import warnings
from typing import TYPE_CHECKING, Any, Generator, Iterator

import torch
from timm.data import loader as timm_loader
from timm.data.distributed_sampler import OrderedDistributedSampler, RepeatAugSampler
from timm.data.mixup import FastCollateMixup
from timm.data.transforms_factory import create_transform
from torch.utils import data
from torch.utils.data.distributed import DistributedSampler

from .. import Batch, Error, Loader, Transform, features
from .._html import Html
from ..torch import DataLoader
from ..torch import explain as explain_torch
from ..torch._dataloader import is_plain
from ..torch._recipe import FLOATS, Recipe
from ..torch._timm import erasing
from ..torch._words import Unknown, is_timm, join, needs, number

_SIGNATURE = inspect.signature(timm_loader.create_loader)


if TYPE_CHECKING:
    from timm.data.loader import create_loader as create_loader
else:

    def create_loader(*arguments, **options):
        """timm's create_loader: the same arguments, order and batches, from the library's workers.

        docs/python.md says what is recognised. Otherwise timm's own loader is used, after a warning
        that names the reason. explain(loader) returns the reason too.
        """
        bound = _SIGNATURE.bind(*arguments, **options)
        bound.apply_defaults()
        try:
            return _create(bound.arguments)
        except (Unknown, Error) as reason:
            warnings.warn(f"millrace: timm's own create_loader is used: {reason}", stacklevel=2)
            loader = timm_loader.create_loader(*arguments, **options)
            loader._reason = str(reason)
            return loader

    create_loader.__signature__ = _SIGNATURE.replace(return_annotation=Any)


def explain(loader: Any) -> dict[str, Any]:
    """How a loader loads: {"native": bool, "reason": why it is not native, "transform": the text of
    the millrace transform}."""
    found = explain_torch(loader.loader if isinstance(loader, PrefetchLoader) else loader)
    return found if found["native"] or hasattr(loader, "_reason") else {
        **found, "reason": "it is timm's own loader"
    }


def _create(given: dict[str, Any]) -> Any:
    """The loader for the arguments of create_loader. Raises Unknown."""
    _check_arguments(given)
    dataset, is_training, prefetches = given["dataset"], given["is_training"], given[
        "use_prefetcher"]
    known = inspect.signature(create_transform).parameters
    transform = create_transform(**{name: value for name, value in given.items() if name in known})
    before, dataset.transform = getattr(dataset, "transform", None), transform
    sampler = _make_sampler(given)
    finish = _Finish(given) if prefetches else None
    try:
        loader = _Loader(finish,
                         dataset,
                         batch_size=given["batch_size"],
                         shuffle=sampler is None and is_training,
                         sampler=sampler,
                         num_workers=given["num_workers"],
                         drop_last=is_training,
                         pin_memory=given["pin_memory"],
                         collate_fn=given["collate_fn"]
                         or (timm_loader.fast_collate if prefetches else data.default_collate),
                         persistent_workers=given["persistent_workers"]
                         and given["num_workers"] > 0)
    except (Unknown, Error):
        dataset.transform = before
        raise
    return PrefetchLoader(loader, given) if prefetches else loader


def _check_arguments(given: dict[str, Any]) -> None:
    dataset, collate = given["dataset"], given["collate_fn"]
    needs(not isinstance(dataset, data.IterableDataset), "an iterable dataset")
    needs(given["num_aug_splits"] == 0, "num_aug_splits")
    needs(not given["re_split"], "re_split")
    needs(given.get("input_size_choices") is None, "scheduled input sizes")
    needs(not given["tf_preprocessing"], "tf_preprocessing")
    needs(not given["use_multi_epochs_loader"], "use_multi_epochs_loader")
    needs(given["num_aug_repeats"] == 0 or given["distributed"],
          "num_aug_repeats without distributed")
    if given["use_prefetcher"] and collate is not None:
        needs(
            type(collate) is FastCollateMixup,
            f"the collate_fn {getattr(collate, '__name__', type(collate).__name__)}")


def _make_sampler(given: dict[str, Any]) -> Any:
    """timm's sampler for a distributed run, otherwise None."""
    dataset = given["dataset"]
    if not given["distributed"]:
        return None
    if not given["is_training"]:
        return OrderedDistributedSampler(dataset)
    if given["num_aug_repeats"]:
        needs(
            float(given["num_aug_repeats"]).is_integer(),
            f"num_aug_repeats {given['num_aug_repeats']}")
        return RepeatAugSampler(dataset, num_repeats=given["num_aug_repeats"])
    return DistributedSampler(dataset)


class _Finish:
    """The operations of timm's prefetcher and collate function on a batch of u8, as the end of the
    transform's text."""

    def __init__(self, given: dict[str, Any]) -> None:
        size, mean, std = given["input_size"], given["mean"], given["std"]
        channels = size[0] if isinstance(size, (tuple, list)) and len(size) == 3 else len(mean)
        needs(channels == 3 and len(mean) == 3 and len(std) == 3, "other than 3 channels")
        dtype = torch.float16 if given["fp16"] else given["img_dtype"] or torch.float32
        needs(dtype in FLOATS, f"img_dtype {dtype}")
        self.dtype = FLOATS[dtype]
        self.mixing: Any = given["collate_fn"]
        self.device = torch.device(given["device"])
        self._items = [f"normalize(mean={join(mean)},std={join(std)})"]
        if given["is_training"] and not given["no_aug"] and given["re_prob"] > 0:
            self._items.append(erasing(given["re_prob"], given["re_mode"], given["re_count"]))
        if self.mixing is not None:
            needs(given["is_training"], "mixing without is_training")
            needs(given["batch_size"] % 2 == 0,
                  f"mixing in batches of {given['batch_size']}, an odd number")

    @property
    def text(self) -> str:
        """The text for the current settings: a program switches mixing off by
        loader.mixup_enabled."""
        mix = self.mixing
        if mix is None:
            return "+".join(self._items)
        needs(mix.mode == "batch", f"a FastCollateMixup of mode {mix.mode}")
        needs(mix.cutmix_minmax is None, "a FastCollateMixup with cutmix_minmax")
        needs(mix.correct_lam, "a FastCollateMixup without correct_lam")
        needs(not mix.multi_label, "a FastCollateMixup with multi_label")
        chance = number(mix.mix_prob if mix.mixup_enabled else 0)
        return "+".join([
            *self._items,
            f"timm_mixup(mixup={number(mix.mixup_alpha)},cutmix={number(mix.cutmix_alpha)},"
            f"prob={chance},switch_prob={number(mix.switch_prob)},"
            f"label_smoothing={number(mix.label_smoothing)})"
        ])

    def options(self) -> dict[str, Any]:
        """Options of the native loader."""
        options: dict[str, Any] = {}
        if self.device.type == "cuda" and "no-cuda" not in features().split():
            index = self.device.index
            options["device"] = f"cuda:{torch.cuda.current_device() if index is None else index}"
        if self.mixing is not None:
            options["soft_labels"] = self.mixing.num_classes
        return options


class _Loader(DataLoader[Any]):
    """millrace.torch's loader. finish: the work of timm's prefetcher; None: timm has no prefetcher
    here."""

    def __init__(self, finish: _Finish | None, dataset: Any, **options: Any) -> None:
        self._finish = finish
        super().__init__(dataset, **options)

    def _leave(self, reason: Exception) -> None:
        raise reason

    def _recognise(self) -> Recipe:
        recipe = super()._recognise()
        if self._finish is None:
            return recipe
        needs(recipe.dtype == "u8", "a transform of the program's own that makes floats")
        items = [recipe.text, self._finish.text]
        return Recipe(str(Transform("+".join(i for i in items if i != "none"))), self._finish.dtype,
                      recipe.has_size)

    @property
    def _repeater(self) -> Any:
        """The sampler, if the library makes its order, so that each repetition has new draws."""
        sampler = getattr(self._batches, "sampler", None)
        repeats = is_plain(self._batches) and isinstance(sampler, RepeatAugSampler)
        return sampler if repeats else None

    def _order_options(self) -> dict[str, Any]:
        sampler = self._repeater
        options = self._finish.options() if self._finish is not None else {}
        if all(is_timm(part.owner, "dataset.ImageDataset") for part in self._source.parts):
            options["on_error"] = "skip"  # timm too takes the next index
        if sampler is None:
            return {**super()._order_options(), **options}
        # timm's order has seed 0.
        return {
            **options, "seed": 0, "repeat": int(sampler.num_repeats), "repeat_form": "timm",
            "no_shuffle": not sampler.shuffle, "rank": sampler.rank,
            "world_size": sampler.num_replicas
        }

    def _draw(self) -> tuple[array.array[int], int, Iterator[Any]]:
        if self._repeater is not None:
            return array.array("q"), self._batches.batch_size, iter(())
        return super()._draw()

    def _begin(self, native: Loader, position: Any) -> None:
        if self._repeater is None:
            super()._begin(native, position)
            return
        if position.n_yielded == 0:
            position.epoch = self._repeater.epoch
        native.set_epoch(position.epoch)
        for _ in range(position.n_yielded):
            native.next()

    def _collate(self, batch: Batch) -> Any:
        if self._finish is None:
            return super()._collate(batch)
        target = batch["soft_label"] if self._finish.mixing is not None else batch.label
        return torch.from_dlpack(batch.image), torch.from_dlpack(target)


class PrefetchLoader(timm_loader.PrefetchLoader):
    """Replaces timm's: (input, target) on the device, with input normalised, erased and mixed."""

    def __init__(self, loader: _Loader, given: dict[str, Any]) -> None:
        # timm's __init__ is not called, because the library does its work.
        assert loader._finish is not None
        self.loader = loader
        self.device = loader._finish.device
        self.img_dtype = next(dtype for dtype, name in FLOATS.items()
                              if name == loader._finish.dtype)
        self.is_cuda = self.device.type == "cuda"
        self.random_erasing = None  # type: ignore[assignment]
        self.mean, self.std = (torch.tensor([x * 255 for x in given[name]]).view(1, 3, 1, 1)
                               for name in ("mean", "std"))

    def _preview(self, n: int) -> Html:
        assert isinstance(self.loader, _Loader)
        return self.loader._preview(n)

    def __iter__(self) -> Generator[Any, None, None]:
        for images, target in self.loader:
            moved = images.to(self.device, non_blocking=True), target.to(self.device,
                                                                         non_blocking=True)
            copied = torch.cuda.Event() if self.is_cuda and not images.is_cuda else None
            if copied is not None:
                copied.record(torch.cuda.current_stream(self.device))
            try:
                yield moved
            finally:
                # CUDA may still read pageable memory after the call, so the slot is held until the
                # copy has ended.
                if copied is not None:
                    copied.synchronize()
