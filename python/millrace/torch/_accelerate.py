# SPDX-License-Identifier: Apache-2.0
"""Keeps the library's workers in what Accelerate makes of a DataLoader.

Accelerate's prepare() and skip_first_batches() make a torch DataLoader from the attributes of the
one that they get, with a batch sampler around its own, and put it into an adapter. keep() has the
adapters take the program's DataLoader with that batch sampler instead. It does not import
Accelerate: a program that calls prepare() has imported it.
"""

from __future__ import annotations

import functools
import sys
import warnings
import weakref
from typing import Any

from .._loader import find_caller

_kept: weakref.WeakSet[Any] = weakref.WeakSet()


def innermost(batches: Any) -> Any:
    """The batch sampler inside those that are around it."""
    while hasattr(batches, "batch_sampler"):
        batches = batches.batch_sampler
    return batches


def _adjust() -> None:
    """In place of an adapter's adjust_state_dict_for_prefetch(): our positions need none."""


def keep(loader: Any) -> bool:
    """Keep this DataLoader in adapters that Accelerate makes of it from now on. False if no
    Accelerate with adapters was imported."""
    adapter = getattr(sys.modules.get("accelerate.data_loader"), "DataLoaderAdapter", None)
    if adapter is None:
        return False
    _kept.add(loader)
    init = adapter.__init__
    if hasattr(init, "__wrapped__"):
        return True

    @functools.wraps(init)
    def __init__(self: Any, dataset: Any, *rest: Any, batch_sampler: Any = None,
                 **options: Any) -> None:
        root = innermost(batch_sampler)
        ours = next(
            (one for one in list(_kept) if innermost(one.batch_sampler) is root
             and one.dataset is dataset and one.collate_fn is options.get("collate_fn")), None)
        if ours is None:
            init(self, dataset, *rest, batch_sampler=batch_sampler, **options)
            return
        is_stateful = options.pop("use_stateful_dataloader", False)
        init(self, dataset, *rest, batch_sampler=batch_sampler, **options)
        self.use_stateful_dataloader = is_stateful
        self.base_dataloader = ours._with_batches(batch_sampler)
        self.dl_state_dict = self.base_dataloader.state_dict()
        self.adjust_state_dict_for_prefetch = _adjust
        _kept.add(self.base_dataloader)

    adapter.__init__ = __init__
    return True


def keep_or_warn(loader: Any) -> None:
    """keep(), for a loader that an Accelerator prepares."""
    if not keep(loader):
        warnings.warn(
            "millrace: this Accelerate replaces the loader by torch's own DataLoader, which loads "
            "without millrace: install Accelerate 0.34 or later, or do not pass the loader to "
            "prepare(), give it a DistributedSampler, and move its batches to accelerator.device",
            stacklevel=find_caller())
