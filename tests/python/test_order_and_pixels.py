# SPDX-License-Identifier: Apache-2.0
"""What Python receives is what `millrace export` writes: the same indices, labels and bytes, epoch
by epoch.
"""
import json
import os
import subprocess

import pytest

import millrace as mr

from support import indices, npy_bytes, write_npy

TRANSFORM = "train:32"


@pytest.fixture
def export(images, tmp_path):
    """Runs the command, and returns the bytes of images, labels and indices of one epoch."""
    def run(transform=TRANSFORM, **options):
        words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        subprocess.run([
            os.environ["MR_COMMAND"], "export", images, f"--transform={transform}",
            f"--out={tmp_path}/x.npy", *words
        ],
                       check=True,
                       capture_output=True)
        return [npy_bytes(f"{tmp_path}/x{suffix}.npy") for suffix in ("", ".labels", ".indices")]

    return run


def read(loader):
    found = [b"", b"", b""]
    for batch in loader:
        for i, array in enumerate((batch.image, batch.label, batch.index)):
            found[i] += array.tobytes()
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_are_those_of_the_command(make_loader, export, workers):
    loader = make_loader(TRANSFORM, num_workers=workers, seed=5)
    for epoch in range(3):  # without set_epoch(): each pass is the next epoch
        assert read(loader) == export(seed=5, epoch=epoch, batch_size=4, workers=0)
    loader.set_epoch(1)
    assert read(loader) == export(seed=5, epoch=1, workers=0)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("dtype, layout", [("f32", "nhwc"), ("f16", "nchw"), ("bf16", "nchw")])
def test_ranks_and_dtypes_are_those_of_the_command(make_loader, export, rank, dtype, layout):
    options = {"rank": rank, "world_size": 2, "tail": "drop", "dtype": dtype, "layout": layout}
    assert read(make_loader(TRANSFORM, num_workers=1, batch_size=None,
                            **options)) == export(workers=0, **options)


def test_buffers_of_a_device_have_the_same_bytes(make_loader, export):
    assert read(make_loader(TRANSFORM, device="host:1")) == export(workers=0)


def test_parts_are_the_batch_in_order(make_loader):
    loader, seen = make_loader(TRANSFORM,
                               batch_size=6,
                               no_shuffle=True,
                               devices=["host:0", "host:1"]), []
    assert loader.options["devices"] == ["host:0", "host:1"]
    for batch in loader:
        with pytest.raises(KeyError, match="has its arrays in .parts"):
            batch.image
        parts = batch.parts
        assert sum(part.size for part in parts) == batch.size
        seen += indices(parts)
    assert seen == list(range(21))


def explained(export, path, **options):
    """Rows of export --explain."""
    export(workers=0, explain=path, **options)
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_explain_gives_the_calls_of_export(tmp_path, export):
    rows = explained(export, tmp_path / "lines.jsonl", seed=3, epoch=2)
    assert len(rows) == 21
    for row in rows:
        width, height = row["size"]
        assert mr.explain(TRANSFORM, 3, 2, row["index"], width, height) == row["calls"]
    assert mr.explain(mr.Transform(TRANSFORM), 3, 2, row["index"], width, height) == row["calls"]


def test_explain_has_the_boxes_that_are_erased(tmp_path, export):
    erasing = "train:32+normalize(mean=0.5,std=0.5)+random_erasing(0.8,value=random)"
    rows = explained(export, tmp_path / "lines.jsonl", transform=erasing, seed=3, dtype="f32")
    assert len(rows) == 21
    assert any(row["after"] for row in rows) and not all(row["after"] for row in rows)
    for row in rows:
        assert mr.explain(erasing, 3, 0, row["index"], *row["size"]) == row["calls"] + row["after"]


def test_explain_knows_occurrences(tmp_path, export):
    weights = write_npy(tmp_path / "weights.npy", range(1, 22))
    rows = explained(export, tmp_path / "lines.jsonl", seed=3, weights=weights, draws=60)
    assert len(rows) == 60
    assert max(row["occurrence"] for row in rows) >= 2
    drawn = {}
    for row in rows:
        calls = mr.explain(TRANSFORM, 3, 0, row["index"], *row["size"], row["occurrence"])
        assert calls == row["calls"]
        assert calls not in drawn.setdefault(row["index"], [])
        drawn[row["index"]].append(calls)


def test_records_are_data(make_loader, tmp_path):
    (tmp_path / "tokens").write_bytes(bytes(range(200)))
    loader = make_loader(None, f"records:{tmp_path}/tokens?dtype=u16&shape=5", no_shuffle=True)
    batches = [batch.data.tolist() for batch in loader]
    assert [len(b) for b in batches] == [4] * 5
    assert batches[0][0] == [256 * (2 * i + 1) + 2 * i for i in range(5)]


def test_a_dataset_is_open_once(images):
    dataset = mr.Dataset(images)
    assert len(dataset) == 21
    assert len(dataset.classes) == 3
    assert dataset.label(20) == 2
    assert dataset.classes[2] in dataset.name(20)
    with pytest.raises(mr.InvalidError):
        dataset.name(21)
    assert dataset.inspect(0)["format"] in ("jpeg", "png")
    with mr.Loader(dataset, "eval:40:32", num_workers=0) as a, mr.Loader(dataset,
                                                                         "none",
                                                                         batch_size=1) as b:
        assert next(iter(a)).image.shape == (21, 3, 32, 32)
        assert a.dataset is b.dataset
