# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader, in three documented ways: Pillow images, and tensors that torchvision or
TorchCodec decodes.

The first argument chooses: pillow, tensors or torchcodec. The workers persist, as every guide to
its speed recommends. Each worker uses one thread, and the loader gets long epochs (adapter.py).
"""

import sys

from adapter import BATCH, EPOCHS_AT_ONCE, MEAN, STD, Adapter, shuffled_epochs


def operations(transforms, contract):
    """A contract's operations between flip and tensor; both interfaces use the same names."""
    from torchvision.transforms import InterpolationMode
    if contract == "A3":
        return [transforms.TrivialAugmentWide()]
    if contract == "A4":
        return [transforms.TrivialAugmentWide(interpolation=InterpolationMode.BILINEAR)]
    if contract == "A5":
        return [transforms.RandomApply([transforms.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
                transforms.RandomGrayscale(0.2),
                transforms.RandomApply([transforms.GaussianBlur(23, (0.1, 2.0))], p=0.5)]
    return []


def pillow_transform(arguments):
    from torchvision import transforms
    if arguments.eval:
        return transforms.Compose(
            [transforms.Resize(256),
             transforms.CenterCrop(224),
             transforms.PILToTensor()])
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    steps += operations(transforms, arguments.contract)
    if arguments.contract == "A1":
        steps += [transforms.PILToTensor()]
    else:
        steps += [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    return transforms.Compose(steps)


def tensors_transform(arguments):
    import torch
    from torchvision.transforms import v2
    if arguments.eval:
        return v2.Compose([v2.Resize(256, antialias=True), v2.CenterCrop(224)])
    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    steps += operations(v2, arguments.contract)
    if arguments.contract != "A1":
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose(steps)


def load_tensor(path):
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def load_by_torchcodec(path):
    from torchcodec.decoders import decode_jpeg
    return decode_jpeg(path, mode="RGB")


class LongEpoch:
    """A sampler of several epochs in a row."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return EPOCHS_AT_ONCE * (self.n // BATCH * BATCH)

    def __iter__(self):
        return iter(shuffled_epochs(self.n).tolist())


def main():
    way = sys.argv[1] if len(sys.argv) > 1 else ""
    if way not in ("pillow", "tensors", "torchcodec"):
        raise SystemExit("usage: peer_torch.py pillow|tensors|torchcodec --data DIR ...")
    adapter = Adapter(sys.argv[2:])
    arguments = adapter.arguments
    import torch
    import torchvision
    if way == "pillow":
        dataset = torchvision.datasets.ImageFolder(arguments.data, pillow_transform(arguments))
    else:
        load = load_by_torchcodec if way == "torchcodec" else load_tensor
        dataset = torchvision.datasets.ImageFolder(arguments.data,
                                                   tensors_transform(arguments),
                                                   loader=load)

    def make(**more):
        return torch.utils.data.DataLoader(dataset, BATCH, num_workers=arguments.workers, **more)

    def batches():
        loader = make(sampler=LongEpoch(len(dataset)), drop_last=True, persistent_workers=True)
        while True:
            yield from loader

    def whole():
        for images, _ in make(shuffle=not arguments.eval):
            yield images.numpy()

    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    if way == "pillow":
        import PIL
        versions["pillow"] = PIL.__version__
    elif way == "torchcodec":
        import torchcodec
        versions["torchcodec"] = torchcodec.__version__
    adapter.run(len(dataset), batches, whole, versions, "nchw")


if __name__ == "__main__":
    main()
