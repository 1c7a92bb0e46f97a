# SPDX-License-Identifier: Apache-2.0
"""Further members of samples in Python: rows of bytes, their values and offsets as arrays."""
import os
import subprocess

import pytest

import millrace as mr

from support import module, write_tar

numpy, torch = module("numpy"), module("torch")
CAPTIONS = [b"", b"a dog", None, b"two cats on a roof", b"x" * 40, None, b"seven"]


@pytest.fixture(scope="module")
def shard(images, tmp_path_factory):
    dataset, members = mr.Dataset(images), {}
    pictures = [name for name in map(dataset.name, range(len(dataset))) if name.endswith(".jpg")]
    for i, caption in enumerate(CAPTIONS):
        with open(pictures[i % len(pictures)], "rb") as file:
            members.update({f"{i}.jpg": file.read(), f"{i}.cls": b"%d" % i})
        if caption is not None:
            members[f"{i}.txt"] = caption
    return write_tar(tmp_path_factory.mktemp("kept") / "t.tar", members)


@pytest.fixture
def batch(make_loader, shard):
    return make_loader(dataset=f"tar:{shard}?keep=txt:40",
                       batch_size=len(CAPTIONS),
                       num_workers=0,
                       no_shuffle=True).next()


def test_rows_are_bytes(batch):
    rows = batch["txt"]
    assert isinstance(rows, mr.Rows)
    assert rows is batch["txt"]
    assert rows.tolist() == [caption or b"" for caption in CAPTIONS]
    assert (len(rows), rows.max_length, rows[3], rows[-1]) == (7, 40, CAPTIONS[3], CAPTIONS[6])
    assert rows.values.shape == (sum(len(caption or b"") for caption in CAPTIONS),)
    assert rows.values.tobytes() == b"".join(caption or b"" for caption in CAPTIONS)
    with pytest.raises(IndexError):
        rows[7]
    assert "7 rows of up to 40 on" in repr(rows)
    assert batch.keys()[5:] == ["txt", "txt.offsets"]


@pytest.mark.skipif(not numpy or not torch, reason="NumPy and torch are not both here, or too old")
def test_other_libraries_take_values_and_offsets(batch):
    values, offsets = torch.from_dlpack(batch["txt"].values), torch.from_dlpack(
        batch["txt"].offsets)
    assert (values.dtype, offsets.dtype) == (torch.uint8, torch.int64)
    assert bytes(values[offsets[3]:offsets[4]].tolist()) == CAPTIONS[3]
    assert numpy.asarray(batch["txt"].values).tobytes() == batch["txt"].values.tobytes()


def test_members_of_folders_lists_and_packs(images, make_loader, tmp_path):
    dataset, notes = mr.Dataset(images), {}
    for i in range(0, len(dataset), 2):
        name = os.path.relpath(dataset.name(i), images)
        place = tmp_path / "notes" / (os.path.splitext(name)[0] + ".txt")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(notes.setdefault(i, b"note %d" % i))
    folder = f"imagefolder:{images}?extra=note:16:.txt:{tmp_path}/notes"
    for command in (["pack", folder, "pack"], ["list", "--save", "list.txt", folder]):
        subprocess.run([os.environ["MR_COMMAND"], *command],
                       check=True,
                       cwd=tmp_path,
                       stdout=subprocess.DEVNULL)
    for source in (folder, f"list:{tmp_path}/list.txt?extra=note:16", f"pack:{tmp_path}/pack"):
        seen = {}
        for batch in make_loader(dataset=source):
            seen.update(zip(batch.index.tolist(), batch["note"].tolist()))
        assert seen == {i: notes.get(i, b"") for i in range(len(dataset))}


def test_copies_and_tensors_hold_their_rows(make_loader, shard):
    def first():
        return make_loader(dataset=f"tar:{shard}?keep=txt:40",
                           batch_size=7,
                           num_workers=0,
                           no_shuffle=True).next()

    rows = first()["txt"]  # the batch itself is gone
    assert rows[1] == CAPTIONS[1]
    if torch is not None:
        values = torch.from_dlpack(rows.values)
        del rows
        assert bytes(values[:5].tolist()) == CAPTIONS[1]
