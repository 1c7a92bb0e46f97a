#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare order=megatron with megatron-core 0.16.1 on random corpora: compare_megatron.py [N [SEED]]

Run it with megatron-core, torch and NumPy, in an empty folder. For each corpus, ranks of worlds of
1, 2 and 4 load their slices, as MegatronPretrainingSampler deals them (Megatron-LM, commit
d98e8a64), and tokens, labels, loss masks and positions are compared with those of GPTDataset. Token
i of a corpus is i, so equal tokens are equal indices.
"""

import logging
import random
import sys

import numpy

import make_megatron
import millrace as mr

COLUMNS = ["tokens", "labels", "loss_mask", "position_ids"]


def deal(n, world, rank, size):
    """MegatronPretrainingSampler with drop_last."""
    for begin in range(0, n - n % (world * size), world * size):
        yield from range(begin + rank * size, begin + (rank + 1) * size)


def load(spec, window, **options):
    loader = mr.Loader(spec, num_workers=0, no_shuffle=True, rank_slices=True, drop_last=True,
                       tail="drop", **options)
    always = {"loss_mask": numpy.ones(window), "position_ids": numpy.arange(window)}
    for batch in loader:
        columns = {name: numpy.asarray(batch[name]) for name in batch.keys()}
        for i in range(len(columns["index"])):
            yield [columns[name][i] if name in columns else always[name] for name in COLUMNS]


def spec_of(path, case):
    keys = {"window": case["window"], "order": "megatron", "seed": case["seed"], "eod": 5,
            "split": case["split"], "part": case["part"], "add_extra_token": case["extra"],
            "eod_mask_loss": case["eod_mask_loss"],
            "reset_position_ids": case["reset_position_ids"]}
    if case["samples"]:
        keys["samples"] = case["samples"]
    if case["keep"] and case["part"] == "valid":
        keys["last_partial"] = "keep"
    return f"tokens:{path}?" + "&".join(f"{key}={value}" for key, value in keys.items())


def compare(case, dataset, prefix, rng):
    """Number of rows compared, of all worlds."""
    wanted = [dataset[i] for i in range(len(dataset))]
    spec, n_rows = spec_of(f"{prefix}.bin", case), 0
    for world in 1, 2, 4:
        size = rng.randint(1, 9)
        for rank in range(world if len(wanted) >= world * size else 0):
            rows = load(spec, case["window"], batch_size=size, world_size=world, rank=rank)
            for i in deal(len(wanted), world, rank, size):
                row = next(rows)
                for name, got in zip(COLUMNS, row):
                    assert (got == wanted[i][name].numpy()).all(), (spec, world, rank, i, name)
                n_rows += 1
            assert next(rows, None) is None, (spec, world, rank)
    return n_rows


def main():
    logging.disable(logging.CRITICAL)
    n_cases = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    n_compared = n_rows = n_epochs = 0
    while n_compared < n_cases:
        case = make_megatron.make_case(rng)
        with make_megatron.open_case(case) as (dataset, prefix):
            if not dataset:
                continue
            n_rows += compare(case, dataset, prefix, rng)
            n_epochs += len(dataset.document_index) > len(dataset.indices)
            n_compared += 1
    print(f"{n_compared} corpora, {n_epochs} of several epochs: {n_rows} rows of worlds 1, 2 and 4 "
          "are equal")


if __name__ == "__main__":
    main()
