# SPDX-License-Identifier: Apache-2.0
"""The kinds voc and coco give what torchvision's datasets give: order, paths, boxes, labels."""
import json
import os
import random
import subprocess
from importlib.util import find_spec

import pytest

import millrace as mr

numpy = pytest.importorskip("numpy")
image = pytest.importorskip("PIL.Image")
datasets = pytest.importorskip("torchvision.datasets")
CLASSES = ("aeroplane", "cat", "person", "tvmonitor")
WHOLE = dict(transform="none", ragged=True, layout="nhwc", max_row_bytes=1 << 15, no_shuffle=True,
             num_workers=0)


def voc_xml(draws):
    objects = ""
    for _ in range(draws.choice([1, 2, 9])):
        corners = [draws.randrange(1, 60), draws.randrange(1, 40), draws.randrange(60, 90),
                   draws.randrange(40, 70)]
        box = "".join(f"<{key}>{value}</{key}>" for key, value in zip(
            ("xmin", "ymin", "xmax", "ymax"), corners))
        part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax>" \
            "<ymax>4</ymax></bndbox></part>" if draws.random() < 0.3 else ""
        objects += f"<object><name>{draws.choice(CLASSES)}</name><difficult>" \
            f"{draws.randrange(2)}</difficult><bndbox>{box}</bndbox>{part}</object>"
    return f"<annotation><size><width>90</width><height>70</height></size>{objects}</annotation>"


@pytest.fixture(scope="module")
def voc(tmp_path_factory):
    """A tree of VOC of the years 2012 and 2007, whose sets are in no order."""
    root, draws = tmp_path_factory.mktemp("voc"), random.Random(3)
    for year, name in ((2012, "train"), (2012, "val"), (2007, "test")):
        base = root / f"VOCdevkit/VOC{year}"
        names = [f"{year}_{draws.randrange(10**6):06}" for _ in range(13)]
        for folder in ("ImageSets/Main", "ImageSets/Segmentation", "JPEGImages", "Annotations",
                       "SegmentationClass"):
            (base / folder).mkdir(parents=True, exist_ok=True)
        (base / f"ImageSets/Main/{name}.txt").write_text("\n".join(names) + "\n")
        (base / f"ImageSets/Segmentation/{name}.txt").write_text("\n".join(names[::-2]) + "\n")
        for stem in names:
            image.new("RGB", (90, 70), tuple(draws.randbytes(3))).save(
                base / f"JPEGImages/{stem}.jpg")
            mask = image.frombytes("P", (90, 70), draws.randbytes(90 * 70))
            mask.putpalette(bytes(range(256)) * 3)
            mask.save(base / f"SegmentationClass/{stem}.png")
            (base / f"Annotations/{stem}.xml").write_text(voc_xml(draws))
    return root


def rows(make_loader, spec, name):
    """The array's values of each sample, in the order of the dataset."""
    return [batch[name][k] for batch in make_loader(dataset=spec, **WHOLE)
            for k in range(batch.size) if batch.mask.tolist()[k]]


@pytest.mark.parametrize("year, name", [(2012, "train"), (2012, "val"), (2007, "test")])
def test_voc_detection(make_loader, voc, year, name):
    theirs = datasets.VOCDetection(str(voc), str(year), name)
    spec = f"voc:{voc}?set={name}&year={year}"
    ours = mr.Dataset(spec)
    assert [ours.name(i) for i in range(len(ours))] == theirs.images
    boxes, labels, crowds = (rows(make_loader, spec, key)
                             for key in ("boxes", "box_label", "box_crowd"))
    assert len(boxes) == len(theirs) == 13
    for i, (_, target) in enumerate(theirs):
        objects = target["annotation"]["object"]
        assert numpy.array(boxes[i]).tolist() == [
            [float(thing["bndbox"][key]) for key in ("xmin", "ymin", "xmax", "ymax")]
            for thing in objects]
        assert [ours.classes[label] for label in labels[i]] == [
            thing["name"] for thing in objects]
        assert list(map(int, crowds[i])) == [int(thing["difficult"]) for thing in objects]
    wrap = getattr(datasets, "wrap_dataset_for_transforms_v2", None)
    for i, (_, target) in enumerate(wrap(theirs) if wrap else ()):
        assert numpy.array(boxes[i]).tolist() == target["boxes"].tolist()
        assert labels[i] == target["labels"].tolist()


