# SPDX-License-Identifier: Apache-2.0
"""Boxes of the samples: the same from every source and with any workers, and torchvision's bits."""
import json
import os
import random
import subprocess
import sys

import pytest

import millrace as mr

from support import module, write_tar

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../data"))
torch, numpy = module("torch"), module("numpy")
NAMES = ("boxes", "box_label", "box_area", "box_crowd")
N = 21
TEXT = "random_resized_crop(48)+random_iou_crop+resize(40:32)+hflip(0.5)+sanitize"


def label_lines(i):
    """The label file of image i: up to 40 boxes, also on the edges and outside."""
    draws = random.Random(i)
    lines = []
    for k in range(draws.choice([0, 1, 2, 7, 40])):
        width, height = draws.choice([0, 0.05, 0.3, 1]), draws.choice([0.1, 0.4, 1.2])
        x, y = draws.uniform(-0.1, 1.1), draws.choice([0, 1, draws.random()])
        lines.append(f"{k % 7} {x:.6g} {y:.6g} {width} {height}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def sources(images, tmp_path_factory):
    """SPECs of the same samples: a folder, a list, a tar, packs; by their names."""
    place = tmp_path_factory.mktemp("boxes")
    dataset, members = mr.Dataset(images), {}
    for i in range(N):
        path, lines = os.path.relpath(dataset.name(i), images), label_lines(i)
        stem = os.path.splitext(path)[0]
        if lines or i % 2:
            file = place / "labels" / (stem + ".txt")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(lines)
        key = f"{i:03}"
        with open(dataset.name(i), "rb") as photo:
            members[key + os.path.splitext(path)[1]] = photo.read()
        members[key + ".note"] = b"%d" % i
        members[key + ".txt"] = lines.encode()
    folder = f"imagefolder:{images}?extra=lines:8192:.txt:{place}/labels&boxes=lines"
    write_tar(place / "x.tar", members)
    found = {"folder": folder, "list": f"list:{place}/list.txt?extra=lines:8192&boxes=lines",
             "tar": f"tar:{place}/x.tar?label=none&keep=note:8,txt:8192&boxes=txt"}
    commands = [["list", "--save", "list.txt", folder]]
    for encoding in ("dct", "jpeg", "raw"):
        commands.append(["pack", "--encoding", encoding, folder, encoding])
        found[encoding] = f"pack:{place}/{encoding}"
    for command in commands:
        subprocess.run([os.environ["MR_COMMAND"], *command], check=True, cwd=place,
                       stdout=subprocess.DEVNULL)
    return found


def read(make_loader, source, epoch=0, **options):
    """For each index: its boxes and their values, and the bytes of the image."""
    options = {"transform": TEXT + "+resize(24:24)", "batch_size": 4, "num_workers": 0, "seed": 5,
               "epoch": epoch, **options}
    rows = {}
    for batch in make_loader(dataset=source, **options):
        pixels = batch.image.tobytes()
        size = len(pixels) // batch.size
        for k, i in enumerate(batch.index.tolist()):
            if i in rows or not batch.mask.tolist()[k]:
                continue
            rows[i] = *(list(batch[name][k]) for name in NAMES), pixels[size * k:size * (k + 1)]
    return rows


def test_every_source_has_the_same_boxes(make_loader, sources):
    expected = read(make_loader, sources["folder"])
    assert sorted(expected) == list(range(N))
    assert sum(len(row[0]) for row in expected.values()) > N
    for name, source in sources.items():
        assert read(make_loader, source) == expected, name


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"num_workers": 8, "read_ahead": 7},
                                     {"num_workers": 2, "start": "thread"}, {"batch_size": 21}])
def test_workers_change_no_bit(make_loader, sources, options):
    for name in ("folder", "dct"):
        for epoch in (0, 1):
            assert read(make_loader, sources[name], epoch, **options) == read(
                make_loader, sources[name], epoch)


@pytest.mark.parametrize("form", ["dct", "index"])
def test_a_cache_changes_no_bit(make_loader, sources, tmp_path, form):
    expected = read(make_loader, sources["folder"])
    options = dict(cache=str(tmp_path / "cache"), cache_form=form, cache_slowdown=100)
    for _ in range(3):
        assert read(make_loader, sources["folder"], num_workers=2, **options) == expected


