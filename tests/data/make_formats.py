#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes formats.json: small image files of every kind that are not JPEG or PNG, and what Pillow
13.0.0 decodes of them.

    python3 tests/data/make_formats.py
    needs pillow==13.0.0 and numpy; tests read only the file

An entry has the file, compressed by zlib, in base64, its length, the size of its image, the EXIF
orientation and the CRC-32 of convert("RGB")'s bytes.
"""
import base64
import io
import json
import os
import random
import struct
import zlib

import numpy
import PIL
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, HEIGHT = 21, 14
ENTRIES = []


def synthetic(width=WIDTH, height=HEIGHT, channels=3):
    """Flat areas, edges, slopes and a little noise."""
    y, x, c = numpy.mgrid[0:height, 0:width, 0:channels]
    noise = (x * 7919 + y * 104729 + c * 1299709) * 2654435761 >> 20 & 7
    values = (x * 5 + y * 3 + 60 * c) % 256 // 32 * 32 + noise
    values[height // 3:height // 2, width // 4:width // 2] = (200, 30, 90, 128, 7, 250)[:channels]
    return numpy.clip(values, 0, 255).astype(numpy.uint8)


def add(name, data):
    with Image.open(io.BytesIO(data)) as image:
        rgb = image.convert("RGB")
        orientation = image.getexif().get(0x0112, 1)  # Pillow has turned a TIFF by now
    packed = base64.b64encode(zlib.compress(data, 9)).decode()
    ENTRIES.append({
        "name": name, "file": packed, "len": len(data), "width": rgb.width, "height": rgb.height,
        "orientation": orientation, "crc": "%08x" % zlib.crc32(rgb.tobytes())
    })  # fmt: skip


def save(name, image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    add(name, out.getvalue())


def plain(values):
    return b"\n".join(b" ".join(b"%d" % value for value in row)
                      for row in values.reshape(HEIGHT, -1))


def make_ppm():
    head = b"%d %d\n" % (WIDTH, HEIGHT)
    rgb = synthetic().astype(int)
    grey = rgb[:, :, 0]
    bits = numpy.where(grey > 100, 1, 0).astype(numpy.uint8)
    add(
        "p1", b"P1\n# a comment\n" + head + b"\n".join(b"".join(b"%d" % bit for bit in row)
                                                       for row in bits) + b"\n")
    add("p1 with comments",
        b"P1 " + head + b"#here too\n" + plain(bits).replace(b"\n", b" #1 0\n", 3))
    add("p4", b"P4\n" + head + numpy.packbits(bits, axis=1).tobytes())
    for maxval in (1, 3, 100, 255, 256, 1000, 65535):
        scaled = rgb * maxval // 255
        wide = scaled.astype(">u2" if maxval > 255 else "u1")
        tail = b"%d\n" % maxval
        add(f"p2 of {maxval}", b"P2\n" + head + tail + plain(scaled[:, :, 0]) + b"\n")
        add(f"p3 of {maxval}", b"P3\n" + head + tail + plain(scaled))
        add(f"p5 of {maxval}", b"P5\n" + head + tail + wide[:, :, 0].tobytes())
        add(f"p6 of {maxval}", b"P6\n" + head + tail + wide.tobytes())
    dark = rgb[:, :, 0] // 64  # of 65535: not clipped
    add("p5 of 65535, dark", b"P5\n" + head + b"65535\n" + dark.astype(">u2").tobytes())
    add("p5 above its maximum", b"P5\n" + head + b"90\n" + rgb[:, :, 0].astype("u1").tobytes())
    add("p6 with comments",
        b"P6 # one\n%d#two\r\n %d\t#\n255\n" % (WIDTH, HEIGHT) + rgb.astype("u1").tobytes())
    space = (b" ", b"\t", b"\n", b"\v", b"\f", b"\r", b"#1 2\r", b"#3 #4\n ")
    spaced = b"".join(b"%d" % value + b" " + space[i % 8]
                      for i, value in enumerate(grey.reshape(-1)))
    add("p2 with every white space", b"P2\v%d\f%d\r255\t" % (WIDTH, HEIGHT) + spaced)
    add("p1 with every white space", b"P1\f%d#1\r1\v%d\v" % (WIDTH // 10, HEIGHT) +
        spaced[:800].translate(bytes(49 if 50 <= byte < 58 else byte
                                     for byte in range(256))))  # fmt: skip
    for mode in ("1", "L", "RGB", "I;16"):
        save(f"ppm by Pillow, {mode}",
             Image.fromarray(synthetic()).convert("L").convert(mode)
             if mode != "RGB" else Image.fromarray(synthetic()), "PPM")  # fmt: skip


def bmp(bits,
        rows,
        compression=0,
        header=40,
        palette=b"",
        masks=b"",
        top_down=False,
        colours=0,
        offset=None,
        data=None):
    """rows: bytes of each row, top down."""
    if data is None:
        padded = [row + bytes(-len(row) % 4) for row in rows]
        data = b"".join(padded if top_down else reversed(padded))
    if header == 12:
        info = struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, bits)
    else:
        height = -HEIGHT if top_down else HEIGHT
        info = struct.pack("<IIiHHIIIIII", header, WIDTH, height, 1, bits, compression, len(data),
                           0, 0, colours, 0)
        inside = max(0, header - 40)
        info += masks[:inside].ljust(inside, b"\0") + masks[inside:]
    if offset is None:
        offset = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", 14 + len(info) + len(palette) + len(data), 0, 0,
                               offset) + info + palette + data


def runs(indices, four_bits):
    """Runs, literals, a skip and ends of lines; bottom up."""
    out = bytearray()
    for y in reversed(range(HEIGHT)):
        row = [int(value) for value in indices[y]]
        x = 0
        if y % 5 == 2:
            out += bytes((0, 2, 9, 0))
            x = 9
        while x < len(row):
            n = 1
            while x + n < len(row) and row[x + n] == row[x]:
                n += 1
            literal = row[x : x + 3 + x % 8]
            if n < 3 and len(literal) >= 3:
                out += bytes((0, len(literal)))
                if four_bits:
                    padded = literal + [0]
                    part = bytes(padded[i] << 4 | padded[i + 1] for i in range(0, len(literal), 2))
                else:
                    part = bytes(literal)
                out += part + bytes(len(part) % 2)
                x += len(literal)
            else:
                out += bytes((n, row[x] * 17 if four_bits else row[x]))
                x += n
        out += bytes((0, 0)) if y % 2 else b""
        if not y % 2 and y:
            out += bytes((0, 0))
    return bytes(out) + bytes((0, 1))


def wild_runs(seed, four_bits):
    """Any codes in any order: runs and literals past the end of a row, moves, and rows that end
    early. The place in the file, not in the runs, is even after a literal; codes of odd seeds begin
    at an odd one.
    """
    draw, out = random.Random(seed), bytes(seed % 2)
    for _ in range(HEIGHT * 3 // 2):
        n, value = draw.randrange(1, WIDTH + 4), draw.randrange(256)
        literal = draw.randbytes((n + 1) // 2 if four_bits else n)
        codes = [bytes((n, value))] * 3 + [b"\0\0", bytes((0, 2, n % 5, value % 2))]
        if n > 2:
            codes += [bytes((0, n)) + literal + bytes((len(out) + len(literal)) % 2)] * 3
        out += draw.choice(codes)
    return out + b"\0\2\0\xff"


def pack_bits(indices, bits):
    unpacked = numpy.unpackbits(indices.astype("u1")[:, :, None], axis=2)[:, :, 8 - bits :]
    return [row.tobytes() for row in numpy.packbits(unpacked.reshape(HEIGHT, -1), axis=1)]


def make_bmp():
    pixels = synthetic()
    palette = b"".join(
        struct.pack("<BBBB", i * 7 % 256, i * 13 % 256, 255 - i, 0) for i in range(256))
    for bits in (1, 4, 8):
        indices = pixels[:, :, 0] >> (8 - bits)
        rows = pack_bits(indices, bits)
        n = 1 << bits
        add(f"bmp of {bits} bits", bmp(bits, rows, palette=palette[: 4 * n]))
        add(f"bmp of {bits} bits, top down", bmp(bits, rows, palette=palette[:4 * n],
                                                 top_down=True))
        short = b"".join(palette[i : i + 3] for i in range(0, 4 * n, 4))
        add(f"bmp of {bits} bits, OS/2", bmp(bits, rows, palette=short, header=12))
        add(f"bmp of {bits} bits that skips no palette",
            bmp(bits, rows, palette=palette[:4 * n], offset=54))
    few = pixels[:, :, 0] >> 5
    add("bmp of 5 colours", bmp(8, pack_bits(few % 5, 8), palette=palette[:20], colours=5))
    add("bmp without some colours", bmp(8, pack_bits(few, 8), palette=palette[:20], colours=5))
    grey = b"".join(bytes((i, i, i, 0)) for i in range(200))
    add("bmp of 200 greys", bmp(8, pack_bits(pixels[:, :, 0], 8), palette=grey, colours=200))
    add("bmp of 3 greys and 2 more colours",
        bmp(8, pack_bits(few, 8), palette=grey[:12] + palette[:8], colours=5))
    add("bmp of black", bmp(1, pack_bits(few & 1, 1), palette=bytes(4), colours=1))
    add("bmp of 5 greys in runs",
        bmp(4, None, compression=2, palette=grey[:20], colours=5, data=runs(few, True)))
    add("bmp of black and white in runs",
        bmp(8,
            None,
            compression=1,
            palette=bytes(4) + b"\xff\xff\xff\0",
            colours=2,
            data=runs(few, False)))  # fmt: skip
    add("bmp of 4 bits in runs of 8",
        bmp(4, None, compression=1, palette=palette[:64], data=runs(few, False)))
    for code, bits in ((1, 8), (2, 4)):
        for seed in range(6):
            add(f"bmp of {bits} bits in wild runs {seed}",
                bmp(bits,
                    None,
                    compression=code,
                    palette=palette[:4 << bits],
                    offset=54 + (4 << bits) + seed % 2,
                    data=wild_runs(seed, code == 2)))  # fmt: skip
    add("bmp of 8 bits, no offset", bmp(8, pack_bits(few, 8), palette=palette, offset=0))
    used = bytearray(bmp(8, pack_bits(few, 8), palette=palette))
    used[6:10] = b"CI\1\2"
    add("bmp with reserved bytes", bytes(used))
    for bits, code in ((8, 1), (4, 2)):
        indices = pixels[:, :, 0] >> (8 - bits)
        add(f"bmp of {bits} bits in runs",
            bmp(bits,
                None,
                compression=code,
                palette=palette[:4 << bits],
                data=runs(indices, bits == 4)))  # fmt: skip
    bgr = pixels[:, :, ::-1]
    add("bmp of 24 bits", bmp(24, [row.tobytes() for row in bgr]))
    add("bmp of 24 bits, top down, no offset",
        bmp(24, [row.tobytes() for row in bgr], top_down=True, offset=0))
    add("bmp of 24 bits, OS/2", bmp(24, [row.tobytes() for row in bgr], header=12))
    words = pixels.astype(int)
    five = (words[:, :, 0] >> 3 << 10) | (words[:, :, 1] >> 3 << 5) | words[:, :, 2] >> 3
    six = (words[:, :, 0] >> 3 << 11) | (words[:, :, 1] >> 2 << 5) | words[:, :, 2] >> 3
    fives = [row.astype("<u2").tobytes() for row in five]
    sixes = [row.astype("<u2").tobytes() for row in six]
    add("bmp of 16 bits", bmp(16, fives))
    add("bmp of 555", bmp(16, fives, compression=3, masks=struct.pack("<III", 0x7C00, 0x3E0, 0x1F)))
    add("bmp of 565", bmp(16, sixes, compression=3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F)))
    four = synthetic(channels=4)
    rows = [row.tobytes() for row in four]
    add("bmp of 32 bits", bmp(32, rows))
    for i, masks in enumerate(
        ((0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0),
         (0xFF000000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
         (0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
         (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0))):  # fmt: skip
        for header in (56, 124) if masks[3] else (40, 52, 108):
            packed = struct.pack("<IIII", *masks)[: 12 if header == 40 else 16]
            add(f"bmp of masks {i}, header {header}",
                bmp(32, rows, compression=3, header=header, masks=packed))
    masks = struct.pack("<III", 0xFF000000, 0xFF0000, 0xFF00)
    add("bmp of masks, no offset", bmp(32, rows, compression=3, masks=masks, offset=0))
    add("bmp of three masks, header 52", bmp(32, rows, compression=3, header=52, masks=masks))
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        save(f"bmp by Pillow, {mode}", Image.fromarray(pixels).convert(mode), "BMP")


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def riff(*chunks):
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def u24(value):
    return struct.pack("<I", value)[:3]


def pixels_of(image, **options):
    """The chunks ALPH, VP8 or VP8L of a still image."""
    out = io.BytesIO()
    image.save(out, "WEBP", **options)
    data, at, chunks = out.getvalue(), 12, b""
    while at < len(data):
        size = 8 + (struct.unpack("<I", data[at + 4 : at + 8])[0] + 1) // 2 * 2
        if data[at : at + 4] in (b"ALPH", b"VP8 ", b"VP8L"):
            chunks += data[at : at + size]
        at += size
    return chunks


def animation(left, top, image, flags=0, orientation=b"", other=0, **options):
    """other: how much wider the frame is in its header than in its image."""
    width, height = image.width + left + 3, image.height + top + 2
    second = Image.new("RGBA", (4, 4), (255, 0, 0, 100))
    frames = b""
    for x, y, part in ((left, top, image), (0, 0, second)):
        where = u24(x // 2) + u24(
            y // 2) + u24(part.width + other - 1) + u24(part.height - 1) + u24(100) + bytes([flags])
        frames += chunk(b"ANMF", where + pixels_of(part, **options))
    head = bytes([0x12 | (8 if orientation else 0), 0, 0, 0]) + u24(width - 1) + u24(height - 1)
    exif = chunk(b"EXIF", orientation) if orientation else b""
    return riff(chunk(b"VP8X", head), chunk(b"ANIM", struct.pack("<IH", 0xFF00FF80, 0)), frames,
                exif)


def make_webp():
    rgb = Image.fromarray(synthetic())
    rgba = Image.fromarray(synthetic(channels=4))
    few = Image.fromarray(synthetic() // 86 * 85)
    exif = Image.Exif()
    exif[0x0112] = 6
    for quality in (5, 60, 100):
        for method in (0, 4, 6):
            save(f"webp of quality {quality}, method {method}",
                 rgb,
                 "WEBP",
                 quality=quality,
                 method=method)
    for name, image in (("RGB", rgb), ("RGBA", rgba), ("of few colours", few), ("of one colour",
                                                                                rgb.resize(
                                                                                    (1, 1)))):
        save(f"webp, lossless, {name}", image, "WEBP", lossless=True, exact=True)
        save(f"webp, lossy, {name}", image, "WEBP")
        save(f"webp, {name}, orientation", image, "WEBP", exif=exif)
    save("webp, lossy alpha", rgba, "WEBP", alpha_quality=20, quality=40)
    add("webp, a frame wider than its image", animation(6, 4, rgb, other=2))
    add("webp, a frame narrower than its image", animation(6, 4, rgb, other=-2))
    twice = b"Exif\0\0" + exif.tobytes()
    add("webp, EXIF's prefix twice", animation(0, 0, rgb, orientation=twice))
    save("webp, two frames", rgb, "WEBP", save_all=True, append_images=[few])
    for lossless in (False, True):
        for left, top in ((0, 0), (6, 4)):
            for flags in (0, 2):
                for image in (rgb, rgba):
                    add(f"webp at {left}, {top}, {flags}, {image.mode}, {lossless}",
                        animation(left,
                                  top,
                                  image,
                                  flags,
                                  exif.tobytes() if left else b"",
                                  lossless=lossless))  # fmt: skip


def tiff(order, tags, pieces, place=8):
    """tags: (number, type, values). Pieces are strips or tiles; offsets and lengths are added."""
    sizes = {1: "B", 3: "H", 4: "I"}
    data, offsets = b"", []
    for piece in pieces:
        offsets.append(place + len(data))
        data += piece + bytes(len(piece) % 2)
    tiled = any(number == 322 for number, _, _ in tags)
    tags = tags + [(324 if tiled else 273, 4, offsets),
                   (325 if tiled else 279, 4, [len(piece) for piece in pieces])]
    directory, beside = b"", b""
    at = place + len(data) + 2 + 12 * len(tags) + 4
    for number, kind, values in sorted(tags):
        packed = struct.pack(order + sizes[kind] * len(values), *values)
        if len(packed) > 4:
            value = struct.pack(order + "I", at + len(beside))
            beside += packed + bytes(len(packed) % 2)
        else:
            value = packed.ljust(4, b"\0")
        directory += struct.pack(order + "HHI", number, kind, len(values)) + value
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", place + len(data))
    return head + data + struct.pack(order + "H", len(tags)) + directory + bytes(4) + beside


def packed_rows(array, bits):
    if bits >= 8:
        return array.tobytes()
    return b"".join(pack_bits_row(row, bits) for row in array)


def pack_bits_row(row, bits):
    return numpy.packbits(
        numpy.unpackbits(row.astype("u1").reshape(-1, 1), axis=1)[:,
                                                                  8 - bits:].reshape(-1)).tobytes()


def differences(array):
    out = array.copy()
    out[:, 1:] -= array[:, :-1]
    return out


def float_differences(array, order):
    """Predictor 3, of one sample a pixel."""
    planes = array.astype(">f4").view("u1").reshape(array.shape[0], -1,
                                                    4).transpose(0, 2,
                                                                 1).reshape(array.shape[0], -1)
    out = planes.copy()
    out[:, 1:] -= planes[:, :-1]
    return out


def run_lengths(data):
    """PackBits: runs, literals and an empty head."""
    out, at = b"\x80", 0
    while at < len(data):
        n = 1
        while n < 128 and at + n < len(data) and data[at + n] == data[at]:
            n += 1
        if n > 2:
            out += bytes((257 - n, data[at]))
        else:
            n = min(5, len(data) - at)
            out += bytes((n - 1,)) + data[at : at + n]
        at += n
    return out


def base_tags(array,
              bits,
              photometric,
              compression=1,
              extra=(),
              form=1,
              predictor=1,
              planar=1,
              fill=1,
              orientation=0):
    n = array.shape[2] if array.ndim == 3 else 1
    tags = [(256, 3, [array.shape[1]]), (257, 4, [array.shape[0]]), (258, 3, [bits] * n),
            (259, 3, [compression]), (262, 3, [photometric]), (277, 3, [n]),
            (339, 3, [form] * n)]  # fmt: skip
    if extra:
        tags.append((338, 3, list(extra)))
    for number, value in ((317, predictor), (284, planar), (266, fill), (274, orientation)):
        if value > 1:
            tags.append((number, 3, [value]))
    return tags


def reverse(data):
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)


def make_tiff():
    rgb = synthetic()
    six = synthetic(channels=6)
    pack = {1: bytes, 8: zlib.compress, 32946: zlib.compress, 32773: run_lengths}
    for order, ends in (("<", "II"), (">", "MM")):
        for bits in (1, 2, 4, 8):
            grey = rgb[:, :, 0] >> (8 - bits)
            data = packed_rows(grey, bits)
            for photometric in (0, 1):
                name = f"tiff {ends}, grey {photometric} of {bits} bits"
                add(name, tiff(order, base_tags(grey, bits, photometric), [data]))
                if bits < 8 or photometric:  # Pillow cannot read the other one
                    tags = base_tags(grey, bits, photometric, fill=2)
                    add(f"{name}, reversed", tiff(order, tags, [reverse(data)]))
            palette = [(i * 7919) % 65536 for i in range(3 << bits)]
            tags = base_tags(grey, bits, 3) + [(320, 3, palette)]
            add(f"tiff {ends}, palette of {bits} bits", tiff(order, tags, [data]))
        for bits, kind, form in ((16, "u2", 1), (16, "i2", 2), (32, "i4", 2), (32, "f4", 3),
                                 (32, "u4", 1)):
            if ends == "MM" and kind == "u4":
                continue
            wide = (rgb[:, :, 0].astype(float) * 1.7 -
                    60).astype(order + ("i8" if kind[0] == "u" else kind))
            wide = wide.clip(0).astype(order + kind) if kind[0] == "u" else wide
            tags = base_tags(wide, bits, 1, form=form)
            add(f"tiff {ends}, grey of {kind}", tiff(order, tags, [wide.tobytes()]))
        sixteen = (rgb.astype(order + "u2") * 257 + 77).astype(order + "u2")
        add(f"tiff {ends}, colours of 16 bits",
            tiff(order, base_tags(sixteen, 16, 2), [sixteen.tobytes()]))
        for code in pack:
            if code not in (1, 32773):
                moved = differences(sixteen)
                tags = base_tags(sixteen, 16, 2, code, predictor=2)
                add(f"tiff {ends}, colours of 16 bits, {code}, differences",
                    tiff(order, tags, [pack[code](moved.tobytes())]))
            for rows in (5, HEIGHT):
                strips = [pack[code](rgb[y : y + rows].tobytes()) for y in range(0, HEIGHT, rows)]
                add(f"tiff {ends}, {code}, strips of {rows}",
                    tiff(order,
                         base_tags(rgb, 8, 2, code) + [(278, 3, [rows])], strips))  # fmt: skip
            planes = [
                pack[code](rgb[y:y + 6, :, c].tobytes()) for c in range(3)
                for y in range(0, HEIGHT, 6)
            ]
            add(f"tiff {ends}, {code}, planes",
                tiff(order,
                     base_tags(rgb, 8, 2, code, planar=2) + [(278, 3, [6])], planes))
            wide = numpy.zeros((32, 32, 3), "u1")
            wide[:HEIGHT, :WIDTH] = rgb
            tiles = [pack[code](wide[y:y + 16, x:x + 16].tobytes()) for y in (0, ) for x in (0, 16)]
            add(f"tiff {ends}, {code}, tiles",
                tiff(order,
                     base_tags(rgb, 8, 2, code) + [(322, 3, [16]), (323, 3, [16])], tiles))
    real = rgb[:, :, 0].astype("<f4") * 1.5 - 20
    for order in "<":
        tags = base_tags(real, 32, 1, 8, form=3, predictor=3)
        add(f"tiff {order}, floats, differences",
            tiff(order, tags,
                 [zlib.compress(float_differences(real, order).tobytes())]))  # fmt: skip
    for extra in ((), (0,), (1,), (2,), (0, 0), (1, 0), (2, 0), (2, 0, 0), (999,)):
        part = six[:, :, : 3 + max(1, len(extra))]
        add(f"tiff, colours and {extra}",
            tiff("<", base_tags(part, 8, 2, extra=extra), [part.tobytes()]))
    for extra in ((), (0,), (0, 0)):
        part = six[:, :, : 4 + len(extra)]
        add(f"tiff, CMYK and {extra}",
            tiff(">", base_tags(part, 8, 5, extra=extra), [part.tobytes()]))
    four = (six[:, :, :4].astype("<u2") * 256 + 9).astype("<u2")
    for extra in ((), (0,), (1,), (2,)):
        add(f"tiff, 16 bits and {extra}",
            tiff("<", base_tags(four, 16, 2, extra=extra), [four.tobytes()]))
    add("tiff, CMYK of 16 bits", tiff("<", base_tags(four, 16, 5), [four.tobytes()]))
    for extra in (0, 2):
        two = six[:, :, :2]
        add(f"tiff, grey and {extra}",
            tiff("<", base_tags(two, 8, 1, extra=(extra, )), [two.tobytes()]))
        tags = base_tags(two, 8, 3, extra=(extra,)) + [(320, 3, [i * 83 for i in range(768)])]
        add(f"tiff, palette and {extra}", tiff("<", tags, [two.tobytes()]))
    for orientation in range(2, 9):
        tags = base_tags(rgb, 8, 2, 8, orientation=orientation) + [(278, 3, [4])]
        strips = [zlib.compress(rgb[y : y + 4].tobytes()) for y in range(0, HEIGHT, 4)]
        add(f"tiff, orientation {orientation}", tiff("<", tags, strips))
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "LA", "I;16", "F", "I"):
        image = Image.fromarray(synthetic(channels=4)).convert("RGBA" if mode in ("RGBA",
                                                                                  "LA") else "RGB")
        image = image.convert("L").convert(mode) if mode in ("I;16", "F",
                                                             "I") else image.convert(mode)
        for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
            save(f"tiff by Pillow, {mode}, {compression}", image, "TIFF", compression=compression)
    large = Image.fromarray(synthetic(61, 45))
    for mode in ("L", "RGB", "CMYK"):
        for quality in (30, 90):
            image = large.convert(mode)
            save(f"tiff by Pillow, {mode}, jpeg {quality}",
                 image,
                 "TIFF",
                 compression="jpeg",
                 quality=quality)
            save(f"tiff by Pillow, {mode}, jpeg {quality}, strips",
                 image,
                 "TIFF",
                 compression="jpeg",
                 quality=quality,
                 tiffinfo={278: 16})  # fmt: skip
    noise = numpy.random.default_rng(1).integers(0, 256, (60, 60, 3)).astype(
        "u1")  # all widths of LZW codes, and a new table
    save("tiff by Pillow, noise", Image.fromarray(noise), "TIFF", compression="tiff_lzw")
    save("tiff by Pillow, differences",
         Image.fromarray(rgb),
         "TIFF",
         compression="tiff_lzw",
         tiffinfo={317: 2})


def blocks_of_colours(rgb, across, down):
    """YCbCr with the colours of a block's first pixel: the Y of a block, then its Cb and Cr."""
    ycc = numpy.asarray(Image.fromarray(rgb).convert("YCbCr"))
    ycc = numpy.pad(ycc, ((0, -rgb.shape[0] % down), (0, -rgb.shape[1] % across), (0, 0)), "edge")
    out = b""
    for y in range(0, ycc.shape[0], down):
        for x in range(0, ycc.shape[1], across):
            out += ycc[y : y + down, x : x + across, 0].tobytes() + ycc[y, x, 1:].tobytes()
    return out


