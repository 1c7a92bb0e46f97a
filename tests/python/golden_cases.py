# SPDX-License-Identifier: Apache-2.0
"""What tests/data/python.json is about: tests/data/make_python.py runs these cases with torch, and
test_goldens.py compares.

torch and its modules come in as arguments, so that a test can read the texts without them.
"""
import os
import zlib

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
EXACT = "+normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225,exact)"
EXACT_V2 = EXACT.replace("exact", "exact_v2")  # multiplied by 1 / 255
DIVIDED = "+normalize(mean=0,std=1,exact)"  # ToTensor's x / 255
N_EPOCHS = 4
N_SAMPLES = 23  # of the datasets whose orders are compared
N_CIFAR = 37


def word(T, name):
    return getattr(T.InterpolationMode, name)


# Name: the library's text, the dtype, and what makes the transform of torchvision's from (T,
# torch).
V1 = {
    "resize, crop": ("resize(24)+center_crop(16)" + DIVIDED, "f32", lambda T, torch:
                     [T.Resize(24), T.CenterCrop(16), T.ToTensor()]),
    "resize, crop, normalize": (
        "resize(24)+center_crop(16)" + EXACT, "f32", lambda T, torch:
        [T.Resize(24), T.CenterCrop(16),
         T.ToTensor(), T.Normalize(*IMAGENET)]),
    "bytes": ("resize(30)+center_crop(16)", "u8", lambda T, torch:
              [T.Resize(30), T.CenterCrop(16), T.PILToTensor()]),
    "both sides, bicubic": ("resize(20:12,interp=bicubic)" + EXACT, "f32", lambda T, torch: [
        T.Resize((20, 12), word(T, "BICUBIC")),
        T.PILToTensor(),
        T.ConvertImageDtype(torch.float32),
        T.Normalize(*IMAGENET)
    ]),
    "nearest": (
        "resize(18,interp=nearest)+center_crop(16)", "u8", lambda T, torch:
        [T.Resize(18, word(T, "NEAREST")),
         T.CenterCrop(16), T.PILToTensor()]),
    "crop with a border": (
        "resize(12)+center_crop(20:24)" + DIVIDED, "f32",
        lambda T, torch: [T.Resize(12), T.CenterCrop(
            (20, 24)), T.ToTensor()]),
    "grayscale": (
        "resize(20)+center_crop(16)+grayscale(3)" + EXACT, "f32", lambda T, torch:
        [T.Resize(20),
         T.CenterCrop(16),
         T.Grayscale(3),
         T.ToTensor(),
         T.Normalize(*IMAGENET)]),
}
V2 = {
    "PILToTensor": ("resize(24)+center_crop(16)", "u8",
                    lambda v2, torch: [v2.Resize(
                        24), v2.CenterCrop(16), v2.PILToTensor()]),
    "ToImage": ("resize(20:12)", "u8", lambda v2, torch: [v2.Resize(
        (20, 12)), v2.ToImage()]),
    "ToDtype": ("resize(24,interp=bicubic)+center_crop(16)", "f32", lambda v2, torch: [
        v2.Resize(24, v2.InterpolationMode.BICUBIC),
        v2.CenterCrop(16),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True)
    ]),
    "Normalize": ("resize(24)+center_crop(16)" + EXACT_V2, "f32", lambda v2, torch: [
        v2.Resize(24),
        v2.CenterCrop(16),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(*IMAGENET)
    ]),
    "ConvertImageDtype": ("resize(24)+center_crop(16)" + EXACT_V2, "f32", lambda v2, torch: [
        v2.Resize(24),
        v2.CenterCrop(16),
        v2.PILToTensor(),
        v2.ConvertImageDtype(torch.float32),
        v2.Identity(),
        v2.Normalize(*IMAGENET),
        v2.ToPureTensor()
    ]),
}
PRESETS = {  # of torchvision.transforms._presets.ImageClassification
    "resnet50_v1": ("resize(256)+center_crop(224)" + EXACT, {"crop_size": 224}),
    "resnet50_v2": ("resize(232)+center_crop(224)" + EXACT, {"crop_size": 224, "resize_size": 232}),
}

