# SPDX-License-Identifier: Apache-2.0
"""Batches of images of a similar shape, as torchvision's references/detection group them. The
oracle is written from the rule of GroupedBatchSampler and create_aspect_ratio_groups()."""
import bisect
import itertools
import json
import os
import random
import subprocess

import pytest

import millrace as mr

from support import indices, write_tar

N, K, BATCH = 150, 3, 4
BAD = 17  # its header says no size
EDGES = [0.5, 1.0, 2.0]


@pytest.fixture(scope="module")
def shapes():
    """Heights and widths: every ratio, also those at the edges of groups."""
    rng = random.Random(31)
    found = [(16, round(16 * ratio)) for ratio in EDGES]
    found += [(rng.randrange(8, 40), rng.randrange(8, 40)) for _ in range(N - len(found))]
    found[BAD] = None
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory, shapes):
    path = tmp_path_factory.mktemp("shapes")
    os.mkdir(path / "a")
    for i, shape in enumerate(shapes):
        height, width = shape or (0, 0)
        head = f"P5 {width} {height} 255\n" if shape else "no image"
        (path / "a" / f"{i:03}.pgm").write_bytes(head.encode() + bytes(height * width))
    return f"imagefolder:{path}"


def group_ids(shapes, k=K):
    """The groups; a damaged header counts as a square."""
    bins = [2.0**(i * (2 / (2 * k)) - 1) for i in range(2 * k)] + [2.0]
    return [bisect.bisect_right(bins, shape[1] / shape[0] if shape else 1.0) for shape in shapes]


def grouped(order, ids, batch_size):
    """The batches of a rank's order."""
    waiting, seen, batches = {}, {}, []
    for index in order:
        group = ids[index]
        seen.setdefault(group, []).append(index)
        waiting.setdefault(group, []).append(index)
        if len(waiting[group]) == batch_size:
            batches.append(waiting.pop(group))
            waiting[group] = []
    n_more = len(order) // batch_size - len(batches)
    fullest = sorted(waiting, key=lambda group: len(waiting[group]), reverse=True)
    for group in fullest[:n_more]:
        batches.append(list(itertools.islice(itertools.chain(
            waiting[group], itertools.cycle(seen[group])), batch_size)))
    return batches


def rank_order(make_loader, folder, epoch, **options):
    """A rank's samples without groups, in their order."""
    loader = make_loader("resize(8:8)", folder, batch_size=1, num_workers=0, on_error="zero",
                         **options)
    loader.set_epoch(epoch)
    return indices(loader)


ORDERS = [{}, {"order": "keyed"}, {"no_shuffle": True}, {"tail": "drop"},
          {"weight_values": [1 + i % 5 for i in range(N)]}]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_batches_are_those_of_the_rule(folder, shapes, make_loader, world_size, options):
    ids, lengths = group_ids(shapes), set()
    assert len(set(ids)) == 2 * K + 2
    for rank in range(world_size):
        shard = dict(options, world_size=world_size, rank=rank, seed=9)
        loader = make_loader("resize(8:8)", folder, batch_size=BATCH, on_error="zero",
                             aspect_ratio_groups=K, **shard)
        for epoch in range(2):
            loader.set_epoch(epoch)
            found = [batch.index.tolist() for batch in loader]
            assert found == grouped(rank_order(make_loader, folder, epoch, **shard), ids, BATCH)
            assert len(found) == len(loader)
            lengths.add(len(found))
    assert len(lengths) == 1


def test_the_order_of_torch_in_groups(folder, shapes, make_loader):
    data = pytest.importorskip("torch.utils.data.distributed")
    for rank in range(3):
        sampler = data.DistributedSampler(range(N), 3, rank, seed=5)
        sampler.set_epoch(2)
        loader = make_loader("resize(8:8)", folder, batch_size=BATCH, on_error="zero", seed=5,
                             world_size=3, rank=rank, aspect_ratio_groups=1)
        loader.set_epoch(2)
        assert [batch.index.tolist() for batch in loader] == grouped(
            list(sampler), group_ids(shapes, 1), BATCH)


