# SPDX-License-Identifier: Apache-2.0
"""Orders and batches by length. The goldens are those of transformers and fairseq
(tests/data/make_lengths.py).
"""
import array
import json
import os
import random
import subprocess

import pytest

import millrace as mr
from support import indices, npy_bytes, write_npy
from test_tokens import write_corpus

GOLDENS = os.path.join(os.path.dirname(__file__), "..", "data", "lengths.json")

with open(GOLDENS, encoding="ascii") as goldens:
    CASES = json.load(goldens)
    LONG = {kind: [case for case in cases if len(case["lengths"]) > 40]
            for kind, cases in CASES.items()}


def load(path, **options):
    return mr.Loader(f"tokens:{path}?window=1000&pack=none", **{"num_workers": 0, **options})


@pytest.mark.parametrize("number", range(9))
def test_the_order_is_that_of_transformers(tmp_path, number):
    case = LONG["grouped"][number]
    path = write_corpus(tmp_path, case["lengths"])
    options = {"batch_size": case["batch_size"], "group_by_length": 1, "seed": case["seed"] - 3,
               "epoch": 3, "num_workers": (0, 1, 8)[number % 3],
               "tail": "drop" if case["drop"] else "pad"}
    assert indices(load(path, **options)) == case["order"]
    for world, shards in case["shards"].items():
        assert [indices(load(path, **options, rank=rank, world_size=int(world)))
                for rank in range(int(world))] == shards


def test_a_group_may_have_several_batches(tmp_path):
    """As with gradient accumulation steps."""
    case = next(case for case in LONG["grouped"] if case["batch_size"] % 2 == 0)
    loader = load(write_corpus(tmp_path, case["lengths"]), batch_size=case["batch_size"] // 2,
                  group_by_length=2, seed=case["seed"])
    assert indices(loader) == case["order"]


@pytest.mark.parametrize("number", range(9))
def test_batches_are_those_of_fairseq(tmp_path, number):
    case = LONG["cut"][number]
    loader = load(write_corpus(tmp_path, case["lengths"]), num_workers=(0, 1, 8)[number % 3],
                  batch_multiple=case["multiple"],
                  **{key: case[key] for key in ("batch_size", "seed", "max_tokens")})
    assert len(loader) == len(case["sizes"])
    sizes = []
    for batch in loader:
        rows = batch["tokens"].tolist()
        longest = max(case["lengths"][i] for i in batch.index.tolist())
        assert all(len(row) == longest for row in rows)
        assert len(rows) * longest <= case["max_tokens"]
        sizes.append(len(rows))
    assert sizes == case["sizes"]


def batches_of(loader):
    return [batch.index.tolist() for batch in loader]


@pytest.fixture(name="path", scope="module")
def make_path(tmp_path_factory):
    rng = random.Random(5)
    return write_corpus(tmp_path_factory.mktemp("corpus"), [rng.randint(0, 60) for _ in range(203)])


CUT = {"batch_size": 8, "max_tokens": 150, "group_by_length": 1, "seed": 7}


@pytest.mark.parametrize("num_workers", [0, 1, 8])
def test_ranks_take_batches_by_turns(path, num_workers):
    whole = batches_of(load(path, **CUT))
    assert len({len(batch) for batch in whole}) > 2
    assert sorted(sum(whole, [])) == list(range(203))
    for world, tail in (2, "pad"), (4, "pad"), (4, "drop"), (4, "exact"):
        n = len(whole) // world if tail == "drop" else -(-len(whole) // world)
        full = whole + (whole if tail == "pad" else [[]] * world)
        for rank in range(world):
            loader = load(path, **CUT, rank=rank, world_size=world, tail=tail,
                          num_workers=num_workers)
            assert batches_of(loader) == full[rank:n * world:world]


@pytest.mark.parametrize("num_workers", [0, 1, 8])
def test_a_state_goes_on_with_the_next_batch(path, num_workers):
    whole = batches_of(load(path, **CUT, epoch=2))
    first = load(path, **CUT, epoch=2, world_size=2, rank=1, num_workers=num_workers)
    for _, batch in zip(range(6), first):
        pass
    assert batch.index.tolist() == whole[11]
    state = first.state_dict()
    for world in 1, 2, 4:
        loader = load(path, **CUT, world_size=world, num_workers=num_workers)
        loader.load_state_dict(state)
        assert batches_of(loader)[:2] == [whole[12], whole[12 + world]]
    del batch
    batches_of(first)
    ended = load(path, **CUT, num_workers=num_workers)
    ended.load_state_dict(first.state_dict())
    assert batches_of(ended) == []
    ended.set_epoch(3)
    assert batches_of(ended) == batches_of(load(path, **CUT, epoch=3))


def test_a_grouped_order_goes_on_in_mid_epoch(path):
    options = {"batch_size": 6, "group_by_length": 1, "seed": 2}
    whole = indices(load(path, **options))
    first = load(path, **options)
    for _, batch in zip(range(5), first):
        pass
    state = first.state_dict()
    shards = []
    for rank in range(5):
        loader = load(path, **options, rank=rank, world_size=5)
        loader.load_state_dict(state)
        shards.append(next(iter(loader)).index.tolist())
    assert [i for row in zip(*shards) for i in row] == whole[30:60]
    halves = load(path, batch_size=3, group_by_length=2, seed=2, rank=1, world_size=2)
    halves.load_state_dict(state)  # the same groups
    assert next(iter(halves)).index.tolist() == whole[31:36:2]
    with pytest.raises(mr.Error, match="another batch_size, group_by_length"):
        load(path, batch_size=3, group_by_length=1, seed=2).load_state_dict(state)


