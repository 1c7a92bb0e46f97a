# SPDX-License-Identifier: Apache-2.0
"""What the annotations of a dataset are, and the labels of its boxes: also in packs and lists."""
import json
import os
import shutil
import subprocess

import pytest

import millrace as mr

N = 5
LINES = ["1 .5 .5 .2 .2\n0 .5 .5 .1 .1\n", "", "1 .5 .5 .2 .2\n", None, "1 .2 .2 .1 .1\n" * 3]
DARKNET = [[1, 0], [], [1], [], [1, 1, 1]]
NAMES = [["cat", "dog", "cat"], [], ["person"], ["cat"], ["dog"]]
VOC = [[8, 12, 8], [], [15], [8], [12]]


def run(place, *command):
    return subprocess.run([os.environ["MR_COMMAND"], *command], check=True, cwd=place, text=True,
                          stdout=subprocess.PIPE).stdout


def xml(names):
    sides = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox>"
    return "<annotation>%s</annotation>" % "".join(
        f"<object><name>{name}</name>{sides}</object>" for name in names)


@pytest.fixture(scope="module")
def place(images, tmp_path_factory):
    """A folder with a VOC tree, a list of darknet and annotations of COCO."""
    place = tmp_path_factory.mktemp("annotated")
    root = place / "voc"
    for folder in ("ImageSets/Main", "ImageSets/Segmentation", "JPEGImages", "Annotations",
                   "SegmentationClass", "labels"):
        (root / folder).mkdir(parents=True)
    files = [name for name in map(mr.Dataset(images).name, range(21)) if name.endswith(".jpg")][:N]
    for i, (file, lines, names) in enumerate(zip(files, LINES, NAMES)):
        shutil.copy(file, root / f"JPEGImages/{i}.jpg")
        shutil.copy(file, root / f"SegmentationClass/{i}.png")
        (root / f"Annotations/{i}.xml").write_text(xml(names))
        if lines is not None:
            (root / f"labels/{i}.txt").write_text(lines)
    for folder in ("Main", "Segmentation"):
        (root / f"ImageSets/{folder}/train.txt").write_text("\n".join(map(str, range(N))))
    (place / "x.names").write_text("zero\none\n")
    (place / "train.txt").write_text("".join(f"{root}/JPEGImages/{i}.jpg\n" for i in range(N)))
    boxes = [{"id": 10 * i + k, "image_id": i, "category_id": label, "bbox": [1, 2, 3, 4]}
             for i, labels in enumerate(DARKNET) for k, label in enumerate(labels)]
    (place / "c.json").write_text(json.dumps({
        "images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(N)], "annotations": boxes,
        "categories": [{"id": 1, "name": "one"}, {"id": 0, "name": "zero"}]}))
    return place


def sources(place):
    """SPECs by what mr.Dataset.annotations should say, of the datasets that this build can read."""
    root = place / "voc"
    found = {"voc": f"voc:{root}", "masks": f"voc:{root}?task=segmentation",
             "darknet": f"yolo:{place}/train.txt?names={place}/x.names",
             "coco": f"coco:{root}/JPEGImages?annotations={place}/c.json&index=none",
             "boxes": f"imagefolder:{root}/JPEGImages?label=none&extra=b:99:.txt:{root}/labels"
                      "&boxes=b"}
    for name, probe in (("coco", mr.Dataset), ("voc", read_first)):
        try:
            probe(found[name])
        except mr.Error as error:
            assert "this build has no" in str(error)
            del found[name]
    return found


def read_first(spec):
    """The first batch of all images of a dataset, in its order."""
    with mr.Loader(spec, "resize(8:8)", batch_size=N, num_workers=0, no_shuffle=True) as loader:
        return loader.next()


@pytest.fixture(scope="module")
def packed(place):
    """Each source, and a pack of it."""
    found = {}
    for name, spec in sources(place).items():
        run(place, "pack", spec, name)
        run(place, "pack", f"pack:{name}", f"again_{name}")
        found[name] = spec, f"pack:{place}/{name}", f"pack:{place}/again_{name}"
    return found


def test_packs_keep_what_the_annotations_are(packed, images):
    for name, specs in packed.items():
        assert [mr.Dataset(spec).annotations for spec in specs] == [name] * 3
        assert mr.Dataset(specs[1]).classes == mr.Dataset(specs[0]).classes
    assert mr.Dataset(images).annotations == "none"


def test_an_empty_file_of_voc_is_damage_in_a_pack_too(packed, place):
    if "voc" not in packed:
        pytest.skip("this build has no expat")
    root = shutil.copytree(place / "voc", place / "empty")
    (root / "Annotations/2.xml").write_text("")
    run(place, "pack", f"voc:{root}", "of_empty")
    for spec, file in ((f"voc:{root}", f"{root}/Annotations/2.xml (index 2)"),
                       (f"pack:{place}/of_empty", "shard-00000 (JPEGImages/2.jpg, index 2)")):
        with pytest.raises(mr.DamagedError, match="line 1: no element found") as found:
            read_first(spec)
        assert file in str(found.value)


def test_classes_of_darknet_are_checked_in_a_pack_too(place):
    (place / "one.names").write_text("zero\n")
    spec = f"yolo:{place}/train.txt?names={place}/one.names"
    run(place, "pack", spec, "of_one")
    for each in (spec, f"pack:{place}/of_one"):
        with pytest.raises(mr.DamagedError, match="line 1: class 1 is not below 1"):
            read_first(each)


def test_the_classes_of_annotations_are_not_counted_as_those_of_images(packed, images):
    for name, specs in packed.items():
        for spec in specs:
            assert " label  samples  class" not in run(None, "list", "--no-inspect", spec)
    assert " label  samples  class" in run(None, "list", "--no-inspect", images)
