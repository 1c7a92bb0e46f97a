#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes mixtures.json: orders of build_blending_indices() of Megatron-Core.

usage: make_mixtures.py > mixtures.json
    (needs megatron-core 0.16.1 with its compiled helpers, and numpy; the tests do not)

A case has the weights of 2 to 29 sources as whole numbers, which megatron.core.datasets.utils'
normalize() divides by their sum, the number of positions, and a CRC-32 over the source (i16) and
the draw of that source (i64) of every position, little-endian.
"""
import json
import random
import sys
import zlib

import numpy
from megatron.core import __version__ as version
from megatron.core.datasets import helpers_cpp
from megatron.core.datasets.utils import normalize


def case(rng):
    n = rng.randint(2, 29)
    most = rng.choice([3, 20, 1000, 1000000])
    weights = [rng.randint(1, most) for _ in range(n)]
    size = rng.choice([100, 1000, 10000])
    sources, draws = numpy.zeros(size, numpy.int16), numpy.zeros(size, numpy.int64)
    helpers_cpp.build_blending_indices(sources, draws, normalize(weights), n, size, False)
    record = numpy.zeros(size, [("source", "<i2"), ("draw", "<i8")])
    record["source"], record["draw"] = sources, draws
    return {"weights": weights, "size": size, "crc": "%08x" % zlib.crc32(record.tobytes())}


def main():
    rng = random.Random(33)
    cases = [case(rng) for _ in range(200)]
    print('{"made_by": "make_mixtures.py, megatron-core %s, numpy %s",' %
          (version, numpy.__version__))
    print(' "cases": [\n  ' + ",\n  ".join(json.dumps(c) for c in cases) + "\n]}")


sys.exit(main())
