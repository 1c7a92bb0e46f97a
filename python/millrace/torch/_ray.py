# SPDX-License-Identifier: Apache-2.0
"""Keeps the library's workers in the DataLoader that Ray Train makes of another.

With several ranks, prepare_data_loader() makes a torch DataLoader with a DistributedSampler from
the attributes of one without. keep() has it make a drop-in of a drop-in instead. It does not import
Ray: a program that calls prepare_data_loader() has imported it.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from torch.utils import data

from .._loader import find_caller

_MODULES = ("ray.train.torch.train_loop_utils", "ray.train.v2.torch.train_loop_utils")


def _find(dataset: Any) -> Any:
    """The program's loader of this dataset, in the functions of Ray that replace it."""
    frame = sys._getframe(2)
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, data.DataLoader) and value.dataset is dataset:
                return value
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _make(dataset: Any, *arguments: Any, **options: Any) -> data.DataLoader[Any]:
    """What prepare_data_loader() calls."""
    from ._dataloader import DataLoader

    loader = _find(dataset)
    if isinstance(loader, DataLoader) and loader._recipe is not None:
        return DataLoader(dataset, *arguments, **options, exact_resize=loader.exact_resize)
    return data.DataLoader(dataset, *arguments, **options)


def keep() -> None:
    """Keep each drop-in that prepare_data_loader() gets from now on."""
    for module in filter(None, map(sys.modules.get, _MODULES)):
        made = getattr(module, "DataLoader", None)
        if made is data.DataLoader:
            module.DataLoader = _make  # type: ignore[attr-defined]
        elif made is not _make:
            warnings.warn(
                "millrace: in several ranks, this Ray replaces the loader by torch's own "
                "DataLoader, which loads without millrace: give the loader a DistributedSampler, "
                "which prepare_data_loader() keeps",
                stacklevel=find_caller())
