#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes base/normal_table.c: quantiles of the normal distribution at the nodes that base/normal.h
names.

usage: make_normal_table.py > base/normal_table.c      (needs Python's standard library only)
"""
from statistics import NormalDist

OCTAVES, STEPS, PER_LINE = 24, 64, 8


def nodes():
    for octave in range(OCTAVES):
        for step in range(STEPS):
            tail = (1 - step / (2 * STEPS)) / 2 ** (octave + 1)
            yield -NormalDist().inv_cdf(tail) if tail < 0.5 else 0.0
    yield -NormalDist().inv_cdf(2.0 ** -(OCTAVES + 1))


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Quantiles of the normal distribution. "
          "tests/data/make_normal_table.py writes this file. */")
    print('#include "base/normal.h"\n')
    print("/* clang-format off */\nconst float mr_normal_nodes[MR_NORMAL_NODES] = {")
    values = [f"{value:.9g}" for value in nodes()]
    values = [value + ("f" if "." in value or "e" in value else ".0f") for value in values]
    for i in range(0, len(values), PER_LINE):
        print("    " + ", ".join(values[i : i + PER_LINE]) + ",")
    print("};")


if __name__ == "__main__":
    main()
