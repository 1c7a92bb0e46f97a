# SPDX-License-Identifier: Apache-2.0
"""millrace.torch's DataLoader on torchvision's datasets of files, on paths in memory, and on
datasets of Hugging Face.
"""
import os
import pickle
import warnings

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from PIL import Image
from torch.utils import data
from torchvision import datasets, transforms as T
from torchvision.datasets.vision import StandardTransform

import millrace
from millrace.torch import DataLoader, Dataset, ImageFolder, explain
from millrace.torch._source import _OF_FILES

pytestmark = [
    pytest.mark.filterwarnings("error:millrace:"),
    pytest.mark.filterwarnings("ignore:.*are held at once")
]
EVAL = T.Compose([T.Resize(24), T.CenterCrop(16), T.ToTensor()])


def assert_same_batches(ours, torchs):
    ours, torchs = list(ours), list(torchs)
    assert len(ours) == len(torchs) > 0
    for mine, theirs in zip(ours, torchs):
        assert type(mine) is type(theirs)
        if isinstance(mine, dict):
            assert list(mine) == list(theirs)
            mine, theirs = mine.values(), theirs.values()
        for x, u in zip(mine, theirs):
            assert torch.equal(x, u)


def native(dataset, **options):
    loader = DataLoader(dataset, **{"batch_size": 4, "num_workers": 1, **options})
    assert explain(loader)["native"], explain(loader)["reason"]
    return loader


def expect_same(dataset, **options):
    assert_same_batches(native(dataset, **options),
                        data.DataLoader(dataset, **{"batch_size": 4, **options}))


def expect_fallback(dataset, words):
    with pytest.warns(UserWarning, match=words) as caught:
        loader = DataLoader(dataset, batch_size=4)
    assert len([one for one in caught if "millrace:" in str(one.message)]) == 1
    assert not explain(loader)["native"]


def pairs(images):
    """Paths and labels that are not in the order of a folder."""
    return [(path, 3 + 2 * label) for path, label in ImageFolder(images).samples[::-2]]


class Photos(datasets.ImageFolder):
    """A subclass that finds its files in another way."""

    def __init__(self, root, transform):
        super().__init__(root, transform)
        self.samples = self.samples[::-1]


class Rotated(Photos):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image.rot90(1, (1, 2)), label


class Listed(Photos):
    def __getitems__(self, indices):
        return [self[i] for i in indices[::-1]]


class Half(Photos):
    def __len__(self):
        return super().__len__() // 2


def test_a_subclass_that_keeps_getitem_is_native(images):
    expect_same(Photos(images, EVAL))
    expect_same(data.Subset(Photos(images, EVAL), [3, -1, 3]))


@pytest.mark.parametrize("kind, words", [(Rotated, "the dataset Rotated"),
                                         (Listed, "the dataset Listed"),
                                         (Half, "Half of another length than its list of files")])
def test_a_subclass_that_loads_otherwise_is_left_to_torch(images, kind, words):
    expect_fallback(kind(images, EVAL), words)


def test_eurosat_is_native(images, tmp_path):
    (tmp_path / "eurosat").mkdir()
    (tmp_path / "eurosat" / "2750").symlink_to(images)
    expect_same(datasets.EuroSAT(str(tmp_path), EVAL))


def make_of_files(name, samples):
    """An object of a class of torchvision with these samples, without its files."""
    kind = getattr(datasets, name, None)
    if kind is None:
        pytest.skip(f"this torchvision has no {name}")
    made, lists = kind.__new__(kind), _OF_FILES[name]
    vars(made).update(transform=EVAL, target_transform=None, transforms=StandardTransform(EVAL),
                      _target_types=["category"], loader=datasets.folder.default_loader)
    if name == "LFWPeople" and "_loader" not in vars(kind.__mro__[1]):
        made._loader = datasets.folder.default_loader
    values = [list(values) for values in zip(*samples)] if len(lists) == 2 else [samples]
    vars(made).update(zip(lists, values))
    return made


@pytest.mark.parametrize("name", _OF_FILES)
def test_torchvisions_datasets_of_files_are_native(images, name):
    made = make_of_files(name, pairs(images))
    expect_same(made)
    made.target_transform = len
    expect_fallback(made, "a target_transform")


@pytest.mark.parametrize("name", ["Places365", "OxfordIIITPet"])
def test_transforms_of_image_and_target_are_left_to_torch(images, name):
    made = make_of_files(name, pairs(images))
    made.transforms = lambda image, target: (EVAL(image), target)
    expect_fallback(made, f"{name} with transforms of image and target")


@pytest.mark.parametrize("types", [["segmentation"], ["category", "segmentation"]])
def test_other_targets_of_pets_are_left_to_torch(images, types):
    made = make_of_files("OxfordIIITPet", pairs(images))
    made._target_types = types
    expect_fallback(made, "OxfordIIITPet with target_types")


