# SPDX-License-Identifier: Apache-2.0
"""What notebooks show, and loops beside "for": the pictures have the pixels of the batches."""
import asyncio
import base64
import ctypes
import html
import os
import re
import shutil
import struct
import zlib

import pytest

import millrace as mr
from millrace import _html

MEAN = "normalize(mean=0.5,std=0.25)"


def pngs(text):
    """The PNG files in a page."""
    return [base64.b64decode(found) for found in re.findall('base64,([^"]*)"', text)]


def captions(text):
    return [html.unescape(found).split("<br>")
            for found in re.findall("<figcaption>(.*?)</figcaption>", text)]


def pixels(png):
    """Height, width, channels and bytes of a PNG file without filters, in one IDAT."""
    width, height, depth, kind = struct.unpack_from(">IIBB", png, 16)
    assert depth == 8
    n_channels = {0: 1, 2: 3}[kind]
    size, = struct.unpack_from(">I", png, 33)
    lines, stride = zlib.decompress(png[41:41 + size]), 1 + width * n_channels
    assert len(lines) == height * stride
    assert not any(lines[::stride])
    return height, width, n_channels, b"".join(
        lines[i + 1:i + stride] for i in range(0, len(lines), stride))


def test_the_library_reads_the_files(tmp_path):
    values = bytes(i * 37 % 251 for i in range(5 * 7 * 3))
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.png").write_bytes(_html.make_png(values, 5, 7, 3, False))
    with mr.Loader(tmp_path, "center_crop(5:7)", batch_size=1, num_workers=0,
                   layout="nhwc") as loader:
        assert loader.next().image.tobytes() == values


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("transform, n_channels", [("eval:20:16", 3), ("eval:20:16+grayscale", 1)])
def test_pictures_are_the_batch(make_loader, layout, transform, n_channels):
    expected = make_loader(transform, layout="nhwc", no_shuffle=True).next()
    images, size = expected.image.tobytes(), 16 * 16 * n_channels
    for dtype in ("u8", "f32", "f16", "bf16"):
        whole = transform + "+normalize(mean=0,std=1)" * (dtype != "u8")
        batch = make_loader(whole, layout=layout, dtype=dtype, no_shuffle=True).next()
        found = pngs(batch._repr_html_())
        assert len(found) == 4
        for i, png in enumerate(found):
            *shape, values = pixels(png)
            assert shape == [16, 16, n_channels]
            most = {"u8": 0, "f32": 0, "f16": 1, "bf16": 1}[dtype]
            assert max(abs(a - b)
                       for a, b in zip(values, images[i * size:][:size])) <= most


def test_floats_of_any_range_are_shown(make_loader):
    batch = make_loader(f"eval:20:16+{MEAN}", dtype="f32").next()
    for png in pngs(batch._repr_html_()):
        values = pixels(png)[-1]
        assert min(values) == 0
        assert max(values) == 255


def test_boxes_and_masks_are_drawn_over_pictures(images, tmp_path):
    shutil.copytree(images, tmp_path / "labels")
    for path in sorted((tmp_path / "labels").glob("*/*")):
        path.with_suffix(".txt").write_text("1 .5 .5 .5 .25\n0 .5 .5 0 .5\n")
    spec = f"imagefolder:{images}?extra=b:99:.txt:{tmp_path}/labels&boxes=b"
    with mr.Loader(spec, "resize(16:32)", batch_size=3, num_workers=0) as loader:  # one is flat
        text = mr.preview(loader, 2)
        assert re.findall("<rect ([^s]*) pointer.*?(rgb.*?)\".*?<title>(.*?)</title>", text) == [
            ('x="8" y="6" width="16" height="4" fill="none"', "rgb(96,224,96)",
             loader.dataset.classes[1])] * 2
        assert len(pngs(text)) == 2 and text.count('<svg viewBox="0 0 32 16"') == 2
        assert "<svg" in loader.next()._repr_html_()


