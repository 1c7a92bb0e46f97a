# SPDX-License-Identifier: Apache-2.0
"""millrace: batches of training samples, in order, made by worker processes.

    import millrace as mr

    loader = mr.Loader("imagefolder:photos/train", transform="train:224", batch_size=64,
                       num_workers=8, dtype="f32")
    for epoch in range(90):
        loader.set_epoch(epoch)
        for batch in loader:
            x, y = torch.from_dlpack(batch.image), torch.from_dlpack(batch.label)  # no copy
            # or numpy.asarray(batch.image)

A thin layer over the C library. docs/python.md describes it; <millrace/loader.h> has all options.
"""

from ._array import Array
from ._batch import Batch
from ._dataset import Dataset
from ._errors import (
    CanceledError,
    DamagedError,
    DeviceError,
    Error,
    FileAccessError,
    FileError,
    FileMissingError,
    InvalidError,
    NoDeviceError,
    NoMemoryError,
    PeerError,
    PeerTimeoutError,
    StateError,
    UnsupportedError,
    WorkerError,
)
from ._library import VERSION as __version__
from ._library import lib as _lib
from ._loader import Loader
from ._option_types import LoaderOptions
from ._preview import explain_html, preview
from ._rows import Rows
from ._transform import Transform, explain


def features() -> str:
    """In one line, as "io_uring jpeg png bmp ppm tiff webp voc coco libdeflate no-cuda"."""
    return _lib.mr_features().decode()


__all__ = [
    "Array", "Batch", "CanceledError", "DamagedError", "Dataset", "DeviceError", "Error",
    "FileAccessError", "FileError", "FileMissingError", "InvalidError", "Loader", "LoaderOptions",
    "NoDeviceError", "NoMemoryError", "PeerError", "PeerTimeoutError", "Rows", "StateError",
    "Transform", "UnsupportedError", "WorkerError", "__version__", "explain", "explain_html",
    "features", "preview",
]
