# SPDX-License-Identifier: Apache-2.0
"""millrace.torch's DataLoader beside torch's own: the same order, the same pixels, and what is not
recognised.
"""
import ast
import inspect
import os
import signal
import warnings

import pytest

from support import module

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

from torch.utils import data
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets
from torchvision import transforms as T

import millrace
from millrace.torch import DataLoader, ImageFolder, explain

try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None
if not hasattr(v2, "ToPureTensor"):  # its first versions were drafts
    v2 = None

pytestmark = pytest.mark.filterwarnings("error:millrace:")
NORMAL = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
EVAL = T.Compose([T.Resize(24), T.CenterCrop(16), T.ToTensor(), NORMAL])


def passes(loader, n=2, seed=3):
    torch.manual_seed(seed)
    return [list(loader) for _ in range(n)]


@pytest.fixture
def folder(images):
    return ImageFolder(images, EVAL)


def assert_same(dataset, n=2, **options):
    """Both loaders give the same batches, pass by pass, from one state of torch's generator."""
    ours, torchs = DataLoader(dataset, **options), data.DataLoader(dataset, **options)
    assert explain(ours)["native"], explain(ours)["reason"]
    assert len(ours) == len(torchs)
    got, expected = passes(ours, n), passes(torchs, n)
    for mine, other in zip(got, expected):
        assert len(mine) == len(other)
        for x, y in zip(mine, other):
            assert type(x) is type(y)
            for a, b in zip(x, y):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                assert torch.equal(a, b)
    return ours


def test_a_folder_is_a_torchvision_folder(folder):
    assert isinstance(folder, datasets.ImageFolder)
    assert isinstance(DataLoader(folder), data.DataLoader)


class Shard:
    """A batch sampler around another one, like Accelerate's BatchSamplerShard."""

    def __init__(self, batch_sampler, world, rank):
        self.batch_sampler, self.world, self.rank = batch_sampler, world, rank

    def __len__(self):
        return len(range(self.rank, len(self.batch_sampler), self.world))

    def __iter__(self):
        return (b for i, b in enumerate(self.batch_sampler) if i % self.world == self.rank)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batch_samplers_of_one_size(folder, workers, drop_last):
    inner = data.BatchSampler(data.RandomSampler(folder), 4, drop_last)
    for batches in ([[3, 1], [0, 20], [5]], [], [[7]], Shard(inner, 2, 0), Shard(inner, 2, 1),
                    Shard(Shard(inner, 1, 0), 3, 2)):
        assert_same(folder, n=3, batch_sampler=batches, num_workers=workers)


def test_the_size_of_a_batch_samplers_batches_may_change(folder):
    sampler = [[0, 1, 2], [3, 4, 5]]
    loader = DataLoader(folder, batch_sampler=sampler, num_workers=1)
    assert [len(y) for _, y in loader] == [3, 3]
    sampler[:] = [[0, 1], [2]]
    assert [len(y) for _, y in loader] == [2, 1]
    assert explain(loader)["native"]


class Endless(Shard):
    def __iter__(self):
        while True:
            yield from self.batch_sampler


@pytest.mark.parametrize("batches, reason", [
    ([[0, 1], [2], [3, 4]], "the batch sampler list, whose batches before the last differ in size"),
    ([[0], [1, 2]], "differ in size"), ([[0, 1], [0, "a"]], "cannot read"),
    (Endless([[0, 1]], 1, 0), "Endless, which yields more batches than its length of 1")
])
def test_other_batch_samplers_are_torchs(folder, batches, reason):
    loader = DataLoader(folder, batch_sampler=batches)
    before = torch.get_rng_state()
    with pytest.warns(UserWarning, match="torch's own DataLoader is used") as seen:
        iter(loader)
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    iter(data.DataLoader(folder, batch_sampler=batches))
    assert torch.equal(torch.get_rng_state(), after)  # not drawn twice
    assert next(iter(loader))[1].tolist() == [folder.samples[i][1] for i in next(iter(batches))]
    assert reason in explain(loader)["reason"]
    assert (len(seen), seen[0].filename) == (1, __file__)