@pytest.fixture
def annotated(tmp_path, monkeypatch):
    """Writes annotations of images that are not there, each time an hour younger."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, hours = tmp_path / "boxes.json", itertools.count(1)

    def write(shapes):
        path.write_text(json.dumps({"categories": [], "annotations": [], "images": [
            {"id": i, "file_name": f"{i}.jpg", "height": shape[0], "width": shape[1]}
            for i, shape in enumerate(shapes)]}))
        os.utime(path, (3600 * next(hours),) * 2)
        return f"coco:{tmp_path}?annotations={path}&index=beside"

    return write


def test_the_sizes_of_annotations_are_used_and_kept(shapes, make_loader, annotated, capfd):
    stated = [shape or (9, 9) for shape in shapes]
    for shapes_ in stated, [(w, h) for h, w in stated]:
        spec = annotated(shapes_)
        for opened in range(2):  # the second time from the index
            loader = make_loader("resize(8:8)", spec, **OPTIONS)
            assert [batch.index.tolist() for batch in loader] == grouped(
                rank_order(make_loader, spec, 0, seed=3), group_ids(shapes_), BATCH)
    assert "headers" not in capfd.readouterr().err


class Tree:
    """Images of the same number of bytes, in a dataset whose files have old times."""

    def __init__(self, kind, root):
        self.root, self.names = root, [f"{i:02}.jpg" for i in range(24)]
        self.shapes = [(8, 32) if i % 3 else (16, 16) for i in range(24)]
        self.times = [10**9] * 24
        os.makedirs(root / "JPEGImages")
        if kind == "voc":
            os.makedirs(root / "ImageSets/Segmentation")
            (root / "ImageSets/Segmentation/a.txt").write_text("\n".join(
                f"{i:02}" for i in range(24)))
        (root / "list.txt").write_text("".join(f"JPEGImages/{name}\t0\n" for name in self.names))
        self.spec = kind + ":" + str(root) + {
            "imagefolder": "", "list": "/list.txt", "tar": "/0.tar?label=none",
            "voc": "?set=a&task=segmentation"}[kind]
        self.turn([])

    def turn(self, which, hours=0):
        """Turn images. Their files' times are later by these hours."""
        for i in which:
            self.shapes[i] = self.shapes[i][::-1]
            self.times[i] += 3600 * hours
        content = {name: f"P5 {width:02} {height:02} 255\n".encode() + bytes(height * width)
                   for name, (height, width) in zip(self.names, self.shapes)}
        write_tar(self.root / "0.tar", content)
        for i, name in enumerate(self.names):
            (self.root / "JPEGImages" / name).write_bytes(content[name])
            os.utime(self.root / "JPEGImages" / name, (0, self.times[i]))
        os.utime(self.root / "0.tar", (0, max(self.times)))


