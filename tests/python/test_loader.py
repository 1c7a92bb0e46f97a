# SPDX-License-Identifier: Apache-2.0
"""A loader in Python: passes, epochs, positions, options, messages, threads."""
import json
import logging
import os
import signal
import threading
import time
import warnings

import millrace as mr

import support


class LoaderCase(support.FolderCase):
    def loader(self, transform="eval:20:16", **options):
        options = {"batch_size": 4, "num_workers": 2, **options}
        made = mr.Loader(self.images, transform, **options)
        self.addCleanup(made.close)
        return made


def indices(batches):
    return [i for batch in batches for i in batch.index.tolist()]


def stop_workers(loader):
    """Nothing is made any more, beyond what fits the slots."""
    for pid in loader.worker_pids():
        os.kill(pid, signal.SIGSTOP)


class PassTest(LoaderCase):
    def test_a_pass_is_an_epoch(self):
        loader = self.loader()
        self.assertEqual(len(loader), 6)
        self.assertEqual(loader.n_samples, 21)
        first, second = indices(loader), indices(loader)
        self.assertEqual(sorted(first), list(range(21)))
        self.assertEqual(sorted(second), list(range(21)))
        self.assertNotEqual(first, second)
        self.assertEqual(loader.epoch, 1)

    def test_after_an_early_break_the_next_epoch_comes(self):
        loader, whole = self.loader(), self.loader()
        expected = [indices(whole) for _ in range(2)]
        for batch in loader:
            self.assertEqual(batch.index.tolist(), expected[0][:4])
            break
        self.assertEqual(indices(loader), expected[1])

    def test_set_epoch_goes_anywhere(self):
        loader = self.loader()
        epochs = []
        for epoch in (3, 0, 3):
            loader.set_epoch(epoch)
            self.assertEqual(loader.epoch, epoch)
            epochs.append(indices(loader))
        self.assertEqual(epochs[0], epochs[2])
        self.assertNotEqual(epochs[0], epochs[1])

    def test_an_own_order_is_followed(self):
        loader = self.loader()
        loader.set_epoch(0, [5, 5, 20, 0, 1])
        self.assertEqual(len(loader), 2)
        self.assertEqual(indices(loader), [5, 5, 20, 0, 1])
        loader.set_epoch(1, iter(range(3)))
        self.assertEqual(indices(loader), [0, 1, 2])
        with self.assertRaisesRegex(mr.InvalidError, "21"):
            loader.set_epoch(2, [0, 21])
        self.assertEqual(len(indices(loader)), 21)

    def test_an_old_pass_cannot_go_on(self):
        loader = self.loader()
        old = iter(loader)
        next(old)
        loader.set_epoch(0)
        self.assertRaisesRegex(mr.StateError, "another pass", next, old)
        new = iter(loader)
        next(new)
        iter(loader)
        self.assertRaises(mr.StateError, next, new)

    def test_the_end_of_a_pass_stays_its_end(self):
        loader = self.loader()
        ended = iter(loader)
        self.assertEqual(sum(1 for _ in ended), 6)
        self.assertRaises(StopIteration, next, ended)
        iter(loader)
        self.assertRaises(StopIteration, next, ended)

    def test_next_ends_with_none_and_can_poll(self):
        loader = self.loader()
        n = 0
        while (batch := loader.next(timeout=30)) is not None:
            n += batch.size
        self.assertEqual(n, 21)
        self.assertIsNone(loader.next(timeout=0))

    def test_a_wait_has_a_limit(self):
        loader = self.loader(batch_size=1, n_slots=2)
        kept = loader.next()
        stop_workers(loader)
        with self.assertRaises(TimeoutError):
            while loader.next(timeout=0.2) is not None:
                pass
        self.assertEqual(kept.size, 1)

    def test_two_loaders_do_not_mix(self):
        a, b = self.loader(seed=1), self.loader(seed=2, transform="eval:30:24")
        expected = indices(self.loader(seed=1)), indices(self.loader(seed=2))
        got = [], []
        for x, y in zip(a, b):
            got[0].extend(x.index.tolist())
            got[1].extend(y.index.tolist())
            self.assertEqual((x.image.shape[2], y.image.shape[2]), (16, 24))
        self.assertEqual(got, expected)


