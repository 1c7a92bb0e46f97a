# SPDX-License-Identifier: Apache-2.0
"""Images that keep their own sizes: a row of bytes, and where each image is in it."""
import os
import sys

import pytest

import millrace as mr

from support import module, rows

numpy = module("numpy")
ROOM = 3 << 20
needs_torchvision = pytest.mark.skipif(not (numpy and module("torch") and module("torchvision")),
                                       reason="torchvision is not here, or too old")


@pytest.mark.skipif(not numpy, reason="NumPy is not here, or too old")
def test_each_image_is_where_offsets_and_shapes_say(make_loader, images):
    options = dict(dataset=f"imagefolder:{images}", batch_size=5, num_workers=0, layout="nhwc")
    loader = make_loader(transform="none", ragged=True, max_row_bytes=ROOM, **options)
    small = make_loader(transform="center_crop(8)", **options)
    for batch, cropped in zip(loader, small):
        flat, offsets, shapes = (numpy.asarray(batch[name]) for name in
                                 ("image", "image.offsets", "image.shape"))
        assert flat.shape == (len(offsets) * ROOM,)
        for i, (height, width) in enumerate(shapes):
            image = flat[offsets[i]:offsets[i] + height * width * 3].reshape(height, width, 3)
            top, left = round((height - 8) / 2), round((width - 8) / 2)
            expected = numpy.asarray(cropped.image)[i]
            assert (image[top:top + 8, left:left + 8] == expected).all()


def test_what_needs_equal_rows_is_refused(make_loader, images):
    with pytest.raises(mr.Error, match="ragged needs max_row_bytes"):
        make_loader(dataset=f"imagefolder:{images}", transform="none", ragged=True)


def preset_v1(paths, size):
    """SegmentationPresetEval of torchvision's references, v1, backend pil."""
    image = pytest.importorskip("PIL.Image")
    torch = module("torch")
    functional = pytest.importorskip("torchvision.transforms.functional")
    picture, mask = (image.open(path) for path in paths)
    picture = functional.resize(picture, size)
    mask = functional.resize(mask, size, functional.InterpolationMode.NEAREST)
    picture = functional.convert_image_dtype(functional.pil_to_tensor(picture), torch.float32)
    picture = functional.normalize(picture, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return picture.numpy(), numpy.asarray(mask)


NORMAL = "+normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225,exact)"
EVAL_V1 = "segmentation_eval_v1:40" + NORMAL


@needs_torchvision
@pytest.mark.parametrize("num_workers", [0, 1, 8])
def test_an_evaluation_of_segmentation_is_torchvisions(photos, make_loader, num_workers):
    spec, pairs = photos
    n = 0
    for batch in make_loader(EVAL_V1, spec, dtype="f32", ragged=True, max_row_bytes="1M",
                             batch_size=5, num_workers=num_workers):
        found = zip(batch.index.tolist(), rows(batch, "image", 3), rows(batch, "mask_image", 0))
        for index, picture, mask in found:
            for mine, reference in zip((picture, mask), preset_v1(pairs[index], 40)):
                assert mine.tobytes() == reference.tobytes()
            n += 1
    assert n == 12


def collate(tensors, fill):
    """cat_list() of references/segmentation/utils.py, from its rule."""
    torch = module("torch")
    largest = [max(sides) for sides in zip(*(tensor.shape for tensor in tensors))]
    batch = torch.full((len(tensors), *largest), fill, dtype=tensors[0].dtype)
    for row, tensor in zip(batch, tensors):
        row[..., :tensor.shape[-2], :tensor.shape[-1]] = tensor
    return batch.numpy()


@needs_torchvision
@pytest.mark.parametrize("num_workers", [0, 1, 8])
def test_padded_batches_are_those_of_the_references_collate(photos, make_loader, num_workers):
    torch = module("torch")
    spec, pairs = photos
    for batch in make_loader(EVAL_V1, spec, dtype="f32", pad_batch=130, batch_size=5,
                             num_workers=num_workers):
        images, masks = zip(*(preset_v1(pairs[i], 40) for i in batch.index.tolist()))
        for mine, tensors, fill in ((batch.image, images, 0), (batch["mask_image"], masks, 255)):
            expected = collate([torch.from_numpy(tensor.copy()) for tensor in tensors], fill)
            assert mine.shape == expected.shape
            assert numpy.asarray(mine).tobytes() == expected.tobytes()
        shapes = numpy.asarray(batch["image.shape"]).tolist()
        assert shapes == [list(mask.shape) for mask in masks]


@needs_torchvision
@pytest.mark.filterwarnings("ignore:Argument 'interpolation' of type int")
@pytest.mark.parametrize("kept", [{"ragged": True, "max_row_bytes": "1M"}, {"pad_batch": 160}])
def test_random_sizes_replay(photos, make_loader, kept):
    pil, image = pytest.importorskip("PIL"), pytest.importorskip("PIL.Image")
    functional = pytest.importorskip("torchvision.transforms.functional")
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../data"))
    from replay_explain import replay
    # Earlier versions of Pillow round the weights of some resizes in another way.
    most_apart = 0 if int(pil.__version__.split(".")[0]) >= 13 else 1
    text = "random_resize(20,60)+hflip+vflip+mask(nearest=pil)"
    spec, pairs = photos
    loader = make_loader(text, spec, dtype="f32", seed=5, batch_size=5, **kept)
    for epoch in range(5):
        loader.set_epoch(epoch)
        for batch in loader:
            if "ragged" in kept:
                pictures, masks = rows(batch, "image", 3), rows(batch, "mask_image", 0)
            else:
                sides = numpy.asarray(batch["image.shape"]).tolist()
                pictures, masks = ([row[..., :height, :width]
                                    for row, (height, width) in zip(numpy.asarray(array), sides)]
                                   for array in (batch.image, batch["mask_image"]))
            for index, picture, mask in zip(batch.index.tolist(), pictures, masks):
                mine, mask_before = (image.open(path) for path in pairs[index])
                calls = mr.explain(text, 5, epoch, index, *mine.size)
                nearest = [(name, dict(args, interpolation=0) if name == "resize" else args)
                           for name, args in calls]
                assert (mask == numpy.asarray(replay(mask_before, nearest))).all()
                expected = functional.pil_to_tensor(replay(mine, calls)).numpy()
                pixels = numpy.rint(picture * 255)
                assert abs(pixels - expected).max() <= most_apart
                assert picture.tobytes() == (pixels * numpy.float32(1 / 255)).tobytes()
