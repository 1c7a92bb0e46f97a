# SPDX-License-Identifier: Apache-2.0
"""Recipes on photographs with masks and boxes: the calls of explain() replay to the same pictures,
masks and boxes.

With MR_PHOTOS=FOLDER the photographs are those in FOLDER/<class>/ of at most 640,000 pixels, with
MR_REPLAYS=N there are up to N of them, and five epochs instead of one.
"""
import glob
import os
import random
import sys

import pytest

import millrace as mr

from support import module, rows

numpy, torch, torchvision = map(module, ("numpy", "torch", "torchvision"))
if not (numpy and torch and torchvision):
    pytest.skip("NumPy, torch and torchvision are not all here, or too old",
                allow_module_level=True)

import PIL
from PIL import Image
from torchvision.transforms import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../data"))
from replay_explain import replay, replay_boxes, replay_mask

N = int(os.environ.get("MR_REPLAYS", "12"))
N_EPOCHS = 5 if "MR_REPLAYS" in os.environ else 1
RECIPES = ("detection_hflip", "detection_lsj", "detection_multiscale", "detection_ssd",
           "detection_ssdlite", "detection_eval", "segmentation_train", "segmentation_eval",
           "segmentation_eval_v1", "letterbox(640)+hflip")
VIEWS = ("dino", "resize(256)+ten_crop(224)")
# Earlier versions of Pillow resample rows and columns in another order.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Argument 'interpolation' of type int"),
    pytest.mark.skipif(int(PIL.__version__.split(".")[0]) < 13, reason="Pillow is older than 13")
]
needs_boxes = pytest.mark.skipif(
    [int(n) for n in torchvision.__version__.split(".")[:2]] < [0, 29],
    reason="torchvision is older than 0.29")


def label_lines(draws, width, height):
    """Up to 40 boxes in darknet's form: anywhere, on whole pixels, on edges, of no width, outside.
    """
    lines = []
    for _ in range(draws.choice([0, 1, 2, 5, 10, 40])):
        x1, x2 = sorted(draws.choice([0, 1, draws.random(), draws.uniform(-0.5, 1.5),
                                      draws.randrange(width) / width]) for _ in range(2))
        y1, y2 = sorted(draws.choice([0, 1, draws.random(), draws.uniform(-0.5, 1.5),
                                      draws.randrange(height) / height]) for _ in range(2))
        lines.append(f"{draws.randrange(90)} {(x1 + x2) / 2:.9g} {(y1 + y2) / 2:.9g} "
                     f"{x2 - x1:.9g} {y2 - y1:.9g}\n")
    return "".join(lines)


def make_mask(draws, width, height):
    """Indices in blocks, and the border's 255 here and there."""
    indices = numpy.random.default_rng(draws.randrange(1 << 30))
    blocks = indices.integers(0, 22, (height // 3 + 1, width // 3 + 1), dtype=numpy.uint8)
    mask = Image.fromarray(numpy.where(blocks == 21, 255, blocks).astype(numpy.uint8))
    mask = mask.resize((width, height), Image.NEAREST)
    mask.putpalette(indices.integers(0, 256, 768, dtype=numpy.uint8).tobytes())
    return mask


@pytest.fixture(scope="module")
def annotated(images, tmp_path_factory):
    """A SPEC whose samples have masks and boxes, and the paths of its photographs and masks."""
    place = tmp_path_factory.mktemp("annotated")
    found = sorted(glob.glob(os.path.join(os.environ.get("MR_PHOTOS", images), "*", "*")))
    draws, pairs = random.Random(31), []
    for path in found:
        with Image.open(path) as image:
            size = image.size
        if size[0] * size[1] > 640000 or len(pairs) == N:
            continue
        pairs.append([str(place / kind / "a" / f"{len(pairs):03}") for kind in ("x", "y", "z")])
        for name in pairs[-1]:
            os.makedirs(os.path.dirname(name), exist_ok=True)
        pairs[-1][0] += os.path.splitext(path)[1]
        pairs[-1][1] += ".png"
        os.symlink(path, pairs[-1][0])
        make_mask(draws, *size).save(pairs[-1][1])
        with open(pairs[-1][2] + ".txt", "w", encoding="ascii") as file:
            file.write(label_lines(draws, *size))
    extra = f"extra=seg:1048576:.png:{place}/y,lines:8192:.txt:{place}/z&boxes=lines"
    return f"imagefolder:{place}/x?{extra}", f"imagefolder:{place}/x", pairs


def load(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def move_mask(path, calls, text, fill):
    with Image.open(path) as mask:
        if text == "segmentation_eval_v1":  # v1 resizes the mask with Pillow
            return numpy.asarray(replay(mask, [(name, {**args, "interpolation": 0})
                                               for name, args in calls]))
        return replay_mask(F.pil_to_tensor(mask), calls, fill)[0].numpy()


@needs_boxes
@pytest.mark.parametrize("text", RECIPES)
def test_calls_replay_to_the_same_picture_mask_and_boxes(annotated, make_loader, text):
    spec, _, pairs = annotated
    options = dict(dataset=spec, ragged=True, max_row_bytes=48 << 20, batch_size=3, layout="nhwc",
                   num_workers=0, seed=5, no_shuffle=True)
    before = {i: (batch["boxes"][k], batch["box_label"][k])
              for batch in make_loader("none", **options)
              for k, i in enumerate(batch.index.tolist())}
    fill = 255 if "segmentation" in text else 0
    whole = text if "segmentation" in text else f"{text}+mask(fill={fill})"
    loader = make_loader(whole, **options)
    n = 0
    for epoch in range(N_EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            pictures, masks = rows(batch, "image", 3), rows(batch, "mask_image", 0)
            for k, (i, picture, mask) in enumerate(zip(batch.index.tolist(), pictures, masks)):
                image, (boxes, labels) = load(pairs[i][0]), before[i]
                calls = mr.explain(whole, 5, epoch, i, *image.size, boxes=boxes)
                want, left = replay_boxes(boxes, image.size, calls)
                found = torch.tensor(batch["boxes"][k], dtype=torch.float32).reshape(-1, 4)
                assert found.numpy().tobytes() == want.numpy().tobytes(), calls
                assert batch["box_label"][k] == [labels[row] for row in left], calls
                assert (mask == move_mask(pairs[i][1], calls, text, fill)).all(), calls
                assert picture.tobytes() == numpy.asarray(replay(image, calls)).tobytes(), calls
                n += 1
    assert n == len(pairs) * N_EPOCHS and n > 0


@pytest.mark.parametrize("text", VIEWS)
def test_calls_of_several_pictures_replay(annotated, make_loader, text):
    _, spec, pairs = annotated
    loader = make_loader(text, spec, batch_size=3, layout="nhwc", num_workers=0, seed=5)
    n = 0
    for epoch in range(N_EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            for row, i in enumerate(batch.index.tolist()):
                image = load(pairs[i][0])
                for name, calls in mr.explain(text, 5, epoch, i, *image.size).items():
                    view, _, k = name.partition("#")
                    made = numpy.asarray(batch[view])[row]
                    made = made[int(k)] if k else made
                    wanted = numpy.asarray(replay(image, calls))
                    assert made.tobytes() == wanted.tobytes(), (name, calls)
                    n += 1
    assert n == 10 * len(pairs) * N_EPOCHS and n > 0
