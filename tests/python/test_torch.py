# SPDX-License-Identifier: Apache-2.0
"""millrace.torch's DataLoader beside torch's own: the same order, the same pixels, and what is not recognised."""
import os
import sys
import unittest
import warnings

import support

numpy, torch, torchvision = (support.module(name) for name in ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    print("skipped: NumPy, torch and torchvision are not all here, or too old")
    sys.exit(77)

from torch.utils import data
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets
from torchvision import transforms as T

from millrace.torch import DataLoader, ImageFolder, explain

try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None
if not hasattr(v2, "ToPureTensor"):  # its first versions were drafts
    v2 = None

NORMAL = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
EVAL = T.Compose([T.Resize(24), T.CenterCrop(16), T.ToTensor(), NORMAL])


def passes(loader, n=2, seed=3):
    torch.manual_seed(seed)
    return [list(loader) for _ in range(n)]


class TorchCase(support.FolderCase):
    def setUp(self):
        self.folder_dataset = ImageFolder(self.images, EVAL)
        warnings.filterwarnings("error", message="millrace:")

    def assert_same(self, dataset, n=2, **options):
        """Both loaders give the same batches, pass by pass, from the same state of torch's generator."""
        ours, torchs = DataLoader(dataset, **options), data.DataLoader(dataset, **options)
        self.assertTrue(explain(ours)["native"], explain(ours)["reason"])
        self.assertEqual(len(ours), len(torchs))
        got, expected = passes(ours, n), passes(torchs, n)
        for mine, other in zip(got, expected):
            self.assertEqual(len(mine), len(other))
            for x, y in zip(mine, other):
                self.assertIs(type(x), type(y))
                for a, b in zip(x, y):
                    self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                    self.assertTrue(torch.equal(a, b))
        return ours


class OrderTest(TorchCase):
    def test_a_folder_is_a_torchvision_folder(self):
        self.assertIsInstance(self.folder_dataset, datasets.ImageFolder)
        self.assertIsInstance(DataLoader(self.folder_dataset), data.DataLoader)

    def test_shuffled_and_in_sequence(self):
        for options in ({}, {"shuffle": True}, {"batch_size": 4, "shuffle": True}, {"batch_size": 4, "drop_last": True},
                        {"batch_size": 50}, {"batch_size": 50, "drop_last": True}):
            for workers in (0, 2):
                self.assert_same(self.folder_dataset, num_workers=workers, **options)

    def test_a_generator_of_the_callers_own(self):
        ours, torchs = (kind(self.folder_dataset, batch_size=4, shuffle=True, num_workers=1,
                             generator=torch.Generator().manual_seed(7)) for kind in (DataLoader, data.DataLoader))
        for _ in range(3):
            self.assertEqual([y.tolist() for _, y in ours], [y.tolist() for _, y in torchs])

    def test_the_global_generator_is_left_as_torch_leaves_it(self):
        states = []
        for kind in (DataLoader, data.DataLoader):
            passes(kind(self.folder_dataset, batch_size=4, shuffle=True, num_workers=1))
            states.append(torch.random.get_rng_state())
        self.assertTrue(torch.equal(*states))

    def test_samplers(self):
        weights = [1.0 + i % 3 for i in range(21)]
        for sampler in (data.SequentialSampler(self.folder_dataset), data.RandomSampler(self.folder_dataset),
                        data.RandomSampler(self.folder_dataset, replacement=True, num_samples=40),
                        data.SubsetRandomSampler([3, 20, 4, 0, 1]), data.WeightedRandomSampler(weights, 30)):
            self.assert_same(self.folder_dataset, batch_size=4, sampler=sampler, num_workers=1)
            self.assert_same(self.folder_dataset, num_workers=1, batch_sampler=data.BatchSampler(sampler, 3, True))

    def test_distributed_samplers(self):
        for world in (1, 2, 3):
            for rank in range(world):
                for drop_last in (False, True):
                    sampler = DistributedSampler(self.folder_dataset, world, rank, seed=5, drop_last=drop_last)
                    ours, torchs = (kind(self.folder_dataset, batch_size=4, sampler=sampler, num_workers=1)
                                    for kind in (DataLoader, data.DataLoader))
                    for epoch in range(4):
                        sampler.set_epoch(epoch)
                        self.assertEqual([y.tolist() for _, y in ours], [y.tolist() for _, y in torchs])

    def test_subsets(self):
        subset = data.Subset(self.folder_dataset, [20, 3, 3, 7, 9, 1])
        self.assert_same(subset, batch_size=4, shuffle=True, num_workers=1)
        self.assert_same(data.Subset(subset, [5, 0, 2]), batch_size=2, num_workers=1)

    def test_samples_that_the_program_has_changed(self):
        self.folder_dataset.samples = [(path, 7 - label) for path, label in self.folder_dataset.samples[::-2]]
        self.assert_same(self.folder_dataset, batch_size=4, num_workers=1)

    def test_odd_names(self):
        folder = self.path("odd\\class/one\ttwo")
        os.makedirs(folder)
        os.symlink(self.folder_dataset.samples[0][0], os.path.join(folder, "a\nb.jpg"))
        self.assert_same(ImageFolder(self.path("odd\\class"), EVAL), num_workers=1)


class PassTest(TorchCase):
    def random(self, **options):
        dataset = ImageFolder(self.images, T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ToTensor()]))
        return DataLoader(dataset, batch_size=21, num_workers=1, **options)

    def images_of(self, loader):
        return torch.cat([x.clone() for x, _ in loader])

    def test_each_pass_draws_anew_and_again_from_the_same_seed(self):
        runs = []
        for loader in (self.random(), self.random()):
            torch.manual_seed(1)
            runs.append([self.images_of(loader) for _ in range(3)])
        for first, second in zip(*runs):
            self.assertTrue(torch.equal(first, second))
        self.assertFalse(torch.equal(runs[0][0], runs[0][1]))
        torch.manual_seed(2)
        self.assertFalse(torch.equal(self.images_of(self.random()), runs[0][0]))

    def test_a_named_epoch_names_the_draws(self):
        torch.manual_seed(1)
        loader = self.random()
        first, second = self.images_of(loader), self.images_of(loader)
        for epoch, expected in ((1, second), (0, first), (1, second)):
            loader.set_epoch(epoch)
            self.assertTrue(torch.equal(self.images_of(loader), expected))

    def test_a_sampler_names_the_draws_but_freezes_none(self):
        dataset = self.random().dataset
        sampler = DistributedSampler(dataset, 1, 0, shuffle=False)
        torch.manual_seed(1)
        loader = self.random(sampler=sampler)
        first, second = self.images_of(loader), self.images_of(loader)
        self.assertFalse(torch.equal(first, second))
        sampler.set_epoch(1)
        third = self.images_of(loader)
        sampler.set_epoch(0)
        self.assertTrue(torch.equal(self.images_of(loader), first))
        sampler.set_epoch(1)
        self.assertTrue(torch.equal(self.images_of(loader), third))

    def test_the_transform_may_change_between_passes(self):
        loader = DataLoader(self.folder_dataset, batch_size=21)
        self.assertEqual(next(iter(loader))[0].shape[2:], (16, 16))
        self.folder_dataset.transform = T.Compose([T.Resize(24), T.CenterCrop(20), T.ToTensor()])
        self.assertEqual(next(iter(loader))[0].shape[2:], (20, 20))
        self.folder_dataset.transform.transforms[1] = T.CenterCrop(12)
        self.assertEqual(next(iter(loader))[0].shape[2:], (12, 12))
        self.folder_dataset.transform = T.Compose([T.Lambda(lambda image: image), T.CenterCrop(8), T.ToTensor()])
        with self.assertWarnsRegex(UserWarning, "the transform Lambda") as seen:
            self.assertEqual(next(iter(loader))[0].shape[2:], (8, 8))
        self.assertEqual((seen.filename, explain(loader)["native"]), (__file__, False))

    def test_two_passes_at_once(self):
        loader = DataLoader(self.folder_dataset, batch_size=4, num_workers=1)
        both = [(x.tolist(), y.tolist()) for (_, x), (_, y) in zip(loader, loader)]
        self.assertTrue(all(x == y for x, y in both))
        self.assertEqual(len(both), 6)
        for _ in loader:
            break
        self.assertEqual(sum(len(y) for _, y in loader), 21)

    def test_batches_may_be_kept(self):
        loader = DataLoader(self.folder_dataset, num_workers=1)
        kept = list(loader)
        self.assertEqual([y.item() for _, y in kept], [label for _, label in self.folder_dataset.samples])

    def test_a_collate_function_of_the_callers_own(self):
        def mixed(samples):
            image, label = data.default_collate(samples)
            return image.flip(0), label, len(samples)

        options = {"batch_size": 4, "num_workers": 0, "collate_fn": mixed}
        for mine, other in zip(DataLoader(self.folder_dataset, **options),
                               data.DataLoader(self.folder_dataset, **options)):
            self.assertTrue(torch.equal(mine[0], other[0]))
            self.assertTrue(torch.equal(mine[1], other[1]))
            self.assertEqual(mine[2], other[2])

    def test_other_arguments(self):
        loader = self.assert_same(self.folder_dataset, n=3, batch_size=4, num_workers=2, persistent_workers=True,
                                  prefetch_factor=3, timeout=60, shuffle=True)
        self.assertEqual(len(iter(loader)), 6)
        with self.assertWarnsRegex(UserWarning, "worker_init_fn is not called"):
            DataLoader(self.folder_dataset, num_workers=1, worker_init_fn=print)


