# SPDX-License-Identifier: Apache-2.0
"""FFCV, on its own file of re-encoded JPEGs (quality 90, longest side 512).

This is how its ImageNet example does it.

    peer_ffcv.py --data FILE.beton ...       a cell
    peer_ffcv.py --write FOLDER OUT          make OUT/train.beton, and OUT/jpeg/ with its JPEG files
    peer_ffcv.py --write-raw FOLDER OUT      make OUT/train.beton of pixels, longest side 256

Invariant: the JPEG files for the other loaders are FFCV's own bytes, taken out of its file.
Encoding the photographs once more would compare different files.

FFCV crops with INTER_AREA and has no Resize(256): for eval:256:224 it gives its CenterCrop with the
ratio 224/256. It allocates all its buffers again for each epoch, which is a third of its time if an
epoch is 500 images. Therefore epochs are long (adapter.py).
"""

import os
import sys

import numpy
from adapter import BATCH, MEAN, STD, Adapter, list_images, shuffled_epochs


class Photographs:
    """The dataset for FFCV's writer; each worker gets a copy."""

    def __init__(self, folder):
        self.found = list_images(folder)

    def __len__(self):
        return len(self.found)

    def __getitem__(self, i):
        from PIL import Image
        path, label = self.found[i]
        return Image.open(path).convert("RGB"), label


def write(folder, out, raw):
    """OUT is complete when this returns; then the runner renames it."""
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    dataset = Photographs(folder)
    os.makedirs(out)
    image = RGBImageField(write_mode="jpg", max_resolution=512, jpeg_quality=90)
    if raw:
        image = RGBImageField(write_mode="raw", max_resolution=256)
    beton = os.path.join(out, "train.beton")
    DatasetWriter(beton, {"image": image, "label": IntField()},
                  num_workers=1).from_indexed_dataset(dataset)
    if not raw:
        extract(beton, dataset.found, folder, os.path.join(out, "jpeg"))


def extract(beton, found, folder, jpeg):
    from ffcv.reader import Reader
    reader = Reader(beton)
    sizes = {int(row["ptr"]): int(row["size"]) for row in reader.alloc_table}
    with open(beton, "rb") as file:
        for row, (path, _) in zip(reader.metadata, found):
            start = int(row["f0"]["data_ptr"])
            file.seek(start)
            place = os.path.join(jpeg, os.path.relpath(path, folder))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(os.path.splitext(place)[0] + ".jpg", "wb") as image:
                image.write(file.read(sizes[start]))


def make_loader(arguments):
    import torch
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    from ffcv.traversal_order import Random

    class LongEpoch(Random):
        """FFCV checks for a subclass of Random, then calls the object that it got."""

        def __init__(self, loader=None):
            if loader is not None:  # without a loader the length is unknown
                super().__init__(loader)

        def __call__(self, loader):
            return LongEpoch(loader)

        def sample_order(self, epoch):
            return shuffled_epochs(len(self.indices)).astype(self.indices.dtype)

    if arguments.eval:
        image = [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256), ToTensor()]
    else:
        image = [
            RandomResizedCropRGBImageDecoder((224, 224), scale=(0.08, 1), ratio=(3 / 4, 4 / 3)),
            RandomHorizontalFlip()
        ]
        if arguments.contract == "A2":
            scaled = [255 * numpy.array(MEAN), 255 * numpy.array(STD)]
            image += [
                NormalizeImage(*scaled, numpy.float32),
                ToTensor(),
                ToTorchImage(channels_last=False)
            ]
        else:
            image += [ToTensor()]
    order = LongEpoch()
    if arguments.dump:
        order = OrderOption.SEQUENTIAL if arguments.eval else OrderOption.RANDOM
    torch.set_grad_enabled(False)
    return Loader(arguments.data,
                  batch_size=BATCH,
                  num_workers=arguments.workers,
                  os_cache=True,
                  order=order,
                  drop_last=not arguments.dump,
                  pipelines={"image": image, "label": [IntDecoder(), ToTensor()]})


def main():
    if len(sys.argv) == 4 and sys.argv[1] in ("--write", "--write-raw"):
        write(sys.argv[2], sys.argv[3], sys.argv[1] == "--write-raw")
        return
    adapter = Adapter()
    arguments = adapter.arguments
    if arguments.contract not in ("A1", "A2"):
        raise SystemExit("FFCV has no TrivialAugment and no blur")
    os.environ["NUMBA_NUM_THREADS"] = str(max(arguments.workers, os.cpu_count() or 1))
    import importlib.metadata

    import torch
    loader = make_loader(arguments)

    def batches():
        while True:
            for images, labels in loader:
                yield images, labels.ravel()

    def whole():
        for images, _ in loader:
            yield images.numpy().copy()

    versions = {"ffcv": importlib.metadata.version("ffcv"), "torch": torch.__version__}
    layout = "nchw" if arguments.contract == "A2" and not arguments.eval else "nhwc"
    adapter.run(loader.reader.num_samples, batches, whole, versions, layout)


if __name__ == "__main__":
    main()
