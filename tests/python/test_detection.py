# SPDX-License-Identifier: Apache-2.0
"""Operations and recipes for detection: the calls of explain() replay to the same pictures and
masks.

With MR_REPLAYS=N there are N epochs of each instead of a few.
"""
import os
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
from fused_grids import fused_grids
from replay_explain import replay, replay_mask

# Earlier versions of Pillow resample rows and columns in another order.
IS_EXACT = int(PIL.__version__.split(".")[0]) >= 13
N_EPOCHS = int(os.environ.get("MR_REPLAYS", "10"))
FILL = 255
TEXTS = (
    "random_shortest_size(20:30:41:53,max_size=70)",
    "random_shortest_size(33,interp=bicubic)+hflip",
    "scale_jitter(60:50)",
    "scale_jitter(64)+fixed_size_crop(64,fill=123:117:104)+hflip",
    "scale_jitter(50:90,0.5:1.5,interp=nearest)+fixed_size_crop(40:70)",
    "fixed_size_crop(48:64,fill=9)",
    "random_zoom_out(123:117:104)+vflip",
    "random_zoom_out(side_range=1.5:2,p=1)+random_crop(40,pad_if_needed)",
    "letterbox(64:48)+hflip",
    "letterbox(31:57,fill=1:2:3,interp=bicubic)",
    "random_resize(30,60)+pad_if_smaller(50,fill=3)+random_crop(50)+pad(1:2:3:4,fill=8)",
    "detection_lsj:96",
    "detection_multiscale",
)
WARPS = (  # as v2 moves masks
    "rotation(60,bilinear,fill=9)+hflip",
    "resize(40:50)+rotation(180,expand=1)",
    "random_choice(affine(30,translate=0.1:0.3),perspective(0.5,p=1),vflip(1),invert(1))",
    "trivial_augment_wide+random_crop(40,padding=9,pad_if_needed)+rand_augment_v2",
)
pytestmark = pytest.mark.filterwarnings("ignore:Argument 'interpolation' of type int")


@pytest.mark.parametrize("text", [*TEXTS, *(WARPS if IS_EXACT else ())])
def test_calls_replay_to_the_same_picture_and_mask(photos, make_loader, text):
    spec, pairs = photos
    loader = make_loader(f"{text}+mask(fill={FILL})", spec, ragged=True, max_row_bytes="8M",
                         num_workers=0, layout="nhwc", seed=4)
    n = 0
    for epoch in range(N_EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            for index, picture, mask in zip(batch.index.tolist(), rows(batch, "image", 3),
                                            rows(batch, "mask_image", 0)):
                images = [Image.open(path) for path in pairs[index]]
                calls = mr.explain(text, 4, epoch, index, *images[0].size)
                want = numpy.asarray(replay(images[0], calls))
                is_exact = IS_EXACT or not any(name == "resize" for name, _ in calls)
                assert not is_exact or picture.tobytes() == want.tobytes(), calls
                with fused_grids():
                    want = replay_mask(F.pil_to_tensor(images[1]), calls, FILL)[0]
                assert (mask == want.numpy()).all(), calls
                n += 1
    assert n == 12 * N_EPOCHS


def test_a_recipe_ends_in_floats_as_those_of_v2(photos, make_loader):
    options = dict(batch_size=12, num_workers=0, seed=4)
    floats, = make_loader("detection_lsj:96", photos[0], dtype="f32", **options)
    pixels, = make_loader("detection_lsj:96", photos[0], **options)
    got = torch.from_dlpack(floats.image)
    # v2's ToDtype(torch.float32, scale=True)
    assert torch.equal(got, torch.from_dlpack(pixels.image).float().mul_(1.0 / 255))
