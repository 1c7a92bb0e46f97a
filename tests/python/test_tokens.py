# SPDX-License-Identifier: Apache-2.0
"""Rows of token ids. The goldens are those of megatron-core (tests/data/make_megatron.py); windows
are compared with the list of all tokens.
"""
import array
import base64
import hashlib
import json
import os
import struct
import subprocess
import sys

import pytest

import millrace as mr

GOLDENS = os.path.join(os.path.dirname(__file__), "..", "data", "megatron_orders.json")


def write_corpus(folder, lengths):
    """PREFIX.bin and PREFIX.idx as Megatron-Core writes them; token i is i."""
    total = sum(lengths)
    with open(f"{folder}/x.bin", "wb") as file:
        file.write(array.array("i", range(total)).tobytes())
    with open(f"{folder}/x.idx", "wb") as file:
        n = len(lengths)
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, n, n + 1))
        file.write(struct.pack(f"<{n}i", *lengths))
        file.write(struct.pack(f"<{n}q", *(4 * sum(lengths[:i]) for i in range(n))))
        file.write(struct.pack(f"<{n + 1}q", *range(n + 1)))
    return f"{folder}/x.bin"


def spec_of(path, case):
    keys = {"window": case["window"], "order": "megatron", "seed": case["seed"],
            "split": case["split"], "part": case["part"], "add_extra_token": case["extra"],
            "eod": 5, "eod_mask_loss": case["eod_mask_loss"],
            "reset_position_ids": case["reset_position_ids"]}
    if case["samples"]:
        keys["samples"] = case["samples"]
    if case["keep"] and case["part"] == "valid":
        keys["last_partial"] = "keep"
    return f"tokens:{path}?" + "&".join(f"{key}={value}" for key, value in keys.items())


def digest_rows(loader, window):
    digest, n = hashlib.sha256(), 0
    always = {"position_ids": array.array("q", range(window)).tobytes(),
              "loss_mask": array.array("f", [1] * window).tobytes()}
    for batch in loader:
        rows = len(batch["index"].tolist())
        columns = {name: batch[name].tobytes() for name in batch.keys()}
        for i in range(rows):
            for name in "tokens", "labels", "position_ids", "loss_mask":
                size = len(columns[name]) // rows if name in columns else 0
                row = columns[name][i * size:(i + 1) * size] if size else always[name]
                digest.update(row)
        n += rows
    return n, digest.hexdigest()


with open(GOLDENS, encoding="ascii") as goldens:
    CASES = json.load(goldens)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_order_is_megatrons(tmp_path, number):
    case = CASES[number]
    spec = spec_of(write_corpus(tmp_path, case["lengths"]), case)
    loader = mr.Loader(spec, batch_size=7, num_workers=number % 3, no_shuffle=True)
    assert digest_rows(loader, case["window"]) == (case["n_rows"], case["sha256"]), spec


def test_windows_are_slices(tmp_path):
    tokens = array.array("H", [i * 7919 % 50257 for i in range(5000)])
    (tmp_path / "raw.bin").write_bytes(tokens.tobytes())
    loader = mr.Loader(f"tokens:{tmp_path}/raw.bin?dtype=u16&window=32&stride=5", batch_size=16,
                       num_workers=2, seed=1)
    n = 0
    for batch in loader:
        rows = zip(batch["index"].tolist(), batch["tokens"].tolist(), batch["labels"].tolist())
        for index, row, labels in rows:
            assert row == tokens[index * 5:index * 5 + 32].tolist()
            assert labels == tokens[index * 5 + 1:index * 5 + 33].tolist()
            n += 1
    assert n == 1 + (5000 - 33) // 5


@pytest.mark.parametrize("num_workers", [0, 2])
def test_documents_are_padded_rows(tmp_path, num_workers):
    lengths = [3, 0, 7, 1, 5, 6, 2]
    path = write_corpus(tmp_path, lengths)
    loader = mr.Loader(f"tokens:{path}?window=5&pack=none&eod=4&eod_mask_loss=1"
                       "&reset_position_ids=1", batch_size=3, num_workers=num_workers,
                       no_shuffle=True)
    first, second, last = [{name: batch[name].tolist() for name in batch.keys()}
                           for batch in loader]
    assert first["length"] == [3, 0, 5]  # an empty document is a row without tokens
    assert first["tokens"] == [[0, 1, 2, 0, 0], [0] * 5, [3, 4, 5, 6, 7]]
    assert first["labels"] == [[1, 2, -100, -100, -100], [-100] * 5, [4, 5, 6, 7, 8]]
    assert first["loss_mask"] == [[1, 1, 0, 0, 0], [0] * 5, [1, 0, 1, 1, 1]]
    assert first["position_ids"] == [[0, 1, 2, 0, 0], [0] * 5, [0, 1, 0, 1, 2]]
    assert second["labels"] == [[-100] * 5, [12, 13, 14, 15, -100], [17, 18, 19, 20, 21]]
    assert last["tokens"] == [[22, 23]] and last["labels"] == [[23, -100]]


with open(os.path.join(os.path.dirname(GOLDENS), "mds.json"), encoding="ascii") as shards:
    MDS = json.load(shards)
DTYPES = {"int64": "i64", "uint16": "u16", "int32": "i32", "uint32": "u32", "uint8": "u8"}