def test_samplers_without_a_length_are_torchs(folder, reason_of):
    assert "the sampler tuple_iterator, which has no length" in reason_of(sampler=iter((0, 1)))
    assert "the batch sampler generator, which has no length" in reason_of(
        batch_sampler=([i] for i in range(3)))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"batch_size": 4, "shuffle": True}, {
    "batch_size": 4, "drop_last": True
}, {"batch_size": 50}, {"batch_size": 50, "drop_last": True}])
def test_shuffled_and_in_sequence(folder, workers, options):
    assert_same(folder, num_workers=workers, **options)


def test_a_generator_of_the_callers_own(folder):
    ours, torchs = (kind(folder,
                         batch_size=4,
                         shuffle=True,
                         num_workers=1,
                         generator=torch.Generator().manual_seed(7))
                    for kind in (DataLoader, data.DataLoader))
    for _ in range(3):
        assert [y.tolist() for _, y in ours] == [y.tolist() for _, y in torchs]


def test_negative_indices_count_from_the_end(folder):
    assert_same(folder, sampler=[-1, 3, -21], num_workers=1)
    assert_same(data.Subset(folder, [5, 6, 7]), sampler=[-1, 0, -3], num_workers=1)


def test_the_size_of_a_batch_is_at_most_that_of_the_dataset(folder):
    for options in ({}, {"drop_last": True}):
        loader = assert_same(folder, batch_size=20_000_000, num_workers=1, **options)
        assert loader._native.batch_size == 22


def test_batches_that_are_too_large_are_torchs(folder, reason_of):
    many = [0] * 65536
    assert "batches of 65537 samples" in reason_of(dataset=data.Subset(folder, many),
                                                   batch_size=70000)
    loader = DataLoader(folder, batch_sampler=[many])
    with pytest.warns(UserWarning, match="torch's own DataLoader is used: batches of 65536"):
        iter(loader)


def test_the_default_dtype_is_torchs(folder, images, reason_of):
    loader = DataLoader(folder, batch_size=4)
    torch.set_default_dtype(torch.float64)
    try:
        assert "default dtype torch.float64" in reason_of()
        with pytest.warns(UserWarning, match="the default dtype"):
            assert next(iter(loader))[0].dtype == torch.float64
        assert_same(ImageFolder(images, T.Compose([T.Resize((9, 9)), T.PILToTensor()])))
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_global_generator_is_left_as_torch_leaves_it(folder):
    states = []
    for kind in (DataLoader, data.DataLoader):
        passes(kind(folder, batch_size=4, shuffle=True, num_workers=1))
        states.append(torch.random.get_rng_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("make_sampler", [
    data.SequentialSampler, data.RandomSampler,
    lambda folder: data.RandomSampler(folder, replacement=True, num_samples=40),
    lambda folder: data.SubsetRandomSampler([3, 20, 4, 0, 1]),
    lambda folder: data.WeightedRandomSampler([1.0 + i % 3 for i in range(21)], 30)])
def test_samplers(folder, make_sampler):
    sampler = make_sampler(folder)
    assert_same(folder, batch_size=4, sampler=sampler, num_workers=1)
    assert_same(folder, num_workers=1, batch_sampler=data.BatchSampler(sampler, 3, True))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world, rank",
                         [(world, rank) for world in (1, 2, 3) for rank in range(world)])
def test_distributed_samplers(folder, world, rank, drop_last):
    sampler = DistributedSampler(folder, world, rank, seed=5, drop_last=drop_last)
    ours, torchs = (kind(folder, batch_size=4, sampler=sampler, num_workers=1)
                    for kind in (DataLoader, data.DataLoader))
    for epoch in range(4):
        sampler.set_epoch(epoch)
        assert [y.tolist() for _, y in ours] == [y.tolist() for _, y in torchs]


def test_subsets(folder):
    subset = data.Subset(folder, [20, 3, 3, 7, 9, 1])
    assert_same(subset, batch_size=4, shuffle=True, num_workers=1)
    assert_same(data.Subset(subset, [5, 0, -2]), batch_size=2, num_workers=1)
    assert_same(data.Subset(folder, [-1, 0, -21]), batch_size=2, num_workers=1)


def test_samples_that_the_program_has_changed(folder):
    folder.samples = [(path, 7 - label) for path, label in folder.samples[::-2]]
    assert_same(folder, batch_size=4, num_workers=1)


