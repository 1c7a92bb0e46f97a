# SPDX-License-Identifier: Apache-2.0
"""millrace from Python, in two ways: its own Loader, and the drop-in for PyTorch's DataLoader.

The first argument chooses: loader or torch. The drop-in gets exactly the arguments that
peer_torch.py gives to torch. It takes a pack as millrace.torch.Dataset. The library is that of
build/peers/millrace.
"""

import os
import sys

import peer_list
from adapter import BATCH, Adapter
from peer_torch import LongEpoch, pillow_transform

TRANSFORMS = {
    "A1": "train:224",
    "A2": "train:224",
    "A3": "train:224+trivial_augment_wide",
    "A4": "train:224+trivial_augment_wide(interp=bilinear)",
    "A5": "train:224+random_apply(color_jitter(0.8,0.8,0.8,0.2),0.8)+random_grayscale(0.2)"
          "+random_apply(gaussian_blur(23,0.1:2),0.5)",
}


def dtype_of(arguments):
    return "u8" if arguments.contract == "A1" or arguments.eval else "f32"


def run_loader(adapter, arguments):
    import millrace as mr
    import torch

    def make(**more):
        transform = "eval:256:224" if arguments.eval else TRANSFORMS[arguments.contract]
        return mr.Loader(arguments.data, transform, batch_size=BATCH, num_workers=arguments.workers,
                         dtype=dtype_of(arguments), **more)

    def batches():
        loader = make(drop_last=True)
        while True:
            for batch in loader:
                yield torch.from_dlpack(batch.image), torch.from_dlpack(batch.label)

    def whole():
        for batch in make(no_shuffle=arguments.eval):
            yield torch.from_dlpack(batch.image).numpy()

    adapter.run(len(mr.Dataset(arguments.data)), batches, whole,
                {"millrace": mr.__version__, "torch": torch.__version__}, "nchw")


def run_torch(adapter, arguments):
    import millrace
    import torch
    from millrace.torch import DataLoader, Dataset, ImageFolder, explain
    is_folder = os.path.isdir(arguments.data)
    dataset = (ImageFolder if is_folder else Dataset)(arguments.data, pillow_transform(arguments))

    def make(**more):
        loader = DataLoader(dataset, BATCH, num_workers=arguments.workers, **more)
        if not explain(loader)["native"]:
            raise SystemExit(explain(loader)["reason"])
        return loader

    def batches():
        loader = make(sampler=LongEpoch(len(dataset)), drop_last=True, persistent_workers=True)
        while True:
            yield from loader

    def whole():
        for images, _ in make(shuffle=not arguments.eval):
            yield images.numpy()

    adapter.run(len(dataset), batches, whole,
                {"millrace": millrace.__version__, "torch": torch.__version__}, "nchw")


def main():
    ways = {"loader": run_loader, "torch": run_torch}
    way = ways.get(sys.argv[1] if len(sys.argv) > 1 else "")
    if way is None:
        raise SystemExit("usage: peer_millrace.py loader|torch --data SPEC ...")
    os.environ["MILLRACE_LIBRARY"] = peer_list.LIBRARY
    sys.path.insert(0, os.path.join(peer_list.ROOT, "python"))
    adapter = Adapter(sys.argv[2:])
    way(adapter, adapter.arguments)


if __name__ == "__main__":
    main()
