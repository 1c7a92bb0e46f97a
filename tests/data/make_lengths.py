#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make lengths.json: orders and batches by the lengths of samples, of transformers and fairseq.

Run it as make_lengths.py DATA_UTILS_FAST.PYX, the file fairseq/data/data_utils_fast.pyx of fairseq
0.12.2's source package, with Cython, NumPy, torch and transformers 5.24.0, and move the file here.

A case of "grouped" has the order of LengthGroupedSampler for a generator with this seed, and the
shards of DistributedLengthGroupedSampler for seed - 3 and epoch 3. A case of "cut" has the numbers
of samples of batch_by_size()'s batches over torch.randperm() with this seed.
"""

import importlib.util
import json
import random
import subprocess
import sys
import sysconfig
import tempfile

import numpy
import torch
from transformers.trainer_pt_utils import DistributedLengthGroupedSampler, LengthGroupedSampler


def load_fairseq(source):
    folder = tempfile.mkdtemp()
    subprocess.run([sys.executable, "-m", "cython", "--cplus", "-3", source,
                    "-o", f"{folder}/data_utils_fast.cpp"], check=True)
    subprocess.run(["g++", "-O1", "-w", "-shared", "-fPIC", f"{folder}/data_utils_fast.cpp",
                    "-I" + numpy.get_include(), "-I" + sysconfig.get_path("include"),
                    "-o", f"{folder}/data_utils_fast.so"], check=True)
    spec = importlib.util.spec_from_file_location("data_utils_fast",
                                                  f"{folder}/data_utils_fast.so")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_lengths(rng):
    longest = rng.choice([1, 5, 60, 500])
    return [rng.randint(0 if rng.random() < .3 else 1, longest)
            for _ in range(rng.choice([1, rng.randint(2, 20), rng.randint(20, 150)]))]


def make_grouped(rng):
    lengths, batch_size = make_lengths(rng), rng.randint(1, 9)
    seed, drop = rng.randint(3, 2**31), rng.random() < .5
    order = LengthGroupedSampler(batch_size, lengths=lengths,
                                 generator=torch.Generator().manual_seed(seed))
    shards = {}
    for world in 2, 4:
        if len(lengths) < world:  # its padding is one pass only
            continue
        shards[str(world)] = []
        for rank in range(world):
            sampler = DistributedLengthGroupedSampler(batch_size, num_replicas=world, rank=rank,
                                                      seed=seed - 3, drop_last=drop,
                                                      lengths=lengths)
            sampler.set_epoch(3)
            shards[str(world)].append(list(sampler))
    return {"lengths": lengths, "batch_size": batch_size, "seed": seed, "drop": drop,
            "order": list(order), "shards": shards}


def make_cut(rng, fairseq):
    lengths, seed = make_lengths(rng), rng.randint(0, 2**31)
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed)).numpy()
    batch_size, multiple = rng.choice([1, 4, 10, 60]), rng.choice([1, 1, 2, 3, 8])
    max_tokens = max(1, max(lengths), rng.randint(1, 4 * max(lengths) + 20))
    batches = fairseq.batch_by_size_vec(order, numpy.array(lengths)[order], max_tokens, batch_size,
                                        multiple)
    assert numpy.concatenate(batches).tolist() == order.tolist()
    return {"lengths": lengths, "batch_size": batch_size, "seed": seed, "max_tokens": max_tokens,
            "multiple": multiple, "sizes": [len(batch) for batch in batches]}


def main():
    rng, fairseq = random.Random(1), load_fairseq(sys.argv[1])
    cases = {"grouped": [make_grouped(rng) for _ in range(100)],
             "cut": [make_cut(rng, fairseq) for _ in range(100)]}
    with open("lengths.json", "w", encoding="ascii") as file:
        lines = [f' "{kind}": [\n' + ",\n".join("  " + json.dumps(case, separators=(",", ":"))
                                                for case in cases[kind]) + "\n ]"
                 for kind in cases]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