class KeepTest(LoaderCase):
    def test_kept_batches_are_copied_out_with_one_warning(self):
        for options in ({}, {"num_workers": 0}, {"n_slots": 2}, {"device": "host:0"}, {"batch_size": 1}):
            loader = self.loader(no_shuffle=True, **options)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                batches = list(loader)
            self.assertEqual(len(batches), len(loader), options)
            self.assertEqual(len(seen), 1, options)
            self.assertIn("copied out", str(seen[0].message))
            self.assertEqual(seen[0].filename, __file__)
            self.assertIn(None, [batch.buffer for batch in batches])
            self.assertEqual(indices(batches), list(range(21)))
            again = [batch.image.tobytes() for batch in batches]
            loader.set_epoch(0)
            self.assertEqual([batch.image.tobytes() for batch in loader], again)

    def test_a_plain_loop_copies_nothing(self):
        for options in ({}, {"n_slots": 3}, {"device": "host:0"}):
            loader = self.loader(**options)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for batch in loader:
                    self.assertIsNotNone(batch.buffer)

    def test_batches_outlive_their_loader(self):
        loader = self.loader(no_shuffle=True)
        batch = next(iter(loader))
        label = batch.label
        loader.close()
        self.assertEqual(batch.index.tolist(), [0, 1, 2, 3])
        del batch
        self.assertEqual(label.tolist(), [0, 0, 0, 0])


class PositionTest(LoaderCase):
    def test_a_state_is_what_was_yielded(self):
        whole = indices(self.loader())
        for n in (0, 1, 3, 6):
            loader = self.loader()
            going = iter(loader)
            for _ in range(n):
                next(going)
            time.sleep(0.01)  # batches are read ahead meanwhile
            state = json.loads(json.dumps(loader.state_dict()))
            other = self.loader(num_workers=0)
            other.load_state_dict(state)
            self.assertEqual(indices(other), whole[4 * n:])
            self.assertEqual(len(other), 6)

    def test_a_state_goes_to_another_world(self):
        loader = self.loader(world_size=1, batch_size=4, tail="drop")
        going, done = iter(loader), []
        for _ in range(2):
            done += next(going).index.tolist()
        state, rest = loader.state_dict(), []
        for rank in range(2):
            other = self.loader(world_size=2, rank=rank, batch_size=2, tail="drop")
            other.load_state_dict(state)
            rest += indices(other)
        self.assertEqual(len(done + rest), 20)
        self.assertEqual(len(set(done + rest)), 20)

    def test_a_state_of_an_own_order_is_a_place_in_it(self):
        order = [20, 3, 3, 7, 1, 0, 9, 4, 6, 5]
        loader = self.loader()
        loader.set_epoch(7, order)
        next(iter(loader))
        state = json.loads(json.dumps(loader.state_dict()))
        other = self.loader(batch_size=2)
        self.assertRaisesRegex(mr.InvalidError, "of other indices", other.load_state_dict, state)
        other.set_epoch(0, order)
        other.load_state_dict(state)
        self.assertEqual((other.epoch, len(other), other.n_samples), (7, 5, 10))
        going = iter(other)
        self.assertEqual(next(going).index.tolist(), order[4:6])
        third = self.loader()
        third.set_epoch(7, order)
        third.load_state_dict(other.state_dict())
        self.assertEqual(indices(third), order[6:])

    def test_a_state_of_an_own_order_may_be_its_end(self):
        loader, order = self.loader(), [5, 4, 3, 2, 1, 0]
        loader.set_epoch(7, order)
        self.assertEqual(indices(loader), order)
        state = loader.state_dict()
        self.assertEqual(state["samples"], 6)
        loader.set_epoch(0, order)
        loader.load_state_dict(state)
        self.assertEqual((loader.epoch, len(loader), indices(loader)), (7, 2, []))

    def test_a_wrong_state_is_refused(self):
        loader = self.loader()
        self.assertRaisesRegex(mr.InvalidError, "version", loader.load_state_dict, {})
        state = loader.state_dict()
        other = self.loader(seed=9)
        self.assertRaises(mr.InvalidError, other.load_state_dict, state)


class OptionTest(LoaderCase):
    def test_options_are_the_librarys(self):
        loader = self.loader(num_workers=0, seed=2**64 - 1, dtype="bf16", on_error="skip", nice=None, cache_bytes="3G",
                             affinity="list", affinity_cpus=[0])
        options = loader.options
        self.assertEqual(options["num_workers"], "none")
        self.assertEqual(options["seed"], 2**64 - 1)
        self.assertEqual((options["dtype"], options["on_error"], options["nice"]), ("bf16", "skip", 0))
        self.assertEqual((options["cache_bytes"], options["affinity_cpus"]), (3 << 30, [0]))
        self.assertIs(options["drop_last"], False)

    def test_wrong_options_have_the_librarys_words(self):
        for options, words in (({"bacth_size": 4}, "did you mean 'batch_size'"), ({"batch_size": 0}, "from 1 to 65535"),
                               ({"tail": "round"}, "none of pad, drop, exact"), ({"devices": "cuda:0"}, "a list"),
                               ({"rank": 3, "world_size": 2}, "rank 3"), ({"struct_size": 3}, "is not an option")):
            with self.assertRaises(mr.InvalidError) as caught:
                self.loader(**options)
            self.assertIn(words, str(caught.exception))
            self.assertIsInstance(caught.exception, ValueError)
        self.assertRaisesRegex(mr.InvalidError, "did you mean", self.loader, "train:224,filp")

    def test_numbers_about_the_loader(self):
        loader = self.loader(with_timing=True)
        list(indices(loader))
        stats = loader.stats()
        self.assertEqual((stats["n_batches"], stats["n_samples"], stats["n_damaged"]), (6, 21, 0))
        self.assertIn(stats["reader"], ("io_uring", "pread"))
        self.assertNotIn("struct_size", stats)
        self.assertRegex(loader.verdict(), "-bound: ")
        self.assertEqual(len(loader.worker_pids()), 2)
        self.assertEqual(loader.fingerprint(), self.loader(num_workers=0).fingerprint())
        self.assertNotEqual(loader.fingerprint(), self.loader(seed=1).fingerprint())
        self.assertGreaterEqual(loader.fileno(), 0)

    def test_log_lines_go_to_logging(self):
        loader = self.loader()
        indices(loader)
        with self.assertLogs("millrace", logging.WARNING) as seen:
            loader.set_epoch(0)
        self.assertIn("epoch 0", seen.output[0])