@pytest.mark.parametrize("number", range(len(MDS)))
def test_shards_of_mosaicml(tmp_path, number):
    """Rows are windows of each sample, as mosaicml-streaming reads it (make_mds.py)."""
    case, window, stride = MDS[number], 15, 4
    for name, text in case["files"].items():
        (tmp_path / name).write_bytes(base64.b64decode(text))
    spec = f"tokens:{tmp_path}/index.json?window={window}&stride={stride}"
    if case["encoding"] == "bytes":
        spec += "&dtype=" + DTYPES[case["dtype"]]
    rows = [sample[i:i + window + 1] for sample in case["samples"]
            for i in range(0, len(sample) - window, stride)]
    loader = mr.Loader(spec, batch_size=4, num_workers=number % 3, no_shuffle=True, tail="exact")
    got = [tokens + labels[-1:] for batch in loader
           for tokens, labels in zip(batch["tokens"].tolist(), batch["labels"].tolist())]
    assert got == rows


@pytest.mark.parametrize("keys, words", [
    ("window=4&order=megatron&split=1,1", "split needs part="),
    ("window=4&order=megatron&split=1,x&part=train", "split '1,x' is not up to 3 weights"),
    ("window=4&order=megatron&split=1,0,0&part=valid", "leaves none for valid"),
    ("window=4&order=megatron&part=all", "part 'all' is none of train, valid, test"),
    ("window=4&order=keyed", "order 'keyed' is none of megatron"),
    ("window=4&order=megatron&stride=2", "stride is not for order=megatron"),
    ("window=4&order=megatron&dtype=u16", "x.bin has tokens of i32, but dtype is u16"),
    ("window=4&seed=2", "tokens has no key 'seed'"),
    ("window=4&reset_position_ids=1", "reset_position_ids needs eod="),
    ("window=400&order=megatron", "give 0 rows"),
])
def test_wrong_keys_are_named(tmp_path, keys, words):
    path = write_corpus(tmp_path, [10, 20, 30])
    with pytest.raises(mr.Error) as caught:
        mr.Loader(f"tokens:{path}?{keys}", batch_size=1)
    assert words in str(caught.value)


@pytest.mark.parametrize("keys, words, n", [
    ("window=4", "x.bin#1 (index 1): token 4 is 8, but vocab is 8", 2),
    ("window=4&pack=none", "x.bin#3 (index 3): token 0 is 10, but vocab is 8", 4),
    ("window=4&pack=bfd", "x.bin (packed, index 2): token 5 is 8, but vocab is 8", 4),
])
def test_check_finds_ids_outside_the_vocabulary(tmp_path, keys, words, n):
    path = write_corpus(tmp_path, [3, 0, 7, 2])

    def check(vocab):
        return subprocess.run([os.environ["MR_COMMAND"], "check",
                               f"tokens:{path}?{keys}&vocab={vocab}"], capture_output=True,
                              text=True, check=False)

    found = check(8)
    assert words in found.stdout and found.returncode == 1
    assert f" of {n} samples damaged" in found.stdout
    assert check(12).returncode == 0


def test_a_row_may_have_no_token(tmp_path):
    """float32 gives one row more than there are tokens for; Megatron-Core pads it."""
    window, n = 65797, 255 * 65797
    (tmp_path / "z.bin").write_bytes(b"\x01" * n)
    (tmp_path / "z.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, 1, 1, 2, n, 0, 0, 1))
    loader = mr.Loader(f"tokens:{tmp_path}/z.bin?window={window}&order=megatron&add_extra_token=0"
                       "&last_partial=keep", batch_size=1, num_workers=0, no_shuffle=True)
    sums = [tuple(sum(batch[name].tobytes()) for name in ("tokens", "labels", "loss_mask"))
            for batch in loader]
    assert len(sums) == 256
    assert sums.count((0, 0, 0)) == 1
    assert sum(row[0] for row in sums) == n


def test_the_order_needs_an_index(tmp_path):
    (tmp_path / "y.bin").write_bytes(bytes(100))
    with pytest.raises(mr.Error, match="needs a file PREFIX.bin with PREFIX.idx beside it"):
        mr.Loader(f"tokens:{tmp_path}/y.bin?window=4&order=megatron", batch_size=1)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("keys", ["order=megatron", "pack=none", "stride=16"])
@pytest.mark.parametrize("shrunk", ["x.bin", "x.idx"])
def test_files_that_shrink_are_damage(tmp_path, num_workers, keys, shrunk):
    """In the middle of an epoch; windows do not look at the .idx after opening."""
    path = write_corpus(tmp_path, [17] * 20000)
    loader = mr.Loader(f"tokens:{path}?window=16&{keys}", batch_size=8, num_workers=num_workers,
                       no_shuffle=True)
    words = "shrank from" if shrunk == "x.idx" else "x.bin"
    n_batches = 0
    try:
        for batch in loader:
            n_batches += 1
            if n_batches == 3:
                os.truncate(f"{tmp_path}/{shrunk}", 1000)
    except mr.Error as error:
        assert words in str(error)
        if num_workers == 0:
            assert isinstance(error, mr.DamagedError)
    else:
        assert (keys, shrunk) == ("stride=16", "x.idx")
    assert n_batches >= 3


FIND_ORDER = """
import sys
import millrace as mr
loader = mr.Loader(sys.argv[1], batch_size=1)
with open("/proc/self/maps") as maps:
    print(*{line.split()[4] for line in maps if "millrace-order-" in line})
"""


def test_processes_share_an_order(tmp_path):
    spec = f"tokens:{write_corpus(tmp_path, [10, 20, 30])}?window=4&order=megatron"

    def find_order(text):
        found = subprocess.run([sys.executable, "-c", FIND_ORDER, text], capture_output=True,
                               text=True, check=True)
        return found.stdout.split()

    loader = mr.Loader(spec, batch_size=1)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mine = {line.split()[4] for line in maps if "millrace-order-" in line}
    assert len(mine) == 1
    assert find_order(spec) == list(mine)
    assert find_order(spec + "&seed=2") != list(mine)
    os.utime(tmp_path / "x.idx", (1, 1))  # another file: its order may be another
    assert find_order(spec) != list(mine)
    loader.close()