def test_boxes_are_those_of_darknet_without_operations(make_loader, sources):
    """Left, right, top and bottom of darknet, rounded to float32 after each operation."""
    numpy = pytest.importorskip("numpy")
    f32 = numpy.float32
    loader = make_loader(dataset=sources["folder"], transform="random_crop(8)", batch_size=N,
                         num_workers=0, no_shuffle=True)
    kept = make_loader(dataset=sources["folder"], transform="none", batch_size=N, num_workers=0,
                       no_shuffle=True, ragged=True, max_row_bytes=3 << 20, layout="nhwc")
    batch, sizes = kept.next(), loader.next().geometry
    for i, (width, height) in enumerate(numpy.asarray(sizes)[:, :2]):
        lines = [line.split() for line in label_lines(i).splitlines()]
        numbers = numpy.array([[float(n) for n in line[1:]] for line in lines], f32).reshape(-1, 4)
        x, y, w, h = numbers.T
        sides = f32(width), f32(height)
        expected = numpy.stack([(x - w / f32(2)) * sides[0], (y - h / f32(2)) * sides[1],
                                (x + w / f32(2)) * sides[0], (y + h / f32(2)) * sides[1]], 1)
        found = numpy.array(batch["boxes"][i], f32).reshape(-1, 4)
        assert found.tobytes() == expected.tobytes()
        assert batch["box_label"][i] == [int(line[0]) for line in lines]
        areas = (found[:, 2] - found[:, 0]) * (found[:, 3] - found[:, 1])
        assert numpy.array(batch["box_area"][i], f32).tobytes() == areas.tobytes()
        assert bytes(batch["box_crowd"][i]) == bytes(len(lines))


def test_arrays_and_offsets(make_loader, sources):
    batch = make_loader(dataset=sources["tar"], transform="resize(9:9)", batch_size=5,
                        num_workers=0, no_shuffle=True).next()
    assert batch.keys()[5:] == [n for name in (*NAMES, "note") for n in (name, name + ".offsets")]
    rows = batch["boxes"]
    assert (len(rows), rows.max_length, rows.values.dtype) == (5, 1024, "f32")
    offsets = rows.offsets.tolist()
    assert rows.values.shape == (offsets[-1], 4) and offsets[-1] > 0
    assert rows.tolist() == [rows.values.tolist()[a:b] for a, b in zip(offsets, offsets[1:])]
    for name in NAMES[1:]:
        assert batch[name].offsets.tolist() == offsets
        assert batch[name].values.shape == (offsets[-1], )
    assert batch["note"][3] == b"3"
    if torch:
        tensor = torch.from_dlpack(rows.values)
        assert tensor.dtype == torch.float32 and tensor.tolist() == rows.values.tolist()
    if numpy:
        assert numpy.asarray(rows.values).tolist() == rows.values.tolist()


def test_batches_that_are_held_are_copies_with_their_boxes(make_loader, sources):
    def load():
        return make_loader(dataset=sources["folder"], transform="resize(9:9)", batch_size=1,
                           num_workers=0, no_shuffle=True)

    with pytest.warns(RuntimeWarning):
        held = list(load())
    for name in NAMES:
        assert [batch[name][0] for batch in held] == [batch[name][0] for batch in load()]


def test_a_command_exports_them(make_loader, sources, tmp_path):
    numpy = pytest.importorskip("numpy")
    command = [os.environ["MR_COMMAND"], "export", "--transform", "resize(9:9)", "--no-shuffle"]
    subprocess.run([*command, "--out", "x.npy", sources["folder"]], check=True, cwd=tmp_path,
                   stdout=subprocess.DEVNULL)
    found = numpy.load(tmp_path / "x.boxes.npy")
    offsets = numpy.load(tmp_path / "x.boxes.offsets.npy")
    assert (found.dtype, found.shape) == (numpy.float32, (offsets[-1], 4))
    assert len(offsets) == N + 1
    batch = make_loader(dataset=sources["folder"], transform="resize(9:9)", batch_size=N,
                        num_workers=0, no_shuffle=True).next()
    assert found.tolist() == batch["boxes"].values.tolist()