def test_odd_names(tmp_path, folder):
    odd = tmp_path / "odd\\class/one\ttwo"
    os.makedirs(odd)
    os.symlink(folder.samples[0][0], odd / "a\nb.jpg")
    assert_same(ImageFolder(str(tmp_path / "odd\\class"), EVAL), num_workers=1)


@pytest.fixture
def random_loader(images):
    """Makes loaders whose crops and flips are random."""
    def make(**options):
        dataset = ImageFolder(
            images, T.Compose([T.RandomResizedCrop(16),
                               T.RandomHorizontalFlip(),
                               T.ToTensor()]))
        return DataLoader(dataset, batch_size=21, num_workers=1, **options)

    return make


def images_of(loader):
    return torch.cat([x.clone() for x, _ in loader])


def test_each_pass_draws_anew_and_again_from_the_same_seed(random_loader):
    runs = []
    for loader in (random_loader(), random_loader()):
        torch.manual_seed(1)
        runs.append([images_of(loader) for _ in range(3)])
    for first, second in zip(*runs):
        assert torch.equal(first, second)
    assert not torch.equal(runs[0][0], runs[0][1])
    torch.manual_seed(2)
    assert not torch.equal(images_of(random_loader()), runs[0][0])


def test_a_named_epoch_names_the_draws(random_loader):
    torch.manual_seed(1)
    loader = random_loader()
    first, second = images_of(loader), images_of(loader)
    for epoch, expected in ((1, second), (0, first), (1, second)):
        loader.set_epoch(epoch)
        assert torch.equal(images_of(loader), expected)


def test_a_sampler_names_the_draws_but_freezes_none(random_loader):
    dataset = random_loader().dataset
    sampler = DistributedSampler(dataset, 1, 0, shuffle=False)
    torch.manual_seed(1)
    loader = random_loader(sampler=sampler)
    first, second = images_of(loader), images_of(loader)
    assert not torch.equal(first, second)
    sampler.set_epoch(1)
    third = images_of(loader)
    sampler.set_epoch(0)
    assert torch.equal(images_of(loader), first)
    sampler.set_epoch(1)
    assert torch.equal(images_of(loader), third)


def test_the_transform_may_change_between_passes(folder):
    loader = DataLoader(folder, batch_size=21)
    assert next(iter(loader))[0].shape[2:] == (16, 16)
    folder.transform = T.Compose([T.Resize(24), T.CenterCrop(20), T.ToTensor()])
    assert next(iter(loader))[0].shape[2:] == (20, 20)
    folder.transform.transforms[1] = T.CenterCrop(12)
    assert next(iter(loader))[0].shape[2:] == (12, 12)
    folder.transform = T.Compose([T.Lambda(lambda image: image), T.CenterCrop(8), T.ToTensor()])
    with pytest.warns(UserWarning, match="the transform Lambda") as seen:
        assert next(iter(loader))[0].shape[2:] == (8, 8)
    assert (len(seen), seen[0].filename, explain(loader)["native"]) == (1, __file__, False)


def test_an_epoch_may_be_negative_as_in_torch(folder):
    sampler = DistributedSampler(folder, num_replicas=2, rank=1)
    sampler.set_epoch(-1)
    assert_same(folder, batch_size=4, num_workers=1, sampler=sampler)


def test_two_passes_at_once(folder):
    loader = DataLoader(folder, batch_size=4, num_workers=1)
    both = [(x.tolist(), y.tolist()) for (_, x), (_, y) in zip(loader, loader)]
    assert all(x == y for x, y in both)
    assert len(both) == 6
    for _ in loader:
        break
    assert sum(len(y) for _, y in loader) == 21


def test_batches_may_be_kept(folder):
    loader = DataLoader(folder, num_workers=1)
    kept = list(loader)
    assert [y.item() for _, y in kept] == [label for _, label in folder.samples]


def test_warnings_are_of_the_programs_line(folder):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(DataLoader(folder, batch_size=2, num_workers=1))
        DataLoader(folder, batch_size=None)
    assert [warning.filename for warning in caught] == [__file__, __file__]
    assert "prefetch_factor" in str(caught[0].message)


