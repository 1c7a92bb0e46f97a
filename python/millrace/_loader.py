# SPDX-License-Identifier: Apache-2.0
"""The loader: batches in order, made by the library's worker processes while Python trains."""

from __future__ import annotations

import array
import atexit
import ctypes
import hashlib
import os
import sys
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterable, Iterator, Mapping

from . import _abi, _log
from ._batch import Batch, make_state_error
from ._dataset import Dataset, struct_dict
from ._errors import DamagedError, Error, InvalidError, make_error
from ._lease import Lease
from ._library import lib
from ._options import find_advice, make_options, read_option, read_options, unsigned
from ._transform import Transform, transform_handle

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._option_types import LoaderOptions

_SLICE_MS = 50  # of a wait; Python handles signals between slices
_MAX_WORKERS = 1024
_EXIT_SECONDS = 5.0  # wait at the program's end for a thread that is in next()
# Errors in place of a batch: the next call returns the batch after it.
_IN_PLACE_OF_A_BATCH = (_abi.ERR_DAMAGED, _abi.ERR_IO, _abi.ERR_NO_MEMORY)

_loaders: weakref.WeakSet[Loader] = weakref.WeakSet()


def _after_fork() -> None:
    """Replace the locks in a forked child, because another thread may have held them. The library
    refuses to use the loaders there."""
    for loader in list(_loaders):
        loader._lock, loader._look = threading.RLock(), threading.RLock()


def _close_all() -> None:
    """Close the loaders at the program's end. A daemon thread may be in a call of the library, so
    memory is freed only with the locks held."""
    for loader in list(_loaders):
        loader._close(_EXIT_SECONDS)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)


