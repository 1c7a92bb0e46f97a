# SPDX-License-Identifier: Apache-2.0
"""A drop-in for timm's create_loader.

    from millrace.timm import create_loader

The rest of the program does not change. docs/python.md says what is recognised and what differs.
"""

from ._loader import PrefetchLoader, create_loader, explain

__all__ = ["PrefetchLoader", "create_loader", "explain"]
