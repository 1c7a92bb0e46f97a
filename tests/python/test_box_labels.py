# SPDX-License-Identifier: Apache-2.0
"""What the annotations of a dataset are, and the labels of its boxes: also in packs and lists."""
import json
import os
import shutil
import struct
import subprocess
import zlib

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


def png(width, height):
    """A grey image of zeros."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
              (b"IDAT", zlib.compress(bytes((width + 1) * height))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks)


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
        head = mr.Dataset(f"imagefolder:{root}/JPEGImages?label=none").inspect(i)
        (root / f"SegmentationClass/{i}.png").write_bytes(png(head["width"], head["height"]))
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


def test_labels_of_boxes_are_read_without_decoding(packed):
    for name, specs in packed.items():
        for spec in specs:
            dataset = mr.Dataset(spec)
            if name == "masks":
                with pytest.raises(mr.UnsupportedError, match="the samples have no boxes"):
                    dataset.box_labels(0)
                continue
            found = [dataset.box_labels(i) for i in range(N)]
            assert found == (VOC if name == "voc" else DARKNET)
            assert found == [batch[:] for batch in read_first(spec)["box_label"]]


def test_many_boxes_and_damage(place):
    many = [k % 300 for k in range(3000)]
    (place / "many").mkdir()
    shutil.copy(place / "voc/JPEGImages/0.jpg", place / "many/0.jpg")
    (place / "many/0.txt").write_text("".join(f"{k} .5 .5 .1 .1\n" for k in many))
    (place / "many.txt").write_text(f"{place}/many/0.jpg\n" * 2)
    dataset = mr.Dataset(f"yolo:{place}/many.txt?labels=beside")
    assert dataset.box_labels(1) == many
    (place / "many/0.txt").write_text("1 .5 .5 .1 .1\n1 .5 .5 .1")
    with pytest.raises(mr.DamagedError, match="many/0.txt .index 1., line 2: "):
        dataset.box_labels(1)
    for index in (-1, 2):
        with pytest.raises(mr.InvalidError):
            dataset.box_labels(index)


def test_an_altered_annotation_of_a_pack_is_found(place):
    run(place, "pack", f"yolo:{place}/train.txt", "altered")
    shard = place / "altered/shard-00000"
    shard.write_bytes(shard.read_bytes().replace(b"1 .5 .5 .2 .2\n0", b"0 .5 .5 .2 .2\n0"))
    with pytest.raises(mr.DamagedError, match="the bytes of its member 'boxes' were altered"):
        mr.Dataset(f"pack:{place}/altered").box_labels(0)


def table(place, *command):
    """The lines of `millrace list` below "boxes   images"."""
    lines = iter(run(place, "list", *command).splitlines())
    assert any(line.split() == ["label", "boxes", "images", "class"] for line in lines)
    found = []
    for line in lines:
        if not line:
            return found
        found.append(line.split(None, 3))


def test_list_counts_boxes_and_images_of_each_class(packed):
    for name, specs in packed.items():
        for spec in specs:
            if name == "masks":
                assert "boxes" not in run(None, "list", spec).replace(spec, "")
                continue
            lines = table(None, "--classes", spec)
            names = [] if name == "boxes" else mr.Dataset(spec).classes
            expected = []
            labels = VOC if name == "voc" else DARKNET
            for label in range(len(names) or 2):
                counts = [row.count(label) for row in labels if label in row]
                expected.append([str(label), str(sum(counts)), str(len(counts)),
                                 *names[label:label + 1]])
            n_without = sum(not row for row in labels)
            assert lines == [*expected, ["-", "0", str(n_without), "(no box)"]]


def test_list_names_what_it_cannot_read(packed, place):
    (place / "bad").mkdir()
    (place / "bad/0.txt").write_text("1 .5\n")
    (place / "bad/1.txt").write_text("1 .5 .5 .1 .1\n")
    (place / "bad.txt").write_text(f"{place}/bad/0.jpg\n{place}/bad/1.jpg\n")
    done = subprocess.run([os.environ["MR_COMMAND"], "list", f"yolo:{place}/bad.txt?labels=beside"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "     1        1        1  \n     ?        ?        1  (the annotation" in done.stdout
    assert f"{place}/bad/0.txt (index 0), line 1: '1 .5' is not a class" in done.stderr


def check(spec):
    """The lines of `millrace check` about damaged samples."""
    done = subprocess.run([os.environ["MR_COMMAND"], "check", spec], stdout=subprocess.PIPE,
                          text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == (len(lines) > 1)
    assert f": {len(lines) - 1} of " in lines[-1]
    return lines[:-1]


def test_check_reads_boxes_and_masks(packed, place):
    for specs in packed.values():
        assert [check(spec) for spec in specs] == [[]] * 3
    (place / "odd").mkdir()
    shutil.copy(place / "voc/JPEGImages/0.jpg", place / "odd/0.jpg")
    (place / "odd/0.txt").write_text("1 .5\n")
    (place / "odd.txt").write_text(f"{place}/odd/0.jpg\n")
    line, = check(f"yolo:{place}/odd.txt?labels=beside")
    assert "0.txt (index 0), line 1: '1 .5' is not a class" in line
    root = shutil.copytree(place / "voc", place / "odd_voc")
    (root / "SegmentationClass/1.png").write_bytes(png(7, 9))
    line, = check(f"voc:{root}?task=segmentation")
    assert "1.jpg (index 1): its mask: it is 7x9, the image is " in line


def test_a_list_of_labelled_images_has_both_tables(place):
    root = place / "voc"
    (place / "both.txt").write_text("# classes:\tzero\tone\n" + "".join(
        f"{root}/JPEGImages/{i}.jpg\t{i % 2}\t{root}/labels/0.txt\n" for i in range(N)))
    spec = f"list:{place}/both.txt?extra=b:99&boxes=b"
    assert " label  samples  class\n     0        3  zero\n     1        2  one\n" in run(
        place, "list", spec)
    assert table(place, spec) == [["0", "5", "5", "zero"], ["1", "5", "5", "one"]]
    (place / "both.txt").write_text((place / "both.txt").read_text().replace("\t1\t", "\t0\t"))
    assert "samples  class" not in run(place, "list", spec)
