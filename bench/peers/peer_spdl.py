# SPDX-License-Identifier: Apache-2.0
"""SPDL: threads that demux and decode with ffmpeg, with one filter graph per image.

It has no random crop; the box is drawn here, in torchvision's way, and passed to ffmpeg's crop
filter. Images come in the order in which they are finished, which is its default, so the end of one
epoch mixes with the start of the next. A stage that raises drops its item and continues, so the
first failure is stored and ends the run.
"""

import math
import random

from adapter import BATCH, Adapter, draw_box, list_images


def train_filter(width, height):
    x, y, w, h = draw_box(width, height, random)
    flip = "hflip," if random.random() < 0.5 else ""
    return f"crop={w}:{h}:{x}:{y}:exact=1,{flip}scale=224:224:flags=bilinear,format=rgb24"


def eval_filter(width, height):
    short = min(width, height)
    w, h = int(256 * width / short), int(256 * height / short)
    x, y = int(round((w - 224) / 2.0)), int(round((h - 224) / 2.0))
    return f"scale={w}:{h}:flags=bilinear,crop=224:224:{x}:{y}:exact=1,format=rgb24"


def main():
    adapter = Adapter()
    arguments = adapter.arguments
    if arguments.contract != "A1":
        raise SystemExit("SPDL gives u8 only")
    import importlib.metadata

    import spdl.io
    from spdl.pipeline import PipelineBuilder
    images = list_images(arguments.data)
    make_filter = eval_filter if arguments.eval else train_filter

    failures = []
    order = "input" if arguments.eval else "completion"

    def decode(item):
        path, label = item
        try:
            packets = spdl.io.demux_image(path)
            description = make_filter(packets.codec.width, packets.codec.height)
            return spdl.io.decode_packets(packets, filter_desc=description), label
        except Exception as error:
            failures.append("%s: %s" % (path, error))
            raise

    def convert(items):
        frames = [frame for frame, _ in items]
        return spdl.io.to_numpy(spdl.io.convert_frames(frames)), [label for _, label in items]

    def epochs(n_epochs, drop):
        n = len(images) // BATCH * BATCH if drop else len(images)
        while n_epochs > 0:
            order = images if arguments.eval else random.sample(images, len(images))
            yield from order[:n]
            n_epochs -= 1

    def build(source, drop):
        builder = PipelineBuilder().add_source(source)
        builder = builder.pipe(decode, concurrency=arguments.workers, output_order=order)
        builder = builder.aggregate(BATCH, drop_last=drop).pipe(convert, output_order=order)
        return builder.add_sink(3).build(num_threads=arguments.workers)

    def stream(n_epochs, drop):
        pipeline = build(epochs(n_epochs, drop), drop)
        with pipeline.auto_stop():
            for batch in pipeline.get_iterator():
                if failures:
                    raise SystemExit(failures[0])
                yield batch

    versions = {"spdl-io": importlib.metadata.version("spdl-io")}
    adapter.run(len(images),
                lambda: stream(math.inf, True),
                lambda: (part for part, _ in stream(1, False)),
                versions,
                "nhwc",
                exact_epochs=False)


if __name__ == "__main__":
    main()
