# SPDX-License-Identifier: Apache-2.0
"""Packed rows and labels in Python: the arrays arrive, and are what kernels and trainers take."""
import pytest

import millrace as mr
from test_tokens import write_corpus

LENGTHS = [5, 0, 3, 12, 7, 2, 9, 30, 1, 4, 6, 11]


def rows_of(loader):
    """{index: {array: row}}"""
    rows = {}
    for batch in loader:
        columns = {name: batch[name].tolist() if hasattr(batch[name], "tolist") else batch[name]
                   for name in batch.keys()}
        for name in "document", "cu_seqlens":
            ends = columns[name + ".offsets"]
            flat = columns[name]
            if flat and isinstance(flat[0], list):
                continue
            columns[name] = [flat[a:b] for a, b in zip(ends, ends[1:])]
        for i, index in enumerate(columns["index"]):
            rows[index] = {name: column[i] for name, column in columns.items()}
    return rows


def test_rows_of_bfd(tmp_path):
    path = write_corpus(tmp_path, LENGTHS)
    loader = mr.Loader(f"tokens:{path}?window=10&pack=bfd&pack_window=6&pad=999", batch_size=4,
                       num_workers=1, no_shuffle=True, dtype="i32")
    rows = rows_of(loader)
    # documents 3, 4, 0, 2, 5 by length, then 7, 11, 6, 10, 9, 8
    assert [rows[i]["document"] for i in range(6)] == [
        [3], [4, 2], [0, 5], [7], [11], [6, 8]]
    assert rows[6]["document"] == [10, 9] and len(rows) == 7
    row = rows[2]
    assert row["tokens"] == [0, 1, 2, 3, 4, 27, 28, 999, 999, 999]
    assert row["labels"] == [1, 2, 3, 4, 27, 28, -100, -100, -100, -100]
    assert row["position_ids"] == [0, 1, 2, 3, 4, 0, 1, 0, 1, 2]
    assert row["loss_mask"] == [1] * 6 + [0] * 4
    assert row["cu_seqlens"] == [0, 5, 7, 10]
    assert row["max_seqlen"] == 5
    assert rows[0]["cu_seqlens"] == [0, 10] and rows[0]["max_seqlen"] == 10


def test_labels_of_trl(tmp_path):
    path = write_corpus(tmp_path, LENGTHS)
    loader = mr.Loader(f"tokens:{path}?window=10&pack=bfd&pad=999&labels=same&mask_first=1",
                       batch_size=1, num_workers=0, no_shuffle=True)
    for row in rows_of(loader).values():
        expected = [-100 if token == 999 or position == 0 else token
                    for token, position in zip(row["tokens"], row["position_ids"])]
        assert row["labels"] == expected


@pytest.mark.parametrize("pack", ["wrapped", "first_fit", "bfd", "bfd_split"])
def test_epochs_have_their_own_length(tmp_path, pack):
    path = write_corpus(tmp_path, LENGTHS * 50)
    loader = mr.Loader(f"tokens:{path}?window=16&pack={pack}&pack_window=40", batch_size=3,
                       num_workers=2, seed=1)
    for epoch in range(3):
        loader.set_epoch(epoch)
        n_batches = len(loader)
        rows = rows_of(loader)
        assert sorted(rows) == list(range(len(rows)))
        assert n_batches == (len(rows) + 2) // 3


def test_same_labels_of_windows(tmp_path):
    path = write_corpus(tmp_path, LENGTHS)
    loader = mr.Loader(f"tokens:{path}?window=18&labels=same", batch_size=5, num_workers=1,
                       no_shuffle=True)
    batch = next(iter(loader))
    assert batch["tokens"].tolist() == batch["labels"].tolist()
    assert batch["tokens"].tolist()[4] == list(range(72, 90))  # the last window needs no label more


@pytest.mark.parametrize("keys, words", [
    ("window=8&pack=best", "pack 'best' is none of none, wrapped, first_fit, bfd, bfd_split"),
    ("window=8&pack=bfd&pack_window=0", "pack_window=0 needs pack=wrapped, not bfd"),
    ("window=8&pack=bfd&pack_window=16777217", "pack_window"),
    ("window=8&pack=bfd&reset_position_ids=1&eod=1", "reset_position_ids is not for pack=bfd"),
    ("window=8&pack=bfd&stride=4", "stride is not for pack"),
    ("window=8&pack=bfd&order=megatron", "order=megatron and pack exclude each other"),
    ("window=8&pack=bfd&pad=7&vocab=7", "pad 7 is not below vocab 7"),
    ("window=8&pack=bfd&eod_mask_loss=1", "eod_mask_loss needs eod="),
    ("window=8&order=megatron&labels=same", "labels=same is not for order=megatron"),
    ("window=8&labels=next", "labels 'next' is none of shifted, same"),
    ("window=8&pad=3", "tokens has no key 'pad'"),
])
def test_wrong_keys_are_named(tmp_path, keys, words):
    path = write_corpus(tmp_path, LENGTHS)
    with pytest.raises(mr.Error) as caught:
        mr.Loader(f"tokens:{path}?{keys}", batch_size=1)
    assert words in str(caught.value)


def test_files_without_documents_are_refused(tmp_path):
    (tmp_path / "raw.bin").write_bytes(bytes(100))
    with pytest.raises(mr.Error, match="needs a file PREFIX.bin with PREFIX.idx beside it"):
        mr.Loader(f"tokens:{tmp_path}/raw.bin?window=4&pack=bfd&dtype=u16", batch_size=1)


def test_dtypes_without_a_sign_are_refused(tmp_path):
    path = write_corpus(tmp_path, LENGTHS)
    with pytest.raises(mr.Error, match="dtype u16: tokens are i32 or i64"):
        mr.Loader(f"tokens:{path}?window=4&pack=bfd", batch_size=1, dtype="u16")


def test_mixtures_of_packed_documents_are_refused(tmp_path):
    path = write_corpus(tmp_path, LENGTHS)
    spec = f"1*(tokens:{path}?window=4&pack=bfd)"
    with pytest.raises(mr.Error, match="source 0 of the mixture packs its documents"):
        mr.Loader(f"mix:{spec}|{spec}", batch_size=1)


def test_documents_without_a_token_are_refused(tmp_path):
    path = write_corpus(tmp_path, [0, 0, 0])
    with pytest.raises(mr.Error, match="3 documents without a token cannot be packed"):
        mr.Loader(f"tokens:{path}?window=4&pack=bfd", batch_size=1)