def test_a_collate_function_of_the_callers_own(folder):
    def mixed(samples):
        image, label = data.default_collate(samples)
        return image.flip(0), label, len(samples)

    options = {"batch_size": 4, "num_workers": 0, "collate_fn": mixed}
    for mine, other in zip(DataLoader(folder, **options), data.DataLoader(folder, **options)):
        assert torch.equal(mine[0], other[0])
        assert torch.equal(mine[1], other[1])
        assert mine[2] == other[2]


def test_other_arguments(folder):
    loader = assert_same(folder,
                         n=3,
                         batch_size=4,
                         num_workers=2,
                         persistent_workers=True,
                         prefetch_factor=3,
                         timeout=60,
                         shuffle=True)
    assert len(iter(loader)) == 6
    with pytest.warns(UserWarning, match="worker_init_fn is not called"):
        DataLoader(folder, num_workers=1, worker_init_fn=print)


def test_a_pass_that_takes_too_long_is_torchs_error(folder):
    loader = DataLoader(folder, batch_size=1, num_workers=1, timeout=0.2)
    going = iter(loader)
    next(going)
    for pid in loader._native.worker_pids():
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.2 seconds"):
        for _ in going:
            pass


def test_a_damaged_file_is_named(make_folder):
    folder = ImageFolder(make_folder(2, 3), EVAL)
    path = folder.samples[4][0]
    os.truncate(path, 30)
    for workers in (0, 1):
        with pytest.raises(millrace.DamagedError) as caught:
            list(DataLoader(folder, num_workers=workers))
        assert path in str(caught.value)
        assert caught.value.index == 4


def test_explain_has_three_words(folder):
    found = explain(DataLoader(folder))
    assert found == {"native": True, "reason": "", "transform": found["transform"]}
    assert found["transform"].startswith("resize(24")
    assert explain(data.DataLoader(folder)) == {
        "native": False, "reason": "it is torch's own DataLoader", "transform": ""
    }


@pytest.fixture
def text_of(images):
    """The text of the recipe that a transform is recognised as."""
    return lambda transform: explain(DataLoader(ImageFolder(images, transform), batch_size=2))[
        "transform"]


@pytest.fixture
def reason_of(images):
    """Why torch's own loader is used, by the one warning and by explain()."""
    def find(transform=EVAL, dataset=None, **options):
        with pytest.warns(UserWarning, match="torch's own DataLoader is used") as seen:
            loader = DataLoader(dataset if dataset is not None else ImageFolder(images, transform),
                                **options)
        found = explain(loader)
        assert (found["native"], found["transform"]) == (False, "")
        ours = [warning for warning in seen if "millrace" in str(warning.message)]
        assert len(ours) == 1
        assert found["reason"] in str(ours[0].message)
        assert ours[0].filename == __file__
        return found["reason"]

    return find


def test_texts_of_recipes(text_of):
    train = [T.RandomResizedCrop(16, scale=(0.2, 1)), T.RandomHorizontalFlip()]
    words = text_of(
        T.Compose([
            *train,
            T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
            T.RandomGrayscale(0.2),
            T.ToTensor(), NORMAL
        ]))
    for part in ("random_resized_crop(16", "hflip(0.5)", "random_apply(color_jitter(", "0.6:1.4",
                 "-0.1:0.1", "0.8)", "random_grayscale(0.2)", "normalize(mean=0.485:0.456:0.406"):
        assert part in words


