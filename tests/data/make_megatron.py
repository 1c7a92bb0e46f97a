#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make megatron_orders.json: what GPTDataset of megatron-core 0.16.1 gives for small corpora.

Run it with megatron-core 0.16.1, torch and NumPy, in an empty folder, and move the file here. Token i
of a corpus is i, so a row shows where its tokens are from; the id 5 ends documents. Each case has
the SHA-256 of all its rows: tokens, labels and positions as i64, the loss mask as f32.

GPTDataset keeps its first loss mask, also if that row was padded, and uses it for all rows. The
script switches that off, so each row has its own mask.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import tempfile

import numpy
import torch
from megatron.core.datasets.blended_megatron_dataset_config import (
    convert_split_vector_to_split_matrix, parse_and_normalize_split)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
from megatron.core.datasets.utils import Split

PARTS = ["train", "valid", "test"]


class Tokenizer:
    vocab_size = 1 << 30
    eod = 5
    pad = -1
    unique_identifiers = {}


def make_case(rng):
    longest = rng.choice([4, 30, 300])
    return {
        "lengths": [rng.randint(1, longest) for _ in range(rng.randint(3, 40))],
        "window": rng.choice([2, 7, 16, 33]), "seed": rng.choice([0, 1, 1234, 2**32 - 1]),
        "split": rng.choice(["969,30,1", "100,0,0", "1,1,1", "70,20,10", ".5,.5", "3,2"]),
        "part": rng.choice(PARTS), "samples": rng.choice([0, rng.randint(1, 300)]),
        "extra": rng.choice([0, 1, 1]), "keep": rng.choice([0, 1]),
        "eod_mask_loss": rng.choice([0, 1]), "reset_position_ids": rng.choice([0, 1]),
    }


@contextlib.contextmanager
def open_case(case):
    """(the GPTDataset, the prefix of its files), or (None, None) if the split is empty."""
    lengths = case["lengths"]
    part = PARTS.index(case["part"])
    ends = convert_split_vector_to_split_matrix(parse_and_normalize_split(case["split"]))[part]
    begin, end = (int(round(x * float(len(lengths)))) for x in ends or (0, 0))
    if begin == end:
        yield None, None
        return
    folder = tempfile.mkdtemp(dir=".")
    builder = IndexedDatasetBuilder(f"{folder}/x.bin", dtype=numpy.int32)
    at = 0
    for n in lengths:
        builder.add_document(torch.arange(at, at + n), [n])
        at += n
    builder.finalize(f"{folder}/x.idx")
    config = GPTDatasetConfig(
        random_seed=case["seed"], sequence_length=case["window"],
        blend=([f"{folder}/x"], None), split=case["split"], path_to_cache=f"{folder}/cache",
        tokenizer=Tokenizer(), reset_position_ids=bool(case["reset_position_ids"]),
        reset_attention_mask=False, eod_mask_loss=bool(case["eod_mask_loss"]),
        create_attention_mask=False, drop_last_partial_validation_sequence=not case["keep"],
        add_extra_token_to_sequence=bool(case["extra"]), mid_level_dataset_surplus=0.005)
    dataset = GPTDataset(IndexedDataset(f"{folder}/x"), f"{folder}/x",
                         numpy.arange(begin, end, dtype=numpy.int32), case["samples"] or None,
                         list(Split)[part], config)
    dataset.masks_and_position_ids_are_cacheable = False
    yield dataset, f"{folder}/x"
    shutil.rmtree(folder)


def run_case(case):
    """(number of rows, SHA-256), or None if there are no rows."""
    with open_case(case) as (dataset, _):
        if not dataset:
            return None
        digest = hashlib.sha256()
        for i in range(len(dataset)):
            row = dataset[i]
            for name in "tokens", "labels", "position_ids", "loss_mask":
                digest.update(row[name].numpy().tobytes())
        return len(dataset), digest.hexdigest()


def main():
    rng = random.Random(1)
    cases = []
    while len(cases) < 60:
        case = make_case(rng)
        result = run_case(case)
        if result:
            cases.append(dict(case, n_rows=result[0], sha256=result[1]))
    with open("megatron_orders.json", "w", encoding="ascii") as file:
        file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(len(cases), "cases", os.path.getsize("megatron_orders.json"), "bytes")


if __name__ == "__main__":
    main()
