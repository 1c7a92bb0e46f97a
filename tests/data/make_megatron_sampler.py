#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes megatron_sampler.json: batches of MegatronPretrainingSampler of Megatron-LM.

usage: make_megatron_sampler.py DATA_SAMPLERS > megatron_sampler.json

DATA_SAMPLERS is megatron/training/datasets/data_samplers.py of NVIDIA/Megatron-LM at the commit
below; no wheel of megatron-core has it. Only that class of it is run, which needs no package.

A case has the options of the sampler, batches of each rank as [first index, number], because they
are rows of indices, and a world size and a batch size with which a run can have stopped there.
"""
import ast
import hashlib
import json
import random
import sys

COMMIT = "d98e8a64ddf34856e74b24714e3bedb2f5a39553"
BLOB = "d51d9c6c8a2e027d37415bc9c2dc8fe22d0a02b5"  # git's name of the file at that commit
NAME = "MegatronPretrainingSampler"


def load_class(path):
    with open(path, "rb") as file:
        text = file.read()
    if hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest() != BLOB:
        sys.exit(f"{path} is not the file of commit {COMMIT}")
    found = [node for node in ast.parse(text).body if getattr(node, "name", None) == NAME]
    names = {}
    exec(compile(ast.Module(found, []), path, "exec"), names)  # pylint: disable=exec-used
    return names[NAME]


def describe(batch):
    if batch != list(range(batch[0], batch[0] + len(batch)) if batch else []):
        sys.exit(f"{batch} is not a row")
    return [batch[0] if batch else 0, len(batch)]


def make_case(sampler, rng):
    world, micro = rng.choice([1, 2, 4]), rng.choice([1, 2, 3, 4, 8])
    step, total = world * micro, rng.randint(1, 150)
    consumed = rng.randrange(0, total, step)
    stops = [(w, b) for w in range(1, 9) for b in range(1, 9)
             if consumed % (w * b) == 0 and consumed + w * b <= total]
    drop_last = rng.random() < 0.5
    ranks = [[describe(batch) for batch in sampler(total, consumed, micro, rank, world, drop_last)]
             for rank in range(world)]
    return {"total": total, "consumed": consumed, "micro": micro, "world": world,
            "drop_last": drop_last, "stopped": rng.choice(stops), "ranks": ranks}


def main():
    sampler, rng = load_class(sys.argv[1]), random.Random(33)
    cases = [make_case(sampler, rng) for _ in range(150)]
    print('{"made_by": "make_megatron_sampler.py, Megatron-LM %s",' % COMMIT)
    print(' "cases": [\n  ' + ",\n  ".join(json.dumps(c) for c in cases) + "\n]}")


main()
