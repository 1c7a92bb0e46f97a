# SPDX-License-Identifier: Apache-2.0
"""Keeps the library's workers in the DataLoader that Ray Train makes of another.

With several ranks, prepare_data_loader() makes a torch DataLoader with a DistributedSampler from
the attributes of one without. keep() has it make a drop-in of a drop-in instead. It does not import
Ray: a program that calls prepare_data_loader() has imported it.
"""

from __future__ import annotations

import sys
from typing import Any

from torch.utils import data

_MODULES = ("ray.train.torch.train_loop_utils", "ray.train.v2.torch.train_loop_utils")


def _make(*arguments: Any, **options: Any) -> data.DataLoader[Any]:
    """What prepare_data_loader() calls, in a function whose argument is the program's loader."""
    from ._dataloader import DataLoader

    loader = sys._getframe(1).f_locals.get("loader")
    if isinstance(loader, DataLoader) and loader._recipe is not None:
        return DataLoader(*arguments, **options, exact_resize=loader.exact_resize)
    return data.DataLoader(*arguments, **options)


def keep() -> None:
    """Keep each drop-in that prepare_data_loader() gets from now on."""
    for module in filter(None, map(sys.modules.get, _MODULES)):
        if getattr(module, "DataLoader", None) is data.DataLoader:
            module.DataLoader = _make  # type: ignore[attr-defined]
