# SPDX-License-Identifier: Apache-2.0
"""Mixtures in Python: their texts, sources, options and positions."""
import os

import pytest

import millrace as mr

N = (30, 12)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    path = tmp_path_factory.mktemp("mix (a|b)")
    for name, n in zip("ab", N):
        os.makedirs(path / name / "class")
        for i in range(n):
            (path / name / "class" / f"{i:02}.pgm").write_bytes(b"P5 8 8 255\n" + bytes(64))
    escaped = str(path).replace("(", "%28").replace("|", "%7C").replace(")", "%29")
    return f"mix:0.75*(imagefolder:{escaped}/a)|0.25*(imagefolder:{escaped}/b)"


def load(mixture, **options):
    return mr.Loader(mixture, transform="eval:8:8", num_workers=0, seed=4, **options)


def rows(batches):
    """(index, source) of each row."""
    return [(i, s) for batch in batches
            for i, s in zip(batch["index"].tolist(), batch["source"].tolist())]


def test_each_row_has_its_source_and_sources_their_weights(mixture):
    got = rows(load(mixture, batch_size=7, mix_samples=200))
    assert len(got) == 200
    assert all(source == (index >= N[0]) for index, source in got)
    for p in range(200):
        assert abs(0.75 * (p + 1) - sum(source == 0 for _, source in got[:p + 1])) < 1
    assert sorted(index for index, source in got if source == 0)[:5] == [0, 0, 0, 0, 0]


def test_stops_and_lengths(mixture):
    assert len(load(mixture, batch_size=1, mix_stop="first")) == 40
    assert len(load(mixture, batch_size=1, mix_stop="all")) == 48
    assert len(load(mixture, batch_size=1, mix_samples=5)) == 5
    with pytest.raises(mr.InvalidError, match="mix_stop and mix_samples exclude each other"):
        load(mixture, mix_stop="all", mix_samples=5)
    with pytest.raises(mr.InvalidError, match="no end, and no epoch 1"):
        load(mixture).set_epoch(1)


def test_a_state_continues_on_two_ranks_in_slices(mixture):
    whole = rows(load(mixture, batch_size=8, mix_samples=160))
    first = load(mixture, batch_size=8, mix_samples=160)
    got = []
    for batch in first:
        got += rows([batch])
        if len(got) == 40:
            break
    state = first.state_dict()
    ranks = []
    for rank in range(2):
        loader = load(mixture, batch_size=4, mix_samples=160, rank=rank, world_size=2)
        loader.load_state_dict(state)
        ranks.append(rows(loader))
    for step in range(len(ranks[0]) // 4):
        got += ranks[0][4 * step:4 * step + 4] + ranks[1][4 * step:4 * step + 4]
    assert got == whole


def test_order_of_megatron(mixture):
    got = rows(load(mixture, batch_size=8, mix_samples=8, mix_order="megatron"))
    counts, wanted = [0, 0], []
    for i in range(8):
        errors = [w * max(i, 1) - c for w, c in zip((0.75, 0.25), counts)]
        wanted.append(errors.index(max(errors)))
        counts[wanted[-1]] += 1
    assert [source for _, source in got] == wanted
