# SPDX-License-Identifier: Apache-2.0
"""Judges a peer's pixels. bench/peers/run runs it with torch's Python, which has Pillow and NumPy.

    peer_judge.py eval DATA DUMP       print differences of DUMP from Pillow's Resize(256) and
                                       CenterCrop(224), as JSON
    peer_judge.py chart FOLDER N       write N images whose pixels encode their position
    peer_judge.py boxes DUMP           print which boxes of these images were seen, and how many
                                       were flipped, as JSON

DUMP is a file with DUMP.json beside it (images, dtype, layout). Images of one size would hide a
swap of the sides, so the charts are landscape and portrait.
"""

import json
import os
import sys

import numpy
from adapter import MEAN, STD, list_images
from PIL import Image

CHART_SIZES = ((500, 375), (375, 500))


def read_dump(path):
    """The images as floats 0 to 255, [N, 224, 224, 3]."""
    with open(path + ".json") as file:
        about = json.load(file)
    shape = (-1, 3, 224, 224) if about["layout"] == "nchw" else (-1, 224, 224, 3)
    images = numpy.fromfile(path, about["dtype"]).reshape(shape)
    if about["layout"] == "nchw":
        images = images.transpose(0, 2, 3, 1)
    if about["dtype"] == "float32":
        images = (images * numpy.float32(STD) + numpy.float32(MEAN)) * 255
    return images


def reference(path):
    image = Image.open(path).convert("RGB")
    w, h = image.size
    short = min(w, h)
    image = image.resize((int(256 * w / short), int(256 * h / short)), Image.BILINEAR)
    x, y = int(round((image.width - 224) / 2.0)), int(round((image.height - 224) / 2.0))
    return numpy.asarray(image.crop((x, y, x + 224, y + 224)), dtype=numpy.int16)


def judge_eval(data, dump):
    files = list_images(data)
    images = read_dump(dump)
    if len(images) != len(files):
        return {"error": "%d images of %d files" % (len(images), len(files))}
    means, most = [], 0
    for (path, _), image in zip(files, images):
        difference = numpy.abs(numpy.rint(image).astype(numpy.int16) - reference(path))
        means.append(float(difference.mean()))
        most = max(most, int(difference.max()))
    return {
        "images": len(images), "mean": float(numpy.mean(means)), "worst_image": max(means),
        "max": most
    }


def write_chart(folder, n):
    for i in range(n):
        w, h = CHART_SIZES[i % 2]
        pixels = numpy.empty((h, w, 3), numpy.uint8)
        pixels[:, :, 0] = numpy.rint(numpy.linspace(0, 255, w))[None, :]
        pixels[:, :, 1] = numpy.rint(numpy.linspace(0, 255, h))[:, None]
        pixels[:, :, 2] = 64 + 128 * (i % 2)  # tells landscape from portrait
        place = os.path.join(folder, "c%04d" % i)
        os.makedirs(place)
        Image.fromarray(pixels).save(os.path.join(place, "chart.jpg"), quality=98, subsampling=0)


def ends(values):
    """Ends of the line through values at the centres of 224 pixels, as shares of the side."""
    slope, middle = numpy.polyfit(numpy.arange(224) + 0.5 - 112, values, 1)
    return (middle - 112 * slope) / 255, (middle + 112 * slope) / 255


def judge_boxes(dump):
    areas, ratios, centres, n_flipped = [], [], [], 0
    images = read_dump(dump)
    for image in images:
        wide = image[:, :, 2].mean() < 128
        w, h = CHART_SIZES[0 if wide else 1]
        left, right = ends(image[:, :, 0].mean(axis=0))
        top, bottom = ends(image[:, :, 1].mean(axis=1))
        n_flipped += left > right
        areas.append(abs(right - left) * (bottom - top))
        ratios.append(abs(right - left) * w / ((bottom - top) * h))
        centres.append(((left + right) / 2, (top + bottom) / 2))
    x, y = numpy.mean(centres, axis=0)
    return {
        "images": len(images), "area": float(numpy.mean(areas)),
        "area_low": float(numpy.min(areas)), "area_high": float(numpy.max(areas)),
        "log_ratio": float(numpy.mean(numpy.log(ratios))), "ratio_low": float(numpy.min(ratios)),
        "ratio_high": float(numpy.max(ratios)), "x": float(x), "y": float(y),
        "flipped": float(n_flipped) / len(images)
    }


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "eval" and len(sys.argv) == 4:
        print(json.dumps(judge_eval(sys.argv[2], sys.argv[3])))
    elif what == "chart" and len(sys.argv) == 4:
        write_chart(sys.argv[2], int(sys.argv[3]))
    elif what == "boxes" and len(sys.argv) == 3:
        print(json.dumps(judge_boxes(sys.argv[2])))
    else:
        raise SystemExit("usage: peer_judge.py eval DATA DUMP | chart FOLDER N | boxes DUMP")


if __name__ == "__main__":
    main()