def test_export_writes_documents_without_padding(tmp_path):
    path = write_corpus(tmp_path, [3, 0, 7, 2])
    subprocess.run([os.environ["MR_COMMAND"], "export", f"tokens:{path}?window=5&pack=none",
                    "--out=x.npy", "--no-shuffle", "--batch-size=2", "--dtype=i32"], check=True,
                   cwd=tmp_path)
    read = {name: array.array("i", npy_bytes(tmp_path / f"x{name}.npy")).tolist()
            for name in ("", ".labels", ".length")}
    assert read == {"": [0, 1, 2, *range(3, 8), 10, 11], ".length": [3, 0, 5, 2],
                    ".labels": [1, 2, -100, *range(4, 9), 11, -100]}


def test_an_order_of_ones_own_has_full_batches(path):
    loader = load(path, **CUT)
    loader.set_epoch(0, range(20))
    assert [len(batch) for batch in batches_of(loader)] == [8, 8, 4]
    loader.set_epoch(0)
    assert batches_of(loader) == batches_of(load(path, **CUT))


def test_any_dataset_may_have_lengths(tmp_path):
    case = LONG["grouped"][0]
    n = len(case["lengths"])
    (tmp_path / "r.bin").write_bytes(array.array("i", range(n)).tobytes())
    lengths = write_npy(tmp_path / "lengths.npy", case["lengths"])
    options = {"batch_size": case["batch_size"], "group_by_length": 1, "seed": case["seed"]}
    spec = f"records:{tmp_path}/r.bin?dtype=i32&shape=1"
    loader = mr.Loader(spec, lengths=lengths, **options)
    assert indices(loader) == case["order"]
    assert loader.options["lengths"] == str(lengths)
    for values, words in (([1.5] * n, "the length 1.5 of sample 0 is not an integer from 0"),
                          ([1] * (n - 1) + [-1], f"the length -1 of sample {n - 1} is not"),
                          ([1] * (n + 1), f"{n + 1} lengths for {n} samples")):
        with pytest.raises(mr.InvalidError, match=words):
            mr.Loader(spec, lengths=write_npy(tmp_path / "bad.npy", values), **options)
    with pytest.raises(mr.InvalidError, match="group_by_length needs the lengths of the samples"):
        mr.Loader(spec, **options)


def test_the_drop_in_runs_the_samplers_of_transformers(tmp_path):
    utils = pytest.importorskip("transformers.trainer_pt_utils")
    torch = pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    from millrace.torch import DataLoader, ImageFolder

    for i in range(40):  # a class for each image
        os.mkdir(tmp_path / f"{i:02}")
        (tmp_path / f"{i:02}" / "x.pgm").write_bytes(b"P5 8 8 255\n" + bytes(64))
    dataset = ImageFolder(tmp_path, transform=transforms.ToTensor())
    lengths = [i * 7 % 13 for i in range(40)]

    def make():
        yield utils.LengthGroupedSampler(4, lengths=lengths,
                                         generator=torch.Generator().manual_seed(5))
        yield utils.DistributedLengthGroupedSampler(4, num_replicas=2, rank=1, lengths=lengths)

    for ours, theirs in zip(make(), make()):
        loader = DataLoader(dataset, batch_size=4, sampler=ours, num_workers=1)
        for _ in range(2):  # the generator goes on as with torch's DataLoader
            assert [label for _, labels in loader for label in labels.tolist()] == list(theirs)


@pytest.mark.parametrize("options, words", [
    ({"group_by_length": 1, "no_shuffle": True}, "group_by_length and no_shuffle exclude"),
    ({"group_by_length": 1, "order": "keyed"}, "group_by_length and the keyed order exclude"),
    ({"max_tokens": 100, "drop_last": True}, "max_tokens and drop_last exclude each other"),
    ({"max_tokens": 100, "rank_slices": True}, "max_tokens and rank_slices exclude each other"),
    ({"max_tokens": 100, "repeat": 2}, "max_tokens and repeat exclude each other"),
    ({"group_by_length": 1, "weight_values": [1] * 203}, "group_by_length and weights exclude"),
    ({"max_tokens": 20}, "has length .*, which is above max_tokens 20"),
    ({"max_tokens": 100, "world_size": 300, "tail": "drop"}, "makes fewer batches than world_size"),
    ({"batch_multiple": 2}, "batch_multiple needs max_tokens"),
    ({"lengths": "x.npy"}, "lengths needs group_by_length or max_tokens"),
])
def test_what_does_not_go_together_is_named(path, options, words):
    with pytest.raises(mr.InvalidError, match=words):
        load(path, **options)


def test_a_mixture_is_refused(path):
    with pytest.raises(mr.InvalidError, match="max_tokens and a mixture exclude each other"):
        mr.Loader(f"mix:1*(tokens:{path}?window=9&pack=none)|1*(tokens:{path}?window=9&pack=none)",
                  max_tokens=100)