@pytest.mark.parametrize("transform, part", [
    (T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR), "trivial_augment_wide("),
    (T.RandAugment(3, 5), "rand_augment("), (T.AutoAugment(), "auto_augment("),
    (T.RandomRotation(10, fill=3), "rotation("), (T.RandomAffine(5, (0.1, 0.2)), "affine("),
    (T.RandomPerspective(), "perspective("), (T.RandomPosterize(4), "posterize(4"),
    (T.RandomSolarize(128), "solarize(128"),
    (T.RandomChoice([T.RandomInvert(), T.RandomEqualize()]), "choice("),
    (T.RandomOrder([T.RandomInvert(), T.RandomAutocontrast()]), "random_order("),
    (T.RandomAdjustSharpness(2), "adjust_sharpness(2"), (T.GaussianBlur(5), "gaussian_blur(5"),
    (T.RandomCrop(16, padding=4,
                  padding_mode="reflect"), "random_crop(16,padding=4,padding_mode=reflect)"),
    (T.Resize((9, 11), T.InterpolationMode.BICUBIC), "resize(9:11,interp=bicubic)"),
    (T.Resize(20, max_size=30), "resize(20,max_size=30)"),
    (T.Pad([3, 4], fill=(1, 2, 3)), "pad(3:4:3:4,fill=1:2:3)"),
    (T.RandomCrop(16, [1, 2, 3, 4]), "pad(1:2:3:4)+random_crop(16,padding=0)"),
    (T.RandomCrop(16, 2, True, 7), "random_crop(16,padding=2,pad_if_needed,fill=7)"),
    (T.RandomOrder([T.RandomHorizontalFlip(), T.RandomVerticalFlip()]),
     "random_order(hflip(0.5),vflip(0.5))"),
    (T.Compose([T.Resize([20]), T.RandomVerticalFlip(0.25)]), "resize(20)+vflip(0.25)")
])
def test_texts_of_operations(text_of, transform, part):
    assert part in text_of(T.Compose([transform, T.ToTensor()]))


@pytest.mark.parametrize("transform", [
    T.Compose([T.Resize(20), T.CenterCrop(16), T.ToTensor()]),
    T.Compose([T.Resize(20), T.CenterCrop(16), T.PILToTensor()]),
    T.Compose([T.Resize((20, 12), T.InterpolationMode.BICUBIC),
               T.ToTensor(), NORMAL]),
    T.Compose(
        [T.Resize(30),
         T.CenterCrop(16),
         T.PILToTensor(),
         T.ConvertImageDtype(torch.float), NORMAL]),
    T.Compose([T.Resize(20), T.CenterCrop(16),
               T.Grayscale(), T.ToTensor()]),
    T.Compose([T.Resize(
        (20, 12)), T.ColorJitter(),
               T.ToTensor(),
               T.Normalize(0.5, 0.25)])
])
def test_eval_pixels_are_torchvisions(images, transform):
    assert_same(ImageFolder(images, transform), batch_size=8, num_workers=1)


@pytest.mark.skipif(not v2, reason="this torchvision has no transforms.v2")
def test_v2_on_images(images, text_of, reason_of):
    scaled = v2.ToDtype(torch.float32, scale=True)
    for transform in (v2.Compose([
            v2.Resize(20),
            v2.CenterCrop(16),
            v2.PILToTensor(), scaled,
            v2.ToPureTensor()
    ]), v2.Compose([
            v2.Resize((20, 9)), v2.Identity(), v2.PILToTensor()
    ]), v2.Compose([
            v2.Resize((20, 9)),
            v2.ToImage(), scaled,
            v2.Normalize([0.5] * 3, [0.2] * 3)
    ]), v2.Compose([v2.Resize((20, 9)),
                    v2.ToImage(),
                    v2.ConvertImageDtype(torch.float32), NORMAL])):
        assert_same(ImageFolder(images, transform), batch_size=8, num_workers=1)
    random = v2.Compose([v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), v2.PILToTensor()])
    assert "random_resized_crop(16" in text_of(random)
    sizes = [v2.RandomShortestSize(list(range(20, 37)), 50), v2.CenterCrop(9), v2.PILToTensor()]
    assert "RandomShortestSize with more than 16 sizes" in reason_of(v2.Compose(sizes))
    sizes[0] = v2.RandomResize(20, 50)
    assert "random_resize(20,50)" in text_of(v2.Compose(sizes))
    assert "RandomResize without a crop after it" in reason_of(v2.Compose(sizes[::2]))
    assert "put it before ToImage, or accept" in reason_of(
        v2.Compose([v2.ToImage(), v2.Resize(20), scaled]))