class RecogniseTest(TorchCase):
    def text(self, transform):
        loader = DataLoader(ImageFolder(self.images, transform), batch_size=2)
        return explain(loader)["transform"]

    def reason(self, transform=EVAL, dataset=None, **options):
        with self.assertWarnsRegex(UserWarning, "torch's own DataLoader is used") as seen:
            loader = DataLoader(dataset if dataset is not None else ImageFolder(self.images, transform), **options)
        found = explain(loader)
        self.assertEqual((found["native"], found["transform"]), (False, ""))
        self.assertIn(found["reason"], str(seen.warning))
        self.assertEqual(seen.filename, __file__)
        return found["reason"]

    def test_texts_of_recipes(self):
        train = [T.RandomResizedCrop(16, scale=(0.2, 1)), T.RandomHorizontalFlip()]
        words = self.text(T.Compose([*train, T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
                                     T.RandomGrayscale(0.2), T.ToTensor(), NORMAL]))
        for part in ("random_resized_crop(16", "hflip(0.5)", "random_apply(color_jitter(", "0.6:1.4", "-0.1:0.1", "0.8)",
                     "random_grayscale(0.2)", "normalize(mean=0.485:0.456:0.406"):
            self.assertIn(part, words)
        for transform, part in (
                (T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR), "trivial_augment_wide("),
                (T.RandAugment(3, 5), "rand_augment("), (T.AutoAugment(), "auto_augment("),
                (T.RandomRotation(10, fill=3), "rotation("), (T.RandomAffine(5, (0.1, 0.2)), "affine("),
                (T.RandomPerspective(), "perspective("), (T.RandomPosterize(4), "posterize(4"),
                (T.RandomSolarize(128), "solarize(128"), (T.RandomChoice([T.RandomInvert(), T.RandomEqualize()]), "choice("),
                (T.RandomOrder([T.RandomInvert(), T.RandomAutocontrast()]), "random_order("),
                (T.RandomAdjustSharpness(2), "adjust_sharpness(2"), (T.GaussianBlur(5), "gaussian_blur(5"),
                (T.RandomCrop(16, padding=4, padding_mode="reflect"), "random_crop(16,padding=4,padding_mode=reflect)"),
                (T.Resize((9, 11), T.InterpolationMode.BICUBIC), "resize(9:11,interp=bicubic)"),
                (T.Compose([T.Resize([20]), T.RandomVerticalFlip(0.25)]), "resize(20)+vflip(0.25)")):
            self.assertIn(part, self.text(T.Compose([transform, T.ToTensor()])))

    def test_eval_pixels_are_torchvisions(self):
        for transform in (T.Compose([T.Resize(20), T.CenterCrop(16), T.ToTensor()]),
                          T.Compose([T.Resize(20), T.CenterCrop(16), T.PILToTensor()]),
                          T.Compose([T.Resize((20, 12), T.InterpolationMode.BICUBIC), T.ToTensor(), NORMAL]),
                          T.Compose([T.Resize(30), T.CenterCrop(16), T.PILToTensor(), T.ConvertImageDtype(torch.float),
                                     NORMAL]),
                          T.Compose([T.Resize(20), T.CenterCrop(16), T.Grayscale(), T.ToTensor()])):
            self.assert_same(ImageFolder(self.images, transform), batch_size=8, num_workers=1)

    @unittest.skipUnless(v2, "this torchvision has no transforms.v2")
    def test_v2_on_images(self):
        scaled = v2.ToDtype(torch.float32, scale=True)
        for transform in (v2.Compose([v2.Resize(20), v2.CenterCrop(16), v2.PILToTensor(), scaled, v2.ToPureTensor()]),
                          v2.Compose([v2.Resize((20, 9)), v2.Identity(), v2.PILToTensor()])):
            self.assert_same(ImageFolder(self.images, transform), batch_size=8, num_workers=1)
        # v2 multiplies by 1 / 255 before it normalises.
        normal = v2.Compose([v2.Resize((20, 9)), v2.ToImage(), scaled, v2.Normalize([0.5] * 3, [0.2] * 3)])
        dataset = ImageFolder(self.images, normal)
        for (x, _), (y, _) in zip(DataLoader(dataset), data.DataLoader(dataset)):
            self.assertLess((x - y).abs().max().item(), 1e-6)
        self.assertIn("random_resized_crop(16",
                      self.text(v2.Compose([v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), v2.PILToTensor()])))
        self.assertIn("Resize on a tensor", self.reason(v2.Compose([v2.ToImage(), v2.Resize(20), scaled])))
        self.assertIn("v2.RandAugment", self.reason(v2.Compose([v2.RandAugment(), v2.PILToTensor()])))

    @unittest.skipUnless(hasattr(torchvision.models, "ResNet18_Weights"), "this torchvision has no weights")
    def test_presets_of_weights(self):
        preset = torchvision.models.ResNet18_Weights.DEFAULT.transforms()
        self.assert_same(ImageFolder(self.images, preset), n=1, batch_size=8, num_workers=2)

    def test_what_is_not_known_is_named(self):
        self.assertIn("PIL images", self.reason(None))
        self.assertIn("no ToTensor", self.reason(T.Resize(9)))
        self.assertIn("RandomErasing", self.reason(T.Compose([T.ToTensor(), T.RandomErasing()])))
        self.assertIn("the transform Lambda", self.reason(T.Compose([T.Lambda(abs), T.ToTensor()])))
        self.assertIn("the transform function", self.reason(lambda image: image))
        self.assertIn("max_size", self.reason(T.Compose([T.Resize(20, max_size=30), T.ToTensor()])))
        self.assertIn("batch_size None", self.reason(batch_size=None))
        self.assertIn("target_transform", self.reason(dataset=ImageFolder(self.images, EVAL, target_transform=abs)))
        sizes = T.Compose([T.Resize(9), T.ToTensor()])
        self.assertIn("different sizes", self.reason(sizes))
        self.assertIn("different sizes", self.reason(sizes, batch_size=4, collate_fn=list))
        self.assertIn("a loader of its own", self.reason(dataset=ImageFolder(self.images, EVAL, loader=open)))
        self.assertIn("TensorDataset", self.reason(dataset=data.TensorDataset(torch.zeros(3))))

        class Folder(datasets.ImageFolder):
            pass

        self.assertIn("the dataset Folder", self.reason(dataset=Folder(self.images, EVAL)))

    def test_what_is_not_known_is_loaded_by_torch(self):
        dataset = data.TensorDataset(torch.arange(10))
        with self.assertWarns(UserWarning):
            loader = DataLoader(dataset, batch_size=4)
        self.assertEqual([x.tolist() for x, in loader], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
        self.assertEqual(explain(data.DataLoader(dataset))["native"], False)

    def test_cifar_from_its_arrays(self):
        cifar = datasets.CIFAR10.__new__(datasets.CIFAR10)  # without its files
        generator = numpy.random.default_rng(1)
        cifar.data = generator.integers(0, 256, (37, 32, 32, 3), dtype=numpy.uint8)
        cifar.targets = generator.integers(0, 10, 37).tolist()
        cifar.target_transform = None
        for transform in (T.Compose([T.ToTensor(), NORMAL]), T.PILToTensor()):
            cifar.transform = transform
            self.assert_same(cifar, batch_size=8, shuffle=True, num_workers=2)
            self.assert_same(data.Subset(cifar, range(5, 30)), batch_size=8, num_workers=0)


if __name__ == "__main__":
    support.main()