class ErrorTest(LoaderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dataset = mr.Dataset(cls.images)
        cls.damaged = dataset.name(9)
        with open(cls.damaged, "r+b") as file:
            file.truncate(30)

    def test_an_exception_names_the_file(self):
        for workers in (0, 2):
            loader, good = self.loader(no_shuffle=True, num_workers=workers), []
            with self.assertRaises(mr.DamagedError) as caught:
                for batch in loader:
                    good += batch.index.tolist()
            self.assertIn(self.damaged, str(caught.exception))
            self.assertEqual(caught.exception.index, 9)
            self.assertEqual(good, list(range(8)))
            self.assertEqual(loader.next().index.tolist(), [12, 13, 14, 15])  # it may go on

    def test_a_state_of_an_own_order_is_behind_a_damaged_batch(self):
        loader, order = self.loader(), [*range(4), *range(8, 21)]
        loader.set_epoch(0, order)
        self.assertRaises(mr.DamagedError, list, loader)
        self.assertEqual(loader.state_dict()["samples"], 8)
        self.assertEqual(loader.next().index.tolist(), order[8:12])
        self.assertEqual(loader.state_dict()["samples"], 12)

    def test_damage_can_be_passed_over(self):
        loader = self.loader(no_shuffle=True, on_error="zero")
        batches = [(batch.n_valid, batch.mask.tolist()) for batch in loader]
        self.assertEqual(batches[2], (3, [1, 0, 1, 1]))
        self.assertEqual([error.index for error in loader.damaged()], [9])
        self.assertIn(self.damaged, str(loader.damaged()[0]))

    def test_a_missing_folder_is_named(self):
        with self.assertRaises(mr.FileError) as caught:
            mr.Loader(self.path("nothing"))
        self.assertIn(self.path("nothing"), str(caught.exception))
        self.assertIsInstance(caught.exception, OSError)
        self.assertEqual(caught.exception.errno, caught.exception.os_error)

    def test_a_closed_loader_says_so(self):
        loader = self.loader()
        going = iter(loader)
        loader.close()
        loader.close()
        for call in (loader.next, loader.stats, loader.state_dict, lambda: next(going), lambda: iter(loader),
                     lambda: loader.set_epoch(1), lambda: len(loader), loader.cancel, lambda: loader.options,
                     loader.verdict, loader.worker_pids, loader.damaged, loader.fileno):
            self.assertRaisesRegex(mr.StateError, "closed", call)
        self.assertEqual(loader.batch_size, 4)


class ThreadTest(LoaderCase):
    def test_threads_share_a_loader(self):
        loader, seen, lock = self.loader(batch_size=1), [], threading.Lock()

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
        self.assertEqual(sorted(seen), list(range(21)))

    def wait_in_next(self, loader):
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

    def test_a_wait_is_cancelled(self):
        loader = self.loader(batch_size=1, n_slots=2)
        thread, got = self.wait_in_next(loader)
        loader.cancel()
        thread.join()
        self.assertIsInstance(got[0], mr.CanceledError)

    def test_a_close_ends_a_wait(self):
        loader = self.loader(batch_size=1, n_slots=2)
        thread, got = self.wait_in_next(loader)
        loader.close()
        thread.join()
        self.assertIsInstance(got[0], (mr.CanceledError, mr.StateError))

    def test_a_signals_handler_may_use_the_loader_that_its_thread_waits_for(self):
        loader, seen = self.loader(batch_size=1, n_slots=2), []
        stop_workers(loader)

        def handle(*_):
            seen.append(loader.state_dict()["epoch"])
            loader.close()

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handle))
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with self.assertRaisesRegex(mr.StateError, "closed"):
            while loader.next() is not None:
                pass
        self.assertEqual(seen, [0])


if __name__ == "__main__":
    support.main()
