# SPDX-License-Identifier: Apache-2.0
"""Further members of tar shards in Python: rows of bytes, and their values and offsets as arrays."""
import io
import os
import tarfile

import millrace as mr

import support

numpy, torch = support.module("numpy"), support.module("torch")
CAPTIONS = [b"", b"a dog", None, b"two cats on a roof", b"x" * 40, None, b"seven"]


class KeptCase(support.FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        images = sorted(os.path.join(folder, name) for folder, _, names in os.walk(cls.images) for name in names
                        if name.endswith(".jpg"))
        with tarfile.open(os.path.join(cls.folder, "t.tar"), "w") as shard:
            for i, caption in enumerate(CAPTIONS):
                with open(images[i % len(images)], "rb") as file:
                    cls.add(shard, f"{i}.jpg", file.read())
                cls.add(shard, f"{i}.cls", str(i).encode())
                if caption is not None:
                    cls.add(shard, f"{i}.txt", caption)

    @staticmethod
    def add(shard, name, content):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        shard.addfile(member, io.BytesIO(content))

    def batch(self, **options):
        loader = mr.Loader(f"tar:{self.path('t.tar')}?keep=txt:40", "eval:20:16",
                           **{"batch_size": len(CAPTIONS), "num_workers": 0, "no_shuffle": True, **options})
        self.addCleanup(loader.close)
        return loader.next()

    def test_rows_are_bytes(self):
        batch = self.batch()
        rows = batch["txt"]
        self.assertIsInstance(rows, mr.Rows)
        self.assertIs(rows, batch["txt"])
        self.assertEqual(rows.tolist(), [caption or b"" for caption in CAPTIONS])
        self.assertEqual((len(rows), rows.max_bytes, rows[3], rows[-1]), (7, 40, CAPTIONS[3], CAPTIONS[6]))
        self.assertEqual(rows.values.shape, (sum(len(caption or b"") for caption in CAPTIONS),))
        self.assertEqual(rows.values.tobytes(), b"".join(caption or b"" for caption in CAPTIONS))
        self.assertRaises(IndexError, lambda: rows[7])
        self.assertIn("7 rows of up to 40 bytes", repr(rows))
        self.assertEqual(batch.keys()[5:], ["txt", "txt.offsets"])

    def test_other_libraries_take_values_and_offsets(self):
        if numpy is None or torch is None:
            self.skipTest("no NumPy, or no torch")
        batch = self.batch()
        values, offsets = torch.from_dlpack(batch["txt"].values), torch.from_dlpack(batch["txt"].offsets)
        self.assertEqual((values.dtype, offsets.dtype), (torch.uint8, torch.int64))
        self.assertEqual(bytes(values[offsets[3]:offsets[4]].tolist()), CAPTIONS[3])
        self.assertEqual(numpy.asarray(batch["txt"].values).tobytes(), batch["txt"].values.tobytes())

    def test_copies_and_tensors_hold_their_rows(self):
        rows = self.batch()["txt"]  # the batch itself is gone
        self.assertEqual(rows[1], CAPTIONS[1])
        if torch is not None:
            values = torch.from_dlpack(rows.values)
            del rows
            self.assertEqual(bytes(values[:5].tolist()), CAPTIONS[1])


if __name__ == "__main__":
    support.main()
