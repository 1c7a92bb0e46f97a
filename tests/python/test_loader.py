# SPDX-License-Identifier: Apache-2.0
"""A loader in Python: passes, epochs, positions, options, messages, threads."""
import json
import logging
import os
import re
import signal
import threading
import time
import warnings

import pytest

import millrace as mr

from support import indices


def stop_workers(loader):
    """Stop all workers by SIGSTOP. Batches that are in slots already still arrive."""
    for pid in loader.worker_pids():
        os.kill(pid, signal.SIGSTOP)


def test_a_pass_is_an_epoch(make_loader):
    loader = make_loader()
    assert len(loader) == 6
    assert loader.n_samples == 21
    first, second = indices(loader), indices(loader)
    assert sorted(first) == list(range(21))
    assert sorted(second) == list(range(21))
    assert first != second
    assert loader.epoch == 1


def test_after_an_early_break_the_next_epoch_comes(make_loader):
    loader, whole = make_loader(), make_loader()
    expected = [indices(whole) for _ in range(2)]
    for batch in loader:
        assert batch.index.tolist() == expected[0][:4]
        break
    assert indices(loader) == expected[1]


def test_set_epoch_goes_anywhere(make_loader):
    loader = make_loader()
    epochs = []
    for epoch in (3, 0, 3):
        loader.set_epoch(epoch)
        assert loader.epoch == epoch
        epochs.append(indices(loader))
    assert epochs[0] == epochs[2]
    assert epochs[0] != epochs[1]


def test_an_own_order_is_followed(make_loader):
    loader = make_loader()
    loader.set_epoch(0, [5, 5, 20, 0, 1])
    assert len(loader) == 2
    assert indices(loader) == [5, 5, 20, 0, 1]
    loader.set_epoch(1, iter(range(3)))
    assert indices(loader) == [0, 1, 2]
    with pytest.raises(mr.InvalidError, match="21"):
        loader.set_epoch(2, [0, 21])
    assert len(indices(loader)) == 21


def test_an_old_pass_cannot_go_on(make_loader):
    loader = make_loader()
    old = iter(loader)
    next(old)
    loader.set_epoch(0)
    with pytest.raises(mr.StateError, match="another pass"):
        next(old)
    new = iter(loader)
    next(new)
    iter(loader)
    with pytest.raises(mr.StateError):
        next(new)


def test_the_end_of_a_pass_stays_its_end(make_loader):
    loader = make_loader()
    ended = iter(loader)
    assert sum(1 for _ in ended) == 6
    with pytest.raises(StopIteration):
        next(ended)
    iter(loader)
    with pytest.raises(StopIteration):
        next(ended)


def test_next_ends_with_none_and_can_poll(make_loader):
    loader = make_loader()
    n = 0
    while (batch := loader.next(timeout=30)) is not None:
        n += batch.size
    assert n == 21
    assert loader.next(timeout=0) is None


def test_a_wait_has_a_limit(make_loader):
    loader = make_loader(batch_size=1, n_slots=2)
    kept = loader.next()
    stop_workers(loader)
    with pytest.raises(TimeoutError):
        while loader.next(timeout=0.2) is not None:
            pass
    assert kept.size == 1


def test_two_loaders_do_not_mix(make_loader):
    a, b = make_loader(seed=1), make_loader(seed=2, transform="eval:30:24")
    expected = indices(make_loader(seed=1)), indices(make_loader(seed=2))
    got = [], []
    for x, y in zip(a, b):
        got[0].extend(x.index.tolist())
        got[1].extend(y.index.tolist())
        assert (x.image.shape[2], y.image.shape[2]) == (16, 24)
    assert got == expected


@pytest.mark.parametrize("options", [{}, {"num_workers": 0}, {"n_slots": 2}, {"device": "host:0"},
                                     {"batch_size": 1}])
def test_kept_batches_are_copied_out_with_one_warning(make_loader, options):
    loader = make_loader(no_shuffle=True, **options)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        batches = list(loader)
    assert len(batches) == len(loader)
    assert len(seen) == 1
    n_held = 1 + [batch.buffer for batch in batches].index(None)
    assert f"{n_held} batches are held at once; further batches are copied" in str(seen[0].message)
    assert seen[0].filename == __file__
    assert indices(batches) == list(range(21))
    again = [batch.image.tobytes() for batch in batches]
    loader.set_epoch(0)
    assert [batch.image.tobytes() for batch in loader] == again


