# SPDX-License-Identifier: Apache-2.0
"""NVIDIA DALI on the CPU, with the operators of its ResNet-50 example.

Its reader continues from one epoch into the next, so no batch is dropped at the end of an epoch.
Nothing is left out and nothing waits, which is no disadvantage to DALI. A batch is taken as one
dense array with as_tensor(), which copies nothing. TrivialAugment is its own
auto_aug.trivial_augment_wide, which needs conditionals. The flip is drawn in the last operator even
so, which costs DALI the least and changes no distribution.
"""

from adapter import BATCH, MEAN, STD, Adapter, list_images


def train_images(fn, types, files, contract):
    images = fn.decoders.image_random_crop(files,
                                           device="cpu",
                                           output_type=types.RGB,
                                           random_area=[0.08, 1.0],
                                           random_aspect_ratio=[3 / 4, 4 / 3],
                                           num_attempts=10)
    images = fn.resize(images,
                       device="cpu",
                       resize_x=224,
                       resize_y=224,
                       interp_type=types.INTERP_LINEAR,
                       antialias=True)
    mirror = fn.random.coin_flip(probability=0.5)
    if contract in ("A3", "A4"):
        from nvidia.dali.auto_aug import trivial_augment
        interpolation = types.INTERP_NN if contract == "A3" else types.INTERP_LINEAR
        images = trivial_augment.trivial_augment_wide(images, num_magnitude_bins=31, fill_value=0,
                                                      interp_type=interpolation)
    if contract == "A1":
        return fn.flip(images, device="cpu", horizontal=mirror)
    return fn.crop_mirror_normalize(images,
                                    device="cpu",
                                    dtype=types.FLOAT,
                                    output_layout="CHW",
                                    mean=[255 * m for m in MEAN],
                                    std=[255 * s for s in STD],
                                    mirror=mirror)


def eval_images(fn, files):
    """Resize(256) and CenterCrop(224) with torchvision's rounding of sizes and offsets."""
    from nvidia.dali import math, types
    images = fn.decoders.image(files, device="cpu", output_type=types.RGB)
    shape = fn.cast(fn.peek_image_shape(files), dtype=types.INT32)
    size = 256 * shape[:2] // math.min(shape[0], shape[1])
    images = fn.resize(images,
                       device="cpu",
                       resize_y=fn.cast(size[0], dtype=types.FLOAT),
                       resize_x=fn.cast(size[1], dtype=types.FLOAT),
                       interp_type=types.INTERP_LINEAR,
                       antialias=True)
    spare = size - 224
    half = spare // 2
    start = half + (spare - 2 * half) * (half - half // 2 * 2
                                         )  # Python's round(): halves go to the even number
    return fn.slice(images, start=start, shape=[224, 224], axes=[0, 1])


def main():
    adapter = Adapter()
    arguments = adapter.arguments
    if arguments.contract == "A5":
        raise SystemExit("DALI's colour jitter has one fixed order")
    import numpy
    import nvidia.dali as dali
    from nvidia.dali import fn, pipeline_def, types
    n_images = len(list_images(arguments.data))

    def read_images():
        files, labels = fn.readers.file(file_root=arguments.data,
                                        random_shuffle=not arguments.eval,
                                        name="reader")
        if arguments.eval:
            return eval_images(fn, files), labels
        return train_images(fn, types, files, arguments.contract), labels

    make = pipeline_def(read_images, enable_conditionals=arguments.contract in ("A3", "A4"))
    pipeline = make(batch_size=BATCH, num_threads=arguments.workers, device_id=None, seed=1)
    pipeline.build()

    def batches():
        while True:
            images, labels = pipeline.run()
            yield numpy.asarray(images.as_tensor()), numpy.asarray(labels.as_tensor()).ravel()

    def whole():
        left = n_images
        while left > 0:
            images = numpy.array(numpy.asarray(pipeline.run()[0].as_tensor()))[:left]
            left -= len(images)
            yield images

    layout = "nhwc" if arguments.contract == "A1" or arguments.eval else "nchw"
    adapter.run(n_images, batches, whole, {"dali": dali.__version__}, layout, exact_epochs=False)


if __name__ == "__main__":
    main()
