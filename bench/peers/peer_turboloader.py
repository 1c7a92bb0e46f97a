# SPDX-License-Identifier: Apache-2.0
"""TurboLoader over one tar file, with its own crop, flip and normalising; f32 only.

    peer_turboloader.py --data FILE.tar ...     a cell
    peer_turboloader.py --write FOLDER OUT      write OUT/train.tar of a folder of class folders

train_aug is its RandomResizedCrop and flip, which decode the crop only. It gives an index for each
image but no label, so the adapter reads the labels from the tar file. Its threads are the calling
one and one for each further CPU, whatever num_workers is, so the adapter takes --workers CPUs. An
image that cannot be decoded becomes zeros and is counted; here it ends the run.

It has no Resize(256) that keeps the ratio. For eval:256:224 each image gets a loader of its own,
which resizes to torchvision's size; the adapter crops.
"""

import io
import os
import sys
import tarfile

from adapter import BATCH, Adapter, list_images


def write(folder, out):
    os.makedirs(out)
    with tarfile.open(os.path.join(out, "train.tar"), "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, (path, label) in enumerate(list_images(folder)):
            with open(path, "rb") as file:
                members = {"jpg": file.read(), "cls": b"%d" % label}
            for extension, content in members.items():
                info = tarfile.TarInfo("%06d.%s" % (i, extension))
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def read_members(path, extension, read):
    """What read() makes of each member with this extension, in the file's order."""
    with tarfile.open(path) as tar:
        return [read(tar.extractfile(member)) for member in tar if member.name.endswith(extension)]


def take_cpus(workers):
    have = sorted(os.sched_getaffinity(0))
    if workers > len(have):
        raise SystemExit("TurboLoader runs one thread per CPU: --workers %d is above %d" %
                         (workers, len(have)))
    os.sched_setaffinity(0, have[:workers])


def main():
    if sys.argv[1:2] == ["--write"] and len(sys.argv) == 4:
        write(sys.argv[2], sys.argv[3])
        return
    adapter = Adapter()
    arguments = adapter.arguments
    if arguments.contract != "A2" and not arguments.eval:
        raise SystemExit("TurboLoader gives f32 only, and crops without further operations")
    take_cpus(arguments.workers)
    import turboloader
    labels = read_members(arguments.data, ".cls", lambda file: int(file.read()))

    def make(size, batch_size, **more):
        return turboloader.DataLoader(arguments.data,
                                      batch_size,
                                      transform=turboloader.ImageNetNormalize(),
                                      image_size=size,
                                      output_format="pytorch",
                                      antialias=True,
                                      **more)

    def checked(loader):
        for images, about in loader:
            if about["decode_failures"]:
                raise SystemExit("%d images were not decoded" % about["decode_failures"])
            yield images, about["indices"]

    def batches():
        loader = make(224, BATCH, train_aug=True, shuffle=True, drop_last=True)
        epoch = 0
        while True:
            loader.set_epoch(epoch)
            for images, indices in checked(loader):
                yield images, [labels[i] for i in indices]
            epoch += 1

    def evaluated():
        from PIL import Image
        for i, (w, h) in enumerate(
                read_members(arguments.data, ".jpg", lambda file: Image.open(file).size)):
            short = min(w, h)
            w, h = int(256 * w / short), int(256 * h / short)
            loader = make((h, w), 1, prefetch_batches=0)
            loader.load_state_dict({"epoch": 0, "batches_served": i})
            images, _ = next(checked(loader))
            x, y = int(round((w - 224) / 2.0)), int(round((h - 224) / 2.0))
            yield images[:, :, y:y + 224, x:x + 224]

    def whole():
        if arguments.eval:
            return evaluated()
        return (images for images, _ in checked(make(224, BATCH, train_aug=True, shuffle=True)))

    adapter.run(len(labels), batches, whole, {"turboloader": turboloader.__version__}, "nchw")


if __name__ == "__main__":
    main()
