#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/peer_turboloader.py without TurboLoader, which a small module plays.

test_peer_turboloader.py ROOT
"""

import os
import shutil
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
PEERS = os.path.join(os.path.abspath(sys.argv[1]), "bench", "peers")
sys.path.insert(0, PEERS)
import cell  # noqa: E402
import peer_turboloader  # noqa: E402

# Plays the module: an epoch is one batch, of which some images were not decoded.
TURBOLOADER = """
__version__ = "0"
ImageNetNormalize = dict
class Batch(list):
    dtype, shape = "float32", (64, 3, 224, 224)
class DataLoader:
    def __init__(self, path, batch_size, **more):
        self.order = list(range(64))
    def set_epoch(self, epoch):
        self.order = self.order[1:] + self.order[:1]
    def __iter__(self):
        yield Batch(self.order), {"indices": self.order, "decode_failures": %d}
"""


class TurboLoader(unittest.TestCase):
    """The adapter with a played module, over a tar file of 64 images."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.photos = os.path.join(self.folder, "photos")
        for i in range(64):
            place = os.path.join(self.photos, "class%d" % (i // 24), "%02d.jpg" % i)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="ascii") as file:
                file.write("image %d" % i)
        self.out = os.path.join(self.folder, "out")
        peer_turboloader.write(self.photos, self.out)
        self.tar = os.path.join(self.out, "train.tar")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_cell(self, n_failed):
        with open(os.path.join(self.folder, "turboloader.py"), "w", encoding="utf-8") as file:
            file.write(TURBOLOADER % n_failed)
        command = [
            sys.executable, "-B", os.path.join(PEERS, "peer_turboloader.py"), "--data", self.tar,
            "--contract", "A2", "--workers", "1", "--seconds", "0.1"
        ]
        return cell.Cell(command, os.path.join(self.folder, "log"), 60,
                         env=dict(os.environ, PYTHONPATH=self.folder)).run()

    def test_its_tar_file_has_the_photographs_in_order(self):
        with tarfile.open(self.tar) as tar:
            self.assertEqual(tar.getnames()[:3], ["000000.jpg", "000000.cls", "000001.jpg"])
            self.assertEqual(tar.extractfile("000033.jpg").read(), b"image 33")

    def test_labels_of_its_indices_come_from_the_tar_file(self):
        facts = self.run_cell(0)
        labels = [i // 24 for i in range(64)]
        cell.check_facts(facts, "A2", labels)
        self.assertEqual(facts["done"]["labels"],
                         [label for k in (1, 2) for label in labels[k:] + labels[:k]])

    def test_an_image_that_it_made_zeros_ends_the_cell(self):
        with self.assertRaisesRegex(cell.CellError, "3 images were not decoded"):
            self.run_cell(3)


if __name__ == "__main__":
    cell.inherit_orphans()
    unittest.main(argv=sys.argv[:1])
