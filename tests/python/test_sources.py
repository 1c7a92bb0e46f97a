# SPDX-License-Identifier: Apache-2.0
"""Shards of tar, repetition, weights, erasing and mixing from Python. The library does the work;
these tests are about the calls from Python.
"""
import array
import json
import math
import os

import pytest

import millrace as mr

from support import indices, module, write_npy, write_tar

numpy = module("numpy")
WEIGHTS = [1.0 + i % 4 for i in range(21)]


@pytest.fixture(scope="module")
def shards(images, tmp_path_factory):
    """The spec of two shards with the samples of images, in their order. The samples have other
    labels, 100 + index.
    """
    folder, dataset = tmp_path_factory.mktemp("shards"), mr.Dataset(images)
    for shard, indices_of_it in enumerate((range(9), range(9, 21))):
        members = {}
        for i in indices_of_it:
            path = dataset.name(i)
            with open(path, "rb") as file:
                members[f"{i:05}{os.path.splitext(path)[1]}"] = file.read()
            members[f"{i:05}.cls"] = b"%d" % (100 + i)
        write_tar(folder / f"{shard:03}.tar", members)
    return f"tar:{folder}/{{000..001}}.tar?index=none"


def samples(loader):
    return [(index, image) for batch in loader
            for index, image in zip(batch.index.tolist(), rows(batch.image))]


def rows(image):
    content, n = image.tobytes(), image.strides[0]
    return [content[i : i + n] for i in range(0, len(content), n)]


def test_shards_have_the_pixels_of_the_folder(make_loader, shards):
    tar, folder = make_loader("train:16", shards, seed=4), make_loader("train:16", seed=4)
    assert len(tar.dataset) == 21
    for _ in range(2):
        assert samples(tar) == samples(folder)


def test_shards_have_labels_and_names(make_loader, shards):
    dataset = mr.Dataset(shards)
    assert [dataset.label(i) for i in range(21)] == list(range(100, 121))
    assert dataset.name(9).rpartition("/")[0].endswith("001.tar")
    assert dataset.name(9).rpartition("/")[2].startswith("00009.")
    assert dataset.inspect(0)["format"] in ("jpeg", "png")
    loader = make_loader(dataset=dataset, no_shuffle=True)
    assert [label for batch in loader for label in batch.label.tolist()] == list(range(100, 121))


def test_ranks_share_the_shards(make_loader, shards):
    seen = [indices(make_loader(dataset=shards, world_size=3, rank=rank)) for rank in range(3)]
    assert sorted(sum(seen, [])) == list(range(21))


def test_a_missing_shard_is_named(tmp_path):
    with pytest.raises(mr.FileError, match="none.tar"):
        mr.Dataset(f"tar:{tmp_path}/none.tar")


def test_a_damaged_label_is_explained(tmp_path):
    write_tar(tmp_path / "s.tar", {"a.jpg": b"", "a.cls": b"seven"})
    with pytest.raises(mr.FileError, match="a.jpg .index 0.: the sample's label is not an integer"):
        mr.Dataset(f"tar:{tmp_path}/s.tar?index=none").label(0)


def test_repetitions_have_draws_of_their_own(make_loader):
    loader = make_loader("train:16", repeat=3, repeat_form="timm", seed=2)
    assert (loader.options["repeat"], loader.options["repeat_form"],
            loader.n_samples) == (3, "timm", 21)
    seen = samples(loader)
    assert [index for index, _ in seen] == [index for index, _ in seen[::3] for _ in range(3)]
    for i in range(0, 21, 3):
        assert len({image for _, image in seen[i : i + 3]}) == 3


def test_weights_may_be_values_or_a_file(make_loader, tmp_path):
    path = write_npy(tmp_path / "weights.npy", WEIGHTS)
    values = [{"weight_values": WEIGHTS}, {"weight_values": tuple(WEIGHTS)},
              {"weight_values": array.array("d", WEIGHTS)}, {"weight_values": map(float, WEIGHTS)},
              {"weights": path}]
    if numpy:
        values.append({"weight_values": numpy.array(WEIGHTS, numpy.float32)})
    orders = [indices(make_loader(n_draws=50, seed=3, **value)) for value in values]
    assert len(orders[0]) == 50
    assert all(order == orders[0] for order in orders)
    loader = make_loader(n_draws=50, **values[0])
    assert (loader.options["weight_values"], loader.options["n_draws"]) == ([], 50)
    assert make_loader(n_draws=50, weights=path).options["weights"] == str(path)


