# SPDX-License-Identifier: Apache-2.0
"""The options of a loader for type checkers. tests/python/test_types.py compares them with the
library's table."""

from __future__ import annotations

import os
from typing import Any, Iterable, Literal, Protocol, TypedDict, Union


class NumpyDtype(Protocol):
    """numpy.dtype("float32"), and torch.float32 since torch 2.1."""

    @property
    def itemsize(self) -> int:
        ...


class TorchDtype(Protocol):
    """torch.float32."""

    @property
    def is_complex(self) -> bool:
        ...


class TorchDevice(Protocol):
    """torch.device("cuda:0")."""

    @property
    def type(self) -> str:
        ...

    @property
    def index(self) -> Any:
        ...


# numpy.float32 is a type.
Dtype = Union[Literal["u8", "f32", "f16", "bf16", "uint8", "float32", "float", "fp32", "float16",
                      "half", "fp16", "bfloat16"], NumpyDtype, TorchDtype, type]
Device = Union[str, TorchDevice]


class LoaderOptions(TypedDict, total=False):
    """The options of Loader by name; <millrace/loader.h> describes them. None is the default.

    For functions that pass options on: def load(**options: Unpack[millrace.LoaderOptions]).
    """

    batch_size: int | None
    dtype: Dtype | None
    layout: Literal["nchw", "nhwc"] | None
    pad_channels: Literal[0, 4, 8] | None
    soft_labels: int | None
    drop_last: bool | None
    allow_empty_epoch: bool | None
    ragged: bool | None
    max_row_bytes: int | str | None
    rank: int | None
    world_size: int | None
    tail: Literal["pad", "drop", "exact"] | None
    order: Literal["torch", "keyed"] | None
    seed: int | None
    epoch: int | None
    n_epochs: int | None
    no_shuffle: bool | None
    allow_same_epoch: bool | None
    no_replacement: bool | None
    rank_slices: bool | None
    repeat: int | None
    repeat_form: Literal["torchvision", "timm"] | None
    n_draws: int | None
    weights: str | os.PathLike[str] | None
    weight_values: Iterable[float] | None
    num_workers: int | Literal["none"] | None
    start: Literal["exec", "fork", "thread"] | None
    nice: int | None
    affinity: Literal["none", "spread", "list"] | None
    affinity_cpus: Iterable[int] | None
    reader: Literal["auto", "uring", "pread"] | None
    jpeg_decoder: Literal["auto", "stock"] | None
    read_ahead: int | None
    n_slots: int | None
    wait_when_lent: bool | None
    no_huge_pages: bool | None
    verify_packs: bool | None
    on_error: Literal["fail", "skip", "zero"] | None
    time_limit_ms: int | None
    max_file_bytes: int | str | None
    max_pixels: int | None
    device: Device | None
    devices: Iterable[Device] | None
    n_buffers: int | None
    label_device: Device | None
    pin_memory: bool | None
    finish_on_host: bool | None
    with_timing: bool | None
    max_boxes: int | None
    trace: str | os.PathLike[str] | None
    cache_slowdown: int | Literal["idle"] | None
    cache_form: Literal["auto", "index", "dct"] | None
    cache: str | os.PathLike[str] | None
    cache_bytes: int | str | None
    pad_batch: int | None
    aspect_ratio_groups: int | None
    retry_ms: int | None
    connections: int | None
    mix_order: Literal["even", "megatron"] | None
    mix_stop: Literal["none", "first", "all"] | None
    mix_samples: int | None
    group_by_length: int | None
    batch_multiple: int | None
    max_tokens: int | None
    lengths: str | os.PathLike[str] | None
