# SPDX-License-Identifier: Apache-2.0
"""Recognises timm's transforms (timm.data). It does not import timm: a program that has an object
of timm has imported it."""

from __future__ import annotations

import math
import sys
from typing import Any, Iterable

from ._words import Unknown, filter_of, join, needs, number, size_of

_PILLOW_FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic"}


def _policies() -> Any:
    return sys.modules["timm.data.auto_augment"]


def _is_random(interpolations: Any) -> bool:
    """True for timm's (bilinear, bicubic), of which one is drawn each time."""
    if not isinstance(interpolations, (list, tuple)):
        return False
    words = [
        _PILLOW_FILTERS.get(int(i)) if isinstance(i, int) else getattr(i, "value", "")
        for i in interpolations
    ]
    needs(words == ["bilinear", "bicubic"], f"a choice of interpolations: {words}")
    return True


def _crop(t: Any) -> str:
    word = "random" if _is_random(t.interpolation) else filter_of(t.interpolation)
    return (f"random_resized_crop({size_of(t.size)},scale={join(t.scale)},ratio={join(t.ratio)},"
            f"interp={word})")


def _look(ops: Iterable[Any]) -> str:
    """interp and fill of a policy, which must be the same for all its operations."""
    looks = {(op.kwargs["resample"], op.kwargs["fillcolor"], op.hparams.get("translate_pct", 0.45))
             for op in ops}
    needs(len(looks) == 1, "a policy whose operations differ in interpolation or fill")
    resample, fill, shift = looks.pop()
    needs(shift == 0.45, f"a policy with translate_pct {shift}")
    word = "random" if _is_random(resample) else _PILLOW_FILTERS.get(int(resample))
    needs(word is not None, f"a policy with the interpolation {resample}")
    return f"interp={word},fill={join(fill) if isinstance(fill, (list, tuple)) else number(fill)}"


def _deviation(op: Any) -> str:
    if op.magnitude_std == math.inf:
        return "-mstd101"
    return f"-mstd{number(op.magnitude_std)}" if op.magnitude_std > 0 else ""


def _find_set(names: list[str], weights: Any) -> str:
    """The part of a policy's text that names the set of operations."""
    aa = _policies()
    if weights is None:
        for section, known in (("", aa._RAND_TRANSFORMS), ("-inc1", aa._RAND_INCREASING_TRANSFORMS),
                               ("-t3a", aa._RAND_3A)):
            if names == list(known):
                return section
    else:
        for section, known in (("-tweights", aa._RAND_WEIGHTED_0), ("-t3aw", aa._RAND_WEIGHTED_3A)):
            total = sum(known.values())
            if names == list(known) and all(
                    abs(w - k / total) < 1e-9 for w, k in zip(weights, known.values())):
                return section
    raise Unknown("a RandAugment with other operations than timm's")


def _rand_augment(t: Any) -> str:
    first = t.ops[0]
    alike = {(op.prob, op.magnitude, op.magnitude_std, op.magnitude_max) for op in t.ops}
    needs(
        len(alike) == 1 and float(first.magnitude).is_integer(),
        "a RandAugment whose operations differ in magnitude")
    most = f"-mmax{first.magnitude_max}" if first.magnitude_max else ""
    policy = (f"rand-m{int(first.magnitude)}-n{t.num_layers}-p{number(min(first.prob, 1))}"
              f"{_deviation(first)}{most}"
              f"{_find_set([op.name for op in t.ops], t.choice_weights)}")
    return f'timm("{policy}",{_look(t.ops)})'


def _steps(policy: Any) -> list[Any]:
    return [[(op.name, op.prob, op.magnitude) for op in pair] for pair in policy]


def _auto_augment(t: Any) -> str:
    ops = [op for pair in t.policy for op in pair]
    first = ops[0]
    needs(first.magnitude_std != math.inf and not first.magnitude_max,
          "an AutoAugment with mmax or an infinite mstd")
    needs(
        len({op.magnitude_std for op in ops}) == 1,
        "an AutoAugment whose operations differ in mstd")
    for name in ("original", "originalr", "v0", "v0r", "3a"):
        if _steps(_policies().auto_augment_policy(name)) == _steps(t.policy):
            return f'timm("{name}{_deviation(first)}",{_look(ops)})'
    raise Unknown("an AutoAugment with a policy that is not timm's")


_OPERATIONS = {
    "timm.data.transforms.RandomResizedCropAndInterpolation": _crop,
    "timm.data.auto_augment.RandAugment": _rand_augment,
    "timm.data.auto_augment.AutoAugment": _auto_augment,
}


def timm_operation(t: Any) -> str:
    """The text of an operation on PIL images. Raises Unknown."""
    write = _OPERATIONS.get(f"{type(t).__module__}.{type(t).__name__}")
    if write is None:
        raise Unknown(f"timm's {type(t).__name__}")
    return write(t)


def erasing(probability: float, mode: str, count: int, scale: Iterable[float] = (0.02, 1 / 3),
            ratio: Iterable[float] = (0.3, 1 / 0.3)) -> str:
    """The text of timm's RandomErasing of normalised floats."""
    value = {"": "0", "const": "0", "rand": "rand", "pixel": "random"}.get(mode.lower())
    needs(value is not None, f"re_mode {mode}")
    needs(1 <= count <= 4, f"re_count {count}")
    return (f"random_erasing({number(probability)},scale={join(scale)},ratio={join(ratio)},"
            f"value={value},count={count})")


def timm_erasing(t: Any) -> str:
    """The text of an object of timm's RandomErasing."""
    needs(t.min_count == 1 and t.num_splits <= 1, "RandomErasing with min_count or num_splits")
    return erasing(t.probability, t.mode, t.max_count, (t.min_area, t.max_area),
                   map(math.exp, t.log_aspect_ratio))
