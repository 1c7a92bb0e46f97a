# SPDX-License-Identifier: Apache-2.0
"""How large the images of a transform can become, for the memory of batches whose images keep their
sizes.
"""

from __future__ import annotations

import math
import re
from typing import Iterable

_CROPS = ("center_crop", "random_crop", "fixed_size_crop", "random_resized_crop", "letterbox")


def find_largest(text: str, sizes: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The largest height and width that each size of a file becomes. text: as a Transform writes
    it."""
    found = set(sizes)
    for name, arguments in re.findall(r"(\w+)(?:\(([^()]*)\))?", text):
        found = {_grow(name, _read(arguments), *size) for size in found}
    return found


def _read(text: str) -> dict[str, list[float]]:
    """The arguments that are numbers. The first one by position is "0"."""
    found = {}
    for place, argument in enumerate(text.split(",")):
        name, _, values = argument.rpartition("=")
        numbers = re.fullmatch(r"[-\d.]+(:[-\d.]+)*", values)
        found[name or str(place)] = list(map(float, values.split(":"))) if numbers else []
    return found


def _grow(name: str, arguments: dict[str, list[float]], height: int, width: int) -> tuple[int, int]:
    size, short = arguments.get("0", []), min(height, width)
    longest = arguments.get("max_size", [math.inf])[0] / max(height, width)
    factor = 1.0
    if name in _CROPS or name == "resize" and len(size) == 2:
        return int(size[0]), int(size[-1])
    if name == "pad_if_smaller":
        return max(height, int(size[0])), max(width, int(size[-1]))
    if name == "pad":
        return height + int(size[1] + size[3]), width + int(size[0] + size[2])
    if name == "rotation" and "expand" in arguments:
        return height + width, height + width
    if name in ("resize", "random_shortest_size"):
        factor = min(max(size) / short, longest)
    elif name == "random_resize":
        factor = arguments["1"][0] / short
    elif name == "scale_jitter":
        # torchvision divides the target's width by the image's height.
        factor = max(size) / max(height, width) * arguments["scale_range"][1]
    elif name == "random_zoom_out":
        factor = arguments["side_range"][1]
    return (height, width) if factor == 1 else (math.ceil(height * factor),
                                                math.ceil(width * factor))