@pytest.mark.parametrize("kind", ["imagefolder", "list", "tar", "voc"])
def test_the_sizes_of_headers_are_kept(make_loader, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tree = Tree(kind, tmp_path / "tree")

    def find_batches(spec=tree.spec, transform="resize(8:8)"):
        loader = make_loader(transform, spec, no_shuffle=True, **OPTIONS)
        return [batch.index.tolist() for batch in loader]

    def expect(shapes):
        return grouped(range(24), group_ids(shapes), BATCH)

    first = list(tree.shapes)
    assert find_batches() == expect(first)
    tree.turn([1, 4, 5])  # with the same times: no image is read
    assert find_batches() == expect(first)
    assert find_batches(transform="exif+resize(8:8)") == expect(tree.shapes)
    if kind == "tar":
        assert find_batches(tree.spec + "&index=none") == expect(tree.shapes)
    tree.turn([4], hours=1)
    first = [*(tree.shapes if kind == "tar" else first)]
    first[4] = tree.shapes[4]
    assert find_batches() == expect(first)
    tree.turn([7])
    assert find_batches() == expect(first)
    for path in (tmp_path / "cache/millrace").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert find_batches() == expect(tree.shapes)
    tree.turn([8], hours=10**6)  # a time to come: the file may change again without a new time
    assert find_batches() == expect(tree.shapes)
    tree.turn([8])
    assert find_batches() == expect(tree.shapes)


def test_a_size_that_is_not_stated_is_read(shapes, folder, make_loader, annotated, tmp_path):
    stated = [(0, 0) if i % 2 else (8, 20) for i in range(N)]
    spec = annotated(stated)
    for i in range(N):
        os.symlink(f"{folder.removeprefix('imagefolder:')}/a/{i:03}.pgm", tmp_path / f"{i}.jpg")
    loader = make_loader("resize(8:8)", spec, **OPTIONS)
    assert [batch.index.tolist() for batch in loader] == grouped(
        rank_order(make_loader, spec, 0, seed=3),
        group_ids([shapes[i] if i % 2 else stated[i] for i in range(N)]), BATCH)


OPTIONS = dict(batch_size=BATCH, on_error="zero", aspect_ratio_groups=K, seed=3)


def content(batches):
    return [(batch.index.tolist(), batch.image.tobytes()) for batch in batches]


@pytest.mark.parametrize("encoding", ["raw", "jpeg"])
def test_workers_and_packs_change_nothing(folder, make_loader, tmp_path, encoding):
    subprocess.run([os.environ["MR_COMMAND"], "pack", "--encoding", encoding, folder,
                    tmp_path / "pack"], check=True, capture_output=True)
    for recipe, options in ("random_resized_crop(8)", {}), ("hflip", {"pad_batch": 64}):
        found = [content(make_loader(recipe, source, num_workers=n, **OPTIONS, **options))
                 for n in (0, 1, 8) for source in (folder, f"pack:{tmp_path}/pack")]
        assert len(found[0]) == N // BATCH
        assert all(epoch == found[0] for epoch in found)


def test_a_padded_batch_has_the_shape_of_its_group(folder, shapes, make_loader):
    for batch in make_loader("none", folder, pad_batch=64, **OPTIONS):
        sides = [shapes[i] or (0, 0) for i in batch.index.tolist()]
        assert batch["image.shape"].tolist() == [list(pair) for pair in sides]
        assert batch.image.shape[2:] == tuple(map(max, zip(*sides)))


def test_a_run_continues_in_the_middle_of_an_epoch(folder, make_loader):
    def make(**options):
        return make_loader("random_resized_crop(8)", folder, **{**OPTIONS, **options})

    loader, n = make(world_size=2, rank=1), 5
    loader.set_epoch(4)
    whole = content(loader)
    loader.set_epoch(4)
    first = content(itertools.islice(loader, n))
    state = loader.state_dict()
    other = make(world_size=2, rank=1)
    other.load_state_dict(state)
    assert first + content(other) == whole
    with pytest.raises(mr.Error, match="with world_size 2 and batch_size 4, this loader has 3 and"):
        make(world_size=3, rank=1).load_state_dict(state)
    with pytest.raises(mr.Error, match="this loader has 2 and 2"):
        make(world_size=2, rank=1, batch_size=2).load_state_dict(state)
    with pytest.raises(mr.Error, match="with other groups of samples"):
        make(world_size=2, rank=1, aspect_ratio_groups=2).load_state_dict(state)
    with pytest.raises(mr.Error, match="with groups of samples, this loader is without them"):
        make(world_size=2, rank=1, aspect_ratio_groups=None).load_state_dict(state)


def test_what_has_no_groups_is_refused(folder, make_loader):
    with pytest.raises(mr.Error, match="the exact tail and aspect_ratio_groups exclude each other"):
        make_loader("resize(8:8)", folder, tail="exact", **OPTIONS)
    with pytest.raises(mr.Error, match="smaller than batch_size 200, and aspect_ratio_groups has"):
        make_loader("resize(8:8)", folder, **{**OPTIONS, "batch_size": 200})
    with pytest.raises(mr.Error, match="'101' is not a number from 1 to 100"):
        make_loader("resize(8:8)", folder, **{**OPTIONS, "aspect_ratio_groups": 101})