def test_weights_without_replacement_draw_nothing_twice(make_loader):
    order = indices(make_loader(weight_values=WEIGHTS, n_draws=15, no_replacement=True))
    assert len(order) == len(set(order)) == 15


@pytest.mark.parametrize("values, words", [([1.0] * 20, "20"), ([-1.0] * 21, "-1"),
                                           ([math.nan] * 21, "nan")])
def test_wrong_weights_have_the_librarys_words(make_loader, values, words):
    with pytest.raises(mr.InvalidError, match=words):
        make_loader(weight_values=values)


@pytest.mark.parametrize("options", [{"repeat": 3, "repeat_form": "timm"}, {
    "weight_values": WEIGHTS, "n_draws": 30
}, {"tail": "drop", "order": "keyed"}])
def test_a_state_goes_on_in_any_order_of_the_library(make_loader, options):
    whole = samples(make_loader("train:16", **options))
    loader = make_loader("train:16", **options)
    going = iter(loader)
    done = sum((list(zip(batch.index.tolist(), rows(batch.image)))
                for batch in (next(going), next(going))), [])
    state = json.loads(json.dumps(loader.state_dict()))
    other = make_loader("train:16", num_workers=0, **options)
    other.load_state_dict(state)
    assert done + samples(other) == whole


def test_a_state_goes_on_in_shards(make_loader, shards):
    whole, loader = samples(make_loader(dataset=shards)), make_loader(dataset=shards)
    next(iter(loader))
    other = make_loader(dataset=shards, num_workers=1)
    other.load_state_dict(loader.state_dict())
    assert samples(other) == whole[4:]


def test_an_own_order_has_draws_for_each_time_it_has_a_sample(make_loader):
    loader, once = make_loader("train:16"), make_loader("train:16")
    loader.set_epoch(0, [5, 7, 5])
    once.set_epoch(0, [7, 5])
    first, other, again = samples(loader)
    assert [other, first] == samples(once)
    assert first != again


def test_mixed_rows_have_both_labels(make_loader):
    plain = "eval:20:16+normalize(mean=0.5,std=0.5)"
    options = {"dtype": "f32", "no_shuffle": True, "batch_size": 5, "drop_last": True}
    whole = [rows(batch.image) for batch in make_loader(plain, **options)]
    for batch, images in zip(make_loader(plain + "+mixup(0.8)", soft_labels=3, **options), whole):
        labels, others, shares = batch.label.tolist(), batch["mix_label"].tolist(
        ), batch["mix_lambda"].tolist()
        assert others == [labels[i - 1] for i in range(5)]
        assert len(set(shares)) == 1
        for i, soft in enumerate(batch["soft_label"].tolist()):
            expected = [
                shares[i] * (c == labels[i]) + (1 - shares[i]) * (c == others[i]) for c in range(3)
            ]
            assert soft == pytest.approx(expected, abs=1e-6)
        for i, image in enumerate(rows(batch.image)):
            mixed = zip(array.array("f", image), array.array("f", images[i]),
                        array.array("f", images[i - 1]))
            assert all(abs(x - (shares[i] * a + (1 - shares[i]) * b)) < 1e-5 for x, a, b in mixed)


def test_erased_boxes_are_in_the_pixels(make_loader):
    plain = "eval:20:16+normalize(mean=0.5,std=0.5)"
    erased = make_loader(plain + "+random_erasing(1,value=9)", dtype="f32", no_shuffle=True)
    expected = make_loader(plain, dtype="f32", no_shuffle=True)
    dataset, seed, n_boxes = erased.dataset, erased.options["seed"], 0
    for (index, image), (_, whole) in zip(samples(erased), samples(expected)):
        pixels, info = array.array("f", whole), dataset.inspect(index)
        calls = mr.explain(plain + "+random_erasing(1,value=9)", seed, 0, index, info["width"],
                           info["height"])
        for box in (arguments for name, arguments in calls if name == "erase"):
            n_boxes += 1
            for c in range(3):
                for y in range(box["i"], box["i"] + box["h"]):
                    for x in range(box["j"], box["j"] + box["w"]):
                        pixels[(c * 16 + y) * 16 + x] = box["v"][c % len(box["v"])]
        assert pixels.tobytes() == image
    assert n_boxes > 15