def test_another_loader_function_is_left_to_torch(images):
    made = make_of_files("Places365", pairs(images))
    made.loader = Image.open
    expect_fallback(made, "Places365 with another loader function")


class Pairs(data.Dataset):
    """Pairs of path and label as torchvision reads them."""

    def __init__(self, samples, transform):
        self.samples, self.transform = samples, transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        return self.transform(Image.open(path).convert("RGB")), label


def test_paths_and_labels_are_a_dataset(images, tmp_path):
    odd = tmp_path / "a\tname\\with\nodd bytes"  # and without an ending
    odd.write_bytes(open(pairs(images)[0][0], "rb").read())
    samples = [*pairs(images), (odd, 7)]
    dataset = Dataset.from_samples(iter(samples), EVAL)
    assert len(dataset) == len(samples)
    assert dataset.targets == [label for _, label in samples]
    assert_same_batches(native(dataset), data.DataLoader(Pairs(samples, EVAL), 4))
    assert torch.equal(dataset[-1][0], Pairs(samples, EVAL)[len(samples) - 1][0])
    copy = pickle.loads(pickle.dumps(dataset))
    del dataset
    assert_same_batches(native(copy), data.DataLoader(Pairs(samples, EVAL), 4))


def test_relative_paths_are_taken_when_the_dataset_is_made(images, monkeypatch):
    path, label = pairs(images)[0]
    monkeypatch.chdir(os.path.dirname(path))
    dataset = Dataset.from_samples([(os.path.basename(path), label)], EVAL)
    monkeypatch.chdir("/")
    assert_same_batches(native(dataset), data.DataLoader(Pairs([(path, label)], EVAL), 4))


@pytest.mark.parametrize("sample", ["a.jpg", ("a.jpg", ), ("a.jpg", "b"), ("a.jpg", 1, 2),
                                    (None, 1), ("a", 1 << 63), ("a\0b", 1)])
def test_samples_of_another_form_are_refused(sample):
    with pytest.raises((TypeError, ValueError), match="sample 1 is .*, not a path and an integer"):
        Dataset.from_samples([("a.jpg", 1), sample], EVAL)


def test_one_sample_is_one_index(images):
    dataset = Dataset.from_samples(pairs(images), EVAL)
    for index in (slice(0, 2), "a", 1.0):
        with pytest.raises(TypeError):
            dataset[index]


def test_indices_that_torch_refuses_are_not_rounded(images):
    dataset = data.Subset(Dataset.from_samples(pairs(images), EVAL), [1.5])
    with pytest.warns(UserWarning, match="a Subset whose indices are float64"):
        loader = DataLoader(dataset)
    with pytest.raises(TypeError):
        list(loader)


def test_what_belongs_to_a_millrace_loader_is_named(images):
    for dataset in (images, millrace.Dataset(images)):
        with pytest.warns(UserWarning, match=r"use millrace.torch.Dataset\(spec, transform\)"):
            DataLoader(dataset)
    with pytest.warns(UserWarning, match="str: a DataLoader takes torchvision's"):
        DataLoader(Dataset(images, "train:224"))


def test_labels_of_samples_are_integers(images):
    path = pairs(images)[0][0]
    with pytest.raises(TypeError, match="float"):
        Dataset.from_samples([(path, 1.5)], EVAL)
    dataset = Dataset.from_samples([(path, torch.tensor(1)), (path, numpy.uint8(2))], EVAL)
    assert dataset.targets == [1, 2]
    with pytest.raises(ValueError, match="no samples"):
        Dataset.from_samples([], EVAL)


@pytest.mark.parametrize("kind", [float, bool, numpy.int32, torch.tensor])
def test_labels_of_another_type_are_left_to_torch(images, kind):
    """torch makes batches of another dtype of them, and gives them to a collate_fn as they are."""
    words = f"which is a {kind(1).__class__.__name__} and not an int"
    folder = ImageFolder(images, EVAL)
    folder.samples = [(path, kind(label)) for path, label in folder.samples]
    expect_fallback(folder, words)
    cifar = datasets.CIFAR10.__new__(datasets.CIFAR10)
    cifar.data, cifar.targets = numpy.zeros((2, 32, 32, 3), numpy.uint8), [kind(1), kind(0)]
    cifar.transform, cifar.target_transform = T.ToTensor(), None
    expect_fallback(cifar, words)
    folder.samples = [(path, numpy.int64(label)) for path, label in folder.samples]
    expect_same(folder)


