# SPDX-License-Identifier: Apache-2.0
"""A drop-in for torch.utils.data.DataLoader.

    from millrace.torch import DataLoader, ImageFolder

The rest of the program does not change. docs/python.md says what is recognised and what differs.
"""

from ._dataloader import DataLoader, explain
from ._dataset import Dataset
from ._source import ImageFolder

__all__ = ["DataLoader", "Dataset", "ImageFolder", "explain"]