@pytest.mark.parametrize("options", [{}, {"n_slots": 3}, {"device": "host:0"}])
def test_a_plain_loop_copies_nothing(make_loader, options):
    loader = make_loader(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in loader:
            assert batch.buffer is not None


def test_batches_outlive_their_loader(make_loader):
    loader = make_loader(no_shuffle=True)
    batch = next(iter(loader))
    label = batch.label
    loader.close()
    assert batch.index.tolist() == [0, 1, 2, 3]
    del batch
    assert label.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("n", [0, 1, 3, 6])
def test_a_state_is_what_was_yielded(make_loader, n):
    whole = indices(make_loader())
    loader = make_loader()
    going = iter(loader)
    for _ in range(n):
        next(going)
    time.sleep(0.01)  # batches are read ahead meanwhile
    state = json.loads(json.dumps(loader.state_dict()))
    other = make_loader(num_workers=0)
    other.load_state_dict(state)
    assert indices(other) == whole[4 * n:]
    assert len(other) == 6


def test_a_state_goes_to_another_world(make_loader):
    loader = make_loader(world_size=1, batch_size=4, tail="drop")
    going, done = iter(loader), []
    for _ in range(2):
        done += next(going).index.tolist()
    state, rest = loader.state_dict(), []
    for rank in range(2):
        other = make_loader(world_size=2, rank=rank, batch_size=2, tail="drop")
        other.load_state_dict(state)
        rest += indices(other)
    assert len(done + rest) == 20
    assert len(set(done + rest)) == 20


def test_a_state_of_an_own_order_is_a_place_in_it(make_loader):
    order = [20, 3, 3, 7, 1, 0, 9, 4, 6, 5]
    loader = make_loader()
    loader.set_epoch(7, order)
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    other = make_loader(batch_size=2)
    with pytest.raises(mr.InvalidError, match="of other indices"):
        other.load_state_dict(state)
    other.set_epoch(0, order)
    other.load_state_dict(state)
    assert (other.epoch, len(other), other.n_samples) == (7, 5, 10)
    going = iter(other)
    assert next(going).index.tolist() == order[4:6]
    third = make_loader()
    third.set_epoch(7, order)
    with pytest.raises(mr.InvalidError,
                       match="6 used samples of an order of 10 do not end on a batch of 4"):
        third.load_state_dict(other.state_dict())
    next(going)
    third.set_epoch(7, order)
    third.load_state_dict(other.state_dict())
    for wrong in ({"epoch": -1}, {"samples": -1}):
        with pytest.raises(mr.InvalidError, match="-1 is not from 0"):
            third.load_state_dict({**state, **wrong})
    assert indices(third) == order[8:]


def test_a_resumed_order_has_the_draws_of_an_uninterrupted_one(make_loader):
    def open_loader():
        made = make_loader(transform="random_crop(8)+mixup(1)", dtype="f32")
        made.set_epoch(7, [3, 3, 3, 3, 5, 5, 5, 5, 3, 5])
        return made

    def content(batch):
        return [part.tobytes() for part in (batch.image, batch["mix_lambda"], batch.label)]

    whole, going = [], open_loader()
    states = []
    for batch in going:
        whole.append(content(batch))
        states.append(going.state_dict())
    assert len(whole) == 3
    for done, state in enumerate(states, 1):
        other = open_loader()
        other.load_state_dict(state)
        assert [content(batch) for batch in other] == whole[done:]


def test_a_state_of_an_own_order_may_be_its_end(make_loader):
    loader, order = make_loader(), [5, 4, 3, 2, 1, 0]
    loader.set_epoch(7, order)
    assert indices(loader) == order
    state = loader.state_dict()
    assert state["samples"] == 6
    loader.set_epoch(0, order)
    loader.load_state_dict(state)
    assert (loader.epoch, len(loader), indices(loader)) == (7, 2, [])


def test_a_wrong_state_is_refused(make_loader):
    loader = make_loader()
    with pytest.raises(mr.InvalidError, match="version"):
        loader.load_state_dict({})
    state = loader.state_dict()
    other = make_loader(seed=9)
    with pytest.raises(mr.InvalidError):
        other.load_state_dict(state)


def test_options_are_the_librarys(make_loader):
    loader = make_loader(num_workers=0,
                         seed=2**64 - 1,
                         dtype="bf16",
                         on_error="skip",
                         nice=None,
                         cache_bytes="3G",
                         affinity="list",
                         affinity_cpus=[0])
    options = loader.options
    assert options["num_workers"] == "none"
    assert options["seed"] == 2**64 - 1
    assert (options["dtype"], options["on_error"], options["nice"]) == ("bf16", "skip", 0)
    assert (options["cache_bytes"], options["affinity_cpus"]) == (3 << 30, [0])
    assert options["drop_last"] is False


@pytest.mark.parametrize("options, words", [
    ({"bacth_size": 4}, "did you mean 'batch_size'"), ({"batch_size": 0}, "from 1 to 65535"),
    ({"tail": "round"}, "none of pad, drop, exact"), ({"devices": "cuda:0"}, "a list"),
    ({"weight_values": "1"}, "a list"), ({"rank": 3, "world_size": 2}, "rank 3"),
    ({"struct_size": 3}, "is not an option")])
def test_wrong_options_have_the_librarys_words(make_loader, options, words):
    with pytest.raises(mr.InvalidError) as caught:
        make_loader(**options)
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_wrong_transform_has_the_librarys_words(make_loader):
    with pytest.raises(mr.InvalidError, match="did you mean"):
        make_loader("train:224,filp")


def test_numbers_about_the_loader(make_loader):
    loader = make_loader(with_timing=True)
    list(indices(loader))
    stats = loader.stats()
    assert (stats["n_batches"], stats["n_samples"], stats["n_damaged"]) == (6, 21, 0)
    assert stats["reader"] in ("io_uring", "pread")
    assert "struct_size" not in stats
    assert re.search("-bound: ", loader.verdict())
    assert len(loader.worker_pids()) == 2
    assert loader.fingerprint() == make_loader(num_workers=0).fingerprint()
    assert loader.fingerprint() != make_loader(seed=1).fingerprint()
    assert loader.fileno() >= 0


def test_log_lines_go_to_logging(make_loader, caplog):
    loader = make_loader()
    indices(loader)
    caplog.clear()
    loader.set_epoch(0)
    line = caplog.records[0]
    assert (line.name, line.levelno) == ("millrace", logging.WARNING)
    assert "epoch 0" in line.message


@pytest.fixture
def damaged(make_folder):
    """A folder of images whose sample 9 is cut off."""
    dataset = mr.Dataset(make_folder(3, 7))
    os.truncate(dataset.name(9), 30)
    return dataset


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_names_the_file(make_loader, damaged, workers):
    loader, good = make_loader(dataset=damaged, no_shuffle=True, num_workers=workers), []
    with pytest.raises(mr.DamagedError) as caught:
        for batch in loader:
            good += batch.index.tolist()
    assert damaged.name(9) in str(caught.value)
    assert caught.value.index == 9
    assert good == list(range(8))
    assert loader.next().index.tolist() == [12, 13, 14, 15]  # the loader can continue


def test_a_state_of_an_own_order_is_behind_a_damaged_batch(make_loader, damaged):
    loader, order = make_loader(dataset=damaged), [*range(4), *range(8, 21)]
    loader.set_epoch(0, order)
    with pytest.raises(mr.DamagedError):
        list(loader)
    assert loader.state_dict()["samples"] == 8
    assert loader.next().index.tolist() == order[8:12]
    assert loader.state_dict()["samples"] == 12


def test_damage_can_be_passed_over(make_loader, damaged):
    loader = make_loader(dataset=damaged, no_shuffle=True, on_error="zero")
    batches = [(batch.n_valid, batch.mask.tolist()) for batch in loader]
    assert batches[2] == (3, [1, 0, 1, 1])
    assert [error.index for error in loader.damaged()] == [9]
    assert damaged.name(9) in str(loader.damaged()[0])


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(mr.FileError) as caught:
        mr.Loader(str(tmp_path / "nothing"))
    assert str(tmp_path / "nothing") in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == caught.value.os_error


def test_a_closed_loader_says_so(make_loader):
    loader = make_loader()
    going = iter(loader)
    loader.close()
    loader.close()
    for call in (loader.next, loader.stats, loader.state_dict, lambda: next(going),
                 lambda: iter(loader), lambda: loader.set_epoch(1), lambda: len(loader),
                 loader.cancel, lambda: loader.options, loader.verdict, loader.worker_pids,
                 loader.damaged, loader.fileno):
        with pytest.raises(mr.StateError, match="closed"):
            call()
    assert loader.batch_size == 4


def test_threads_share_a_loader(make_loader):
    loader, seen, lock = make_loader(batch_size=1), [], threading.Lock()

    def read():
        while (batch := loader.next()) is not None:
            loader.stats()
            with lock:
                seen.append(batch.index.tolist()[0])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(21))


def wait_in_next(loader):
    """A thread that waits in next(), and what it got."""
    stop_workers(loader)
    got = []

    def read():
        try:
            while loader.next() is not None:
                pass
        except mr.Error as error:
            got.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    return thread, got


def test_a_wait_is_cancelled(make_loader):
    loader = make_loader(batch_size=1, n_slots=2)
    thread, got = wait_in_next(loader)
    loader.cancel()
    thread.join()
    assert isinstance(got[0], mr.CanceledError)


def test_a_close_ends_a_wait(make_loader):
    loader = make_loader(batch_size=1, n_slots=2)
    thread, got = wait_in_next(loader)
    loader.close()
    thread.join()
    assert isinstance(got[0], (mr.CanceledError, mr.StateError))


def test_a_signals_handler_may_use_the_loader_that_its_thread_waits_for(make_loader):
    loader, seen = make_loader(batch_size=1, n_slots=2), []
    stop_workers(loader)

    def handle(*_):
        seen.append(loader.state_dict()["epoch"])
        loader.close()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(mr.StateError, match="closed"):
            while loader.next() is not None:
                pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [0]
