# SPDX-License-Identifier: Apache-2.0
"""Datasets at URLs. MR_SERVE_FOLDER serves a folder; without it, libcurl was not there at build
time.
"""
import base64
import json
import os
import struct
import subprocess

import pytest

import millrace as mr

from support import write_tar

server = os.environ.get("MR_SERVE_FOLDER")
pytestmark = pytest.mark.skipif(not server, reason="the library is built without libcurl")


@pytest.fixture(scope="module")
def places(images, tmp_path_factory):
    """A folder with two shards and the images as files, and its URL."""
    folder, dataset = tmp_path_factory.mktemp("served"), mr.Dataset(images)
    for shard, of_it in enumerate((range(9), range(9, 21))):
        members = {}
        for i in of_it:
            path = dataset.name(i)
            with open(path, "rb") as file:
                content = file.read()
            suffix = os.path.splitext(path)[1]
            members[f"{i:05}{suffix}"] = content
            members[f"{i:05}.cls"] = b"%d" % (100 + i)
            (folder / f"{i:05}.image").write_bytes(content)
        write_tar(folder / f"{shard:03}.tar", members)
    header = struct.pack("<3i", 20240520, 1, 1000).ljust(1024, b"\0")
    (folder / "tokens").write_bytes(header + bytes(range(250)) * 8)
    with open(f"{os.path.dirname(__file__)}/../data/mds.json", encoding="ascii") as file:
        for case in json.load(file):
            (folder / case["encoding"] / case["dtype"]).mkdir(parents=True)
            for name, text in case["files"].items():
                path = folder / case["encoding"] / case["dtype"] / name
                path.write_bytes(base64.b64decode(text))
    with subprocess.Popen([server, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        yield str(folder), process.stdout.readline().strip()
        process.stdin.close()


def content(loader):
    return [(batch.index.tolist(), batch.label.tolist(), batch.image.tobytes())
            for _ in range(2) for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_at_urls_have_the_bytes_of_local_ones(make_loader, places, workers):
    local, remote = (content(make_loader("train:16", f"tar:{place}/{{000..001}}.tar?index=none",
                                         num_workers=workers, seed=3)) for place in places)
    assert len(local) == 12 and remote == local


def test_the_sizes_of_headers_at_urls_are_kept(make_loader, places, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder, url = places

    def find_batches(shapes, index):
        """Write images of these shapes, with the same ETags, and group them."""
        for shard in range(16):
            path = f"{folder}/shape{shard:02}.tar"
            write_tar(path, {f"{i}.jpg": b"P5 %02d %02d 255\n" % shapes[i % 2] + bytes(256)
                             for i in range(shard, shard + 4)})
            os.utime(path, (0, 10**9 + shard))
        loader = make_loader("resize(8:8)", f"tar:{url}/shape{{00..15}}.tar?label=none{index}",
                             batch_size=4, aspect_ratio_groups=3, no_shuffle=True)
        return [batch.index.tolist() for batch in loader]

    first = find_batches([(8, 32), (32, 8)], "")
    assert find_batches([(8, 32), (8, 32)], "&index=none") != first
    assert find_batches([(8, 32), (8, 32)], "") == first  # no header is read


def test_lists_have_the_bytes_of_local_ones_wherever_they_and_their_files_are(make_loader, places):
    folder, url = places
    for name, prefix in ("paths", ""), ("urls", f"{url}/"):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.writelines(f"{prefix if i % 2 else ''}{i:05}.image\t{i}\n" for i in range(21))
    local, *remote = (content(make_loader("train:16", f"list:{name}"))
                      for name in (f"{folder}/paths", f"{folder}/urls", f"{url}/paths"))
    assert len(local) == 12 and remote == [local, local]


def write_annotations(folder, url):
    """Ranges of the shards, lists of darknet and a file of COCO, for the images in the folder."""
    numbers, names = range(21), [f"{i:05}.image" for i in range(21)]
    for i in numbers[1:]:
        with open(f"{folder}/{i:05}.txt", "w", encoding="ascii") as file:
            file.write(f"{i % 2} 0.5 0.5 0.4 0.{i + 20}\n1 0.3 0.3 0.2 0.2\n")
    for name, prefix in ("darknet", ""), ("darknet_urls", f"{url}/"):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.writelines(f"{prefix}{name}\n" for name in names)
    boxes = [{"image_id": i, "category_id": 7, "bbox": [1, 2, 3 + i, 4]} for i in numbers]
    with open(f"{folder}/coco.json", "w", encoding="ascii") as file:
        json.dump({"images": [{"id": i, "file_name": names[i]} for i in numbers],
                   "annotations": boxes, "categories": [{"id": 7, "name": "thing"}]}, file)
    with open(f"{folder}/ranges", "w", encoding="ascii") as file:
        file.writelines(f"{name}\t{i}\t0\t{os.path.getsize(f'{folder}/{name}')}\n"
                        for i, name in enumerate(names))


def rows(loader):
    """All arrays of all batches."""
    return [{name: [part.tobytes() for part in ([array.values, array.offsets]
                                                if isinstance(array, mr.Rows) else [array])]
             for name, array in ((name, batch[name]) for name in batch.keys())} for batch in loader]


BOXES = "random_iou_crop+random_shortest_size(24:32)+hflip+sanitize"
KINDS = {  # {0} is a folder or its URL, {1} is always the URL
    "records": (None, "records:{0}/000.tar,{0}/001.tar?shape=3x8x8&header=1&label_bytes=2"),
    "windows": (None, "records:{0}/000.tar?dtype=u16&shape=65&stride=128"),
    "tokens": (None, "tokens:{0}/000.tar,{0}/tokens?dtype=u16&window=64"),
    "mds": (None, "tokens:{0}/ndarray:int32:16/int32/index.json?window=3"),
    "mds_bytes": (None, "tokens:{0}/bytes/uint16/index.json?window=3&dtype=u16"),
    "ranges": ("train:16", "ranges:{0}/ranges"),
    "darknet": (BOXES, "yolo:{0}/darknet?root={0}"),
    "urls": (BOXES, "yolo:{0}/darknet?root={0}", "yolo:{0}/darknet_urls"),
    "coco": (BOXES, "coco:{0}?annotations={0}/coco.json&index=none"),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_have_the_bytes_of_local_ones(make_loader, places, kind, workers):
    transform, form, *remote_form = KINDS[kind]
    folder, url = places
    write_annotations(folder, url)
    options = {"num_workers": workers, "seed": 3}
    if transform is BOXES:
        options["pad_batch"] = 100
    local, remote = (rows(make_loader(transform, dataset, **options))
                     for dataset in (form.format(folder), (remote_form or [form])[0].format(url)))
    assert len(local) > 3 and remote == local


def test_the_drop_in_reads_urls(places):
    torch = pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    from millrace.torch import DataLoader, Dataset
    pipeline = transforms.Compose([transforms.CenterCrop(16), transforms.ToTensor()])
    local, remote = ([(image.clone(), label.clone()) for image, label in DataLoader(
        Dataset(f"tar:{place}/{{000..001}}.tar?index=none", pipeline), batch_size=4,
        num_workers=1)] for place in places)
    assert len(local) == len(remote) == 6
    for (x, x_label), (y, y_label) in zip(local, remote):
        assert torch.equal(x, y) and torch.equal(x_label, y_label)


@pytest.mark.parametrize("spec", ["records:{}?bytes=1", "tokens:{}?window=1", "ranges:{}",
                                  "yolo:{}", "list:{}", "coco:/?annotations={}"])
def test_a_file_that_the_server_lacks_is_named(places, spec):
    with pytest.raises(mr.FileError, match=f"{places[1]}/none: HTTP 404 Not Found"):
        mr.Dataset(spec.format(f"{places[1]}/none%3Fsig=secret"))


def test_samples_at_a_url_that_each_name_a_dtype_are_refused(places):
    with pytest.raises(mr.UnsupportedError, match="write them as ndarray:int32"):
        mr.Dataset(f"tokens:{places[1]}/ndarray/uint8/index.json?window=3")


def test_an_imagefolder_at_a_url_is_refused_with_advice(places):
    with pytest.raises(mr.InvalidError, match="millrace list URL --save FILE"):
        mr.Dataset(places[1])


def test_a_shard_that_the_server_lacks_is_named(places):
    with pytest.raises(mr.FileError, match=f"{places[1]}/none.tar: HTTP 404 Not Found"):
        mr.Dataset(f"tar:{places[1]}/none.tar%3Fsig=secret")
