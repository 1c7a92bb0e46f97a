# SPDX-License-Identifier: Apache-2.0
"""`millrace preview` draws boxes and masks over the pictures, and nothing else."""
import os
import shutil
import subprocess

import pytest

import millrace as mr

SIDE, TILE = 128, 8  # of the pictures; where the first tile begins
LINE = 2


@pytest.fixture(scope="module")
def preview(tmp_path_factory):
    """Makes a sheet and returns its width and its pixels."""
    place = tmp_path_factory.mktemp("sheets")
    command = os.environ["MR_COMMAND"]
    if b"no libgd" in subprocess.run([command, "preview", "--help"], capture_output=True).stderr:
        pytest.skip("this build has no libgd")

    def make(spec, transform):
        shutil.rmtree(place / "a", ignore_errors=True)
        (place / "a").mkdir()
        text = subprocess.run([command, "preview", spec, "--transform", transform, "--workers", "0",
                               "--no-shuffle", "--out", place / "a/sheet.png"],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        width, height = (int(word) for word in text.split()[1::2][:2])
        with mr.Loader(place, f"center_crop({height}:{width})", batch_size=1, num_workers=0,
                       layout="nhwc") as loader:
            pixels = loader.next().image.tobytes()
        return width, [pixels[i:i + 3] for i in range(0, len(pixels), 3)]

    return make


@pytest.fixture
def folder(images, tmp_path):
    """A list of one image, whose label file is still missing."""
    for name in ("images", "labels", "masks/a"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(mr.Dataset(images).name(0), tmp_path / "images/a.jpg")
    (tmp_path / "list.txt").write_text(f"{tmp_path}/images/a.jpg\n")
    (tmp_path / "x.names").write_text("a name that is longer than its box is wide\nshort\n")
    return tmp_path


def test_a_box_is_a_frame_in_the_colour_of_its_class(preview, folder):
    spec = f"yolo:{folder}/list.txt?names={folder}/x.names"
    width, plain = preview(spec, f"resize({SIDE}:{SIDE})")
    (folder / "labels/a.txt").write_text("0 .5 .5 .5 .25\n0 .5 .5 0 .25\n0 3 .5 .1 .1\n")
    _, drawn = preview(spec, f"resize({SIDE}:{SIDE})")
    left, top, right, bottom = SIDE // 4, SIDE * 3 // 8, SIDE * 3 // 4, SIDE * 5 // 8
    frame = {(x, y) for x in range(left, right) for y in range(top, bottom)
             if min(x - left, right - 1 - x, y - top, bottom - 1 - y) < LINE}
    for i, (pixel, was) in enumerate(zip(drawn, plain)):
        inside = (i % width - TILE, i // width - TILE) in frame
        assert pixel == (b"\xe0\x60\x60" if inside else was), i


def test_a_class_is_written_where_it_fits(preview, folder):
    spec = f"yolo:{folder}/list.txt?names={folder}/x.names"
    colours = {}
    for name, text in (("fits", "1 .5 .5 .5 .5\n"), ("flat", "1 .5 .5 .5 .09\n")):
        (folder / "labels/a.txt").write_text(text)
        width, pixels = preview(spec, f"resize({SIDE}:{SIDE})")
        row = pixels[(TILE + SIDE // 4 + LINE) * width:][TILE + SIDE // 4 + LINE:][:5 * 6]
        colours[name] = sum(pixel == b"\x60\xe0\x60" for pixel in row)
    assert colours["fits"] > 20 and colours["flat"] == 0


def expect_masks(preview, make_mask, plain, masked, n_tiles):
    """Each tile of one row of the sheet is tinted."""
    spec, indices = make_mask
    (width, before), (_, drawn) = preview(spec, plain), preview(spec, masked)
    palette = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 77: (224, 0, 128)}
    tinted = 0
    for i, (pixel, was) in enumerate(zip(drawn, before)):
        (tile, x), y = divmod(i % width - TILE, SIDE + TILE), i // width - TILE
        is_tile = 0 <= tile < n_tiles and x < SIDE and 0 <= y < SIDE
        colour = palette.get(indices(x, y)) if is_tile else None
        assert pixel == (bytes((a + b) // 2 for a, b in zip(was, colour)) if colour else was), i
        tinted += colour is not None
    assert tinted > n_tiles * SIDE * SIDE // 2


@pytest.mark.parametrize("dtype", ["u8", "i16", "i64"])
def test_a_mask_is_translucent(preview, make_mask, dtype):
    plain = f"center_crop({SIDE}:{SIDE})"
    expect_masks(preview, make_mask, plain, f"{plain}+mask(dtype={dtype})", 1)


def test_masks_of_views_are_those_of_their_pictures(preview, make_mask):
    text = f"view(a,center_crop({SIDE}:{SIDE})%s)|view(b,2,center_crop({SIDE}:{SIDE})%s)"
    expect_masks(preview, make_mask, text % ("", ""), text % ("+mask", "+mask(dtype=i16)"), 3)


@pytest.fixture
def make_mask(tmp_path):
    """A picture with a mask, and the mask's values."""
    from millrace import _html

    def indices(x, y):
        return (0, 1, 2, 255, 77)[(x // 16 + y // 16) % 5]

    for folder, n_channels in (("photos/a", 3), ("masks/a", 1)):
        (tmp_path / folder).mkdir(parents=True)
        values = bytes(
            indices(x, y) if n_channels == 1 else (x * 5 + y * 3 + c * 90) % 256
            for y in range(SIDE) for x in range(SIDE) for c in range(n_channels))
        (tmp_path / folder / "0.png").write_bytes(
            _html.make_png(values, SIDE, SIDE, n_channels, False))
    return f"imagefolder:{tmp_path}/photos?extra=seg:65536:.png:{tmp_path}/masks", indices