WEIGHTS = [1.0 + i * 7 % 5 for i in range(N_SAMPLES)]
# Name: the arguments of DataLoader that give the order of a dataset for a rank of a world.
SAMPLERS = {
    "sequential": lambda data, torch, dataset: {},
    "sequential, drop_last": lambda data, torch, dataset: {
        "drop_last": True
    },
    "shuffle": lambda data, torch, dataset: {
        "shuffle": True
    },
    "a generator": lambda data, torch, dataset: {
        "shuffle": True,
        "generator": torch.Generator().manual_seed(7)
    },
    "random, with replacement": lambda data, torch, dataset: {
        "sampler": data.RandomSampler(dataset, replacement=True, num_samples=17)
    },
    "subset random": lambda data, torch, dataset: {
        "sampler": data.SubsetRandomSampler(range(1, len(dataset), 2))
    },
    "weighted": lambda data, torch, dataset: {
        "sampler": data.WeightedRandomSampler(WEIGHTS[:len(dataset)], 15)
    },
    "weighted, without replacement": lambda data, torch, dataset: {
        "sampler": data.WeightedRandomSampler(WEIGHTS[:len(dataset)], 6, replacement=False)
    },
    "batch sampler": lambda data, torch, dataset: {
        "batch_sampler": data.BatchSampler(data.RandomSampler(dataset), 3, drop_last=True)
    },
}
DISTRIBUTED = {
    "distributed": {},
    "distributed, drop_last": {
        "drop_last": True
    },
    "distributed, in sequence": {
        "shuffle": False
    },
}
RANKS = [(world, rank) for world in (1, 2, 3) for rank in range(world)]


def torch_orders(kind, torch, dataset, name, world, rank, **options):
    """Orders of N_EPOCHS passes of a DataLoader, and after each the number that torch's generator
    would draw next.

    kind     the class of the DataLoader
    dataset  its labels are its indices
    A rank draws by itself from its part of the dataset, a Subset, unless its sampler is a
    DistributedSampler.
    """
    data, sampler = torch.utils.data, None
    if name in DISTRIBUTED:
        sampler = data.distributed.DistributedSampler(dataset,
                                                      world,
                                                      rank,
                                                      seed=5,
                                                      **DISTRIBUTED[name])
        arguments = {"sampler": sampler}
    else:
        dataset = data.Subset(dataset, range(rank, len(dataset), world)) if world > 1 else dataset
        arguments = SAMPLERS[name](data, torch, dataset)
    if "batch_sampler" not in arguments:
        arguments["batch_size"] = 4
    torch.manual_seed(100 + rank)
    loader, orders, numbers = kind(dataset, **arguments, **options), [], []
    for epoch in range(N_EPOCHS):
        if sampler is not None:
            sampler.set_epoch(epoch)
        orders.append([index for _, labels in loader for index in labels.tolist()])
        state = torch.random.get_rng_state()
        numbers.append(int(torch.empty((), dtype=torch.int64).random_()))
        torch.random.set_rng_state(state)
    return {"orders": orders, "next": numbers}


def write_images(images, folder):
    """Write the golden's files into a folder, for ImageFolder."""
    for name, content in images.items():
        os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


def crc(content):
    return f"{zlib.crc32(content):08x}"


def cifar_pixels():
    """Pictures as CIFAR-10's files have them, planes of red, green and blue, and their labels."""
    pictures = [
        bytes((p * (i + 3) + (p >> 5) * 7 + (p * p >> 9)) & 255 for p in range(3072))
        for i in range(N_CIFAR)
    ]
    return pictures, [i * 3 % 10 for i in range(N_CIFAR)]


CIFAR_TRANSFORMS = {
    "ToTensor, Normalize": ("none" + EXACT, "f32",
                            lambda T, torch: [T.ToTensor(), T.Normalize(*IMAGENET)]),
    "PILToTensor": ("none", "u8", lambda T, torch: [T.PILToTensor()]),
}


def cifar_dataset(numpy, datasets):
    """torchvision's CIFAR10 of these pictures, without its files."""
    pictures, labels = cifar_pixels()
    cifar = datasets.CIFAR10.__new__(datasets.CIFAR10)
    planes = numpy.frombuffer(b"".join(pictures), numpy.uint8).reshape(N_CIFAR, 3, 32, 32)
    cifar.data, cifar.targets = numpy.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels
    cifar.transform = cifar.target_transform = None
    return cifar
