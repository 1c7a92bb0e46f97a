# SPDX-License-Identifier: Apache-2.0
"""millrace.torch's DataLoader on VOCSegmentation, VOCDetection and CocoDetection: what torch's
loader gives where nothing is drawn, and what torchvision's functions make of the calls of explain()
where something is.

With MR_REPLAYS=N there are N epochs of each instead of a few.
"""
import json
import os
import pickle
import re
import shutil

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

import PIL
from PIL import Image
from torch.utils import data
from torchvision import datasets, transforms as T
from torchvision.transforms import functional as F

import annotated as A
import millrace
from millrace.torch import DataLoader, Dataset, explain

try:
    from torchvision import tv_tensors
    from torchvision.transforms import v2
except ImportError:
    tv_tensors = v2 = None

wrap = getattr(datasets, "wrap_dataset_for_transforms_v2", None)
needs_v2 = pytest.mark.skipif(not tv_tensors, reason="this torchvision has no tv_tensors")
# Earlier versions of Pillow resample rows and columns in another order.
IS_EXACT = int(PIL.__version__.split(".")[0]) >= 13
N_EPOCHS = int(os.environ.get("MR_REPLAYS", "3"))
NORMAL = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
pytestmark = [
    pytest.mark.filterwarnings("error:millrace:"),
    pytest.mark.filterwarnings("ignore:.*are held at once"),
    pytest.mark.filterwarnings("ignore:Argument 'interpolation' of type int"),
]


def collate(batch):
    """The references' of detection."""
    return tuple(zip(*batch))


@pytest.fixture(scope="module")
def voc(tmp_path_factory):
    return A.make_voc(tmp_path_factory.mktemp("voc"))


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    pytest.importorskip("pycocotools")
    return A.make_coco(tmp_path_factory.mktemp("coco"))


@pytest.fixture(scope="module")
def full_coco(tmp_path_factory):
    """Every image has boxes, which sanitize and the IoU crop of torchvision need."""
    pytest.importorskip("pycocotools")
    return A.make_coco(tmp_path_factory.mktemp("full_coco"), empty=0)


def assert_same(mine, theirs, where="batch"):
    assert type(mine) is type(theirs), (where, type(mine), type(theirs))
    if isinstance(mine, torch.Tensor):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), where
        apart = (mine.as_subclass(torch.Tensor) - theirs.as_subclass(torch.Tensor)).abs()
        step = 0 if IS_EXACT or mine.ndim < 3 or mine.dtype != torch.float32 else 1.01 / 255
        assert apart.numel() == 0 or apart.max() <= step / min(NORMAL[1]), where
        for name in ("format", "canvas_size", "clamping_mode"):
            assert getattr(mine, name, None) == getattr(theirs, name, None), (where, name)
    elif isinstance(mine, (list, tuple)):
        assert len(mine) == len(theirs), where
        for i, (x, y) in enumerate(zip(mine, theirs)):
            assert_same(x, y, f"{where}[{i}]")
    elif isinstance(mine, dict):
        assert mine.keys() == theirs.keys(), where
        for key in mine:
            assert_same(mine[key], theirs[key], f"{where}[{key!r}]")
    else:
        assert mine == theirs, where


def native(dataset, **options):
    loader = DataLoader(dataset, **{"batch_size": 4, "num_workers": 1, **options})
    assert explain(loader)["native"], explain(loader)["reason"]
    return loader


def expect_same(dataset, function=None, **options):
    options = {"batch_size": 4, "collate_fn": function, **options}
    mine, theirs = list(native(dataset, **options)), list(data.DataLoader(dataset, **options))
    assert mine
    assert_same(mine, theirs)


def expect_fallback(dataset, words):
    with pytest.warns(UserWarning, match=words) as caught:
        loader = DataLoader(dataset, batch_size=4, collate_fn=collate)
    assert len([one for one in caught if "millrace:" in str(one.message)]) == 1
    assert not explain(loader)["native"]


def to_floats(*ops, ends=True):
    """v2's Compose of operations, to tensors of floats."""
    pure = [v2.ToPureTensor()] if ends else []
    return v2.Compose([*ops, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), *pure])


def open_coco(coco, transforms, keys=None):
    return wrap(datasets.CocoDetection(*coco, transforms=transforms), target_keys=keys)


# Where nothing is drawn, batches are torch's.


ONE_CLASS = "a ConcatDataset of datasets with masks or boxes that are not all the same class of VOC"


