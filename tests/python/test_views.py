# SPDX-License-Identifier: Apache-2.0
"""Views: several pictures of a sample. Their calls replay, and crops are torchvision's."""
import os
import sys

import pytest

import millrace as mr

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
needs_torchvision = pytest.mark.skipif(not (numpy and torch and torchvision),
                                       reason="torchvision is not here, or too old")
DATA = os.path.join(os.path.dirname(__file__), "../data")


def test_views_are_arrays_and_attributes(make_loader):
    loader = make_loader("view(big,train:32)|view(small,3,train:16:20)")
    batch = next(iter(loader))
    assert batch.keys()[0] == "big" and "image" not in batch
    assert batch.big.shape == (4, 3, 32, 32) and batch["big.geometry"].shape == (4, 8)
    assert batch.small.shape == (4, 3, 3, 16, 20) and batch["small.geometry"].shape == (4, 3, 8)
    assert batch.small is batch["small"]
    with pytest.raises(AttributeError, match="no attribute 'smal'"):
        batch.smal  # pylint: disable=pointless-statement
    with pytest.raises(KeyError, match="no array 'image', only big, label"):
        batch.image  # pylint: disable=pointless-statement


def test_views_are_mixed_with_one_partner(make_loader):
    options = {"dtype": "f32", "batch_size": 4, "seed": 3}
    plain = make_loader("view(a,2,train:16)|view(b,eval:9:9)", **options)
    mixed = make_loader("view(a,2,train:16+mixup(0.8))|view(b,eval:9:9)", soft_labels=3, **options)
    for whole, batch in zip(plain, mixed):
        labels, own = batch.label.tolist(), whole.a.tolist()
        assert batch.b.tobytes() == whole.b.tobytes()
        for i, share in enumerate(batch["mix_lambda"].tolist()):
            assert batch["mix_label"].tolist()[i] == labels[i - 1]
            for k in range(2):
                row, other = own[i][k][0][0], own[i - 1][k][0][0]
                made = batch.a.tolist()[i][k][0][0]
                assert all(abs(x - (share * y + (1 - share) * z)) < 1e-5
                           for x, y, z in zip(made, row, other))


VIEWS = ["view(a,none)", "view(a,3,none)", "view(a,none)|view(b,none)", "five_crop(2)"]


@pytest.mark.parametrize("text", VIEWS)
def test_samples_that_are_no_pictures_have_no_views(make_loader, tmp_path, text):
    (tmp_path / "tokens").write_bytes(bytes(range(80)))
    with pytest.raises(mr.InvalidError, match="views cannot be made: the samples are not pictures"):
        make_loader(text, f"records:{tmp_path}/tokens?dtype=u16&shape=5")