def test_names_of_boxes_are_none_of_images(images, tmp_path):
    (tmp_path / "x.names").write_text("zero & all\n")
    shutil.copy(mr.Dataset(images).name(0), tmp_path / "0.jpg")
    (tmp_path / "0.txt").write_text("0 .5 .5 .5 .5\n")
    (tmp_path / "list").write_text(f"{tmp_path}/0.jpg\n")
    with mr.Loader(f"yolo:{tmp_path}/list?names={tmp_path}/x.names", "resize(8:8)", batch_size=1,
                   num_workers=0) as loader:
        text = mr.preview(loader)
    assert "<title>zero &amp; all</title>" in text
    assert captions(text)[0][0] == "0"


@pytest.mark.parametrize("dtype", ["u8", "i16", "i64"])
def test_masks_are_drawn_over_pictures(photos, dtype):
    spec = photos[0]
    transform = f"center_crop(100:100)+mask(fill=255,dtype={dtype})"
    with mr.Loader(spec, transform, batch_size=2, num_workers=0, no_shuffle=True) as loader:
        batch = loader.next()
        found = pngs(batch._repr_html_())
        masks = [value for row in batch["mask_image"].tolist() for line in row for value in line]
    assert len(found) == 4
    for i, png in enumerate(found[1::2]):
        assert png[25] == 3 and png[37:41] == b"PLTE"
        assert png[41 + 3 * 77:][:3] == bytes((224, 0, 128))
        at = png.index(b"tRNS")
        assert set(png[at + 4:at + 259]) == {128} and png[at + 259] == 0
        lines = zlib.decompress(png[png.index(b"IDAT") + 4:-16])
        values = [value for y in range(100) for value in lines[101 * y + 1:101 * (y + 1)]]
        assert values == masks[10000 * i:10000 * (i + 1)]


def test_large_pictures_are_thinned():
    height, width, n_channels, values = pixels(
        _html.make_png(bytes(i % 256 for i in range(1000)), 2, 500, 1, False))
    assert (height, width, n_channels) == (1, 250, 1)
    assert values == bytes(i % 256 for i in range(0, 500, 2))


def test_previews_of_damaged_samples_and_of_no_samples(make_folder, make_loader):
    folder = make_folder(1, 3)
    damaged = sorted(os.listdir(os.path.join(folder, os.listdir(folder)[0])))[0]
    os.truncate(os.path.join(folder, os.listdir(folder)[0], damaged), 30)
    loader = make_loader(dataset=folder, no_shuffle=True)
    assert [line[1][-7:] == " 0 x 0" or "of 0 x 0" in line[1]
            for line in captions(mr.preview(loader))] == [True, False, False]
    loader.set_epoch(0, [])
    assert len(pngs(mr.preview(loader))) == 0


def test_values_that_are_no_number_are_black(make_loader):
    batch = make_loader("eval:20:16+normalize(mean=0,std=1)", dtype="f32", num_workers=0).next()
    values = ctypes.cast(batch.image._data, ctypes.POINTER(ctypes.c_float))
    values[0], values[1] = float("nan"), float("inf")
    assert pixels(pngs(batch._repr_html_())[0])[3][::3][:2] == bytes(2)


def test_what_has_no_pictures_is_named(make_loader, tmp_path):
    batch = make_loader().next()
    batch.release()
    (tmp_path / "records").write_bytes(bytes(64))
    records = make_loader(None, f"records:{tmp_path / 'records'}?dtype=u8&shape=8")
    ragged = make_loader("none", ragged=True, max_row_bytes=1 << 20, layout="nhwc")
    for shown in (batch, records.next(), ragged.next()):
        assert html.escape(repr(shown)) in shown._repr_html_()
        assert not pngs(shown._repr_html_())
    assert not pngs(mr.preview(records))
    records.close()
    assert records._repr_html_() is None


