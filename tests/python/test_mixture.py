# SPDX-License-Identifier: Apache-2.0
"""Mixtures in Python: their texts, sources, options and positions."""
import array
import json
import os
import pickle
import struct

import pytest

import millrace as mr

N = (30, 12, 5)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Specs of three folders, as a mixture has them."""
    path = tmp_path_factory.mktemp("mix (a|b)")
    for name, n in zip("abc", N):
        os.makedirs(path / name / "class")
        for i in range(n):
            (path / name / "class" / f"{i:02}.pgm").write_bytes(b"P5 8 8 255\n" + bytes(64))
    escaped = str(path).replace("(", "%28").replace("|", "%7C").replace(")", "%29")
    return [f"imagefolder:{escaped}/{name}" for name in "abc"]


def mix(sources, *weights):
    return "mix:" + "|".join(f"{w}*({source})" for w, source in zip(weights, sources))


@pytest.fixture(scope="module")
def mixture(sources):
    return mix(sources, 0.75, 0.25)


def load(mixture, **options):
    return mr.Loader(mixture, **{"transform": "eval:8:8", "num_workers": 0, "seed": 4, **options})


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


def first_rows(loader, n):
    """The first n rows, a whole number of batches."""
    got = []
    for batch in loader:
        got += rows([batch])
        if len(got) >= n:
            return got
    return got


@pytest.mark.parametrize("options", [{}, {"order": "keyed"}, {"no_shuffle": True}])
def test_a_source_is_drawn_in_the_orders_that_it_has_alone(mixture, sources, options):
    got = first_rows(load(mixture, batch_size=10, **options), 200)
    for k, begin in enumerate((0, N[0])):
        drawn = [index - begin for index, source in got if source == k]
        alone = load(sources[k], batch_size=10, **options)
        expected = []
        for epoch in range(-(-len(drawn) // N[k])):
            alone.set_epoch(epoch)
            expected += [i for batch in alone for i in batch.index.tolist()]
        assert len(drawn) > 3 * N[k]
        assert drawn == expected[:len(drawn)]


def test_a_sample_that_comes_again_has_other_draws(mixture):
    crops = {}
    for batch in load(mixture, transform="train:4", batch_size=10, mix_samples=200):
        for index, crop in zip(batch.index.tolist(), batch.geometry.tolist()):
            crops.setdefault(index, []).append(tuple(crop))
    assert all(len(found) > 3 for found in crops.values())
    assert sum(len(set(found)) for found in crops.values()) > 180


def test_epochs_are_one_sequence(mixture):
    whole = first_rows(load(mixture, batch_size=10), 150)
    loader, got = load(mixture, batch_size=10, mix_samples=50), []
    for epoch in range(3):
        got += rows(loader)
        assert loader.epoch == epoch
    assert got == whole


def test_padding_is_from_beyond_the_end(mixture):
    whole = first_rows(load(mixture, batch_size=12), 12)
    got = [rows(load(mixture, batch_size=4, mix_samples=10, rank=rank, world_size=3))
           for rank in range(3)]
    assert sum(got, []) == whole


def test_a_mixture_without_end_has_one_epoch(mixture):
    loader = load(mixture, batch_size=8)
    assert len(loader) == 2**37
    batches = iter(loader)
    got = [rows([batch]) for _ in range(3) for _, batch in zip(range(2), batches)]
    assert sum(got, []) == first_rows(load(mixture, batch_size=8), 48)
    with pytest.raises(mr.InvalidError, match="no end, and no epoch 1"):
        next(iter(loader))
    assert rows([loader.next()]) == first_rows(load(mixture, batch_size=8), 56)[48:]


def go_on(state, mixture, n, **options):
    """The rows of 2 ranks after a state, which went through JSON."""
    state, ranks = json.loads(json.dumps(state)), []
    for rank in range(2):
        loader = load(mixture, batch_size=5, rank=rank, world_size=2, **options)
        loader.load_state_dict(state)
        ranks.append(first_rows(loader, n // 2))
    return [row for step in range(0, n // 2, 5) for one in ranks for row in one[step:step + 5]]


def stop_after(loader, n):
    got = first_rows(loader, n)
    return got, loader.state_dict()


@pytest.mark.parametrize("weights", [(0.75, 0.25), (1, 9), (0.5, 0.3, 0.2)])
def test_weights_and_sources_may_change_at_a_state(mixture, sources, weights):
    got, state = stop_after(load(mixture, batch_size=8), 40)
    more = go_on(state, mix(sources, *weights), 200)
    starts = [0, N[0], N[0] + N[1]]
    for p in range(200):
        for k, weight in enumerate(weights):
            drawn = sum(source == k for _, source in more[:p + 1])
            assert abs(weight / sum(weights) * (p + 1) - drawn) < 1
    for k, begin in enumerate(starts[:len(weights)]):  # no sample again before its round ends
        drawn = [index - begin for index, source in got + more if source == k]
        rounds = [drawn[i:i + N[k]] for i in range(0, len(drawn), N[k])]
        assert len(rounds) > 1
        assert all(len(set(one)) == len(one) for one in rounds)
    if weights == (0.75, 0.25):
        assert got + more == first_rows(load(mixture, batch_size=8), 240)


def test_an_epoch_that_begins_before_a_change_has_the_new_weights_up_to_it(mixture, sources):
    other = mix(sources, 0.5, 0.5)
    _, state = stop_after(load(mixture, batch_size=10, mix_samples=50), 30)
    loader = load(other, batch_size=10, mix_samples=50)
    loader.load_state_dict(state)
    rest = rows(loader)
    assert len(rest) == 20
    loader.set_epoch(0)
    assert rows(loader) == rows(load(other, batch_size=10, mix_samples=50))[:30] + rest


def test_what_a_state_does_not_fit_is_named(mixture, sources):
    _, state = stop_after(load(mix(sources, 1, 1, 1), batch_size=8), 40)
    for other, options, words in [
        (mixture, {}, "saved with 3 sources, this mixture has 2"),
        (mix([sources[1], *sources[1:]], 1, 1, 1), {}, "30 samples in source 0, .* has 12"),
        (mix(sources, 1, 1, 1), {"batch_size": 7}, "40 samples were used, which is not a multiple"),
        (mix(sources, 1, 1, 1), {"seed": 5}, "saved with seed 4"),
        (sources[0], {}, "with a mixture, this loader is without one")]:
        with pytest.raises(mr.InvalidError, match=words):
            load(other, **{"batch_size": 8, **options}).load_state_dict(state)


@pytest.mark.parametrize("options, words", [
    ({"repeat": 2}, "a mixture and repeat"),
    ({"weight_values": [1.0] * 42}, "a mixture and weights"),
    ({"aspect_ratio_groups": 3}, "a mixture and aspect_ratio_groups"),
    ({"cache": "unused"}, "a mixture and a cache"),
    ({"mix_order": "odd"}, "mix_order: 'odd' is none of even, megatron"),
    ({"mix_stop": "last"}, "mix_stop: 'last' is none of none, first, all")])
def test_options_that_do_not_fit_are_named(mixture, options, words):
    with pytest.raises(mr.InvalidError, match=words):
        load(mixture, **options)


def test_a_dataset_has_the_samples_of_its_sources(mixture, sources):
    dataset = pickle.loads(pickle.dumps(mr.Dataset(mixture)))
    alone = mr.Dataset(sources[1])
    assert len(dataset) == N[0] + N[1]
    assert dataset.classes == ["class"]
    for i in range(N[1]):
        assert dataset.name(N[0] + i) == alone.name(i)
        assert dataset.label(N[0] + i) == alone.label(i)
        assert dataset.inspect(N[0] + i) == alone.inspect(i)


def test_an_own_order_counts_the_samples_of_all_sources(mixture):
    loader = load(mixture, batch_size=3)
    loader.set_epoch(7, [41, 0, 29, 30, 41])
    assert rows(loader) == [(41, 1), (0, 0), (29, 0), (30, 1), (41, 1)]
    assert "<img" in str(mr.preview(loader))


def write_tokens(folder, name, first, n):
    """A corpus of Megatron-Core of documents of 7 tokens, which count from first on."""
    lengths = [7] * n
    (folder / f"{name}.bin").write_bytes(array.array("i", range(first, first + 7 * n)).tobytes())
    (folder / f"{name}.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, n, n + 1) + struct.pack(f"<{n}i", *lengths) +
        struct.pack(f"<{n}q", *range(0, 28 * n, 28)) + struct.pack(f"<{n + 1}q", *range(n + 1)))
    return f"tokens:{folder}/{name}.bin?window=4"


def token_rows(loader, n):
    """(tokens, labels, source) of the first n rows."""
    got = []
    for batch in loader:
        got += zip(batch["tokens"].tolist(), batch["labels"].tolist(),
                   batch["source"].tolist() if "source" in batch else [None] * len(batch))
        if len(got) >= n:
            break
    return got[:n]


def test_rows_of_tokens_are_mixed(tmp_path):
    specs = [write_tokens(tmp_path, "a", 0, 20), write_tokens(tmp_path, "b", 1000, 9)]
    got = token_rows(mr.Loader(mix(specs, 2, 1), batch_size=6, num_workers=1, seed=3), 60)
    for tokens, labels, source in got:
        assert tokens[1:] == labels[:-1]
        assert tokens == list(range(tokens[0], tokens[0] + 4))
        assert source == (tokens[0] >= 1000)
        assert tokens[0] % (4 if source == 0 else 1000) % 4 == 0
    assert sum(source for _, _, source in got) == 20


def test_a_blend_of_megatrons_datasets(tmp_path):
    """Row for row what the datasets have alone, in the order of build_blending_indices()."""
    specs = [write_tokens(tmp_path, name, first, n) + f"&order=megatron&samples=50&seed={seed}"
             for name, first, n, seed in (("a", 0, 20, 1), ("b", 1000, 9, 2))]
    alone = [token_rows(mr.Loader(spec, batch_size=10, num_workers=0, no_shuffle=True), 50)
             for spec in specs]
    loader = mr.Loader(mix(specs, 0.7, 0.3), batch_size=5, num_workers=1, no_shuffle=True,
                       mix_order="megatron", mix_samples=60)
    counts, wanted = [0, 0], []
    for i in range(60):
        errors = [w * max(i, 1) - c for w, c in zip((0.7, 0.3), counts)]
        k = errors.index(max(errors))
        wanted.append((*alone[k][counts[k]][:2], k))
        counts[k] += 1
    assert token_rows(loader, 60) == wanted
