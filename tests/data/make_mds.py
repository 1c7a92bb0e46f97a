#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make mds.json: small datasets as mosaicml-streaming 0.13.0 writes them, and what it reads there.

Run it with mosaicml-streaming and NumPy in an empty folder, and move the file here. Each case has
the files of a dataset in base64, and the tokens of each sample.
"""

import base64
import json
import os
import tempfile

import numpy
from streaming import MDSWriter
from streaming.base.format import reader_from_json

CASES = [
    # dtype, encoding, lengths of samples, limit of a shard
    ("int64", "bytes", [17] * 6, 500),
    ("uint16", "bytes", [3, 40, 9, 40], None),
    ("int32", "ndarray:int32:16", [16] * 5, 450),
    ("uint16", "ndarray:uint16", [255, 256, 257, 1, 2], None),
    ("uint32", "ndarray:uint32", [30, 30, 31, 30], None),
    ("int32", "ndarray", [5, 60, 60, 300], 700),  # the first shard of some has no sample
    ("uint8", "ndarray", [255, 256], None),
]


def read(folder, index, dtype):
    samples = []
    for shard in index["shards"]:
        reader = reader_from_json(folder, "", shard)
        for i in range(len(reader)):
            value = reader[i]["tokens"]
            value = numpy.frombuffer(value, dtype) if isinstance(value, bytes) else value
            samples.append(value.tolist())
    return samples


def main():
    rng = numpy.random.default_rng(1)
    lines = []
    for dtype, encoding, lengths, limit in CASES:
        folder = tempfile.mkdtemp(dir=".")
        high = min(int(numpy.iinfo(dtype).max), 50000)
        arrays = [rng.integers(0, high, n).astype(dtype) for n in lengths]
        with MDSWriter(columns={"tokens": encoding}, out=folder, size_limit=limit,
                       exist_ok=True) as writer:
            for tokens in arrays:
                writer.write({"tokens": tokens.tobytes() if encoding == "bytes" else tokens})
        files = {name: base64.b64encode(open(os.path.join(folder, name), "rb").read()).decode()
                 for name in sorted(os.listdir(folder))}
        samples = read(folder, json.loads(base64.b64decode(files["index.json"])), dtype)
        assert samples == [tokens.tolist() for tokens in arrays]
        lines.append(json.dumps({"dtype": dtype, "encoding": encoding, "files": files,
                                 "samples": samples}, separators=(",", ":")))
    with open("mds.json", "w", encoding="ascii") as out:
        out.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
