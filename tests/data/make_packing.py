#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make packing.json: how TRL 1.16 packs 200 random sets of documents.

Run it with trl 1.16.0, datasets and NumPy, and write its output here. Lengths are drawn by a
generator that tests/sampler/test_packing.c has too. Each case has the number of rows of each
strategy, and the CRC-32 of its pieces: row, document, first token in it, tokens, as u32.
"""
import json
import random
import sys
import zlib

import datasets
import numpy
import trl
from trl.data_utils import pack_dataset

STRATEGIES = ["wrapped", "bfd", "bfd_split"]


def draw_lengths(case):
    state, lengths = case["seed"], []
    for _ in range(case["n"]):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        lengths.append((state >> 33) % (case["longest"] + 1))
    return lengths


def cut(ids, seq_lengths, document_of):
    """(document, length, first id) of the pieces of a row."""
    if seq_lengths is None:  # wrapped: a piece ends where a document does
        pieces = []
        for i in ids:
            if pieces and document_of[i] == pieces[-1][0]:
                pieces[-1][1] += 1
            else:
                pieces.append([document_of[i], 1, i])
        return pieces
    begins = numpy.cumsum([0] + seq_lengths)
    assert begins[-1] == len(ids)
    return [[document_of[ids[b]], n, ids[b]] for b, n in zip(begins, seq_lengths)]


def pack(case, strategy):
    lengths = draw_lengths(case)
    begins = numpy.cumsum([0] + lengths)
    document_of = numpy.repeat(numpy.arange(len(lengths)), lengths).tolist()
    ids = [list(range(begins[i], begins[i + 1])) for i in range(len(lengths))]
    features = datasets.Features({"input_ids": datasets.Sequence(datasets.Value("int64"))})
    packed = pack_dataset(datasets.Dataset.from_dict({"input_ids": ids}, features=features),
                          case["row"], strategy, {"batch_size": case["window"]})
    record = []
    for r, row in enumerate(packed):
        for document, n, first in cut(row["input_ids"], row.get("seq_lengths"), document_of):
            record.append((r, document, first - begins[document], n))
    bytes_ = numpy.array(record, "<u4").tobytes()
    return {"rows": len(packed), "crc": "%08x" % zlib.crc32(bytes_)}


def make_case(rng):
    case = {"seed": rng.getrandbits(62), "n": rng.choice([1, 5, 40, 300, 2500]),
            "longest": rng.choice([1, 10, 30, 100]), "row": rng.choice([1, 2, 7, 16, 64, 100]),
            "window": rng.choice([1, 7, 100, 1000])}
    lengths, step = draw_lengths(case), case["window"]
    if not all(any(lengths[i:i + step]) for i in range(0, len(lengths), step)):
        return make_case(rng)  # TRL cannot pack a batch of empty documents
    case.update({strategy: pack(case, strategy) for strategy in STRATEGIES})
    return case


def main():
    datasets.disable_progress_bars()
    rng = random.Random(33)
    cases = [make_case(rng) for _ in range(200)]
    print('{"made_by": "make_packing.py, trl %s", "cases": [' % trl.__version__)
    print(" " + ",\n ".join(json.dumps(case) for case in cases) + "\n]}")


sys.exit(main())
