# SPDX-License-Identifier: Apache-2.0
"""Passes the library's log lines to the logger "millrace".

The library's threads write lines, also while they hold locks of the library, so they cannot call
Python. The library stores the lines, and the package takes them after its calls.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os

from . import _abi
from ._library import lib

logger = logging.getLogger("millrace")

_LEVELS = {
    _abi.LOG_ERROR: logging.ERROR, _abi.LOG_WARNING: logging.WARNING, _abi.LOG_INFO: logging.INFO
}
_LINE_BYTES = 1200


def drain() -> None:
    """Log the lines that the library has stored since the last call."""
    level, line = ctypes.c_int(), ctypes.create_string_buffer(_LINE_BYTES)
    while lib.mr_log_take(level, line, _LINE_BYTES, None) == _abi.OK:
        logger.log(_LEVELS.get(level.value, logging.INFO), "%s",
                   line.value.decode(errors="replace"))


lib.mr_log_queue()
os.register_at_fork(after_in_child=lib.mr_log_queue)
atexit.register(drain)
