# SPDX-License-Identifier: Apache-2.0
"""webdataset over tar shards, with torchvision's transforms on Pillow images, as documented.

    peer_webdataset.py --data FOLDER ...      a cell; FOLDER holds shards
    peer_webdataset.py --write FOLDER OUT     write OUT/train-*.tar of a folder of class folders,
                                              50 images per shard

Each worker reads its own shards and shuffles in a buffer of 1000 samples; shards are shuffled too.
Batches are made in the workers. The stream repeats, so the end of one epoch mixes with the start of
the next.
"""

import glob
import io
import os
import sys

from adapter import BATCH, Adapter, list_images
from peer_torch import pillow_transform

SHARD = 50
BUFFER = 1000


def write(folder, out):
    import webdataset
    os.makedirs(out)
    with webdataset.ShardWriter(os.path.join(out, "train-%06d.tar"), maxcount=SHARD) as sink:
        for i, (path, label) in enumerate(list_images(folder)):
            with open(path, "rb") as file:
                sink.write({"__key__": "%06d" % i, "jpg": file.read(), "cls": label})


def main():
    if sys.argv[1:2] == ["--write"] and len(sys.argv) == 4:
        write(sys.argv[2], sys.argv[3])
        return
    adapter = Adapter()
    arguments = adapter.arguments
    import PIL.Image
    import torch
    import torchvision
    import webdataset
    transform = pillow_transform(arguments)
    shards = sorted(glob.glob(os.path.join(arguments.data, "*.tar")))

    def image_of(content):
        with PIL.Image.open(io.BytesIO(content)) as image:
            return transform(image.convert("RGB"))

    def pipeline(shuffle):
        dataset = webdataset.WebDataset(shards, shardshuffle=len(shards) if shuffle else False)
        if shuffle:
            dataset = dataset.repeat().shuffle(BUFFER)
        return dataset.to_tuple("jpg", "cls").map_tuple(image_of, int).batched(BATCH,
                                                                               partial=not shuffle)

    def batches():
        return iter(
            webdataset.WebLoader(pipeline(True), batch_size=None, num_workers=arguments.workers))

    def whole():
        for images, _ in webdataset.WebLoader(pipeline(False), batch_size=None):
            yield images.numpy() if hasattr(images, "numpy") else images

    n_images = sum(1 for shard in shards for _ in webdataset.WebDataset(shard, shardshuffle=False))
    versions = {"webdataset": webdataset.__version__, "torch": torch.__version__,
                "torchvision": torchvision.__version__, "pillow": PIL.__version__}
    adapter.run(n_images, batches, whole, versions, "nchw", exact_epochs=False)


if __name__ == "__main__":
    main()
