# SPDX-License-Identifier: Apache-2.0
"""What erasing, mixing and whole recipes cost, and the same recipes in PyTorch and timm.

METHOD.md defines the columns.

    build/peers/timm/bin/python bench/peers/recipe_pairs.py [--groups steps,v2,timm] [--rounds 5]
                                                            [--seconds 3] [--json FILE]
                                                            FOLDER [PACK]

FOLDER has class folders, PACK is made from it by `millrace pack`. The library is that of
build/peers/millrace, with two workers and batches of 64, f32. Cells in Python run in separate
processes. Their clock starts when the first batches have arrived.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings

sys.dont_write_bytecode = True
import peer_list  # noqa: E402
from adapter import EPOCHS_AT_ONCE, MEAN, STD  # noqa: E402
from peer_stats import describe, order_of_round, paired  # noqa: E402

COMMAND = os.path.join(peer_list.BUILD, "millrace", "tools", "millrace")
WORKERS, BATCH, CLASSES = 2, 64, 1000
SKIPPED = 8  # batches before the clock starts, which workers had prepared already
V2 = "+random_erasing(0.1)+mixup_or_cutmix(0.2,1)"

# Name: title, data, transform and repetition for `millrace bench`, or the way of a child.
CELLS = {
    "plain": ("`train:224`", "folder", ("train:224", 1)),
    "erase25": ("`…+random_erasing(0.25)`", "folder", ("train:224+random_erasing(0.25)", 1)),
    "erase10": ("`…+random_erasing(0.1)`", "folder", ("train:224+random_erasing(0.1)", 1)),
    "mix": ("`…+mixup_or_cutmix(0.2,1)`", "folder", ("train:224+mixup_or_cutmix(0.2,1)", 1)),
    "timm_mix": ("`…+timm_mixup(mixup=0.8,cutmix=1)`", "folder",
                 ("train:224+timm_mixup(mixup=0.8,cutmix=1)", 1)),
    "v2": ("V2's recipe", "folder", ("resnet50_v2" + V2, 4)),
    "v2_224": ("V2's recipe at 224", "folder", ("resnet50_v2:224" + V2, 4)),
    "v2_packed": ("V2's recipe, packed", "pack", ("resnet50_v2" + V2, 4)),
    "v2_torch": ("V2's recipe, PyTorch", "folder", "torch"),
    "timm": ("timm's recipe, millrace.timm", "folder", "ours"),
    "timm_packed": ("timm's recipe, millrace.timm, packed", "pack", "ours"),
    "timm_theirs": ("timm's recipe, timm", "folder", "timm"),
}

# Group: its cells, and (above, below, aim) for each figure.
GROUPS = {
    "steps": (["plain", "erase25", "erase10", "mix", "timm_mix",
               "v2", "v2_224"], [("erase25", "plain", 0.98), ("erase10", "plain", 0.98),
                                 ("mix", "plain", 0.94), ("timm_mix", "plain", 0.94),
                                 ("v2", "plain", 0.80), ("v2_224", "plain", 0.80)]),
    "v2": (["v2", "v2_packed", "v2_torch"], [("v2", "v2_torch", 3.3),
                                             ("v2_packed", "v2_torch", 11)]),
    "timm": (["timm", "timm_packed", "timm_theirs"], [("timm", "timm_theirs", 3.3),
                                                      ("timm_packed", "timm_theirs", 10)]),
}


# ---- in the child ----

class RepeatSampler:
    """RASampler of torchvision's references/classification for one rank; epochs run on as one."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return EPOCHS_AT_ONCE * (self.n // 256 * 256)

    def __iter__(self):
        import torch
        for epoch in range(EPOCHS_AT_ONCE):
            generator = torch.Generator().manual_seed(epoch)
            order = torch.randperm(self.n, generator=generator).repeat_interleave(4)
            yield from order[:self.n // 256 * 256].tolist()


def make_torch(folder):
    """The loader of torchvision's references/classification/train.py with V2's recipe.

    Its options: --auto-augment ta_wide --random-erase 0.1 --mixup-alpha 0.2 --cutmix-alpha 1.0
    --ra-sampler --train-crop-size 176.
    """
    import torch
    import torchvision
    from torchvision import transforms as T
    from torchvision.transforms import v2
    bilinear = T.InterpolationMode.BILINEAR
    dataset = torchvision.datasets.ImageFolder(
        folder,
        T.Compose([
            T.RandomResizedCrop(176, interpolation=bilinear, antialias=True),
            T.RandomHorizontalFlip(),
            T.TrivialAugmentWide(interpolation=bilinear),
            T.PILToTensor(),
            T.ConvertImageDtype(torch.float),
            T.Normalize(MEAN, STD),
            T.RandomErasing(p=0.1)
        ]))
    mix = v2.RandomChoice(
        [v2.MixUp(alpha=0.2, num_classes=CLASSES),
         v2.CutMix(alpha=1.0, num_classes=CLASSES)])
    return torch.utils.data.DataLoader(
        dataset,
        BATCH,
        sampler=RepeatSampler(len(dataset)),
        drop_last=True,
        num_workers=WORKERS,
        persistent_workers=True,
        collate_fn=lambda samples: mix(*torch.utils.data.default_collate(samples)))


def mend_posterize():
    """Make posterizing to 0 bits give black.

    timm 1.0.31 does that for about one sample in 660, and Pillow 13 refuses it.
    """
    from PIL import ImageOps
    posterize = ImageOps.posterize
    ImageOps.posterize = lambda image, bits: posterize(image, bits) if bits else image.point(lambda
                                                                                             _: 0)


def make_timm(way, spec):
    """timm's recipe by timm's own create_loader, or by ours, with the same arguments."""
    import torch
    from timm import data
    recipe = {
        "input_size": (3, 224, 224),
        "is_training": True,
        "auto_augment": "rand-m9-mstd0.5-inc1",
        "interpolation": "random",
        "re_prob": 0.25,
        "re_mode": "pixel",
        "mean": MEAN,
        "std": STD
    }
    # The loader would set the transform on the Subset, so it is set on the dataset first.
    transform = data.create_transform(use_prefetcher=True, **recipe)
    if way == "timm":
        mend_posterize()
        create, dataset = data.create_loader, data.ImageDataset(spec, transform=transform)
    else:
        from millrace.timm import create_loader as create
        from millrace.torch import Dataset
        dataset = data.ImageDataset(spec, transform=transform) if os.path.isdir(spec) else Dataset(
            spec, transform)
    collate = data.FastCollateMixup(mixup_alpha=0.8,
                                    cutmix_alpha=1.0,
                                    label_smoothing=0.1,
                                    num_classes=CLASSES)
    long = torch.utils.data.Subset(dataset, list(range(len(dataset))) * EPOCHS_AT_ONCE)
    with warnings.catch_warnings():
        warnings.filterwarnings("error",
                                message="millrace")  # the fall-back must not be measured
        return create(long,
                      batch_size=BATCH,
                      collate_fn=collate,
                      num_workers=WORKERS,
                      persistent_workers=True,
                      device=torch.device("cpu"),
                      **recipe)


def run_child(way, spec, seconds):
    sys.path.insert(0, os.path.join(peer_list.ROOT, "python"))
    os.environ["MILLRACE_LIBRARY"] = peer_list.LIBRARY
    import torch
    torch.set_num_threads(1)
    loader = make_torch(spec) if way == "torch" else make_timm(way, spec)

    def batches():
        while True:
            yield from loader

    stream = batches()
    for _ in range(SKIPPED):
        images, targets = next(stream)
    begin = last = time.monotonic()
    n = 0
    while last < begin + seconds or n % WORKERS:  # other loaders' workers finish batches together
        images, targets = next(stream)
        n, last = n + 1, time.monotonic()
    assert images.dtype == torch.float32 and len(images) == BATCH and targets.shape == (BATCH,
                                                                                        CLASSES)
    print("value", n * BATCH / (last - begin), flush=True)
    os._exit(0)  # ending workers in order is not measured


# ---- in the parent ----

def output_of(command, name):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("%s: %s" % (name, done.stderr.strip()[-300:]))
    return done.stdout


def value_of(name, data, seed, seconds):
    """Images per second."""
    _, reads, what = CELLS[name]
    if isinstance(what, str):
        child = [
            sys.executable, "-B",
            os.path.abspath(__file__), "--child", what, "--seconds",
            str(seconds), data[reads]
        ]
        return float(output_of(child, name).split("value")[-1])
    transform, repeat = what
    options = {
        "data": data[reads],
        "transform": transform,
        "workers": WORKERS,
        "batch-size": BATCH,
        "dtype": "f32",
        "seed": seed,
        "seconds": seconds,
        "json": "-"
    }
    if repeat > 1:
        options["repeat"] = repeat
    command = [COMMAND, "bench", "--drop-last"] + ["--%s=%s" % option for option in options.items()]
    return json.loads(output_of(command, name))["rows"][0]["img_s"]


def measure(cells, data, rounds, seconds):
    """{name: {round: value}}."""
    found = {name: {} for name in cells}
    for number in range(rounds):
        for name in order_of_round(cells, number, rounds):
            found[name][number] = value_of(name, data, number, seconds)
    return found


def show(about, digits):
    text = "%.*f" % (digits, about["median"])
    return text if about["low"] is None else text + " [%.*f, %.*f]" % (digits, about["low"], digits,
                                                                       about["high"])


def print_table(head, rows):
    for row in [head, ["---"] * len(head)] + rows:
        print("| " + " | ".join(row) + " |")
    print()


def report(group, found):
    figures = [figure for figure in GROUPS[group][1] if all(name in found for name in figure[:2])]
    print_table([group, "img/s"],
                [[CELLS[name][0], show(describe(values.values()), 0)]
                 for name, values in found.items()])
    rows = []
    for above, below, aim in figures:
        about = describe(paired(found[above], found[below]))
        rows.append([CELLS[above][0], CELLS[below][0], show(about, 3), ">= %g" % aim,
                     "met" if about["median"] >= aim else "missed"])
    print_table(["this", "over this", "ratio", "aim", "met"], rows)


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(prog="bench/peers/recipe_pairs.py")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("pack", nargs="?", metavar="PACK")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", metavar="FILE", help="every value")
    parser.add_argument("--child", choices=["torch", "timm", "ours"], help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if not set(arguments.groups.split(",")) <= set(GROUPS):
        parser.error("--groups are of %s" % ", ".join(GROUPS))
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.child:
        run_child(arguments.child, arguments.folder, arguments.seconds)
    os.environ["OMP_NUM_THREADS"] = "1"
    data = {
        "folder": arguments.folder,
        "pack": arguments.pack and "pack:" + os.path.abspath(arguments.pack)
    }
    result = {}
    for group in arguments.groups.split(","):
        cells = [name for name in GROUPS[group][0] if data[CELLS[name][1]]]
        result[group] = measure(cells, data, arguments.rounds, arguments.seconds)
        report(group, result[group])
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