@pytest.mark.skipif(not v2, reason="this torchvision has no transforms.v2")
def test_policies_of_v2_have_forms_of_their_own(text_of):
    bicubic = v2.InterpolationMode.BICUBIC
    for transform, text in (
        (v2.RandAugment(3, 5), "rand_augment_v2(3,5,31,interp=nearest,fill=0)"),
        (v2.TrivialAugmentWide(10, bicubic, 7),
         "trivial_augment_wide_v2(10,interp=bicubic,fill=7)"),
        (v2.AutoAugment(v2.AutoAugmentPolicy.SVHN, 2),
         "auto_augment_v2(policy=svhn,interp=bilinear,fill=0)")):
        words = text_of(v2.Compose([v2.Resize((9, 9)), transform, v2.PILToTensor()]))
        assert words == "resize(9:9)+" + text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_floats_of_16_bits_are_torchs(images, dtype, version):
    """torch rounds each step to the dtype."""
    if version == "v2" and not v2:
        pytest.skip("this torchvision has no transforms.v2")
    convert = (T.ConvertImageDtype(dtype) if version == "v1" else v2.ToDtype(dtype, scale=True))
    for more in ([], [NORMAL], [T.Normalize([0.3], [0.01])]):
        transform = T.Compose([T.Resize((40, 30)), T.PILToTensor(), convert, *more])
        assert_same(ImageFolder(images, transform), batch_size=8, num_workers=1)


def resized(kind=T, **options):
    return kind.Resize((12, 15), kind.InterpolationMode.BILINEAR, antialias=True, **options)


@pytest.mark.parametrize("form", ["v1", "v2"])
def test_pillows_resampling_is_accepted_for_tensors(images, form):
    """Antialiased bilinear resampling of u8 tensors differs from Pillow's by 1 at most."""
    if form == "v2" and not v2:
        pytest.skip("this torchvision has no transforms.v2")
    start = [T.PILToTensor(), resized()] if form == "v1" else [
        v2.ToImage(), v2.ToDtype(torch.uint8, scale=True), resized(v2)]
    folder = ImageFolder(images, T.Compose([*start, T.ConvertImageDtype(torch.float32), NORMAL]))
    ours = DataLoader(folder, batch_size=21, exact_resize=False)
    found = explain(ours)
    assert found["native"] and "resampled as Pillow's" in found["reason"]
    assert found["transform"].startswith("resize(12:15)")
    (mine, labels), (other, others) = *ours, *data.DataLoader(folder, batch_size=21)
    assert torch.equal(labels, others)
    apart = (mine - other).abs() * torch.tensor(NORMAL.std)[:, None, None] * 255
    assert 0.5 < apart.max() < 1.01


def test_what_differs_on_tensors_has_a_way_out(images, reason_of):
    for transform, reason in (
        ([T.PILToTensor(), T.ColorJitter(0.5)], "ColorJitter on a tensor"),
        ([T.PILToTensor(), T.Resize((9, 9), antialias=False)], "without antialias"),
        ([T.ToTensor(), resized()], "Resize on a tensor, whose pixels differ from those on an "
                                    "image: put it before ToTensor"),
        ([T.ToTensor(), NORMAL, T.CenterCrop(9)], "CenterCrop on a tensor"),
        ([T.ToTensor(), T.ConvertImageDtype(torch.uint8)], "ConvertImageDtype to another type"),
        ([T.ToTensor(), T.RandomCrop(9, 2, fill=1)], "RandomCrop on a tensor")):
        assert reason in reason_of(T.Compose(transform), exact_resize=False)


@pytest.mark.parametrize("transform", [
    [T.PILToTensor(), T.CenterCrop((40, 70))],
    [T.ToTensor(), T.CenterCrop((40, 70)), T.RandomVerticalFlip(1), NORMAL],
])
def test_crops_and_flips_of_tensors_are_exact(images, transform):
    assert_same(ImageFolder(images, T.Compose(transform)), batch_size=8, num_workers=1)


@pytest.mark.skipif(not hasattr(torchvision.models, "ResNet18_Weights"),
                    reason="this torchvision has no weights")
def test_presets_of_weights(images):
    preset = torchvision.models.ResNet18_Weights.DEFAULT.transforms()
    assert_same(ImageFolder(images, preset), n=1, batch_size=8, num_workers=2)