@pytest.mark.parametrize("year, name", [(2012, "train"), (2007, "test")])
def test_voc_segmentation(make_loader, voc, year, name):
    theirs = datasets.VOCSegmentation(str(voc), str(year), name)
    spec = f"voc:{voc}?set={name}&year={year}&task=segmentation"
    ours = mr.Dataset(spec)
    assert [ours.name(i) for i in range(len(ours))] == theirs.images
    loader = make_loader(dataset=spec, **{**WHOLE, "transform": "mask", "batch_size": 1})
    masks = [batch["mask_image"].tobytes()[:90 * 70] for batch in loader]
    assert len(masks) == 7
    for mask, (_, theirs_mask) in zip(masks, theirs):
        assert mask == numpy.asarray(theirs_mask).tobytes()
    files = next(iter(make_loader(dataset=spec, **{**WHOLE, "batch_size": 1})))["mask_file"]
    assert bytes(files[0])[:4] == b"\x89PNG"  # without the operation, as it is


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    """A folder of images and an annotation file whose ids and boxes are in no order; some boxes
    have one id."""
    root, draws = tmp_path_factory.mktemp("coco"), random.Random(4)
    ids = draws.sample(range(10**6), 15)
    images = [{"id": i, "file_name": f"{i:06}.jpg", "width": 90, "height": 70} for i in ids]
    for entry in images:
        image.new("RGB", (90, 70), tuple(draws.randbytes(3))).save(root / entry["file_name"])
    annotations = [{"id": k % 80, "image_id": draws.choice(ids[:12]), "iscrowd": int(k % 9 == 0),
                    "category_id": draws.choice([1, 3, 90]), "area": draws.uniform(1, 900),
                    "segmentation": [[draws.random(), 2, 3]],
                    "bbox": [draws.uniform(0, 60), draws.uniform(0, 40), draws.uniform(2, 30),
                             draws.uniform(2, 30)]} for k in range(1, 90)]
    categories = [{"id": i, "name": name} for i, name in ((90, "cat"), (1, "dog"), (3, "cow"))]
    (root / "boxes.json").write_text(json.dumps(
        {"images": images, "annotations": annotations, "categories": categories}))
    return root


def test_coco_is_not_saved_as_a_list(coco, tmp_path):
    spec = f"coco:{coco}?annotations={coco}/boxes.json&index=none"
    done = subprocess.run([os.environ["MR_COMMAND"], "list", "--save", tmp_path / "x.list", spec],
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and not (tmp_path / "x.list").exists()
    assert "coco cannot be saved as a list" in done.stderr


def test_masks_of_boxes_are_refused(make_loader, voc, coco):
    with pytest.raises(mr.Error, match="masks of coco are not offered yet"):
        make_loader("resize(9:9)+mask()", f"coco:{coco}?annotations={coco}/boxes.json")
    with pytest.raises(mr.Error, match="masks of voc come with task=segmentation"):
        make_loader("resize(9:9)+mask()", f"voc:{voc}?year=2007&set=test&task=detection")


def test_list_has_no_table_of_labels(voc, coco):
    annotated = f"coco:{coco}?annotations={coco}/boxes.json&index=none"
    for spec, n in ((f"voc:{voc}", 13), (annotated, 15)):
        text = subprocess.run([os.environ["MR_COMMAND"], "list", spec], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        assert f"{n} samples" in text and "jpeg" in text and "samples  class" not in text


def test_coco(make_loader, coco):
    spec = f"coco:{coco}?annotations={coco}/boxes.json&index=none"
    content = json.loads((coco / "boxes.json").read_text())
    ours = mr.Dataset(spec)
    images = sorted(content["images"], key=lambda entry: entry["id"])
    assert [ours.name(i) for i in range(len(ours))] == [
        f"{coco}/{entry['file_name']}" for entry in images]
    boxes, labels, areas, crowds = (rows(make_loader, spec, "box" + key)
                                    for key in ("es", "_label", "_area", "_crowd"))
    found, last = [], {thing["id"]: thing for thing in content["annotations"]}
    for i, entry in enumerate(images):
        things = [last[thing["id"]] for thing in content["annotations"]
                  if thing["image_id"] == entry["id"]]
        xywh = numpy.array([thing["bbox"] for thing in things], numpy.float32).reshape(-1, 4)
        expected = numpy.concatenate([xywh[:, :2], xywh[:, :2] + xywh[:, 2:]], 1)
        found.append(numpy.array(boxes[i], numpy.float32).reshape(-1, 4))
        assert found[i].tobytes() == expected.tobytes()
        assert labels[i] == [thing["category_id"] for thing in things]
        assert list(map(int, crowds[i])) == [thing["iscrowd"] for thing in things]
        assert numpy.array(areas[i], numpy.float32).tobytes() == numpy.array(
            [thing["area"] for thing in things], numpy.float32).tobytes()
    wrap = getattr(datasets, "wrap_dataset_for_transforms_v2", None)
    if not wrap or not find_spec("pycocotools"):
        return
    for i, (_, target) in enumerate(wrap(
            datasets.CocoDetection(str(coco), str(coco / "boxes.json")),
            target_keys=("image_id", "boxes", "labels"))):
        assert target["image_id"] == images[i]["id"]
        assert found[i].tolist() == target.get("boxes", numpy.zeros((0, 4))).tolist()
        assert labels[i] == target.get("labels", numpy.zeros(0)).tolist()
