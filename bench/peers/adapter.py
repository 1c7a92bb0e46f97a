# SPDX-License-Identifier: Apache-2.0
"""Shared by the adapters of bench/peers: the command line, and the marks for bench/peers/run.

An adapter gives Adapter.run() two functions. batches() is an endless iterator of (images, labels)
that goes through epoch after epoch as that peer's users do. whole() gives the images of one pass,
for the quality gate and the check of the boxes. The runner answers each mark with a line on
standard input, so that it can read the process tree between two batches.

Invariant: nothing that a peer prints may come between those lines, so standard output is redirected
to standard error before the peer is imported.
"""

import argparse
import json
import os
import select
import sys
import time

import peer_contracts

BATCH = 64
WARM_EPOCHS = 2
EPOCHS_AT_ONCE = 16  # see shuffled_epochs()
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def parse(argv=None):
    """The command line of every adapter, which is also that of ours.c and light.c."""
    parser = argparse.ArgumentParser(prog="adapter")
    parser.add_argument("--data",
                        required=True,
                        help="folder of class folders, or the peer's own file")
    parser.add_argument("--contract", choices=peer_contracts.NAMES, default="A1")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--dump",
                        help="write the images of one pass to this file instead of measuring")
    parser.add_argument("--eval",
                        action="store_true",
                        help="with --dump: eval:256:224 in the dataset's order")
    arguments = parser.parse_args(argv)
    if arguments.workers < 1:
        parser.error("--workers %d is below 1" % arguments.workers)
    if not 0 < arguments.seconds <= 3600:
        parser.error("--seconds %g is not in (0, 3600]" % arguments.seconds)
    if arguments.eval and not arguments.dump:
        parser.error("--eval needs --dump")
    return arguments


def list_images(folder):
    """(path, label) in ImageFolder's order."""
    found = []
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    for label, name in enumerate(classes):
        for base, _, files in sorted(os.walk(os.path.join(folder, name), followlinks=True)):
            found += [(os.path.join(base, file), label) for file in sorted(files)
                      if file.lower().endswith((".jpg", ".jpeg", ".png"))]
    return found


def draw_box(width, height, random):
    """torchvision's RandomResizedCrop.get_params, for peers without one: (x, y, width, height)."""
    import math
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    if width / height < 3 / 4:
        w, h = width, round(width / (3 / 4))
    elif width / height > 4 / 3:
        w, h = round(height * (4 / 3)), height
    else:
        w, h = width, height
    return (width - w) // 2, (height - h) // 2, w, h


def shuffled_epochs(n):
    """Dataset indices of EPOCHS_AT_ONCE epochs in a row, each shuffled and without its last batch.

    The last batch is left out if it is incomplete. This is for peers that stop at the end of an
    epoch. In a real training that happens once in many minutes; with the few photographs of a
    measurement it would happen twice a second.
    """
    import numpy
    random = numpy.random.default_rng()
    return numpy.concatenate(
        [random.permutation(n)[:n // BATCH * BATCH] for _ in range(EPOCHS_AT_ONCE)])


class Adapter:
    """The process of one cell."""

    def __init__(self, argv=None):
        self.arguments = parse(argv)
        self.n_images = None  # of the dataset; the adapter passes it to run()
        sys.stdout.flush()
        self.lines = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, **fields):
        self.lines.write(json.dumps(fields) + "\n")
        self.lines.flush()

    def mark(self, name):
        self.say(mark=name, t=time.monotonic())
        if not sys.stdin.readline():
            raise SystemExit("the runner has ended")

    def run(self, n_images, batches, whole, versions, layout, exact_epochs=True):
        """Measure, or write one pass.

        versions is shown in the report; exact_epochs: each epoch has each image once.
        """
        if self.arguments.dump:
            return self.dump(whole(), versions, layout)
        stream = iter(batches())
        warm = n_images // BATCH * WARM_EPOCHS
        labels = []
        images = None
        for i in range(warm):
            images, some = next(stream)
            if i == 0:
                self.mark("first")
            labels += [int(label) for label in some]
        some = None  # a view of the labels would keep a whole batch alive
        shape, dtype = list(images.shape), str(images.dtype).replace("torch.", "")
        self.mark("begin")
        gaps = []
        begin = last = time.monotonic()
        while last < begin + self.arguments.seconds:
            images, _ = next(stream)
            now = time.monotonic()
            gaps.append(now - last)
            last = now
            if len(images) != BATCH:
                raise SystemExit("a batch of %d images" % len(images))
        self.mark("end")
        while not select.select([sys.stdin], [], [], 0)[0]:
            next(stream)
        self.say(mark="done",
                 seconds=last - begin,
                 images=len(gaps) * BATCH,
                 failed=0,
                 dtype=dtype,
                 shape=shape,
                 warm_epochs=WARM_EPOCHS,
                 exact_epochs=exact_epochs,
                 versions=versions,
                 gaps=[round(gap, 6) for gap in gaps],
                 labels=labels)
        self.lines.flush()
        # Ending threads and workers in order is not part of the cell, and hangs with some peers.
        os._exit(0)

    def dump(self, parts, versions, layout):
        import numpy
        n = 0
        dtype = None
        with open(self.arguments.dump, "wb") as file:
            for part in parts:
                part = numpy.ascontiguousarray(part)
                n, dtype = n + len(part), str(part.dtype)
                file.write(part.tobytes())
        self.say(mark="dumped", images=n, dtype=dtype, layout=layout, versions=versions)
        os._exit(0)