def test_a_preview_is_the_first_batch(make_loader):
    loader = make_loader("train:16", seed=5, epoch=2)
    first = mr.preview(loader, 4)
    assert loader.state_dict() == make_loader("train:16", seed=5, epoch=2).state_dict()
    batch = loader.next()
    assert pngs(first) == pngs(batch._repr_html_())
    names = [loader.dataset.classes[label] for label in batch.label.tolist()]
    assert [lines[0] for lines in captions(first)] == names
    for (_, crop), (width, height, x, y, w, h, *_) in zip(captions(first), batch.geometry.tolist()):
        assert crop.startswith(f"{w} x {h} at {x}, {y} of {width} x {height}")
    for title, found, size in zip(re.findall('title="(.*?)"', first, re.DOTALL),
                                  batch.index.tolist(), batch.geometry.tolist()):
        calls = mr.explain("train:16", 5, 2, found, *size[:2])
        assert [line.partition("(")[0] for line in title.split("\n")] == [c[0] for c in calls]
    assert pngs(loader._repr_html_())


def test_a_preview_follows_the_programs_order(make_loader):
    loader = make_loader("train:16")
    loader.set_epoch(1, [7, 2, 7])
    shown = pngs(mr.preview(loader))
    assert shown == pngs(loader.next()._repr_html_())
    assert len(shown) == 3


def test_the_calls_of_a_sample_that_comes_twice(make_loader):
    """Each time it has other draws."""
    loader = make_loader("train:16", seed=5)
    loader.set_epoch(1, [7, 2, 7])
    titles = re.findall('title="(.*?)"', mr.preview(loader), re.DOTALL)
    size = loader.next().geometry.tolist()[0][:2]
    for title, occurrence in ((titles[0], 0), (titles[2], 1)):
        (_, arguments), *_ = mr.explain("train:16", 5, 1, 7, *size, occurrence)
        assert f"top={arguments['top']}, left={arguments['left']}" in title
    assert titles[0] != titles[2]


@pytest.mark.parametrize("text, names", [
    ("view(image,train:16)|view(b,2,train:8)", ["image", "b#0", "b#1"]),
    ("resize(20)+five_crop(8)", [f"image#{k}" for k in range(5)]), ("view(x,train:8)", ["x"])])
def test_views_and_crops_are_side_by_side(make_loader, text, names):
    loader = make_loader(text, seed=5)
    shown, batch = mr.preview(loader, 4), loader.next()
    assert pngs(shown) == pngs(batch._repr_html_())
    assert len(pngs(shown)) == 4 * len(names) == len(set(pngs(shown)))
    assert [line for lines in captions(shown) for line in lines[1:-1]] == [
        name for name in names if name != "image"] * 4
    titles = re.findall('title="(.*?)"', shown, re.DOTALL)
    row = batch[next(key for key in batch.keys() if key.endswith("geometry"))].tolist()[0]
    size = (row[0] if isinstance(row[0], list) else row)[:2]
    calls = mr.explain(text, 5, 0, batch.index.tolist()[0], *size)
    for title, name in zip(titles, names):
        assert [line.partition("(")[0] for line in title.split("\n")] == [c[0] for c in calls[name]]


def test_masks_of_views_are_drawn(photos):
    text = "view(a,train:16+mask())|view(b,2,random_resized_crop(8)+mask())"
    with mr.Loader(photos[0], text, batch_size=2, num_workers=0) as loader:
        shown = mr.preview(loader, 2)
        masks = [png for png in pngs(loader.next()._repr_html_()) if png[25] == 3]
    assert len(masks) == shown.count("<svg") == 6


def test_images_of_different_sizes_are_padded_in_a_preview(make_loader):
    padded = make_loader("hflip", pad_batch=400, seed=3)
    shown = pngs(mr.preview(padded, 4))
    assert shown == pngs(padded.next()._repr_html_())
    ragged = make_loader("hflip", ragged=True, max_row_bytes=1 << 20, dtype="f32", seed=3)
    assert pngs(mr.preview(ragged, 4)) == shown
    assert len(set(shown)) == 4 and pngs(mr.preview(make_loader(
        "random_resize(20,30)", ragged=True, max_row_bytes=1 << 15), 4))


def test_a_preview_needs_a_loader(images):
    with pytest.raises(TypeError, match="shows a millrace.Loader or .*, not a str"):
        mr.preview(images)


def test_mixed_rows_have_both_labels(make_loader):
    shown = mr.preview(make_loader(f"train(16)+{MEAN}+mixup", dtype="f32"), 4)
    shares = [re.fullmatch(r"(0\.\d+|1\.00) \S+, (0\.\d+|1\.00) \S+", lines[0])
              for lines in captions(shown)]
    assert len(shares) == 4
    assert all(abs(float(found[1]) + float(found[2]) - 1) < 0.011 for found in shares)