def test_what_is_not_known_is_named(images, reason_of):
    assert "PIL images" in reason_of(None)
    assert "no ToTensor" in reason_of(T.Resize(9))
    assert "RandomErasing" in reason_of(T.Compose([T.PILToTensor(), T.RandomErasing()]))
    assert "the transform Lambda" in reason_of(T.Compose([T.Lambda(abs), T.ToTensor()]))
    assert "the transform function" in reason_of(lambda image: image)
    assert "RandomCrop with pad_if_needed" in reason_of(
        T.Compose([
            T.RandomCrop(20, [1, 2], pad_if_needed=True), T.ToTensor()]))
    assert "batch_size None" in reason_of(batch_size=None)
    assert "target_transform" in reason_of(dataset=ImageFolder(images, EVAL, target_transform=abs))
    sizes = T.Compose([T.Resize(9), T.ToTensor()])
    assert "different sizes" in reason_of(sizes)
    assert "different sizes" in reason_of(sizes, batch_size=4, collate_fn=list)
    assert "a transform that millrace cannot read" in reason_of(
        T.Compose([T.ToTensor(), T.Normalize(torch.tensor(0.5), 1)]))
    hooked = T.Resize((8, 8))
    hooked.register_forward_hook(lambda module, arguments, image: image.rotate(90))
    assert "Resize with hooks" in reason_of(T.Compose([hooked, T.ToTensor()]))
    odd = ImageFolder(images, EVAL)
    odd.samples = [(path, "a") for path, _ in odd.samples]
    assert "the label 'a', which is a str and not an int" in reason_of(dataset=odd)
    assert "another loader function" in reason_of(dataset=ImageFolder(images, EVAL, loader=open))
    assert "TensorDataset" in reason_of(dataset=data.TensorDataset(torch.zeros(3)))
    assert "ChainDataset" in reason_of(dataset=data.ChainDataset(
        []))  # has no sampler with a length either

    class Folder(datasets.ImageFolder):
        def __getitem__(self, index):
            return super().__getitem__(-index)

    assert "the dataset Folder" in reason_of(dataset=Folder(images, EVAL))


def test_what_is_not_known_is_loaded_by_torch():
    dataset = data.TensorDataset(torch.arange(10))
    with pytest.warns(UserWarning):
        loader = DataLoader(dataset, batch_size=4)
    assert [x.tolist() for x, in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert explain(data.DataLoader(dataset))["native"] is False


def test_cifar_from_its_arrays():
    cifar = datasets.CIFAR10.__new__(datasets.CIFAR10)  # without its files
    generator = numpy.random.default_rng(1)
    cifar.data = generator.integers(0, 256, (37, 32, 32, 3), dtype=numpy.uint8)
    cifar.targets = generator.integers(0, 10, 37).tolist()
    cifar.target_transform = None
    for transform in (T.Compose([T.ToTensor(), NORMAL]), T.PILToTensor()):
        cifar.transform = transform
        assert_same(cifar, batch_size=8, shuffle=True, num_workers=2)
        assert_same(data.Subset(cifar, range(5, 30)), batch_size=8, num_workers=0)


def test_arguments_and_description_are_torchs():
    ours = inspect.signature(DataLoader).parameters
    torchs = inspect.signature(data.DataLoader).parameters
    assert list(ours.values())[:-1] == list(torchs.values())
    assert list(ours)[-1] == "exact_resize"
    assert inspect.getdoc(data.DataLoader) in DataLoader.__doc__


def test_a_copy_from_attributes_has_the_arguments(folder):
    """As Lightning makes one, with another sampler."""
    loader = DataLoader(folder, batch_size=3, exact_resize=False)
    attributes = {name: value for name, value in vars(loader).items() if name[0] != "_"}
    names = inspect.signature(type(loader)).parameters.keys() & attributes.keys()
    skipped = {"sampler", "batch_sampler", "multiprocessing_context", "prefetch_factor"}
    copied = DataLoader(**{name: attributes[name] for name in names - skipped})
    assert (copied.exact_resize, copied.batch_size) == (False, 3)


def test_type_checkers_see_all_of_torchs_arguments():
    with open(millrace.torch._dataloader.__file__, encoding="utf-8") as file:
        found = [f for f in ast.walk(ast.parse(file.read()))
                 if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
    seen = max(found, key=lambda f: len(f.args.args))
    ours = [argument.arg for argument in seen.args.args]
    torchs = inspect.signature(data.DataLoader.__init__).parameters.values()
    assert ours == [p.name for p in torchs if p.kind == p.POSITIONAL_OR_KEYWORD]
    assert {argument.arg for argument in seen.args.kwonlyargs} > {
        p.name for p in torchs if p.kind == p.KEYWORD_ONLY}