@needs_v2
@pytest.mark.parametrize("kind", [datasets.VOCDetection, datasets.VOCSegmentation])
def test_years_of_voc_are_concatenated(voc, tmp_path, kind):
    A.make_voc(tmp_path, 2007)

    def open_year(root, year, size=(33, 41)):
        to_float = v2.ToDtype({tv_tensors.BoundingBoxes: torch.float32, "others": None})
        transforms = to_floats(to_float, v2.Resize(size))
        return wrap(kind(root, year, "train", transforms=transforms))

    years = open_year(voc, "2012") + open_year(str(tmp_path), "2007")
    drawn = list(data.WeightedRandomSampler(range(len(years)), 40))
    assert min(drawn) < A.N < max(drawn)
    expect_same(years, collate, sampler=drawn)
    expect_same(data.Subset(open_year(str(tmp_path), "2007") + years, [2 * A.N, 1, -1, 3]), collate)
    expect_fallback(open_year(voc, "2012") + open_year(voc, "2012", (41, 33)),
                    "a ConcatDataset whose datasets have different transforms")
    other = kind(voc, image_set="train", transform=T.ToTensor())
    expect_fallback(open_year(voc, "2012") + other, "a ConcatDataset")
    plain = Dataset.from_samples([(other.images[0], 3)], T.ToTensor())
    expect_fallback(plain + other, "a ConcatDataset of datasets with masks or boxes and others")


@needs_v2
@pytest.mark.parametrize("ends", [True, False])
def test_masks_are_torchs(voc, ends):
    def open_voc(*ops):
        return wrap(datasets.VOCSegmentation(voc, transforms=to_floats(*ops, ends=ends)))

    expect_same(open_voc(v2.Resize((33, 41))))
    expect_same(open_voc(v2.Resize((33, 41))), collate)
    expect_same(open_voc(v2.Resize(33), v2.RandomHorizontalFlip(1), v2.Pad(3, fill=9)), collate)
    expect_same(open_voc(v2.Pad([1, 2, 3, 40], padding_mode="edge"), v2.CenterCrop(50)))
    expect_same(open_voc(v2.Pad(30, fill={tv_tensors.Mask: 255, "others": 3}),
                         v2.RandomVerticalFlip(1), v2.RandomSolarize(99, 1)), collate)
    expect_same(open_voc(v2.ColorJitter(hue=(0.1, 0.1))), collate, batch_size=1)


@needs_v2
def test_masks_of_another_dtype(voc):
    for dtype in (torch.int64, torch.int16, torch.uint8):
        types = {tv_tensors.Image: torch.float32, tv_tensors.Mask: dtype, "others": None}
        expect_same(wrap(datasets.VOCSegmentation(voc, transforms=v2.Compose(
            [v2.Resize((20, 30)), v2.ToImage(), v2.ToDtype(types, scale=True),
             v2.Normalize(*NORMAL)]))))


@needs_v2
@pytest.mark.parametrize("ends", [True, False])
def test_boxes_of_voc_are_torchs(voc, ends):
    def open_voc(*ops, keys=None):
        return wrap(datasets.VOCDetection(voc, transforms=to_floats(*ops, ends=ends)), keys)

    floats = v2.ToDtype({tv_tensors.BoundingBoxes: torch.float32, "others": None})
    expect_same(open_voc(), collate)
    expect_same(open_voc(v2.RandomHorizontalFlip(1), v2.Pad(5), v2.CenterCrop((40, 52)),
                         v2.SanitizeBoundingBoxes()), collate)
    expect_same(open_voc(floats, v2.Resize((50, 47)), v2.SanitizeBoundingBoxes(9)), collate)
    expect_same(open_voc(keys=["boxes"]), collate)
    expect_same(open_voc(floats, v2.ConvertBoundingBoxFormat("XYXY")), batch_size=1)


@needs_v2
@pytest.mark.parametrize("ends", [True, False])
def test_boxes_of_coco_are_torchs(coco, full_coco, ends):
    keys = ["image_id", "boxes", "labels", "area", "iscrowd", "bbox", "category_id", "segmentation"]
    expect_same(open_coco(coco, to_floats(ends=ends)), collate)
    expect_same(open_coco(coco, to_floats(ends=ends), keys), collate)
    expect_same(open_coco(coco, to_floats(v2.RandomVerticalFlip(1), ends=ends), ["boxes"]), collate)
    expect_same(open_coco(full_coco, to_floats(v2.CenterCrop(40), v2.SanitizeBoundingBoxes(),
                                               ends=ends), keys), collate)