@pytest.fixture(scope="module")
def annotated(images, tmp_path_factory):
    """SPECs of an image with a box."""
    place = tmp_path_factory.mktemp("annotated")
    image = mr.Dataset(images).name(0)
    for name in ("JPEGImages/0.jpg", "Annotations/0.xml", "ImageSets/Main/train.txt"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
    with open(image, "rb") as photo:
        (place / "JPEGImages/0.jpg").write_bytes(photo.read())
    (place / "Annotations/0.xml").write_text(
        "<annotation><object><name>cat</name><bndbox><xmin>3</xmin><ymin>3</ymin><xmax>9</xmax>"
        "<ymax>9</ymax></bndbox></object></annotation>")
    (place / "ImageSets/Main/train.txt").write_text("0\n")
    (place / "coco.json").write_text(
        '{"images":[{"id":1,"file_name":"0.jpg","width":9,"height":9}],"categories":[{"id":1,'
        '"name":"cat"}],"annotations":[{"id":1,"image_id":1,"category_id":1,"bbox":[1,1,2,2]}]}')
    (place / "JPEGImages/0.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    (place / "list.txt").write_text(f"{place}/JPEGImages/0.jpg\n")
    return {"voc": f"voc:{place}?set=train",
            "coco": f"coco:{place}/JPEGImages?annotations={place}/coco.json",
            "yolo": f"yolo:{place}/list.txt?labels=beside"}


@pytest.mark.parametrize("kind", ["voc", "coco", "yolo"])
def test_views_are_not_applied_to_boxes(make_loader, annotated, kind):
    one = make_loader("resize(9:9)", annotated[kind], batch_size=1)
    assert [len(row) for row in next(iter(one))["boxes"]] == [1]
    for text in ("dino:32:16", "resize(9)+ten_crop(4)", *VIEWS):
        with pytest.raises(mr.InvalidError, match="views and crops are not applied to boxes"):
            make_loader(text, annotated[kind], batch_size=1)


@pytest.mark.skipif(not numpy, reason="numpy is not here, or too old")
def test_masks_follow_what_views_share(make_loader, tmp_path):
    image = pytest.importorskip("PIL.Image")
    random = numpy.random.default_rng(3)
    for folder in ("photos/a", "masks/a"):
        (tmp_path / folder).mkdir(parents=True)
    for i in range(9):
        size = 40 + 3 * i, 60 - 2 * i
        pixels = random.integers(0, 256, (*size, 3), dtype=numpy.uint8)
        image.fromarray(pixels).save(tmp_path / f"photos/a/{i}.png")
        indices = random.integers(0, 9, size, dtype=numpy.uint8)
        image.fromarray(indices).save(tmp_path / f"masks/a/{i}.png")
    spec = f"imagefolder:{tmp_path}/photos?extra=seg:65536:.png:{tmp_path}/masks"
    shared = "shared(random_apply(rotation(40),0.6)+random_apply(color_jitter(0.5),0.5))"
    whole = f"{shared}+random_resized_crop(24)+hflip+mask()"
    part = f"{shared}+inside(a,random_resized_crop(24)+hflip)+patch_crop(8,8)+mask()"

    def take(text, workers=0):
        batch = next(iter(make_loader(text, spec, batch_size=9, seed=4, num_workers=workers)))
        return {name: numpy.array(batch[name]) for name in batch.keys()}

    alone = [take(f"view(b#{k},{part})") for k in range(3)]
    for workers in (0, 2):
        both = take(f"view(a,{whole})|view(b,3,{part})", workers)
        for k, name in ((k, name) for k in range(3) for name in ("b", "b.mask_image")):
            assert (both[name][:, k] == alone[k][name]).all()
        for row, k in ((row, k) for row in range(9) for k in range(3)):
            found, mask = both["b.mask_image"][row, k], both["a.mask_image"][row]
            assert any((mask[y:y + 8, x:x + 8] == found).all() for y in (0, 8) for x in (0, 8))


def test_recipes_of_views(make_loader):
    for name in ("dino", "dinov2"):
        batch = next(iter(make_loader(f"{name}:48:24", dtype="f32")))
        assert batch.global1.shape == batch.global2.shape == (4, 3, 48, 48)
        assert batch.local.shape == (4, 8, 3, 24, 24)
    # DINOv2's code blurs by 0, 0.9 and 0.5, whatever its arguments say
    text = str(mr.Transform("dinov2"))
    blurs = ["gaussian_blur" in view for view in text.split("|")]
    assert blurs == [False, True, True]
    assert "random_apply(gaussian_blur(9,0.1:2),0.9)" in text
    assert "random_apply(gaussian_blur(9,0.1:2),0.5)" in text


def test_dinov3_shares_one_jitter():
    text = "dinov3_shared_jitter"
    n_jittered = 0
    for index in range(30):
        calls = mr.explain(text, 5, 2, index, 60, 40)
        jitters = [names[:[name for name, _ in names].index("resized_crop")]
                   for names in calls.values()]
        assert len(jitters) == 10 and all(jitter == jitters[0] for jitter in jitters)
        n_jittered += jitters[0] != []
        blurs = ["gaussian_blur" in dict(names) for names in calls.values()]
        assert not blurs[0]
    assert 20 <= n_jittered < 30  # of 0.84
    whole = mr.explain("random_apply(color_jitter(0.4,0.4,0.2,0.1),0.8)+random_grayscale(0.2)", 5,
                       2, 29, 60, 40)
    assert whole == jitters[0]


def test_dinov3_has_local_crops_inside_the_global_ones():
    places = set()
    for index in range(30):
        calls = mr.explain("dinov3_local_subset", 5, 2, index, 300, 200)
        for name, listed in calls.items():
            if name.startswith("local"):
                whole = calls["global" + name[5]]
                base = [call for call in whole if call[0] in ("resized_crop", "hflip")]
                assert listed[:len(base)] == base and listed[-1][0] == "crop"
                crop = listed[-1][1]
                places.add((crop["top"], crop["left"]))
                assert (crop["height"], crop["width"]) == (96, 96)
    # np.random.randint(0, (224 - 96) // 16, 2) * 16
    tops, lefts = map(set, zip(*places))
    assert tops == lefts == set(range(0, 128, 16))


def pictures(loader):
    """(image's file, its size, {the picture's name: its pixels}, index) of each sample."""
    for batch in loader:
        views = [name for name in batch.keys() if f"{name}.geometry" in batch or name == "image"]
        for row, index in enumerate(batch.index.tolist()):
            found = {}
            for name in views:
                pixels = numpy.asarray(batch[name])[row]
                several = {f"{name}#{k}": picture for k, picture in enumerate(pixels)}
                found |= several if pixels.ndim == 4 else {name: pixels}
            name = views[0] + ".geometry" if views[0] != "image" else "geometry"
            width, height = numpy.asarray(batch[name])[row].reshape(-1)[:2].tolist()
            yield index, (width, height), found


@needs_torchvision
@pytest.mark.parametrize("text, n, most", [
    ("dino:48:24", 10, 0), ("dinov2:48:24", 10, 1),
    ("dinov3_shared_jitter:48:24", 10, 1), ("dinov3_local_subset:64:32", 10, 1),
    ("view(a,resize(40)+five_crop(24:30)+color_jitter(0.4))|view(b,2,center_crop(30)+hflip)", 7, 0),
    ("resize(40)+random_crop(40:39)+ten_crop(24:30,vertical_flip)+invert(0.5)", 10, 0)
])
def test_explanations_replay(make_loader, images, text, n, most):
    image_of = pytest.importorskip("PIL.Image").open
    sys.path.insert(0, DATA)
    from replay_explain import replay
    dataset = mr.Dataset(f"imagefolder:{images}")
    loader = make_loader(text, dataset=dataset, seed=5, layout="nhwc")
    loader.set_epoch(2)
    for index, size, found in pictures(loader):
        calls = mr.explain(text, 5, 2, index, *size)
        assert list(calls) == list(found) and len(found) == n
        image = image_of(dataset.name(index)).convert("RGB")
        assert image.size == size
        for name, pixels in found.items():
            made = numpy.asarray(replay(image, calls[name])).astype(int)
            assert abs(made - pixels).max() <= most, (name, calls[name])


@needs_torchvision
@pytest.mark.parametrize("crop, options", [("FiveCrop", {}), ("TenCrop", {}),
                                           ("TenCrop", {"vertical_flip": True})])
def test_crops_are_those_of_torchvision(make_loader, images, crop, options):
    image_of = pytest.importorskip("PIL.Image").open
    from torchvision import transforms
    dataset = mr.Dataset(f"imagefolder:{images}")
    name = {"FiveCrop": "five_crop", "TenCrop": "ten_crop"}[crop]
    text = f"resize(37)+{name}(24:31{''.join(',' + word for word in options)})"
    loader = make_loader(text, dataset=dataset, layout="nhwc")
    wanted = transforms.Compose(
        [transforms.Resize(37), getattr(transforms, crop)((24, 31), **options)])
    for index, _, found in pictures(loader):
        image = image_of(dataset.name(index)).convert("RGB")
        for picture, pixels in zip(wanted(image), found.values(), strict=True):
            assert (numpy.asarray(picture) == pixels).all()