def test_names_are_not_shortened(images, tmp_path, monkeypatch):
    """".." after a symbolic link is the folder above the one that it names."""
    path, label = pairs(images)[0]
    (tmp_path / "link").symlink_to(os.path.dirname(path))
    monkeypatch.chdir(tmp_path)
    folder = ImageFolder(images, EVAL)
    folder.samples = [(os.path.join("link", "..", *path.split(os.sep)[-2:]), label)]
    expect_same(folder)


# Hugging Face

KEYS = ("pixel_values", "labels")


@pytest.fixture(scope="module")
def hf(images, tmp_path_factory):
    """A dataset in an Arrow file: three rows are paths, one image has an EXIF orientation, one is
    grey.
    """
    hugging = pytest.importorskip("datasets")
    hugging.disable_progress_bars()
    folder = tmp_path_factory.mktemp("hf")
    exif = Image.Exif()
    exif[0x0112] = 6
    photo = Image.open(ImageFolder(images).samples[0][0]).convert("RGB")
    photo.resize((40, 30)).save(folder / "turned.jpg", exif=exif)
    photo.convert("L").save(folder / "grey.png")
    paths = [path for path, _ in ImageFolder(images).samples]

    def rows():
        for i, path in enumerate([*paths, folder / "turned.jpg", folder / "grey.png"]):
            content = None if i in (2, 9, 10) else open(path, "rb").read()
            photo = {"bytes": content, "path": str(path) if content is None else None}
            yield {"text": "x" * i, "photo": photo, "kind": i % 3}

    features = hugging.Features({
        "text": hugging.Value("string"), "photo": hugging.Image(),
        "kind": hugging.ClassLabel(names=["a", "b", "c"])
    })
    return hugging.Dataset.from_generator(rows, features=features, cache_dir=str(folder),
                                          writer_batch_size=5)  # several record batches


class Rows(data.Dataset):
    """The rows as `datasets` decodes them."""

    def __init__(self, rows, keys=None):
        self.rows, self.keys = rows, keys

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        pair = EVAL(row["photo"].convert("RGB")), row["kind"]
        return dict(zip(self.keys, pair)) if self.keys else pair


def from_hf(rows, **options):
    return Dataset.from_huggingface(rows, EVAL, image="photo", label="kind", **options)