@needs_v2
def test_boxes_of_whole_numbers_are_floats_after_a_resize(coco):
    """torch has integers, which it cuts."""
    dataset = open_coco(coco, to_floats(v2.Resize((53, 71))))
    n_whole = 0
    for (_, mine), (_, theirs) in zip(*(next(iter(kind(dataset, batch_size=20, collate_fn=list)))
                                        for kind in (native, data.DataLoader))):
        assert mine.keys() == theirs.keys()
        if "boxes" in mine:
            assert mine["boxes"].dtype is torch.float32
            n_whole += theirs["boxes"].dtype is torch.int64
            assert (mine["boxes"] - theirs["boxes"]).abs().max() < 1
            assert torch.equal(mine["labels"], theirs["labels"])
    assert n_whole > 1


def test_datasets_without_the_wrapper_have_their_own_targets(voc, coco):
    """The image is transformed alone."""
    for transform in (T.ToTensor(), T.Compose([T.Resize((20, 30)), T.ToTensor()])):
        expect_same(datasets.VOCDetection(voc, transform=transform), collate)
        expect_same(datasets.CocoDetection(*coco, transform=transform), collate)
        expect_same(datasets.CocoDetection(*coco, transform=transform), batch_size=1)


def change(batch):
    """A collate_fn that changes annotations in place."""
    for _, target in batch:
        for thing in target:
            thing["area"] += 1
            thing["bbox"][2] += thing["bbox"][0]
            thing["segmentation"][0].append(1)
    return collate(batch)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_changed_annotations_are_the_datasets_only_without_workers(coco, num_workers):
    """As in torch, whose workers have copies."""
    mine, theirs = (datasets.CocoDetection(*coco, transform=T.ToTensor()) for _ in range(2))
    clean = json.dumps(mine.coco.dataset)
    loaders = [kind(dataset, num_workers=num_workers, batch_size=4, collate_fn=change)
               for kind, dataset in ((native, mine), (data.DataLoader, theirs))]
    for _ in range(2):
        assert_same(*map(list, loaders))
    assert (json.dumps(mine.coco.dataset) == clean) == (num_workers == 1)
    assert mine.coco.dataset == theirs.coco.dataset


@needs_v2
def test_voc_may_have_any_number_of_boxes(voc, tmp_path):
    """The shortest objects, more than a loader has room for by default."""
    root = shutil.copytree(voc, tmp_path / "voc")
    path = sorted((root / "VOCdevkit/VOC2012/Annotations").iterdir())[0]
    thing = ("<object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5</xmax>"
             "<ymax>9</ymax></bndbox></object>")
    path.write_text(f"<annotation>{thing * 3000}</annotation>")
    dataset = wrap(datasets.VOCDetection(root, transforms=to_floats()))
    expect_same(dataset, collate)
    path.write_text(f"<annotation>{thing * 12000}</annotation>")
    expect_fallback(dataset, "with a target of more than 1048576 bytes")


@needs_v2
def test_v2_without_the_wrapper_changes_the_image_alone(coco):
    expect_same(datasets.CocoDetection(*coco, transforms=to_floats(ends=False)), collate)
    expect_same(datasets.CocoDetection(*coco, transform=to_floats()), collate)


@needs_v2
def test_captions_are_torchs(coco, tmp_path):
    with open(coco[1]) as file:
        content = json.load(file)
    for thing in content["annotations"]:
        thing["caption"] = f"thing {thing['id']}"
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(content))
    expect_same(datasets.CocoCaptions(coco[0], str(path), transform=T.ToTensor()), collate)
    expect_fallback(wrap(datasets.CocoCaptions(coco[0], str(path), transforms=to_floats())),
                    "the dataset WrappedCocoCaptions")


@needs_v2
def test_samples_are_those_of_the_object(coco, voc):
    """A Subset, ids that the program has changed, a copy of the loader."""
    dataset = open_coco(coco, to_floats())
    expect_same(data.Subset(dataset, [5, -1, 3, 3]), collate)
    expect_same(data.Subset(dataset, [5, 1]) + data.Subset(dataset, [0, -1, 5]), collate)
    expect_fallback(dataset + pickle.loads(pickle.dumps(dataset)), ONE_CLASS)
    expect_same(data.Subset(wrap(datasets.VOCDetection(voc, transforms=to_floats())), [9, 2]),
                collate)
    inner = datasets.CocoDetection(*coco, transforms=to_floats())
    inner.ids = inner.ids[::-2]
    expect_same(wrap(inner), collate)
    loader = native(dataset, collate_fn=collate)
    assert_same(list(pickle.loads(pickle.dumps(loader))), list(loader))


