# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader with the library's workers, if its arguments are recognised."""

from __future__ import annotations

import array
import inspect
import itertools
import os
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence, TypeVar

import numpy
import torch
from torch.utils import data
from torch.utils.data._utils.pin_memory import pin_memory
from torchvision import datasets

from .. import Batch, Error, InvalidError, Loader
from .._batch import make_state_error
from .._html import Html
from .._loader import find_caller
from .._options import unsigned
from .._preview import show
from . import _accelerate, _ray
from ._accelerate import innermost
from ._dataset import find_members
from ._recipe import Recipe, recognise
from ._source import Source, check_functions, open_source
from ._words import Unknown, foresee, needs

_T = TypeVar("_T", covariant=True)
_STATE = {"_num_yielded", "_iterator_finished", "epoch", "batch_size", "order", "draws"}
_MOST_SLOTS = 1024
_MOST_BYTES = 2 << 30  # of batches whose images keep their sizes, if four fit
_MOST_SAMPLES = 65535  # of a batch


def _make_signature(init: Any) -> inspect.Signature:
    """torch's signature of __init__, followed by the arguments that only the drop-in has. A program
    may have put a function of (self, *args, **kwargs) there."""
    torchs, ours = (inspect.signature(f).parameters for f in (data.DataLoader.__init__, init))
    return inspect.Signature(sorted([*torchs.values(), ours["exact_resize"]], key=lambda p: p.kind))


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
        self.exact_resize = exact_resize  # Lightning copies attributes named as arguments
        self._pins = self.pin_memory and torch.cuda.is_available()
        self._reads_ahead = self.num_workers > 0 and prefetch_factor is not None
        self._native: Loader | None = None
        self._present: weakref.ref[_Pass] | None = None
        self._recipe: Recipe | None = None
        self._reason = ""
        self._draws = _Draws()
        self._position: _Position | None = None  # of the newest pass
        self._saved: dict[str, Any] | None = None  # a state that the next pass continues
        self._pid = os.getpid()
        try:
            self._source = open_source(self.dataset)
            self._recipe = self._recognise()
        except (Unknown, Error) as reason:
            self._leave(reason)
            return
        _accelerate.keep(self)
        _ray.keep()
        if self.worker_init_fn is not None:
            warnings.warn("millrace: worker_init_fn is not called: the workers run no Python",
                          stacklevel=find_caller())

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass, which its random draws depend on. Otherwise it is the
        epoch after that of the previous pass. set_epoch() of a DistributedSampler sets it too."""
        self._draws.named = epoch

    def state_dict(self) -> dict[str, Any]:
        """The position, for load_state_dict(), as torchdata's StatefulDataLoader has it: the
        batches of this pass that were yielded, not those that were read ahead, the order of this
        pass, and the seed of its draws. It is {} before the first pass, and if torch loads."""
        if self._saved is not None or self._position is None:
            return self._saved or {}
        position = self._position
        order = position.order
        return {
            "version": 1, "_num_yielded": position.n_yielded, "_iterator_finished": position.ended,
            "epoch": position.epoch, "batch_size": position.batch_size,
            "order": None if order is None else torch.from_numpy(numpy.asarray(order)),
            "rank": _find_rank(self._batches), "sampler_epoch": position.sampler_epoch,
            "sampler_seed": _find_seed(self._batches),
            "draws": dict(vars(self._draws))
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass continue where state_dict() was called, with the same order, batches
        and draws. If that pass had ended, the next pass is the one after it. The state of another
        rank, which is all that Lightning's checkpoint has, is taken if this rank's sampler can draw
        its order by an epoch."""
        if not state:
            return
        if not isinstance(state, dict) or state.get("version") != 1 or not _STATE <= state.keys():
            found = ", ".join(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise InvalidError("the state is not of millrace.torch's DataLoader, version 1: it has "
                               f"{found}")
        n, order = len(self.dataset), state["order"]  # type: ignore[arg-type]
        unsigned("_num_yielded", state["_num_yielded"])
        if order is not None and unsigned("batch_size", state["batch_size"]) == 0:
            raise InvalidError("the state has an order in batches of 0 samples")
        if order is not None:
            order = torch.as_tensor(order)  # JSON has a list
            state = {**state, "order": order}
        if order is not None and len(order) > 0 and int(order.max()) >= n:
            raise InvalidError(f"the state has the sample {int(order.max())}, but the dataset has "
                               f"{n}: it is another dataset's")
        if self._recipe is None:
            warnings.warn("millrace: torch's own DataLoader is used, which begins anew instead of "
                          f"at the state's batch {state['_num_yielded']}", stacklevel=find_caller())
            return
        saved, own = state.get("rank"), _find_rank(self._batches)
        if saved != own and not state["_iterator_finished"]:
            can_draw = state.get("sampler_epoch") is not None
            if not (can_draw and saved and own and saved[1] == own[1]):
                raise InvalidError(f"the state is of {_name_rank(saved)} in mid-epoch, this loader "
                                   f"is of {_name_rank(own)}: load the state that it saved itself, "
                                   "or use a sampler that draws by epoch on as many ranks")
            seed = _find_seed(self._batches)
            if state.get("sampler_seed", seed) != seed:
                raise InvalidError(f"the state is of {_name_rank(saved)}, whose sampler has the "
                                   f"seed {state['sampler_seed']}, and this rank's has {seed}: "
                                   "give the program the seed of that run")
        vars(self._draws).update(state["draws"])
        self._saved, self._native = dict(state), None

    def stats(self) -> dict[str, Any]:
        """mr.Loader.stats() of the workers: since the first pass."""
        return self._running().stats()

    def verdict(self) -> str:
        """mr.Loader.verdict(): whether the loop waited for data, or data for the loop."""
        return self._running().verdict()

    def _preview(self, n: int) -> Html:
        """mr.preview(): of the newest pass, or of the dataset's first images."""
        if self._recipe is None:
            raise make_state_error(f"torch's own DataLoader is used: {self._reason}")
        self._renew()
        names = [[str(name) for name in getattr(part.owner, "classes", ())]
                 for part in self._source.parts]
        classes = names[0] if names.count(names[0]) == len(names) else []
        if self._native is not None:
            return show(self._native, n, classes)
        indices = self._source.indices
        order = range(len(self._source.dataset)) if indices is None else indices
        with Loader(self._source.dataset, self._recipe.text, batch_size=n, num_workers=0,
                    dtype=self._recipe.dtype, seed=self._draws.seed,
                    **self._sample_options()) as first:
            first.set_epoch(0, order[:n])
            return show(first, n, classes)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: mr.preview(), or only repr() if torch's own code loads."""
        return None if self._recipe is None else self._preview(8)

    def _running(self) -> Loader:
        if self._native is None:
            raise make_state_error("no batch was loaded by millrace yet" if self._recipe is not None
                                   else f"torch's own DataLoader is used: {self._reason}")
        return self._native

    def _renew(self) -> None:
        """In a forked child, which has no workers, get ready to start some."""
        if self._pid != os.getpid():
            self.__setstate__({**self.__getstate__(), "_position": self._position})

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self._recipe is not None:
            generators = [torch.default_generator, *filter(None, [self.generator])]
            states = [generator.get_state() for generator in generators]
            try:
                self._renew()
                recipe = self._recognise()  # the program may have changed the transform since
                if recipe != self._recipe:
                    self._recipe, self._native = recipe, None
                return _Pass(self)
            except Unknown as reason:
                self._leave(reason)
                for generator, state in zip(generators, states):  # torch draws them again
                    generator.set_state(state)
        return super().__iter__()

    @property
    def _batches(self) -> Any:
        """The batch sampler. A subclass may replace it."""
        return self.batch_sampler

    def _recognise(self) -> Recipe:
        _check_batches(self._batches)
        check_functions(self.dataset)
        if self._source.annotated is not None:
            return self._source.annotated.recognise(self.exact_resize)
        recipe, *others = map(self._recognise_part, self._source.parts)
        for other in others:
            needs(other == recipe, "a ConcatDataset whose datasets have different transforms: "
                  f"{recipe.text} in {recipe.dtype}, {other.text} in {other.dtype}")
        # torch's default_collate too needs images of one size.
        size = getattr(self._batches, "batch_size", None) or 1
        stacks = size > 1 and self.collate_fn is data.default_collate
        if not (recipe.has_size or stacks) and not isinstance(
                self._source.parts[0].owner, datasets.CIFAR10):
            raise Unknown("images that come out with different sizes")
        return recipe

    def _recognise_part(self, part: Source) -> Recipe:
        recipe = recognise(part.owner.transform, self.exact_resize)
        return recipe._replace(text=part.prefix + recipe.text)

    def _leave(self, reason: Exception) -> None:
        """From now on load with torch's own DataLoader."""
        self._recipe, self._native, self._reason = None, None, str(reason)
        self._position = self._saved = None
        warnings.warn(f"millrace: torch's own DataLoader is used: {reason}",
                      stacklevel=find_caller())

    def _lend(self, user: _Pass, batch_size: int) -> Loader:
        """The native loader for a pass. It lives as long as this object. A pass that begins before
        another has ended gets a separate loader."""
        present = self._present() if self._present is not None else None
        if present is not None and not present.position.ended:
            return self._open(batch_size)
        self._present = weakref.ref(user)
        # A sampler's length may have changed, and with it the number of slots.
        if self._native is None or self._native.batch_size != batch_size or (
                self._native.stats()["n_slots"] < self._count_slots(batch_size)):
            self._native = self._open(batch_size)
        return self._native

    def _open(self, batch_size: int) -> Loader:
        recipe = self._recipe
        assert recipe is not None
        made = Loader(self._source.dataset,
                      recipe.text,
                      batch_size=batch_size,
                      drop_last=is_plain(self._batches) and self._batches.drop_last,
                      num_workers=self.num_workers,
                      n_slots=self._count_slots(batch_size),
                      dtype=recipe.dtype,
                      allow_same_epoch=True,
                      allow_empty_epoch=True,
                      **self._sample_options(),
                      **self._order_options())
        # No warning of copies where decoding takes longer, and torch refuses a prefetch_factor.
        made._warned = self.num_workers == 0
        return made

    def _sample_options(self) -> dict[str, Any]:
        """Options of the native loader for samples with masks or boxes."""
        assert self._recipe is not None
        annotated = self._source.annotated
        return annotated.options(self._recipe, self.collate_fn) if annotated is not None else {}

    def _count_slots(self, batch_size: int) -> int:
        """Two more than the library's default (loader/resolve.c), because programs hold a batch
        that they looked at, or one that Accelerate takes ahead. With prefetch_factor: the number
        of batches that torch's workers would read ahead, and two that the loop's variables hold.
        A pass of few batches, which may be large, needs only its own and three that are held."""
        n = max(4, 3 + -(-5 * self.num_workers // batch_size)) + 2
        if self.num_workers == 0:
            n = 4  # the caller waits until the memory of all is there, and reads nothing ahead
        if self._reads_ahead:
            n = (self.prefetch_factor or 1) * self.num_workers + 2
        options = self._sample_options()
        room = options.get("max_row_bytes", 0) + 13 * options.get("pad_batch", 0)**2
        n = min(n, max(4, _MOST_BYTES // max(1, room * batch_size)))
        # Accelerate's SkipBatchSampler may have a negative length, at which len() fails.
        return min(n, max(1, self._batches.__len__()) + 3, _MOST_SLOTS)

    def _with_batches(self, batches: Any) -> DataLoader[_T]:
        """This loader with another batch sampler, and workers of its own. It draws the same."""
        made = object.__new__(type(self))
        made.__dict__.update({
            **self.__getstate__(), "_source": self._source, "batch_sampler": batches,
            "batch_size": None, "drop_last": False
        })
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the workers: a copy, or this object in another process, starts new ones at its
        first pass."""
        return {
            **self.__dict__, "_native": None, "_present": None, "_source": None, "_position": None
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pid = os.getpid()
        if self._recipe is not None:
            self._source = open_source(self.dataset)

    def __getattr__(self, name: str) -> Any:
        # Only an Accelerator reads this name, before it makes its own loader of this one. The
        # program may have imported Accelerate after this loader was made.
        if name == "_is_accelerate_prepared" and self.__dict__.get("_recipe") is not None:
            _accelerate.keep_or_warn(self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    # millrace.timm overrides these.

    def _order_options(self) -> dict[str, Any]:
        """Options of the native loader for the order and the draws."""
        return {"no_shuffle": True, "seed": self._draws.seed}

    def _draw(self) -> tuple[array.array[int], int, Iterator[Any]]:
        """Run the sampler: the indices of a pass, the batch size, and what the sampler still does
        when torch asks for another index. Raises Unknown."""
        batches = self._batches
        order: array.array[int]
        if is_plain(batches):
            drawn, n = iter(batches.sampler), len(batches.sampler)
            order = array.array("q", itertools.islice(drawn, n))
            if not _is_torchs(batches.sampler):
                needs(next(drawn, None) is None, f"the sampler {type(batches.sampler).__name__}, "
                      f"which yields more than its length of {n}")
            # A large batch size costs memory only for samples that there are.
            return order, min(batches.batch_size, len(order) + 1), drawn
        order = array.array("q")
        size, is_short, most = 0, False, batches.__len__()  # it may be negative
        name = f"the batch sampler {type(batches).__name__}"
        with foresee("a batch sampler"):
            for i, batch in enumerate(batches):
                needs(i < most, f"{name}, which yields more batches than its length of {most}")
                size = size or len(batch)
                needs(not is_short and 0 < len(batch) <= size,
                      f"{name}, whose batches before the last differ in size")
                is_short = len(batch) < size
                order.extend(batch)
        needs(size <= _MOST_SAMPLES, f"batches of {size} samples")
        return order, size or 1, iter(())

    def _begin(self, native: Loader, position: _Position) -> None:
        """Set the order of a pass in the native loader, and go to the position."""
        indices, order = self._source.indices, position.order
        assert order is not None
        if indices is None and numpy.min(order, initial=0) < 0:
            indices = numpy.arange(len(self.dataset))  # type: ignore[arg-type]
        native.set_epoch(position.epoch, order if indices is None else indices[order].tolist(),
                         min(position.n_yielded * position.batch_size, len(order)))

    def _collate(self, batch: Batch) -> Any:
        """The batch as the program gets it."""
        if self._source.annotated is not None:
            assert self._recipe is not None
            made = self._source.annotated.collate(batch, self._recipe, self.collate_fn,
                                                  self.num_workers > 0)
            return pin_memory(made) if self._pins else made
        image, label = torch.from_dlpack(batch.image), torch.from_dlpack(batch.label)
        rows = {name: found.tolist() for name, found in find_members(batch).items()}
        keys, pair = self._source.keys, [image, label]
        if self.collate_fn is data.default_collate:
            made = dict(zip(keys, pair)) if keys is not None else [*pair, rows] if rows else pair
        else:
            columns = [image.unbind(), label.tolist()]
            if rows:
                columns.append([dict(zip(rows, values)) for values in zip(*rows.values())])
            samples = zip(*columns)
            made = self.collate_fn([s if keys is None else dict(zip(keys, s)) for s in samples])
        # Only memory of torch's waits for copies in progress before it is reused, so a batch is
        # copied there.
        return pin_memory(made) if self._pins else made


DataLoader.__doc__ = f"{inspect.getdoc(DataLoader)}\n\n{inspect.getdoc(data.DataLoader)}"


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
        named = self.named
        if named is None and hasattr(sampler, "set_epoch"):
            named = getattr(sampler, "epoch", None)
        if named is None:
            return self._passes - 1
        self._repeats = self._repeats + 1 if named == self._last and self.named is None else 0
        self._last, self.named = named, None
        return (named + (self._repeats << 32)) % (1 << 64)  # torch takes negative epochs too


def is_plain(batches: Any) -> bool:
    """Is it torch's own batch sampler? The library cuts its sampler's order into batches."""
    return type(batches) is data.BatchSampler


def _is_torchs(sampler: Any) -> bool:
    """Is it a sampler of torch's own, which yields as many indices as its length says?"""
    return type(sampler).__module__.startswith("torch.utils.data.")


def _check_batches(batches: Any) -> None:
    """Raises Unknown if a batch sampler may have no end, or if its batches are too large."""
    if batches is None:
        raise Unknown("batch_size None")
    drawn, word = (batches.sampler, "sampler") if is_plain(batches) else (batches, "batch sampler")
    try:
        n = len(drawn)
    except (AttributeError, NotImplementedError, TypeError):
        raise Unknown(f"the {word} {type(drawn).__name__}, which has no length") from None
    if is_plain(batches):
        size = min(batches.batch_size, n + 1)
        needs(size <= _MOST_SAMPLES, f"batches of {size} samples")


def _find_sampler(batches: Any) -> Any:
    inner = innermost(batches)
    return getattr(inner, "sampler", inner)


def _find_seed(batches: Any) -> Any:
    """What the orders follow from, besides the epoch: of DistributedSampler and the like, or of
    Accelerate's SeedableRandomSampler."""
    sampler = _find_sampler(batches)
    seed = getattr(sampler, "initial_seed", getattr(sampler, "seed", None))
    return seed if isinstance(seed, int) else None


def _find_rank(batches: Any) -> list[int] | None:
    """The rank and the number of ranks, if several share the samples: those of DistributedSampler
    and the like, or of Accelerate's BatchSamplerShard."""
    while batches is not None:
        for names in (("rank", "num_replicas"), ("process_index", "num_processes")):
            rank, n_ranks = (getattr(batches, name, None) for name in names)
            if rank is not None and n_ranks is not None:
                return [rank, n_ranks] if n_ranks > 1 else None
        batches = getattr(batches, "batch_sampler", getattr(batches, "sampler", None))
    return None


def _name_rank(rank: list[int] | None) -> str:
    return f"rank {rank[0]} of {rank[1]}" if rank else "a single process"


class _Position:
    """The place of a pass."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.order: array.array[int] | None = None
        self.drawn: Iterator[Any] = iter(())  # the sampler behind the order
        self.sampler_epoch: int | None = None
        self.batch_size = 0
        self.n_yielded = 0
        self.ended = False

    def draw_ahead(self, n_batches: int) -> None:
        """Exhaust the sampler, at which RandomSampler draws once more, if torch does so to have
        this many batches."""
        assert self.order is not None
        if n_batches * self.batch_size > len(self.order):
            next(self.drawn, None)


class _Pass:
    """One epoch. torch draws its base seed first. Its samplers draw at the first index: at once if
    there are workers, otherwise at the first batch."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._pid = os.getpid()
        self._n_ahead = (loader.prefetch_factor or 0) * loader.num_workers  # in torch
        saved, loader._saved = loader._saved, None
        sampler = _find_sampler(loader._batches)
        if saved is None or saved["_iterator_finished"]:
            # persistent workers keep their seed
            if loader._draws.seed is None or not loader.persistent_workers:
                loader._draws.draw_seed(loader.generator)
            self.position = _Position(loader._draws.begin(sampler))
        else:
            loader._draws.named = None
            self.position = _Position(saved["epoch"])
            self.position.n_yielded = saved["_num_yielded"]
            if saved.get("rank") != _find_rank(loader._batches):
                sampler.set_epoch(saved["sampler_epoch"])
            elif saved["order"] is not None:
                self.position.order = array.array("q", saved["order"].tolist())
                self.position.batch_size = saved["batch_size"]
        self.position.sampler_epoch = getattr(sampler, "epoch", None)
        loader._position = self.position
        self._native: Loader | None = None
        batches = loader._batches
        if loader.num_workers > 0 or not is_plain(batches) or not _is_torchs(batches.sampler):
            self._native = self._begin()

    def _begin(self) -> Loader:
        loader, position = self._loader, self.position
        if position.order is None:
            position.order, position.batch_size, position.drawn = loader._draw()
            position.draw_ahead(self._n_ahead)
        native = loader._lend(self, position.batch_size)
        loader._begin(native, position)
        return native

    def __iter__(self) -> "_Pass":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        if self.position.ended:
            raise StopIteration
        if self._native is None or self._pid != os.getpid():  # a forked child continues
            self._loader._renew()
            self._native, self._pid = self._begin(), os.getpid()
        batch = self._take(self._native)
        self.position.draw_ahead(self.position.n_yielded + self._n_ahead + (batch is None))
        if batch is None:
            self.position.ended = True
            raise StopIteration
        return self._loader._collate(batch)

    def _take(self, native: Loader) -> Batch | None:
        timeout = self._loader.timeout if self._loader.num_workers > 0 else 0
        try:
            return native.next(timeout or None)
        except TimeoutError:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None
        finally:
            self.position.n_yielded = native._taken


def explain(loader: data.DataLoader[Any]) -> dict[str, Any]:
    """How a DataLoader loads: {"native": bool, "reason": why it is not native, or how its pixels
    differ with exact_resize=False, "transform": the text of the millrace transform}."""
    recipe, reason = getattr(loader, "_recipe", None), getattr(loader, "_reason",
                                                               "it is torch's own DataLoader")
    return {
        "native": recipe is not None, "reason": recipe.note if recipe else reason, "transform":
        recipe.text if recipe else ""
    }
