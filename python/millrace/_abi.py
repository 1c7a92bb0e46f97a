# SPDX-License-Identifier: Apache-2.0
"""The public headers for ctypes: constants, structs and prototypes.

tests/python/test_abi.py compares all of it with include/millrace/*.h.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64,
    c_size_t, c_uint8, c_uint32, c_uint64, c_void_p,
)
from typing import TypeVar

OK = 0
END = 1
PENDING = 2
ERR_INVALID = -1
ERR_NO_MEMORY = -2
ERR_IO = -3
ERR_DAMAGED = -4
ERR_UNSUPPORTED = -5
ERR_WORKER = -6
ERR_CANCELED = -7
ERR_STATE = -8
ERR_NO_DEVICE = -9
ERR_DEVICE = -10
ERR_TIMEOUT = -11
ERR_PEER = -12
NO_INDEX = -1
ERROR_TEXT = 1000
LOG_ERROR = 1
LOG_WARNING = 2
LOG_INFO = 3
U8 = 1
F32 = 2
F16 = 3
BF16 = 4
F64 = 5
I8 = 6
U16 = 7
I16 = 8
I32 = 9
I64 = 10
U32 = 11
DEVICE_HOST = 0
DEVICE_CUDA = 1
MAX_NDIM = 8
NO_BUFFER = 0xFFFFFFFF
EXPLAIN_JSON = 0


class mr_error(Structure):
    _fields_ = [
        ("status", c_int32), ("os_error", c_int32), ("index", c_int64),
        ("text", c_char * ERROR_TEXT),
    ]


class mr_device(Structure):
    _fields_ = [("kind", c_uint32), ("id", c_int32)]


class mr_array(Structure):
    _fields_ = [
        ("name", c_char_p), ("dtype", c_uint32), ("ndim", c_uint32), ("shape", c_int64 * MAX_NDIM),
        ("strides", c_int64 * MAX_NDIM), ("device", mr_device), ("data", c_void_p),
        ("row_offsets", POINTER(c_int64)), ("n_values", c_int64),
    ]


class mr_dataset_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("allow_empty_classes", c_bool), ("no_classes", c_bool),
        ("reserved", c_uint8 * 6),
        ("progress", c_void_p), ("user", c_void_p),
    ]


class mr_sample_info(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("format", c_char * 16), ("width", c_uint32),
        ("height", c_uint32), ("channels", c_uint32), ("orientation", c_uint32),
        ("len_bytes", c_uint64),
    ]


class mr_loader_stats(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("n_batches", c_uint64), ("n_samples", c_uint64),
        ("n_damaged", c_uint64), ("n_warnings", c_uint64), ("read_ns", c_uint64),
        ("decode_ns", c_uint64), ("transform_ns", c_uint64), ("wait_ns", c_uint64),
        ("bytes_read", c_uint64), ("consumer_wait_ns", c_uint64), ("elapsed_ns", c_uint64),
        ("n_ready", c_uint32), ("n_slots", c_uint32), ("num_workers", c_uint32),
        ("n_buffers", c_uint32), ("n_copying", c_uint32), ("reserved", c_uint32),
        ("n_deaths", c_uint64), ("busy_share_min", c_double), ("busy_share_mean", c_double),
        ("busy_share_max", c_double), ("reader", c_char * 16),
        ("copying_mean", c_double), ("h2d_bytes", c_uint64),
        ("h2d_ns", c_uint64), ("n_steps", c_uint64), ("n_steps_ready", c_uint64),
        ("ready_share", c_double), ("n_cached", c_uint64), ("n_packed", c_uint64),
        ("n_damaged_distinct", c_uint64), ("page_locked_bytes", c_uint64),
    ]


class mr_explain_options(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("seed", c_uint64), ("epoch", c_uint64), ("index", c_int64),
        ("occurrence", c_uint32), ("hole", c_bool), ("partner_is_hole", c_bool),
        ("reserved", c_uint8 * 2), ("name", c_char_p), ("width", c_uint32), ("height", c_uint32),
        ("orientation", c_uint32), ("raw_channels", c_uint32), ("batch", c_uint64),
        ("n_rows", c_uint32), ("row", c_uint32), ("rank", c_uint32), ("form", c_uint32),
        ("boxes", POINTER(c_float)), ("n_boxes", c_uint64),
    ]


STRUCTS = (
    mr_error, mr_device, mr_array, mr_dataset_options, mr_sample_info, mr_loader_stats,
    mr_explain_options,
)

# Options of a loader are set and read by name, except the lists of mr_loader_options. Each list has
# the pointer's offset, the type of an item, and the type of the length, which follows the pointer.
# Later versions do not change offsets.
LISTS = {
    "affinity_cpus": (144, c_int32, c_uint32), "devices": (208, c_char_p, c_uint32),
    "weight_values": (112, c_double, c_uint64),
}

_error = POINTER(mr_error)
_out = POINTER(c_void_p)

# Name: result, arguments. Handles and pointers to memory of any kind are c_void_p.
PROTOTYPES = {
    "mr_version": (c_char_p, []),
    "mr_features": (c_char_p, []),
    "mr_constant": (c_int, [c_char_p, POINTER(c_int64)]),
    "mr_log_queue": (None, []),
    "mr_log_take": (c_int, [POINTER(c_int), c_char_p, c_size_t, c_void_p]),
    "mr_dtype_size": (c_size_t, [c_int]),
    "mr_batch_size": (c_uint32, [c_void_p]),
    "mr_batch_valid": (c_uint32, [c_void_p]),
    "mr_batch_channels": (c_uint32, [c_void_p]),
    "mr_batch_epoch": (c_uint64, [c_void_p]),
    "mr_batch_number": (c_uint64, [c_void_p]),
    "mr_batch_n_arrays": (c_uint32, [c_void_p]),
    "mr_batch_array_at": (POINTER(mr_array), [c_void_p, c_uint32]),
    "mr_batch_array": (POINTER(mr_array), [c_void_p, c_char_p]),
    "mr_batch_buffer": (c_uint32, [c_void_p]),
    "mr_batch_n_parts": (c_uint32, [c_void_p]),
    "mr_batch_part": (c_void_p, [c_void_p, c_uint32]),
    "mr_batch_use": (c_int, [c_void_p, c_void_p]),
    "mr_batch_copy": (c_int, [c_void_p, _out]),
    "mr_batch_release": (c_int, [c_void_p]),
    "mr_batch_error": (_error, [c_void_p]),
    "mr_batch_to_dlpack": (c_int, [c_void_p, c_char_p, c_void_p, _out]),
    "mr_batch_to_dlpack_versioned": (c_int, [c_void_p, c_char_p, c_void_p, _out]),
    "mr_dlpack_capsule_destroy": (None, [c_void_p]),
    "mr_dataset_open": (c_int, [c_char_p, POINTER(mr_dataset_options), _out, _error]),
    "mr_dataset_destroy": (None, [c_void_p]),
    "mr_dataset_n_samples": (c_int64, [c_void_p]),
    "mr_dataset_n_classes": (c_uint32, [c_void_p]),
    "mr_dataset_class_name": (c_char_p, [c_void_p, c_uint32]),
    "mr_dataset_annotations": (c_int, [c_void_p]),
    "mr_dataset_name": (c_size_t, [c_void_p, c_int64, c_char_p, c_size_t]),
    "mr_dataset_label": (c_int, [c_void_p, c_int64, POINTER(c_int64), _error]),
    "mr_dataset_boxes": (
        c_int,
        [c_void_p, c_int64, c_uint32, c_uint32, POINTER(c_float), c_size_t, POINTER(c_size_t),
         _error],
    ),
    "mr_dataset_box_labels": (
        c_int,
        [c_void_p, c_int64, POINTER(c_int64), c_size_t, POINTER(c_size_t), _error],
    ),
    "mr_dataset_inspect": (c_int, [c_void_p, c_int64, POINTER(mr_sample_info), _error]),
    "mr_transform_parse": (c_int, [c_char_p, _out, _error]),
    "mr_transform_destroy": (None, [c_void_p]),
    "mr_transform_format": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "mr_transform_explain": (
        c_int,
        [c_void_p, POINTER(mr_explain_options), c_char_p, c_size_t, POINTER(c_size_t), _error],
    ),
    "mr_loader_options_set": (c_int, [c_void_p, c_char_p, c_char_p, _error]),
    "mr_loader_options_get": (
        c_int,
        [c_void_p, c_char_p, c_char_p, c_size_t, POINTER(c_size_t), _error],
    ),
    "mr_loader_option_name": (c_char_p, [c_size_t]),
    "mr_loader_create": (c_int, [c_void_p, c_void_p, c_void_p, _out, _error]),
    "mr_loader_destroy": (None, [c_void_p]),
    "mr_loader_next": (c_int, [c_void_p, c_uint32, _out]),
    "mr_loader_fd": (c_int, [c_void_p, POINTER(c_int)]),
    "mr_loader_error": (_error, [c_void_p]),
    "mr_loader_set_epoch": (c_int, [c_void_p, c_uint64]),
    "mr_loader_resume_epoch_order": (
        c_int,
        [c_void_p, c_uint64, POINTER(c_int64), c_int64, c_int64],
    ),
    "mr_loader_cancel": (None, [c_void_p]),
    "mr_loader_n_batches": (c_uint64, [c_void_p]),
    "mr_loader_n_samples": (c_int64, [c_void_p]),
    "mr_loader_n_lent": (c_uint32, [c_void_p]),
    "mr_loader_epoch": (c_uint64, [c_void_p]),
    "mr_loader_resolved": (c_void_p, [c_void_p]),
    "mr_loader_state_size": (c_size_t, [c_void_p]),
    "mr_loader_save": (c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "mr_loader_restore": (c_int, [c_void_p, c_char_p, c_size_t]),
    "mr_loader_get_stats": (c_int, [c_void_p, POINTER(mr_loader_stats)]),
    "mr_loader_verdict": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "mr_loader_fingerprint": (c_uint64, [c_void_p]),
    "mr_loader_damaged": (c_int, [c_void_p, c_uint64, _error]),
    "mr_loader_worker_pids": (c_uint32, [c_void_p, POINTER(c_int64), c_uint32]),
}


_Struct = TypeVar("_Struct", bound=Structure)


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Set the prototype of each function of the library."""
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def make(struct: type[_Struct]) -> _Struct:
    """A struct as MR_..._INIT makes it: zeros, with the size in the first field."""
    return struct(struct_size=ctypes.sizeof(struct))