@needs_v2
def test_a_transform_may_change_between_passes(voc):
    dataset = wrap(datasets.VOCSegmentation(voc, transforms=to_floats(v2.Resize((20, 20)))))
    loader = native(dataset)
    assert next(iter(loader))[0].shape[2:] == (20, 20)
    dataset.transforms = to_floats(v2.Resize((30, 25)))
    assert next(iter(loader))[1].shape[1:] == (1, 30, 25)
    dataset.transforms = to_floats(v2.ElasticTransform())
    with pytest.warns(UserWarning, match="millrace: .*ElasticTransform"):
        iter(loader)


# What is drawn is replayed.


def open_samples(dataset):
    """The image and the target of each index, before transforms."""
    inner = getattr(dataset, "_dataset", dataset)
    transforms, dataset.transforms = dataset.transforms, None
    try:
        samples = [dataset[i] for i in range(len(inner))]
    finally:
        dataset.transforms = transforms
    return samples


def expect_replay(dataset, tail, mask_fill=0, functional=None):
    """tail: what follows the drawn operations. functional: of masks that are PIL images."""
    torch.manual_seed(5)
    loader = native(dataset, collate_fn=collate)
    text, samples = explain(loader)["transform"], open_samples(dataset)
    order = loader._source.indices
    places = range(len(samples)) if order is None else order.tolist()
    for epoch in range(N_EPOCHS):
        images, targets = map(list, zip(*(row for batch in loader for row in zip(*batch))))
        for i, (image, target) in enumerate(samples):
            boxes = target["boxes"].tolist() if isinstance(target, dict) else None
            if boxes is not None:
                target = {**target, "boxes": tv_tensors.wrap(target["boxes"].float(),
                                                             like=target["boxes"])}
            calls = millrace.explain(text, loader._draws.seed, epoch, places[i], *image.size,
                                     boxes=boxes)
            want = tail(*A.replay_sample(image, target, calls, mask_fill, functional))
            assert_same((images[i], targets[i]), want, str(calls))


DETECTION = {
    "hflip": lambda: [v2.RandomHorizontalFlip(0.5)],
    "lsj": lambda: [v2.ScaleJitter((60, 60)),
                    A.make_v2_extras()[1]((60, 60), (123.0, 117.0, 104.0)),
                    v2.RandomHorizontalFlip(0.5)],
    "multiscale": lambda: [v2.RandomShortestSize((48, 51, 54), max_size=80),
                           v2.RandomHorizontalFlip(0.5)],
    "ssd": lambda: [v2.RandomPhotometricDistort(),
                    v2.RandomZoomOut(fill={tv_tensors.Mask: 0}), v2.RandomIoUCrop(),
                    v2.RandomHorizontalFlip(0.5)],
    "ssdlite": lambda: [v2.RandomIoUCrop(), v2.RandomHorizontalFlip(0.5)],
}


@needs_v2
@pytest.mark.parametrize("kind", ["coco", "voc"])
@pytest.mark.parametrize("name", DETECTION)
def test_presets_of_detection(full_coco, voc, name, kind):
    end = [v2.ToImage(), v2.ToDtype(torch.float, scale=True)]
    clean = [v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY),
             v2.SanitizeBoundingBoxes(), v2.ToPureTensor()]
    floats = v2.ToDtype({tv_tensors.BoundingBoxes: torch.float32, "others": None})
    preset = A.Preset(v2.Compose([floats, *DETECTION[name](), *end, *clean]))
    dataset = open_coco(full_coco, preset) if kind == "coco" else wrap(
        datasets.VOCDetection(voc, transforms=preset))
    expect_replay(dataset, v2.Compose([*end, v2.ToPureTensor()]))


@needs_v2
def test_preset_of_evaluation_of_detection(coco):
    preset = A.Preset(v2.Compose([v2.ToImage(), v2.ToDtype(torch.float, scale=True),
                                  v2.ToPureTensor()]))
    expect_same(open_coco(coco, preset), collate)