def expect_same_rows(rows):
    dataset = from_hf(rows)
    assert len(dataset) == len(rows)
    assert dataset.targets == rows["kind"][:]
    assert_same_batches(native(dataset), data.DataLoader(Rows(rows), 4))
    for index in (0, len(rows) // 2, -1):
        image, label = Rows(rows)[index % len(rows)]
        assert torch.equal(dataset[index][0], image)
        assert dataset[index][1] == label


def test_images_of_an_arrow_file_are_ranges_of_it(hf):
    dataset = from_hf(hf)
    assert dataset.classes == ["a", "b", "c"]
    places = [dataset.native.name(i).rpartition("/")[0] for i in range(len(hf))]
    assert places.count(hf.cache_files[0]["filename"]) == len(hf) - 3
    expect_same_rows(hf)


@pytest.mark.parametrize("change", [
    lambda rows: rows.shuffle(seed=3), lambda rows: rows.select([4, 4, 0, 22]),
    lambda rows: rows.select(range(6, 13)), lambda rows: rows.shuffle(seed=1).select(range(7)),
    lambda rows: rows.filter(lambda row: row["kind"] == 1, keep_in_memory=True),
    lambda rows: rows.sort("kind"), lambda rows: rows.train_test_split(0.3, seed=2)["test"],
    lambda rows: rows.map(lambda row: {"kind": (row["kind"] + 1) % 3}),
    lambda rows: rows.shuffle(seed=1).flatten_indices(keep_in_memory=True),
    lambda rows: rows.with_format("torch").with_format(None)
])
def test_rows_are_those_that_the_dataset_has_now(hf, change):
    expect_same_rows(change(hf))


def test_tables_that_are_joined_or_in_memory_are_read(hf):
    hugging = pytest.importorskip("datasets")
    joined = hugging.concatenate_datasets([hf.select([3, 1]), hf, hf.select([20]).map(
        lambda row: row, keep_in_memory=True)])
    expect_same_rows(joined)
    in_memory = hf.map(lambda row: row, keep_in_memory=True)
    assert not in_memory.cache_files
    expect_same_rows(in_memory)
    assert all("/proc/" in from_hf(in_memory).native.name(i) for i in (0, 22))


def test_a_subset_of_a_shuffled_dataset_is_followed_too(hf):
    rows = hf.shuffle(seed=5)
    assert_same_batches(native(data.Subset(from_hf(rows), [6, -1, 0, 6])),
                        data.DataLoader(data.Subset(Rows(rows), [6, 22, 0, 6]), 4))


def test_two_datasets_are_concatenated(hf, images):
    rows = [hf.shuffle(seed=5), hf.select([3, 1])]
    for keys in (None, KEYS):
        both = data.ConcatDataset([from_hf(one, keys=keys) for one in rows])
        theirs = data.ConcatDataset([Rows(one, keys) for one in rows])
        assert_same_batches(native(both), data.DataLoader(theirs, 4))
    expect_fallback(both + from_hf(hf), "a ConcatDataset whose datasets have different keys")
    expect_fallback(from_hf(hf) + ImageFolder(images, EVAL),
                    r"different transforms: exif\+resize\S* in f32, resize")


def test_batches_are_dicts_on_request(hf):
    dataset = from_hf(hf, keys=KEYS)
    assert list(dataset[0]) == list(KEYS)
    assert_same_batches(native(dataset), data.DataLoader(Rows(hf, KEYS), 4))

    def collate(rows):
        return {key: [row[key] for row in rows] for key in rows[0]}

    for mine, theirs in zip(native(dataset, collate_fn=collate),
                            data.DataLoader(Rows(hf, KEYS), 4, collate_fn=collate)):
        assert mine["labels"] == theirs["labels"]
        assert all(map(torch.equal, mine["pixel_values"], theirs["pixel_values"]))


def test_a_copy_in_another_process_reads_the_same_rows(hf):
    rows = hf.shuffle(seed=2)
    dataset = pickle.loads(pickle.dumps(from_hf(rows, keys=KEYS)))
    assert_same_batches(native(dataset), data.DataLoader(Rows(rows, KEYS), 4))
    assert_same_batches(
        data.DataLoader(from_hf(rows), 4, num_workers=1, multiprocessing_context="spawn"),
        data.DataLoader(Rows(rows), 4))


def test_a_dataset_of_hugging_face_itself_is_left_to_torch_by_name(hf):
    def augment(rows):
        return {"x": [EVAL(photo.convert("RGB")) for photo in rows["photo"]], "y": rows["kind"]}

    expect_fallback(hf.with_transform(augment),
                    r"dataset with set_transform\(.*augment\); millrace.torch.Dataset.from_hugg")
    expect_fallback(hf, "a Hugging Face dataset with no transform; millrace.torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = DataLoader(hf.with_transform(augment), batch_size=4)
    assert next(iter(loader))["x"].shape == (4, 3, 16, 16)


def test_what_cannot_be_read_is_refused_by_name(hf):
    hugging = pytest.importorskip("datasets")
    for rows, options, error, words in [
        (hf.with_transform(str), {}, ValueError, "the dataset has a function of set_transform"),
        (hf, {"image": "image"}, ValueError, "no column 'image', only text, photo, kind: name "),
        (hf, {"label": "text"}, ValueError, "the column 'text' holds object and not integers"),
        (hf, {"image": "kind"}, ValueError, "the column 'kind' holds int64 and not images"),
        (hf, {"image": "text"}, ValueError, "holds texts .* dataset.cast_column.'text'"),
        (hf, {"keys": ("a", "a")}, ValueError, "keys are two different names, not .'a', 'a'."),
        (hugging.DatasetDict(train=hf), {}, TypeError, "DatasetDict .* choose one of train"),
        ([1, 2], {}, TypeError, "list is not a datasets.Dataset"),
        (hf.select([]), {}, ValueError, "the dataset has no rows"),
        (hf.cast_column("photo", hugging.Image(mode="L")), {}, ValueError, "images of mode L"),
    ]:
        with pytest.raises(error, match=words):
            Dataset.from_huggingface(rows, EVAL, **{"image": "photo", "label": "kind", **options})


def test_a_row_without_an_image_is_named(hf):
    hugging = pytest.importorskip("datasets")
    features = hugging.Features({"photo": hugging.Image(), "kind": hugging.Value("int64")})
    rows = hugging.Dataset.from_dict({"photo": [None], "kind": [1]}, features)
    with pytest.raises(ValueError, match="row 0 has no image, neither bytes nor a path"):
        from_hf(rows)
    rows = hugging.Dataset.from_dict({"photo": ["/none.jpg"], "kind": [1]}).cast_column(
        "photo", hugging.Image())
    with pytest.raises(FileNotFoundError, match="/none.jpg"):
        from_hf(rows)


def test_columns_of_plain_bytes_are_images_too(hf):
    hugging = pytest.importorskip("datasets")
    content = [row["bytes"] for row in hf.cast_column("photo", hugging.Image(decode=False))["photo"]
               if row["bytes"]]
    features = hugging.Features({"photo": hugging.Value("large_binary"),
                                 "kind": hugging.Value("int8")})
    rows = hugging.Dataset.from_dict({"photo": content, "kind": [1] * len(content)}, features)
    assert_same_batches(native(from_hf(rows)),
                        data.DataLoader(Rows(rows.cast_column("photo", hugging.Image())), 4))