def test_a_sample_after_each_operation(images, make_loader):
    text = ("grayscale(3)+random_apply(invert(1)+solarize(9,1),1)+random_resized_crop(16)+"
            f"{MEAN}+random_erasing(1)")
    shown = mr.explain_html(images, 3, text, seed=4, epoch=1)
    lines = captions(shown)
    assert [found[0].partition("(")[0] for found in lines[1:]] == [
        "grayscale", "random_apply", "random_resized_crop", "normalize", "random_erasing"]
    dataset = mr.Dataset(images)
    size = dataset.inspect(3)
    assert lines[0] == [dataset.classes[dataset.label(3)],
                        f"{size['height']} x {size['width']} x 3"]
    assert [line.partition("(")[0] for line in lines[2][1:-1]] == ["invert", "solarize"]
    assert lines[5][1].startswith("erase(")
    assert dataset.name(3) in shown
    loader = make_loader(text, batch_size=1, seed=4, dtype="f32")
    loader.set_epoch(1, [3])
    assert pngs(shown)[5] == pngs(loader.next()._repr_html_())[0]
    assert len(set(pngs(shown))) >= 5  # normalized, it may look as before


def test_a_page_is_a_file(images, tmp_path):
    shown = mr.explain_html(images, 0, "eval:20:16")
    shown.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").endswith(shown)
    assert len(repr(shown)) < 60
    assert shown._repr_html_() == shown


def test_other_tasks_run_beside_a_pass(make_loader):
    async def run(loader):
        turns = []

        async def count():
            while True:
                turns.append(1)
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        found = [[batch.index.tolist() async for batch in loader] for _ in range(2)]
        counting.cancel()
        return found, len(turns)

    found, turns = asyncio.run(run(make_loader()))
    again = make_loader()
    assert found == [[batch.index.tolist() for batch in again] for _ in range(2)]
    assert turns >= sum(map(len, found))


def test_a_task_that_waits_ends_when_another_closes_or_restarts(make_loader):
    async def count(loader):
        return len([batch async for batch in loader])

    async def close(loader):
        waits = asyncio.ensure_future(count(loader))
        await asyncio.sleep(0)
        loader.close()
        return await asyncio.wait_for(asyncio.gather(waits, return_exceptions=True), 30)

    async def twice(loader):
        both = asyncio.gather(count(loader), count(loader), return_exceptions=True)
        return await asyncio.wait_for(both, 30)

    closed, = asyncio.run(close(make_loader()))
    assert "the loader is closed" in str(closed)
    first, second = asyncio.run(twice(make_loader()))
    assert "another pass over it has begun" in str(first)
    assert second == 6


def test_a_pass_of_asyncio_needs_workers(make_loader):
    async def run():
        async for _ in make_loader(num_workers=0):
            pass

    with pytest.raises(mr.UnsupportedError):
        asyncio.run(run())


def test_a_progress_bar_has_the_rate(make_loader):
    tqdm = pytest.importorskip("tqdm")
    loader = make_loader()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        bar = tqdm.tqdm(loader, file=nowhere)
        for _ in bar:
            bar.set_postfix(loader.postfix())
    assert bar.total == bar.n == len(loader)
    assert re.match(r"samples/s=\d+, verdict=\S+-bound", bar.postfix)


def test_the_rate_is_of_all_samples(make_loader):
    loader = make_loader()
    n = sum(len(batch) for batch in loader)
    found, stats = loader.postfix(), loader.stats()
    assert stats["n_samples"] == n
    assert 0 < n * 1e9 / stats["elapsed_ns"] <= int(found["samples/s"]) + 1
    assert found["verdict"].split(":")[0] == loader.verdict().split(":")[0]


def test_rates_are_plotted(make_loader):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    line, = make_loader("train:16").plot(workers=[0, 1], seconds=0.05).lines
    assert list(line.get_xdata()) == [0, 1]
    assert all(rate > 0 for rate in line.get_ydata())
