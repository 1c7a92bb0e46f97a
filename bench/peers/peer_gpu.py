# SPDX-License-Identifier: Apache-2.0
"""PyTorch's rows of bench/peers/gpu, with the torch and torchvision of the machine.

    pin     DataLoader of Pillow images, u8; pin_memory, a non_blocking copy, normalised to bf16 on
            the GPU
    nvjpeg  DataLoader that only reads files; torchvision's decode_jpeg, crop, resize and flip on
            the GPU, bf16

Images of decode_jpeg differ in size, so they are cropped one by one on the GPU, as torchvision's
transforms do. The step is one spinning thread on the training stream, as in gpu_ours.c. --device
cpu runs without a GPU: nothing is pinned, and the step is a sleep.
"""

import argparse
import json
import os
import select
import sys
import time

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
WARM_UP = 8


def parse(argv):
    parser = argparse.ArgumentParser(prog="peer_gpu.py")
    parser.add_argument("way", choices=("pin", "nvjpeg"))
    parser.add_argument("--data", required=True, help="file of lines: path, tab, label")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=6)
    return parser.parse_args(argv)


class Files:
    """A dataset: the result of load() for each file, and its label."""

    def __init__(self, listing, load):
        with open(listing, encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file if line.strip()]
        self.rows = [(path, int(label)) for path, label in rows]
        self.load = load

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        path, label = self.rows[i]
        return self.load(path), label


class PillowImage:
    def __init__(self):
        from torchvision import transforms
        self.transform = transforms.Compose([
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor()
        ])

    def __call__(self, path):
        from PIL import Image
        with open(path, "rb") as file:
            return self.transform(Image.open(file).convert("RGB"))


def read_bytes(path):
    """Not torchvision's read_file: its tensors cannot be sent from a worker in torch 2.15."""
    import torch
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)


def join_files(samples):
    """One tensor for all files, because each tensor sent takes a file descriptor."""
    import torch
    files = [file for file, _ in samples]
    return (torch.cat(files), [len(file)
                               for file in files]), torch.tensor([label for _, label in samples])


class Finisher:
    """The part of the transform that runs on the device."""

    def __init__(self, arguments, torch):
        from torchvision.transforms import v2
        self.torch = torch
        self.way = arguments.way
        self.device = torch.device(arguments.device)
        shape = (1, 3, 1, 1)
        self.mean = 255 * torch.tensor(MEAN, device=self.device).view(shape)
        self.scale = 1 / (255 * torch.tensor(STD, device=self.device).view(shape))
        self.crop = v2.Compose(
            [v2.RandomResizedCrop(224, antialias=True),
             v2.RandomHorizontalFlip()])

    def __call__(self, images):
        if self.way == "nvjpeg":
            from torchvision.io import ImageReadMode, decode_jpeg
            joined, lengths = images
            images = decode_jpeg(list(joined.split(lengths)),
                                 mode=ImageReadMode.RGB,
                                 device=self.device)
            images = self.torch.stack([self.crop(image) for image in images])
        else:
            images = images.to(self.device, non_blocking=True)
        return ((images.float() - self.mean) * self.scale).to(self.torch.bfloat16)


class Step:
    """Spins on the training stream for the length of a step; without a GPU, sleeps."""

    def __init__(self, arguments, torch):
        self.torch = torch
        self.ms = arguments.step
        self.on_gpu = arguments.device != "cpu"
        self.events = []
        self.slept = 0.0
        self.cycles = self.calibrate() if self.on_gpu and self.ms else 0

    def calibrate(self):
        """Cycles of torch.cuda._sleep() for one step."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(3):
            begin.record()
            self.torch.cuda._sleep(100_000_000)
            end.record()
            end.synchronize()
        return int(100_000_000 * self.ms / begin.elapsed_time(end))

    def __call__(self, counted):
        if not self.ms:
            return
        if not self.on_gpu:
            begin = time.monotonic()
            time.sleep(self.ms / 1000)
            self.slept += time.monotonic() - begin if counted else 0
            return
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.torch.cuda._sleep(self.cycles)
        end.record()
        if counted:
            self.events.append((begin, end))
        if len(self.events
               ) > 2:  # at most two steps ahead, like a training loop that reads its loss
            self.events[-3][1].synchronize()

    def busy(self, seconds):
        if not self.ms:
            return -1
        if not self.on_gpu:
            return self.slept / seconds
        total = sum(begin.elapsed_time(end) for begin, end in self.events)
        return total / self.events[0][0].elapsed_time(self.events[-1][1])


def make_batches(arguments, torch):
    if arguments.way == "pin":
        dataset, more = Files(arguments.data,
                              PillowImage()), {"pin_memory": arguments.device != "cpu"}
    else:
        dataset, more = Files(arguments.data, read_bytes), {"collate_fn": join_files}
    loader = torch.utils.data.DataLoader(dataset,
                                         arguments.batch,
                                         shuffle=True,
                                         drop_last=True,
                                         num_workers=arguments.workers,
                                         persistent_workers=True,
                                         **more)
    while True:
        yield from loader


class Talk:
    """The marks of adapter.py, which is not copied to the GPU machine."""

    def __init__(self):
        self.lines = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, **fields):
        self.lines.write(json.dumps(fields) + "\n")
        self.lines.flush()

    def mark(self, name):
        self.say(mark=name, t=time.monotonic())
        if not sys.stdin.readline():
            raise SystemExit("the runner has ended")


def main():
    arguments = parse(sys.argv[1:])
    talk = Talk()
    import torch
    import torchvision
    on_gpu = arguments.device != "cpu"
    if on_gpu:
        torch.cuda.set_device(arguments.device)
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    finish, step, batches = Finisher(arguments, torch), Step(arguments,
                                                             torch), make_batches(arguments, torch)

    def take_one(counted):
        images, _ = next(batches)
        done = finish(images)
        step(counted)
        return done

    for i in range(WARM_UP):
        take_one(False)
        if i == 0:
            wait()
            talk.mark("first")
    wait()
    talk.mark("begin")
    gaps = []
    begin = last = time.monotonic()
    while last < begin + arguments.seconds:
        take_one(True)
        now = time.monotonic()
        gaps.append(now - last)
        last = now
    wait()
    seconds = time.monotonic() - begin
    busy = step.busy(seconds)
    talk.mark("end")
    while not select.select([sys.stdin], [], [], 0)[0]:
        take_one(False)
    talk.say(mark="done", seconds=seconds, images=len(gaps) * arguments.batch, failed=0, busy=busy,
             gaps=[round(gap, 6) for gap in gaps],
             versions={"torch": torch.__version__, "torchvision": torchvision.__version__})
    os._exit(0)


if __name__ == "__main__":
    main()