def test_explanations_have_the_boxes_of_the_file(make_loader, sources, tmp_path):
    numpy = pytest.importorskip("numpy")
    command = [os.environ["MR_COMMAND"], "export", "--transform", TEXT, "--seed", "5", "--out",
               "x.npy", "--explain", "x.jsonl"]
    text = TEXT.partition("+")[2]
    for name in ("folder", "dct"):
        dataset, names = mr.Dataset(sources[name]), set()
        batch = make_loader(dataset=sources[name], transform="none", batch_size=N, num_workers=0,
                            no_shuffle=True, ragged=True, max_row_bytes=3 << 20).next()
        subprocess.run([*command, sources[name]], check=True, cwd=tmp_path,
                       stdout=subprocess.DEVNULL)
        with open(tmp_path / "x.jsonl", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        assert [row["index"] for row in rows] == numpy.load(tmp_path / "x.indices.npy").tolist()
        for row in rows:
            i, size = row["index"], row["size"]
            boxes = dataset.boxes(i, *size)
            assert boxes == batch["boxes"][i]
            assert row["calls"] == mr.explain(TEXT, 5, 0, i, *size, boxes=boxes)
            names |= {call for call, _ in row["calls"]}
            page = mr.explain_html(dataset, i, text, seed=5)
            shown = mr.explain(text, 5, 0, i, *size, boxes=boxes)
            assert ("v2.RandomIoUCrop(" in page) == ("v2.RandomIoUCrop" in dict(shown))
        assert {"v2.RandomIoUCrop", "sanitize_bounding_boxes", "hflip"} <= names


def test_a_dataset_without_boxes_has_none(images):
    with pytest.raises(mr.UnsupportedError, match="the samples have no boxes"):
        mr.Dataset(images).boxes(0, 9, 9)
    with pytest.raises(mr.Error, match="is not from 0 to 20"):
        mr.Dataset(images).boxes(21, 9, 9)


def test_damage_names_the_file_and_the_number(make_loader, sources):
    with pytest.raises(mr.Error, match=r"it has 40 boxes; max_boxes is 39"):
        read(make_loader, sources["folder"], max_boxes=39)
    seen = read(make_loader, sources["folder"], max_boxes=39, on_error="zero", no_shuffle=True)
    assert sorted(seen) == [i for i in range(N) if label_lines(i).count("\n") < 40]


def test_holes_have_no_boxes(make_loader, sources):
    batch = make_loader(dataset=sources["folder"], transform="resize(9:9)", batch_size=N,
                        max_boxes=39, on_error="zero", num_workers=0, no_shuffle=True).next()
    for valid, boxes, i in zip(batch.mask.tolist(), batch["boxes"], range(N)):
        assert len(boxes) == (label_lines(i).count("\n") if valid else 0)
    assert batch.n_valid < N


def test_what_has_no_boxes_is_refused(make_loader, images, sources):
    assert make_loader(dataset=images, transform="resize(9:9)+sanitize").next().n_valid == 4
    with pytest.raises(mr.Error, match="the samples have no boxes; name the member"):
        make_loader(dataset=images, transform="random_iou_crop+resize(9:9)")
    with pytest.raises(mr.Error, match="augmix is not applied to boxes"):
        make_loader(dataset=sources["dct"], transform="resize(9:9)+augmix")
    with pytest.raises(mr.Error, match="random_iou_crop gives each .* or set ragged"):
        make_loader(dataset=sources["folder"], transform="random_iou_crop")
    with pytest.raises(mr.Error, match="boxes 'x' of imagefolder is not named in extra"):
        mr.Dataset(sources["folder"].replace("boxes=lines", "boxes=x"))
    with pytest.raises(mr.Error, match="random_iou_crop is drawn for the boxes of the sample"):
        mr.explain("random_iou_crop", 0, 0, 0, 50, 40)


@pytest.mark.parametrize("text", [
    TEXT, "random_resized_crop(50)+hflip+vflip+sanitize", "resize(60)+center_crop(90)",
    "random_iou_crop+hflip(0.5)+center_crop(40:300)+sanitize(2)",
    "resize(99:98)+center_crop(99:98)",
    "pad(3:0:5:1)+random_crop(200,padding=9,pad_if_needed)+sanitize",
    "hflip+pad(0)",
    "random_resize(130,200)+pad_if_smaller(160)+random_crop(120)", "detection_hflip",
    "detection_lsj:96", "random_shortest_size(48:60,max_size=90)+hflip+sanitize",
    "detection_ssd", "detection_ssdlite",
    "detection_eval", "letterbox(90:70)+sanitize", "random_zoom_out(side_range=1:1.1,p=0.8)",
    "scale_jitter(50:90)+fixed_size_crop(40:70)", "rotation(180)+sanitize",
    "rotation(40,center=3:70)+affine(20,translate=0.2:0.1,scale=0.5:2,shear=-20:20:-10:10)",
    "perspective(0.6,p=1)+random_apply(affine_v2(0,translate=0:0)+vflip(1),1)+resize(70:60)",
    "trivial_augment_wide+random_iou_crop+rand_augment_v2+sanitize"])
def test_calls_replay_to_the_same_boxes(make_loader, sources, text):
    torchvision = pytest.importorskip("torchvision")
    pytest.importorskip("PIL.Image")
    if tuple(int(n) for n in torchvision.__version__.split(".")[:2]) < (0, 29):
        pytest.skip("torchvision is older than 0.29")
    from fused_grids import fused_grids
    from replay_explain import replay_boxes
    options = dict(dataset=sources["folder"], num_workers=0, batch_size=N, ragged=True,
                   max_row_bytes=4 << 20, layout="nhwc", seed=3, no_shuffle=True)
    for epoch in range(2):
        before = make_loader(transform="none", epoch=epoch, **options).next()
        after = make_loader(transform=text, epoch=epoch, **options).next()
        for i, (width, height) in enumerate(row[:2] for row in before.geometry.tolist()):
            boxes = before["boxes"][i]
            calls = mr.explain(text, 3, epoch, i, width, height, boxes=boxes)
            with fused_grids():
                expected, rows = replay_boxes(boxes, (width, height), calls)
            found = torch.tensor(after["boxes"][i], dtype=torch.float32).reshape(-1, 4)
            assert found.numpy().tobytes() == expected.numpy().tobytes()
            labels = before["box_label"][i]
            assert after["box_label"][i] == [labels[row] for row in rows]
