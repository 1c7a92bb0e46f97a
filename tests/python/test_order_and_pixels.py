# SPDX-License-Identifier: Apache-2.0
"""What Python receives is what `millrace export` writes: the same indices, labels and bytes, epoch by epoch."""
import os
import subprocess

import millrace as mr

import support

TRANSFORM = "train:32"


class PixelTest(support.FolderCase):
    def export(self, name, **options):
        """The bytes of images, labels and indices of one epoch."""
        out = self.path(name)
        words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        subprocess.run([os.environ["MR_COMMAND"], "export", self.images, f"--transform={TRANSFORM}", f"--out={out}.npy",
                        *words], check=True, capture_output=True)
        return [support.npy_bytes(f"{out}{suffix}.npy") for suffix in ("", ".labels", ".indices")]

    def read(self, loader):
        found = [b"", b"", b""]
        for batch in loader:
            for i, array in enumerate((batch.image, batch.label, batch.index)):
                found[i] += array.tobytes()
        return found

    def test_epochs_are_those_of_the_command(self):
        for workers in (0, 2):
            with mr.Loader(self.images, TRANSFORM, batch_size=4, num_workers=workers, seed=5) as loader:
                for epoch in range(3):  # without set_epoch(): each pass is the next epoch
                    self.assertEqual(self.read(loader),
                                     self.export("plain", seed=5, epoch=epoch, batch_size=4, workers=0))
                loader.set_epoch(1)
                self.assertEqual(self.read(loader), self.export("again", seed=5, epoch=1, workers=0))

    def test_ranks_and_dtypes_are_those_of_the_command(self):
        for rank in range(2):
            for dtype, layout in (("f32", "nhwc"), ("f16", "nchw"), ("bf16", "nchw")):
                options = {"rank": rank, "world_size": 2, "tail": "drop", "dtype": dtype, "layout": layout}
                with mr.Loader(self.images, TRANSFORM, num_workers=1, **options) as loader:
                    self.assertEqual(self.read(loader), self.export("rank", workers=0, **options))

    def test_buffers_of_a_device_have_the_same_bytes(self):
        expected = self.export("device", workers=0)
        with mr.Loader(self.images, TRANSFORM, batch_size=4, num_workers=2, device="host:1") as loader:
            self.assertEqual(self.read(loader), expected)

    def test_parts_are_the_batch_in_order(self):
        indices = []
        with mr.Loader(self.images, TRANSFORM, batch_size=6, no_shuffle=True, devices=["host:0", "host:1"]) as loader:
            self.assertEqual(loader.options["devices"], ["host:0", "host:1"])
            for batch in loader:
                self.assertRaisesRegex(KeyError, "has its arrays in .parts", lambda b=batch: b.image)
                parts = batch.parts
                self.assertEqual(sum(part.size for part in parts), batch.size)
                indices += [i for part in parts for i in part.index.tolist()]
        self.assertEqual(indices, list(range(21)))

    def test_explain_gives_the_calls_of_export(self):
        import json
        lines = self.path("lines.jsonl")
        self.export("explained", workers=0, seed=3, epoch=2, explain=lines)
        with open(lines, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        self.assertEqual(len(rows), 21)
        for row in rows:
            width, height = row["size"]
            self.assertEqual(mr.explain(TRANSFORM, 3, 2, row["index"], width, height), row["calls"])
        self.assertEqual(mr.explain(mr.Transform(TRANSFORM), 3, 2, row["index"], width, height), row["calls"])


class OtherDatasetsTest(support.FolderCase):
    def test_records_are_data(self):
        path = self.write("tokens", bytes(range(200)))
        with mr.Loader(f"records:{path}?dtype=u16&shape=5", batch_size=4, no_shuffle=True) as loader:
            batches = [batch.data.tolist() for batch in loader]
            self.assertEqual([len(b) for b in batches], [4] * 5)
            self.assertEqual(batches[0][0], [256 * (2 * i + 1) + 2 * i for i in range(5)])

    def test_a_dataset_is_open_once(self):
        dataset = mr.Dataset(self.images)
        self.assertEqual(len(dataset), 21)
        self.assertEqual(len(dataset.classes), 3)
        self.assertEqual(dataset.label(20), 2)
        self.assertIn(dataset.classes[2], dataset.name(20))
        self.assertRaises(mr.InvalidError, dataset.name, 21)
        self.assertIn(dataset.inspect(0)["format"], ("jpeg", "png"))
        with mr.Loader(dataset, "eval:40:32", num_workers=0) as a, mr.Loader(dataset, "none", batch_size=1) as b:
            self.assertEqual(next(iter(a)).image.shape, (21, 3, 32, 32))
            self.assertIs(a.dataset, b.dataset)


if __name__ == "__main__":
    support.main()