@needs_v2
def test_presets_of_segmentation(voc):
    types = {torch.Tensor: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
    end = [v2.PILToTensor(), v2.ToDtype(types, scale=True), v2.Normalize(*NORMAL),
           v2.ToPureTensor()]
    pad = A.make_v2_extras()[0](48, fill={tv_tensors.Mask: 255, "others": 0})
    train = [v2.RandomResize(min_size=26, max_size=104), v2.RandomHorizontalFlip(0.5), pad,
             v2.RandomCrop(48)]
    expect_replay(wrap(datasets.VOCSegmentation(voc, transforms=A.Preset(v2.Compose(
        [*train, *end])))), v2.Compose(end), 255)
    evaluation = [v2.Resize(size=(52, 52)), v2.ToImage(), v2.ToDtype(torch.float, scale=True),
                  v2.Normalize(*NORMAL), v2.ToPureTensor()]
    expect_same(wrap(datasets.VOCSegmentation(voc, transforms=A.Preset(v2.Compose(evaluation)))),
                A.collate_fn)


def test_presets_of_segmentation_in_v1(voc):
    """With the references' own classes, on masks that are PIL images."""
    end = [A.PILToTensor(), A.ToDtype(torch.float, True), A.Normalize(*NORMAL)]
    train = [A.RandomResize(26, 104), A.RandomHorizontalFlip(0.5), A.RandomCrop(48)]
    expect_replay(datasets.VOCSegmentation(voc, transforms=A.Preset(A.Compose([*train, *end]))),
                  A.Compose(end), 255, F)
    evaluation = datasets.VOCSegmentation(voc, transforms=A.Preset(A.Compose(
        [A.RandomResize(52, 52), *end])))
    expect_same(evaluation, A.collate_fn)
    expect_same(evaluation, collate)
    expect_same(datasets.VOCSegmentation(voc, transforms=A.Compose([A.CenterCrop(40), *end])))
    loader = native(evaluation, collate_fn=A.collate_fn)
    next(iter(loader))
    assert loader._native.options["pad_batch"] > 0


@needs_v2
def test_a_preview_names_the_boxes(full_coco):
    names = {"cat", "dog", "cow"}
    assert names <= set(re.findall(r"\w+", str(native(open_coco(full_coco, to_floats()),
                                                      collate_fn=collate)._repr_html_())))


@needs_v2
def test_a_pass_continues_in_the_middle(full_coco):
    dataset = open_coco(full_coco, to_floats(v2.RandomIoUCrop(), v2.SanitizeBoundingBoxes()))
    torch.manual_seed(4)
    loader = native(dataset, shuffle=True, collate_fn=collate)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = list(batches)
    for n_workers in (0, 2):
        other = native(dataset, shuffle=True, collate_fn=collate, num_workers=n_workers)
        other.load_state_dict(state)
        assert_same(list(other), rest)


class GroupedBatchSampler(data.BatchSampler):
    """As that of references/detection: batches of one group, the last ones filled up."""

    def __init__(self, sampler, groups, batch_size):
        super().__init__(sampler, batch_size, False)
        self.groups = groups

    def __iter__(self):
        waiting, seen, n = {}, {}, 0
        for index in self.sampler:
            group = self.groups[index]
            seen.setdefault(group, []).append(index)
            waiting.setdefault(group, []).append(index)
            if len(waiting[group]) == self.batch_size:
                yield waiting.pop(group)
                n += 1
        for group in list(waiting)[:len(self) - n]:
            yield (waiting[group] + seen[group] * self.batch_size)[:self.batch_size]

    def __len__(self):
        return len(self.sampler) // self.batch_size


@needs_v2
def test_grouped_batches_are_native(coco):
    dataset = open_coco(coco, to_floats())
    groups = [int(image["height"] > image["width"]) for _, image in sorted(
        dataset.coco.imgs.items())]
    batches = []
    for kind in (native, data.DataLoader):
        sampler = data.RandomSampler(dataset, generator=torch.Generator().manual_seed(3))
        options = {"batch_size": 1} if kind is native else {}
        batches.append(list(kind(dataset, **options, collate_fn=collate, batch_sampler=(
            GroupedBatchSampler(sampler, groups, 3)))))
    assert_same(*batches)


# What torch loads, and why.


@needs_v2
@pytest.mark.parametrize("make, words", [
    (lambda: [v2.Resize(30)], "Resize of boxes with whole numbers, .*put v2.ToDtype"),
    (lambda: [v2.ElasticTransform()], "ElasticTransform: displacements"),
    (lambda: [v2.RandomRotation(9)], "RandomRotation of boxes with whole numbers"),
    (lambda: [v2.TrivialAugmentWide()], "TrivialAugmentWide of boxes, which torchvision refuses"),
    (lambda: [v2.RandomApply([v2.Resize(30)])], "Resize of boxes with whole numbers"),
    (lambda: [v2.ConvertBoundingBoxFormat("CXCYWH")], "XYXY is native"),
    (lambda: [v2.SanitizeBoundingBoxes(labels_getter=None)], "labels_getter"),
    (lambda: [v2.RandomIoUCrop(sampler_options=[0.5, 1.0])], "sampler_options"),
    (lambda: [v2.ToPureTensor(), v2.RandomHorizontalFlip()], "RandomHorizontalFlip after ToPure"),
    (lambda: [v2.ToDtype({tv_tensors.BoundingBoxes: torch.float64, "others": None})], "float64"),
    (lambda: [T.RandomHorizontalFlip()], "v1's RandomHorizontalFlip of an image and a target"),
    (lambda: [v2.ClampBoundingBoxes()], "ClampBoundingBoxes"),
    (lambda: [v2.PILToTensor(), v2.ConvertImageDtype()], "ConvertImageDtype, .* converts boxes"),
    (lambda: [v2.Pad(3, padding_mode="reflect")], "reflect"),
])
def test_other_transforms_of_boxes_are_left_to_torch(voc, make, words):
    expect_fallback(wrap(datasets.VOCDetection(voc, transforms=to_floats(*make()))), words)


@needs_v2
@pytest.mark.parametrize("make, words", [
    (lambda: [v2.Pad(3, fill=3), v2.CenterCrop(90)], r"masks with the fills \[0, 3\]"),
    (lambda: [v2.Pad(3, fill=(1, 2, 3))], "a fill of masks of"),
    (lambda: [v2.SanitizeBoundingBoxes()], "SanitizeBoundingBoxes without boxes"),
    (lambda: [v2.ElasticTransform()], "ElasticTransform"),
    (lambda: [A.RandomCrop(9)], "takes a mask that is a PIL image"),
    (lambda: [v2.PILToTensor(), v2.ConvertImageDtype()], "ConvertImageDtype, .* converts mask"),
])
def test_other_transforms_of_masks_are_left_to_torch(voc, make, words):
    expect_fallback(wrap(datasets.VOCSegmentation(voc, transforms=to_floats(*make()))), words)


@needs_v2
def test_other_targets_are_left_to_torch(voc, coco):
    for keys, words in ((["boxes", "masks"], "masks of COCO's segmentations"), ("all", "masks of"),
                        (["labels"], "without boxes")):
        expect_fallback(open_coco(coco, to_floats(), keys), words)
    expect_fallback(wrap(datasets.VOCDetection(voc, transforms=to_floats()), "all"), "annotation")
    expect_fallback(datasets.CocoDetection(*coco, transforms=A.Compose([])),
                    "CocoDetection with transforms that change the target: wrap_dataset")
    expect_fallback(datasets.VOCSegmentation(voc, transforms=to_floats()), "wrap the dataset by")
    expect_fallback(wrap(datasets.VOCSegmentation(voc, transform=to_floats())),
                    "VOCSegmentation with a transform of the image alone")


class Upset(datasets.VOCDetection):
    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return image.transpose(Image.Transpose.ROTATE_90), target


class Shuffled(datasets.VOCSegmentation):
    @property
    def masks(self):
        return self.targets[::-1]


def test_other_datasets_are_left_to_torch(voc):
    expect_fallback(Shuffled(voc, transforms=A.Compose([A.PILToTensor()])), "the dataset Shuffled")
    expect_fallback(Upset(voc, transform=T.ToTensor()), f"the dataset Upset of {__name__}, which "
                    "makes its samples in another way")
    expect_fallback(datasets.VOCDetection(voc, transform=T.ToTensor(), target_transform=len),
                    "a target_transform")
    moved = datasets.VOCSegmentation(voc, transforms=A.Compose([A.PILToTensor()]))
    moved.targets = moved.targets[::-1]
    expect_fallback(moved, "VOCSegmentation with other files than those of its folder")


class OtherCrop:
    """A class of a program that has a name of the references."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image, target):
        place = T.RandomCrop.get_params(image, (self.size, self.size))
        return F.crop(image, *place), F.crop(target, *place)


OtherCrop.__name__ = "RandomCrop"


def test_a_class_that_only_has_a_name_of_the_references_is_left_to_torch(voc):
    expect_fallback(datasets.VOCSegmentation(voc, transforms=A.Compose(
        [OtherCrop(20), A.PILToTensor()])), "RandomCrop, which is not the one of torchvision's")