def make_tiff_of_libtiff():
    """Files that only libtiff reads, and files that it reads in another way than others do."""
    rgb = synthetic()
    small, large = Image.fromarray(rgb), Image.fromarray(synthetic(61, 45))
    for code in ("tiff_ccitt", "group3", "group4"):
        for name, tags in (("", {}), (", strips", {278: 7}), (", reversed", {266: 2}),
                           (", white is 0", {262: 0})):
            save(f"tiff by Pillow, {code}{name}",
                 large.convert("1"),
                 "TIFF",
                 compression=code,
                 tiffinfo=tags)
    save("tiff by Pillow, group3 in two dimensions",
         large.convert("1"),
         "TIFF",
         compression="group3",
         tiffinfo={292: 1})
    for mode in ("L", "P", "RGB", "I;16"):
        image = small.convert("L").convert(mode) if mode == "I;16" else small.convert(mode)
        for code in ("raw", "tiff_adobe_deflate"):
            save(f"tiff by Pillow, {mode}, {code}, large",
                 image,
                 "TIFF",
                 compression=code,
                 big_tiff=True)
        for code in ("lzma", "zstd"):
            save(f"tiff by Pillow, {mode}, {code}", image, "TIFF", compression=code)
            save(f"tiff by Pillow, {mode}, {code}, differences",
                 image,
                 "TIFF",
                 compression=code,
                 tiffinfo={317: 2, 278: 5})
    for code in ("raw", "tiff_lzw", "zstd", "jpeg"):
        save(f"tiff by Pillow, YCbCr, {code}",
             small.convert("YCbCr"),
             "TIFF",
             compression=code,
             tiffinfo={278: 8})
    for across, down in ((2, 1), (2, 2), (4, 2)):
        tags = base_tags(rgb, 8, 6, 8) + [(530, 3, [across, down]), (278, 3, [4])]
        strips = [
            zlib.compress(blocks_of_colours(rgb[y:y + 4], across, down))
            for y in range(0, HEIGHT, 4)
        ]
        add(f"tiff, YCbCr of {across} x {down}", tiff("<", tags, strips))
    for sampling in (0, 1, 2):
        out = io.BytesIO()
        large.save(out, "JPEG", subsampling=sampling)
        tags = base_tags(numpy.asarray(large), 8, 6, 6)
        tags += [(278, 3, [45]), (513, 4, [8]), (514, 4, [len(out.getvalue())]),
                 (530, 3, [[1, 1], [2, 1], [2, 2]][sampling])]
        add(f"tiff, old JPEG, {sampling}", tiff("<" if sampling else ">", tags, [out.getvalue()]))
    planes = []
    for band in large.split():
        out = io.BytesIO()
        band.save(out, "JPEG")
        planes.append(out.getvalue())
    add("tiff, planes of JPEG", tiff("<", base_tags(numpy.asarray(large), 8, 2, 7, planar=2),
                                     planes))
    sixteen = (rgb.astype("<u2") * 257 + 77).astype("<u2")
    planes = [zlib.compress(differences(sixteen[:, :, c]).tobytes()) for c in range(3)]
    add("tiff, planes of 16 bits",
        tiff("<", base_tags(sixteen, 16, 2, 8, planar=2, predictor=2), planes))
    add("tiff, deflate, reversed",
        tiff("<", base_tags(rgb, 8, 2, 8, fill=2), [reverse(zlib.compress(rgb.tobytes()))]))
    wide = numpy.zeros((HEIGHT, WIDTH + 1), ">u2")
    wide[:, :WIDTH] = rgb[:, :, 0].astype(int) * 2
    bits = numpy.unpackbits(wide.view("u1").reshape(HEIGHT, WIDTH + 1, 2),
                            axis=2)[:, :WIDTH, 4:].reshape(HEIGHT, -1)
    add("tiff, grey of 12 bits",
        tiff("<", base_tags(rgb[:, :, 0], 12, 1), [numpy.packbits(bits, axis=1).tobytes()]))
    four = synthetic(channels=4)
    planes = [zlib.compress(four[:, :, c].tobytes()) for c in range(4)]
    add("tiff, four planes", tiff("<", base_tags(four, 8, 2, 8, planar=2), planes))


def main():
    if PIL.__version__ != "13.0.0":
        print(f"warning: this is Pillow {PIL.__version__}")
    make_ppm()
    make_bmp()
    make_webp()
    make_tiff()
    make_tiff_of_libtiff()
    with open(os.path.join(HERE, "formats.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry) for entry in ENTRIES) + "\n]\n")
    print(len(ENTRIES), "files,", os.path.getsize(os.path.join(HERE, "formats.json")), "bytes")


main()
