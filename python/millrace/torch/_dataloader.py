# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader with the library's workers, if its arguments are recognised."""

from __future__ import annotations

import array
import inspect
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence, TypeVar

import torch
from torch.utils import data
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets

from .. import Batch, Error, Loader
from .._loader import find_caller
from ._recipe import Recipe, recognise
from ._source import open_source
from ._words import Unknown

_T = TypeVar("_T", covariant=True)
_HELD = 2  # the batch of this step and of the one before, which the loop's variables still hold
_MOST_SLOTS = 1024


def _make_signature(init: Any) -> inspect.Signature:
    """torch's signature of __init__, followed by the arguments that only the drop-in has."""
    torchs, ours = (inspect.signature(f).parameters for f in (data.DataLoader.__init__, init))
    return inspect.Signature([*torchs.values(), ours["exact_resize"]])


class DataLoader(data.DataLoader[_T]):
    """torch.utils.data.DataLoader: the same arguments, order and batches, from the library's
    workers.

    docs/python.md says what is recognised. Otherwise it works as torch's own DataLoader, of which
    it is a subclass, after a warning that names the reason. explain(loader) returns the reason too.

    exact_resize=False accepts Pillow's resampling where a transform resizes tensors.
    """

    if TYPE_CHECKING:  # torch's arguments; at run time those of the torch that is installed

        def __init__(self,
                     dataset: data.Dataset[_T],
                     batch_size: int | None = 1,
                     shuffle: bool | None = None,
                     sampler: Iterable[Any] | None = None,
                     batch_sampler: Iterable[Sequence[Any]] | None = None,
                     num_workers: int = 0,
                     collate_fn: Callable[[list[Any]], Any] | None = None,
                     pin_memory: bool = False,
                     drop_last: bool = False,
                     timeout: float = 0,
                     worker_init_fn: Callable[[int], None] | None = None,
                     multiprocessing_context: Any = None,
                     generator: torch.Generator | None = None,
                     *,
                     prefetch_factor: int | None = None,
                     persistent_workers: bool = False,
                     pin_memory_device: str = "",
                     in_order: bool = True,
                     exact_resize: bool = True) -> None:
            ...
    else:

        def __init__(self, *arguments: Any, exact_resize: bool = True, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._start(options.get("prefetch_factor"), exact_resize)

        __init__.__signature__ = _make_signature(__init__)

    def _start(self, prefetch_factor: int | None, exact_resize: bool) -> None:
        self._exact_resize = exact_resize
        self._pins = self.pin_memory and torch.cuda.is_available()
        self._n_slots = _count_slots(prefetch_factor, self.num_workers)
        self._native: Loader | None = None
        self._present: weakref.ref[_Pass] | None = None
        self._recipe: Recipe | None = None
        self._reason = ""
        self._draws = _Draws()
        self._pid = os.getpid()
        try:
            self._source = open_source(self.dataset)
            self._batches = _find_batches(self)
            self._recipe = self._recognise()
        except (Unknown, Error) as reason:
            self._leave(reason)
            return
        if self.worker_init_fn is not None:
            warnings.warn("millrace: worker_init_fn is not called: the workers run no Python",
                          stacklevel=find_caller())

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass, which its random draws depend on. Otherwise it is the
        epoch after that of the previous pass. set_epoch() of a DistributedSampler sets it too."""
        self._draws.named = epoch

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self._recipe is not None:
            try:
                if self._pid != os.getpid():  # a forked child, which has no workers
                    self.__setstate__(self.__getstate__())
                recipe = self._recognise()  # the program may have changed the transform since
                if recipe != self._recipe:
                    self._recipe, self._native = recipe, None
            except Unknown as reason:
                self._leave(reason)
        return super().__iter__() if self._recipe is None else _Pass(self)

    def _recognise(self) -> Recipe:
        recipe = recognise(self._source.owner.transform, self._exact_resize)
        # torch's default_collate too needs images of one size.
        stacks = self._batches.batch_size > 1 and self.collate_fn is data.default_collate
        if not (recipe.has_size or stacks) and not isinstance(self._source.owner, datasets.CIFAR10):
            raise Unknown("images that come out with different sizes")
        return recipe

    def _leave(self, reason: Exception) -> None:
        """From now on load with torch's own DataLoader."""
        self._recipe, self._native, self._reason = None, None, str(reason)
        warnings.warn(f"millrace: torch's own DataLoader is used: {reason}",
                      stacklevel=find_caller())

    def _lend(self, user: _Pass) -> Loader:
        """The native loader for a pass. It lives as long as this object. A pass that begins before
        another has ended gets a separate loader."""
        present = self._present() if self._present is not None else None
        if present is not None and not present.ended:
            return self._open()
        self._present = weakref.ref(user)
        if self._native is None:
            self._native = self._open()
        return self._native

    def _open(self) -> Loader:
        recipe, batches = self._recipe, self._batches
        assert recipe is not None
        return Loader(self._source.dataset,
                      recipe.text,
                      batch_size=batches.batch_size,
                      drop_last=batches.drop_last,
                      num_workers=self.num_workers,
                      n_slots=self._n_slots,
                      dtype=recipe.dtype,
                      allow_same_epoch=True,
                      allow_empty_epoch=True,
                      **self._order_options())

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the workers: a copy, or this object in another process, starts new ones at its
        first pass."""
        return {**self.__dict__, "_native": None, "_present": None, "_source": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pid = os.getpid()
        if self._recipe is not None:
            self._source = open_source(self.dataset)

    def __getattr__(self, name: str) -> Any:
        # Only Accelerate reads this name.
        if name == "_is_accelerate_prepared" and self.__dict__.get("_recipe") is not None:
            warnings.warn(
                "millrace: Accelerate's prepare() replaces this loader by torch's own DataLoader, "
                "which loads without millrace: do not pass it to prepare(); with several processes "
                "give it a DistributedSampler, and move its batches to accelerator.device",
                stacklevel=3)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    # millrace.timm overrides these.

    def _order_options(self) -> dict[str, Any]:
        """Options of the native loader for the order and the draws."""
        return {"no_shuffle": True, "seed": self._draws.seed}

    def _begin(self, native: Loader, epoch: int) -> None:
        """Set the order of a pass in the native loader."""
        indices = self._source.indices
        order = array.array("q", self._batches.sampler)
        native.set_epoch(epoch, order if indices is None else indices[order].tolist())

    def _collate(self, batch: Batch) -> Any:
        """The batch as the program gets it."""
        image, label = torch.from_dlpack(batch.image), torch.from_dlpack(batch.label)
        default = self.collate_fn is data.default_collate
        made = [image, label] if default else self.collate_fn(
            list(zip(image.unbind(), label.tolist())))
        # Only memory of torch's waits for copies in progress before it is reused, so a batch is
        # copied there.
        return pin_memory(made) if self._pins else made


DataLoader.__doc__ = f"{inspect.getdoc(DataLoader)}\n\n{inspect.getdoc(data.DataLoader)}"


def _count_slots(prefetch_factor: int | None, n_workers: int) -> int | None:
    """The number of batches that torch's workers would read ahead, and those that the program
    holds. None unless the program sets prefetch_factor: torch's default of 2 for each worker takes
    more memory than the library needs."""
    if prefetch_factor is None or n_workers == 0:
        return None
    return min(max(1, prefetch_factor) * n_workers + _HELD, _MOST_SLOTS)


class _Draws:
    """The seed and the epoch of each pass, which determine its random draws."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self.named: int | None = None
        self._last: int | None = None
        self._repeats = 0
        self._passes = 0

    def draw_seed(self, generator: torch.Generator | None) -> None:
        """Draw torch's base seed. The first one is the seed of all passes; later ones only advance
        the generator."""
        base_seed = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
        if self.seed is None:
            self.seed = base_seed

    def begin(self, sampler: Any) -> int:
        """The epoch of a pass that begins. If the sampler's epoch was not changed since the pass
        before, the draws are still new."""
        self._passes += 1
        named = self.named if self.named is not None else getattr(sampler, "epoch", None)
        if named is None or not (self.named is not None or isinstance(sampler, DistributedSampler)):
            return self._passes - 1
        self._repeats = self._repeats + 1 if named == self._last and self.named is None else 0
        self._last, self.named = named, None
        return (named + (self._repeats << 32)) % (1 << 64)  # torch takes negative epochs too


def _find_batches(loader: data.DataLoader[Any]) -> data.BatchSampler:
    batches = loader.batch_sampler
    if loader.batch_size is None and batches is None:
        raise Unknown("batch_size None")
    if type(batches) is not data.BatchSampler:
        raise Unknown(f"the batch sampler {type(batches).__name__}")
    if not hasattr(batches.sampler, "__len__"):
        raise Unknown(f"the sampler {type(batches.sampler).__name__}, which has no length")
    return batches


class _Pass:
    """One epoch. torch draws its base seed first. Its samplers draw at the first index: at once if
    there are workers, otherwise at the first batch."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        # persistent workers keep their seed
        if loader._draws.seed is None or not loader.persistent_workers:
            loader._draws.draw_seed(loader.generator)
        self._epoch = loader._draws.begin(loader._batches.sampler)
        self._native: Loader | None = None
        self.ended = False
        if loader.num_workers > 0:
            self._native = self._begin()

    def _begin(self) -> Loader:
        native = self._loader._lend(self)
        self._loader._begin(native, self._epoch)
        return native

    def __iter__(self) -> "_Pass":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        if self.ended:
            raise StopIteration
        if self._native is None:
            self._native = self._begin()
        batch = self._take(self._native)
        if batch is None:
            self.ended = True
            raise StopIteration
        return self._loader._collate(batch)

    def _take(self, native: Loader) -> Batch | None:
        timeout = self._loader.timeout if self._loader.num_workers > 0 else 0
        try:
            return native.next(timeout or None)
        except TimeoutError:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None


def explain(loader: data.DataLoader[Any]) -> dict[str, Any]:
    """How a DataLoader loads: {"native": bool, "reason": why it is not native, or how its pixels
    differ with exact_resize=False, "transform": the text of the millrace transform}."""
    recipe, reason = getattr(loader, "_recipe", None), getattr(loader, "_reason",
                                                               "it is torch's own DataLoader")
    return {
        "native": recipe is not None, "reason": recipe.note if recipe else reason, "transform":
        recipe.text if recipe else ""
    }