class Loader:
    """Batches of a dataset, epoch after epoch.

    dataset    a Dataset or its spec: "imagefolder:photos/train"
    transform  a Transform or its text; None is "train:224" for image files, and no transform for
               raw images and records
    options    the fields of mr_loader_options (<millrace/loader.h>) by name: batch_size=64,
               num_workers=8, seed=1, dtype="f16", device="cuda:0", on_error="skip", ... None is
               the default; num_workers=0 means no workers

    The workers start at once. One pass over the loader is one epoch. A pass begins at the position
    of set_epoch() or load_state_dict(); otherwise it is the epoch after that of the previous pass,
    so each pass has new random draws.

    Every method may be called from any thread. next() and calls that change the position wait for
    each other. Signal handlers may call them too, also while their thread waits in next().
    """

    def __init__(self,
                 dataset: Dataset | str | os.PathLike[str],
                 transform: Transform | str | None = None,
                 **options: Unpack[LoaderOptions]) -> None:
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self._made_of: tuple[Any, Mapping[str, Any]] = transform, options
        self._lock = threading.RLock()  # held to take a batch or change the position
        self._look = threading.RLock()  # held to read; may be taken while another thread has _lock
        self._closed = False
        self._passed = False  # a pass has begun since the position was set
        self._pass = 0
        self._copied = 0  # batches that were held when one was copied
        self._warned = False
        self._order: array.array[int] | None = None
        self._taken = 0  # batches of the caller's order that were yielded, and errors instead
        made, kept = make_options(options)
        error, handle = _abi.mr_error(), ctypes.c_void_p()
        recipe, kept_recipe = transform_handle(transform)
        status = lib.mr_loader_create(self.dataset._handle, recipe, made, handle, error)
        del kept, kept_recipe
        _log.drain()
        if status < 0:
            raise make_error(status, error, advice=find_advice(options, error))
        self._handle = handle
        self._end = weakref.finalize(self, lib.mr_loader_destroy, handle)
        self._end.atexit = False  # _close_all() does it
        _loaders.add(self)
        resolved = lib.mr_loader_resolved(handle)
        self._batch_size = read_option(resolved, "batch_size")
        self._n_slots: int = read_option(
            resolved, "n_buffers" if self.stats()["n_buffers"] else "n_slots")
        self._has_workers = read_option(resolved, "num_workers") != "none"

    # One pass

    def __iter__(self) -> Iterator[Batch]:
        """One epoch. It ends an earlier pass that is not finished."""
        with self._lock:
            self._check_use()
            if self._passed:
                self._move(
                    lib.mr_loader_set_epoch(self._handle,
                                            lib.mr_loader_epoch(self._handle) + 1))
            self._passed = True
            self._pass += 1
            return _Pass(self, self._pass)

    async def __aiter__(self) -> AsyncIterator[Batch]:
        """One epoch, for "async for": asyncio's other tasks run while it waits. Not with
        num_workers=0."""
        import asyncio

        # A descriptor of this pass's own: close() closes the loader's, and asyncio has one reader
        # for each.
        one_pass, number, events = iter(self), os.dup(self.fileno()), asyncio.get_running_loop()
        try:
            while True:
                ready = asyncio.Event()
                events.add_reader(number, ready.set)
                try:
                    await ready.wait()
                finally:
                    events.remove_reader(number)
                batch = next(one_pass, None)
                if batch is None:
                    return
                yield batch
        finally:
            os.close(number)

    def __len__(self) -> int:
        """Number of batches in the current epoch."""
        with self._look:
            self._check_use()
            return lib.mr_loader_n_batches(self._handle)

    def next(self, timeout: float | None = None) -> Batch | None:
        """The next batch of this epoch; None after the last. It waits without Python's lock, and
        Ctrl-C ends the wait.

        timeout  seconds; 0 polls once; None waits without limit
        Raises TimeoutError if the time ran out, DamagedError in place of a batch with a damaged
        sample.
        """
        if timeout is not None and not timeout >= 0:
            raise InvalidError(f"timeout {timeout} is not a number of seconds from 0")
        with self._lock:
            self._check_use()
            self._passed = True
            return self._take(timeout)

    def _take(self, timeout: float | None) -> Batch | None:
        """Take the next batch. _lock is held."""
        if self._copied and not self._warned:  # before the wait: the warning may be an exception
            self._warned = True
            warnings.warn(
                f"{self._copied} batches are held at once; further batches "
                "are copied out of their slots, which takes memory and time: release batches "
                "earlier, or raise n_slots (of a DataLoader: prefetch_factor)",
                RuntimeWarning,
                stacklevel=find_caller())
        # Made before the wait, so that the batch is given back whatever interrupts the next lines.
        lease = Lease()
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left_ms = _SLICE_MS if end is None else max(
                0, int(min(_SLICE_MS, (end - time.monotonic()) * 1000 + 0.999)))
            status = lib.mr_loader_next(self._handle, left_ms, lease.handle)
            if status != _abi.PENDING:
                break
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"no batch within {timeout} s")
        _log.drain()
        if status == _abi.END:
            return None
        self._taken += status == _abi.OK or status in _IN_PLACE_OF_A_BATCH
        if status != _abi.OK:
            self._fail(status)
        if self._lends_too_many():
            lease = self._copy_out(lease)
        return Batch(lease)

    def _lends_too_many(self) -> bool:
        """If so, the next batch is copied. Workers need two slots to run without a pause. One is
        enough for an epoch of one batch, and without workers."""
        lent, least = lib.mr_loader_n_lent(self._handle), min(2, self._n_slots - 1)
        if lent <= max(self._n_slots - 2, least):  # the number of batches may not be known yet
            return False
        free = min(2, lib.mr_loader_n_batches(self._handle)) if self._has_workers else 1
        return lent > max(self._n_slots - free, least)

    def _copy_out(self, lease: Lease) -> Lease:
        """A lease of a copy of the batch, or the same lease for a batch on a GPU or of several
        parts."""
        made = Lease()
        if lib.mr_batch_copy(lease.handle, made.handle) != _abi.OK:
            return lease
        self._copied = lib.mr_loader_n_lent(self._handle)
        return made

    # Position

    def set_epoch(self,
                  epoch: int,
                  indices: Iterable[int] | None = None,
                  n_done: int = 0) -> None:
        """Go to the start of an epoch.

        indices  dataset indices in the order in which this rank uses them, for example weighted
                 draws or a subset; default: the order of the options
        n_done   go behind the first n_done of these indices instead, for example because they were
                 used before the program was interrupted
        """
        epoch = unsigned("epoch", epoch)
        with self._lock:
            self._check_use()
            if indices is None:
                self._move(lib.mr_loader_set_epoch(self._handle, epoch))
            else:
                order = array.array("q", indices)
                self._move_in_order(epoch, order, unsigned("n_done", n_done))

    def _move_in_order(self, epoch: int, order: array.array[int], done: int) -> None:
        """Go to the place of an order after `done` of its samples."""
        address, n = order.buffer_info()
        indices = ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))
        self._move(lib.mr_loader_resume_epoch_order(self._handle, epoch, indices, n, done))
        self._order, self._taken = order, -(-done // self._batch_size)

    def _move(self, status: int) -> None:
        """Note that the position has changed, or raise the error of the call that failed."""
        _log.drain()
        if status != _abi.OK:
            self._fail(status)
        self._passed = False
        self._pass += 1
        self._order, self._taken = None, 0

    @property
    def epoch(self) -> int:
        """The epoch of the current pass; after set_epoch() that of the next pass."""
        with self._look:
            self._check_use()
            return lib.mr_loader_epoch(self._handle)

    @property
    def n_samples(self) -> int:
        """Number of this rank's samples in the current epoch."""
        with self._look:
            self._check_use()
            return lib.mr_loader_n_samples(self._handle)

    def state_dict(self) -> dict[str, Any]:
        """The position: what was yielded, not what was read ahead. It has only ints and strings.

        After set_epoch() with indices it has their fingerprint and the number of samples that were
        yielded.
        """
        with self._lock:
            self._check_use()
            if self._order is not None:
                done = min(self._taken * self._batch_size, len(self._order))
                return {
                    "version": 1, "epoch": lib.mr_loader_epoch(self._handle),
                    "order": _digest(self._order), "samples": done
                }
            state = ctypes.create_string_buffer(lib.mr_loader_state_size(self._handle))
            saved = ctypes.c_size_t()
            status = lib.mr_loader_save(self._handle, state, len(state), saved)
            if status != _abi.OK:
                self._fail(status)
            return {
                "version": 1, "epoch": lib.mr_loader_epoch(self._handle),
                "position": state.raw[:saved.value].hex()
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where a state was saved. world_size and batch_size may differ if the number of
        samples used so far is a multiple of this loader's world_size * batch_size.

        If the state was saved after set_epoch() with indices, first call set_epoch() with the same
        indices.
        """
        if not isinstance(state, Mapping) or state.get("version") != 1:
            raise InvalidError("the state is not of a millrace.Loader, version 1")
        with self._lock:
            self._check_use()
            if "order" in state and "samples" in state:
                self._load_order(state)
                return
            try:
                saved = bytes.fromhex(state["position"])
            except (KeyError, TypeError, ValueError):
                raise InvalidError("the state has no position in hexadecimal digits") from None
            self._move(lib.mr_loader_restore(self._handle, saved, len(saved)))

    def _load_order(self, state: dict[str, Any]) -> None:
        order = self._order
        if order is None or _digest(order) != state["order"]:
            raise InvalidError(
                "the state is of other indices; call set_epoch() with the indices that were used")
        self._move_in_order(unsigned("epoch", state["epoch"]), order,
                            unsigned("samples", state["samples"]))

    # Options and statistics

    @property
    def options(self) -> dict[str, Any]:
        """The options that the loader uses, with every default filled in."""
        with self._look:
            self._check_use()
            return read_options(lib.mr_loader_resolved(self._handle))

    @property
    def batch_size(self) -> int:
        """Number of samples in a batch; the last batch of an epoch may have fewer."""
        return self._batch_size

    def stats(self) -> dict[str, Any]:
        """Statistics since the loader was made, with the names of mr_loader_stats: n_batches,
        n_samples, n_damaged, ..."""
        stats = _abi.make(_abi.mr_loader_stats)
        with self._look:
            self._check_use()
            status = lib.mr_loader_get_stats(self._handle, stats)
        if status != _abi.OK:
            raise make_error(status, None, "the statistics cannot be read")
        return struct_dict(stats)

    def verdict(self) -> str:
        """Whether the loader or the program was the bottleneck, in one line: "loader-bound:
        consumer waited 62 % of the time"."""
        text = ctypes.create_string_buffer(256)
        with self._look:
            self._check_use()
            lib.mr_loader_verdict(self._handle, text, len(text))
        return text.value.decode()

    def postfix(self) -> dict[str, str]:
        """The samples a second so far and the verdict, for a progress bar:
        bar.set_postfix(loader.postfix()) with "for batch in (bar := tqdm(loader))"."""
        stats = self.stats()
        rate = stats["n_samples"] * 1e9 / max(1, stats["elapsed_ns"])
        return {"samples/s": f"{rate:.0f}", "verdict": self.verdict()}

    def plot(self, workers: Iterable[int] = (1, 2, 4, 8), seconds: float = 2.0) -> Any:
        """Measure samples a second of loaders like this one with other numbers of workers, each
        for some seconds, and plot them. It returns the axes. Needs Matplotlib."""
        from . import _preview

        return _preview.plot(self, workers, seconds)

    def damaged(self) -> list[Error]:
        """The damaged samples so far, each once, at most 1000, as DamagedErrors with .index."""
        found: list[Error] = []
        with self._lock:
            self._check_use()
            error = _abi.mr_error()
            while lib.mr_loader_damaged(self._handle, len(found), error) == _abi.OK:
                made = DamagedError(error.text.decode(errors="surrogateescape"))
                made.status, made.os_error, made.index = error.status, error.os_error, error.index
                found.append(made)
        return found

    def fingerprint(self) -> int:
        """A hash of the data and options of this loader: the same on all ranks, and in a run that
        continues with the same data."""
        with self._look:
            self._check_use()
            return lib.mr_loader_fingerprint(self._handle)

    def worker_pids(self) -> list[int]:
        """Process ids of the living workers."""
        pids = (ctypes.c_int64 * _MAX_WORKERS)()
        with self._look:
            self._check_use()
            n = lib.mr_loader_worker_pids(self._handle, pids, _MAX_WORKERS)
        return pids[:n]

    def fileno(self) -> int:
        """A descriptor for event loops: readable while next(timeout=0) would not raise
        TimeoutError. Not with num_workers=0."""
        number = ctypes.c_int()
        with self._lock:
            self._check_use()
            status = lib.mr_loader_fd(self._handle, number)
            if status != _abi.OK:
                self._fail(status)
        return number.value

    def cancel(self) -> None:
        """Make next() raise CanceledError once, now or at its next call. From any thread."""
        with self._look:
            self._check_use()
            lib.mr_loader_cancel(self._handle)

    # The end

    def close(self) -> None:
        """End the workers. Batches that are still held stay valid. It is also called when the
        loader is garbage collected."""
        self._close(-1)

    def _close(self, seconds: float) -> None:
        """Close, but wait at most this long for a thread that is in next() (-1: without limit). If
        it does not return in time, the memory is not freed."""
        with self._look:
            self._closed = True
            lib.mr_loader_cancel(self._handle)
        if not self._lock.acquire(timeout=seconds):
            return
        try:
            with self._look:
                # detach() and not a call: at the program's end a called finalizer does nothing.
                if self._end.detach():
                    lib.mr_loader_destroy(self._handle)
                # A signal handler may close the loader that its thread uses: the library then
                # refuses NULL.
                self._handle.value = None
        finally:
            self._lock.release()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Loader cannot be pickled or copied, because its workers are children of this "
            "process; make another and give it the state_dict() of this one")

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<millrace.Loader of {self.dataset!r}{state}>"

    def _repr_html_(self) -> str | None:
        """What a notebook shows: mr.preview(), or only repr() when the loader is closed."""
        from . import _preview

        return None if self._closed else _preview.preview(self)

    def _check_use(self) -> None:
        if self._closed:
            raise make_state_error("the loader is closed")

    def _fail(self, status: int) -> None:
        self._check_use()
        raise make_error(status, lib.mr_loader_error(self._handle).contents)


class _Pass:
    """The iterator of one epoch."""

    def __init__(self, loader: Loader, number: int) -> None:
        self._loader: Loader | None = loader
        self._number = number

    def __iter__(self) -> "_Pass":
        return self

    def __next__(self) -> Batch:
        loader = self._loader
        if loader is None:
            raise StopIteration
        with loader._lock:
            loader._check_use()
            if loader._pass != self._number:
                raise make_state_error(
                    "the loader's position was changed, or another pass over it has begun")
            batch = loader._take(None)
        if batch is None:
            self._loader = None
            raise StopIteration
        return batch


def find_caller() -> int:
    """The stacklevel with which the calling function warns about the program's line, however many
    functions of the package are between."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__",
                                                           "").partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    return level


def _digest(order: array.array[int]) -> str:
    return hashlib.blake2b(order.tobytes(), digest_size=16).hexdigest()
