#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_pack_format.py MILLRACE MAKE_FOLDER: docs/pack-format.md is enough to read a pack.

A reader that knows nothing but that page: index, checksums, row tables, tiles. What it reads is
compared with the files that were packed and with the pixels that millrace exports. The reader must
not be mended by looking at the C code: where the two differ, one of page and code is wrong.
"""
import ast
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

# Of make_folder: colour in 4:2:0, the 7th grey, the 11th progressive, the last a PNG.
CLASSES, IMAGES = 1, 13
MASK = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
       0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
ENCODINGS = {1: "jpeg", 2: "raw", 3: "dct", 5: "marked"}
ZIGZAG = sorted(range(64),
                key=lambda k: (k // 8 + k % 8, k // 8 if (k // 8 + k % 8) % 2 else k % 8))


def xxh3(data):
    """XXH3_64bits() of more than 240 bytes."""
    assert len(data) > 240
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]

    def keys(at):
        return struct.unpack_from("<8Q", SECRET, at)

    def stripe(at, key_at):
        values = struct.unpack_from("<8Q", data, at)
        for i, (value, key) in enumerate(zip(values, keys(key_at))):
            mixed = value ^ key
            acc[i ^ 1] = (acc[i ^ 1] + value) & MASK
            acc[i] = (acc[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32)) & MASK

    n_blocks = (len(data) - 1) // 1024
    for block in range(n_blocks):
        for i in range(16):
            stripe(1024 * block + 64 * i, 8 * i)
        for i, key in enumerate(keys(128)):
            acc[i] = ((acc[i] ^ acc[i] >> 47 ^ key) * P32[0]) & MASK
    for i in range((len(data) - 1 - 1024 * n_blocks) // 64):
        stripe(1024 * n_blocks + 64 * i, 8 * i)
    stripe(len(data) - 64, 121)
    total, key = len(data) * P64[0], keys(11)
    for i in range(0, 8, 2):
        product = (acc[i] ^ key[i]) * (acc[i + 1] ^ key[i + 1])
        total += product & MASK ^ product >> 64
    total &= MASK
    total = ((total ^ total >> 37) * 0x165667919E3779F9) & MASK
    return total ^ total >> 32


def text_at(section, at):
    return section[at : section.index(b"\0", at)].decode()


def check_rows(sample, sums):
    """The low half of XXH3 of each row that is long enough for the function above."""
    for begin, end, wanted in zip(sample["rows"], sample["rows"][1:], sums):
        if end - begin > 240:
            assert xxh3(sample["bytes"][begin:end]) & 0xFFFFFFFF == wanted, "a row's checksum"


def read_index(folder):
    with open(os.path.join(folder, "index"), "rb") as file:
        data = file.read()
    magic, version, n_sections, file_bytes, checksum, n = struct.unpack_from("<8sIIQQQ", data, 0)
    assert (magic, version, n_sections, file_bytes) == (b"mrpIndx1", 3, 13, len(data))
    assert xxh3(data[:24] + bytes(8) + data[32:]) == checksum, "the index's checksum"
    dtype, ndim = struct.unpack_from("<II", data, 40)
    assert (dtype, ndim, struct.unpack_from("<Q", data, 104)[0]) == (10, 0, 8)
    places = struct.unpack_from("<26Q", data, 120)
    assert all(place % 8 == 0 for place in places[::2])
    (samples, rows, templates, labels, names, classes, class_names, shards, origin, marks, sums,
     kinds, members) = (data[off : off + length] for off, length in zip(places[::2], places[1::2]))
    kinds = [(name.rstrip(b"\0").decode(), most)
             for name, most in struct.iter_unpack("<32sQ", kinds)]
    assert len(members) == 16 * n * len(kinds)
    has_marks = len(marks) > 0
    if has_marks:
        with open(os.path.join(folder, "marks"), "rb") as file:
            all_marks = file.read()
        assert len(marks) == 16 * n and len(all_marks) == struct.unpack_from("<Q", data, 112)[0]
    else:
        assert not os.path.exists(os.path.join(folder, "marks"))
    assert len(samples) == 72 * n and len(labels) == 8 * n and origin.endswith(b"\0")
    for i, (size,) in enumerate(struct.iter_unpack("<Q", shards)):
        assert os.path.getsize(os.path.join(folder, f"shard-{i:05}")) == size
    assert [text_at(class_names, at) for (at,) in struct.iter_unpack("<Q", classes)] == ["class_0"]
    keys = ("offset len checksum rows sums name shard template width height n_rows encoding flags "
            "orientation").split()
    found = []
    for i, fields in enumerate(struct.iter_unpack("<6Q5IHBB", samples)):
        sample = dict(zip(keys, fields))
        sample["name"] = text_at(names, sample["name"])
        sample["encoding"] = ENCODINGS[sample["encoding"]]
        sample["label"] = struct.unpack_from("<q", labels, 8 * i)[0]
        if sample["encoding"] == "marked":
            offset, length = struct.unpack_from("<QQ", marks, 16 * i)
            assert offset % 8 == 0 and 0 < length <= 1 << 26 and offset + length <= len(all_marks)
            sample["marks"] = all_marks[offset : offset + length]
        elif has_marks:
            assert struct.unpack_from("<QQ", marks, 16 * i) == (0, 0)
        if sample["encoding"] in ("dct", "marked"):
            sample["rows"] = struct.unpack_from(f"<{sample['n_rows'] + 1}I", rows,
                                                4 * sample["rows"])
            sample["template"] = templates[528 * sample["template"]:528 * sample["template"] + 528]
        with open(os.path.join(folder, f"shard-{sample['shard']:05}"), "rb") as shard:
            shard.seek(sample["offset"])
            sample["bytes"] = shard.read(sample["len"])
            sample["members"] = {}
            for k, (name, most) in enumerate(kinds):
                length, checksum = struct.unpack_from("<QQ", members, 16 * (i * len(kinds) + k))
                content = sample["members"][name] = shard.read(length)
                assert length <= most and (length <= 240 or xxh3(content) == checksum)
        assert xxh3(sample["bytes"]) == sample["checksum"], "a sample's checksum"
        if sample["encoding"] == "dct":
            check_rows(sample, struct.unpack_from(f"<{sample['n_rows']}I", sums,
                                                  4 * sample["sums"]))
        found.append(sample)
    return found


def read_tile(tile, n, encoding):
    """n blocks of 64 coefficients, in zigzag order."""
    at = 0
    escapes_at = None
    if encoding == "dct":
        (escapes_at,) = struct.unpack_from("<H", tile, at)
        at += 2
    (n_patches,) = struct.unpack_from("<H", tile, at)
    headers = struct.unpack_from(f"<{n}H", tile, at + 2)
    at += 2 + 2 * n
    masks = []
    for header in headers:
        m = header >> 11
        assert m <= 8
        masks.append(int.from_bytes(tile[at : at + m], "little"))
        at += m
    patches_at = len(tile) - 4 * n_patches
    n_values = sum(bin(mask).count("1") for mask in masks)
    if encoding == "dct":
        nibbles = [half for byte in tile[at:escapes_at] for half in (byte & 15, byte >> 4)]
        assert len(nibbles) == n_values + n_values % 2 and (n_values % 2 == 0 or nibbles[-1] == 8)
        escapes = iter(struct.unpack(f"<{patches_at - escapes_at}b", tile[escapes_at:patches_at]))
        values = [half - 8 if half else next(escapes) for half in nibbles[:n_values]]
        assert next(escapes, None) is None
    else:
        values = struct.unpack(f"<{n_values}b", tile[at:patches_at])
    values = iter(values)
    blocks = []
    for header, mask in zip(headers, masks):
        block = [(header & 0x7FF) - 1024] + [0] * 63
        for i in range(63):
            if mask >> i & 1:
                block[i + 1] = next(values)
        blocks.append(block)
    for place, value in struct.iter_unpack("<Hh", tile[patches_at:]):
        blocks[place // 64][place % 64] = value
    return blocks


def read_blocks(sample):
    """Blocks by (component, row, column), dequantised, row by row; the number of components."""
    template = sample["template"]
    n_components = template[0]
    h, v = template[2 : 2 + n_components], template[6 : 6 + n_components]
    quant = [struct.unpack_from("<64H", template, 16 + 128 * c) for c in range(n_components)]
    n_columns = -(-sample["width"] // (8 * max(h)))
    assert sample["n_rows"] == -(-sample["height"] // (8 * max(v)))
    assert sample["rows"][0] == 0 and sample["rows"][-1] == sample["len"]
    n_tiles, per_mcu, found = -(-n_columns // 8), sum(a * b for a, b in zip(h, v)), {}
    for row in range(sample["n_rows"]):
        data = sample["bytes"][sample["rows"][row] : sample["rows"][row + 1]]
        sizes = struct.unpack_from(f"<{n_tiles}H", data, 0)
        at = 2 * n_tiles
        assert at + sum(sizes) == len(data)
        for tile, size in enumerate(sizes):
            n_mcus = min(8, n_columns - 8 * tile)
            blocks = iter(read_tile(data[at : at + size], n_mcus * per_mcu, sample["encoding"]))
            at += size
            for column in range(8 * tile, 8 * tile + n_mcus):
                for c in range(n_components):
                    for y in range(v[c]):
                        for x in range(h[c]):
                            natural = [0] * 64
                            for place, value in zip(ZIGZAG, next(blocks)):
                                natural[place] = value * quant[c][place]
                            found[c, row * v[c] + y, column * h[c] + x] = natural
    return found, n_components


COSINES = [[(math.sqrt(0.5) if u == 0 else 1) / 2 * math.cos((2 * x + 1) * u * math.pi / 16)
            for u in range(8)] for x in range(8)]


def inverse_dct(block):
    columns = [[sum(COSINES[y][v] * block[8 * v + u] for v in range(8)) for u in range(8)]
               for y in range(8)]
    return [[sum(COSINES[x][u] * columns[y][u] for u in range(8)) + 128 for x in range(8)]
            for y in range(8)]


def read_marks(marks):
    """Head, offset of the scan, places and predictors."""
    checksum, h, scan_at, m, c = struct.unpack_from("<QIIII", marks, 0)
    assert xxh3(marks[8:]) == checksum and len(marks) == 24 + h + (4 + 2 * c) * m and 1 <= c <= 4
    predictors = struct.unpack_from(f"<{c * m}h", marks, 24 + h + 4 * m)
    return marks[24 : 24 + h], scan_at, struct.unpack_from(f"<{m}I", marks, 24 + h), [
        predictors[c * i : c * i + c] for i in range(m)]


def read_head(head):
    """A JPEG's header: its size, its components, its tables."""
    assert head[:2] == b"\xff\xd8"
    at, found = 2, {"codes": {}, "quant": {}, "restart": 0, "applications": []}
    while at < len(head):
        marker, (length,) = head[at + 1], struct.unpack_from(">H", head, at + 2)
        body = head[at + 4 : at + 2 + length]
        assert head[at] == 0xFF
        at += 2 + length
        if marker == 0xC4:
            while body:
                counts, n = body[1:17], sum(body[1:17])
                symbols, code, table = iter(body[17 : 17 + n]), 0, {}
                for bits, count in enumerate(counts, 1):
                    for _ in range(count):
                        table[bits, code] = next(symbols)
                        code += 1
                    code *= 2
                found["codes"][body[0]] = table
                body = body[17 + n :]
        elif marker == 0xDB:
            while body:
                assert body[0] < 16
                found["quant"][body[0]] = body[1:65]
                body = body[65:]
        elif marker in (0xC0, 0xC1):
            found["size"] = struct.unpack_from(">HH", body, 1)
            found["components"] = [tuple(body[6 + 3 * i : 9 + 3 * i]) for i in range(body[5])]
        elif marker == 0xDD:
            (found["restart"],) = struct.unpack(">H", body)
        elif marker == 0xDA:
            found["tables"] = [divmod(body[2 + 2 * i], 16) for i in range(body[0])]
        else:
            found["applications"].append((marker, length))
    assert all(entry in ((0xE0, 16), (0xEE, 14)) for entry in found["applications"])
    return found


class Scan:
    """Bits of a scan from a place on, without the zeros after 0xff."""

    def __init__(self, data, at, bit):
        self.data, self.at, self.bit = data, at, bit

    def take(self, n):
        value = 0
        for _ in range(n):
            value = value << 1 | self.data[self.at] >> (7 - self.bit) & 1
            self.bit += 1
            if self.bit == 8:
                self.at += 2 if self.data[self.at] == 0xFF else 1
                self.bit = 0
        return value

    def number(self, n):
        value = self.take(n)
        return value if n == 0 or value >> n - 1 else value - (1 << n) + 1

    def symbol(self, table):
        bits = code = 0
        while (bits, code) not in table:
            code, bits = code << 1 | self.take(1), bits + 1
            assert bits <= 16
        return table[bits, code]

    def block(self, dc, ac):
        """64 coefficients in zigzag order; the first one is the difference."""
        found, k = [self.number(self.symbol(dc))] + [0] * 63, 1
        while k < 64:
            symbol = self.symbol(ac)
            if symbol == 0:
                break
            k += symbol >> 4
            found[k] = self.number(symbol & 15) if symbol & 15 else 0
            k += 1
        return found

    def pass_restart(self, number):
        if self.bit:
            self.at += 2 if self.data[self.at] == 0xFF else 1
            self.bit = 0
        assert self.data[self.at : self.at + 2] == bytes((0xFF, 0xD0 + number))
        self.at += 2


def decode_by_marks(sample, first_row, last_row, first_column, last_column):
    """Blocks by (component, row, column), dequantised, of some MCUs, from their marks and the bytes
    of their rows.
    """
    head, scan_at, places, predictors = read_marks(sample["marks"])
    header, template, rows = read_head(head), sample["template"], sample["rows"]
    n_components = len(header["components"])
    h, v = template[2 : 2 + n_components], template[6 : 6 + n_components]
    n_columns, n_rows = -(-sample["width"] // (8 * max(h))), -(-sample["height"] // (8 * max(v)))
    each = -(-n_columns // 16)
    assert header["size"] == (sample["height"], sample["width"]) and n_components == template[0]
    assert n_rows == sample["n_rows"] == len(rows) - 1 and len(places) == n_rows * each
    assert list(rows) == sorted(rows) and rows[-1] <= sample["len"]
    quant = [struct.unpack_from("<64H", template, 16 + 128 * c) for c in range(n_components)]
    for c, (_, factors, table) in enumerate(header["components"]):
        assert n_components == 1 or divmod(factors, 16) == (h[c], v[c])
        assert [quant[c][place] for place in ZIGZAG] == list(header["quant"][table])
    begin = rows[first_row]
    data = sample["bytes"][begin : min(rows[last_row + 1] + 2, sample["len"])]
    found = {}
    for row in range(first_row, last_row + 1):
        start = first_column // 16 * 16
        mark, mcu = row * each + start // 16, row * n_columns + start
        scan = Scan(data, scan_at + places[mark] // 8 - begin, places[mark] % 8)
        before = list(predictors[mark])
        if mark == row * each:
            assert scan_at + places[mark] // 8 == rows[row]
        for column in range(start, last_column + 1):
            if header["restart"] and mcu % header["restart"] == 0 and column > start:
                scan.pass_restart((mcu // header["restart"] - 1) % 8)
                before = [0] * n_components
            if column % 16 == 0:  # where the next mark is
                mark = row * each + column // 16
                assert (scan.at + begin -
                        scan_at) * 8 + scan.bit == places[mark] and before == list(predictors[mark])
            mcu += 1
            for c, (dc, ac) in enumerate(header["tables"]):
                for y in range(v[c]):
                    for x in range(h[c]):
                        block = scan.block(header["codes"][dc], header["codes"][16 + ac])
                        before[c] = block[0] = before[c] + block[0]
                        natural = [0] * 64
                        for place, value in zip(ZIGZAG, block):
                            natural[place] = value * quant[c][place]
                        if column >= first_column:
                            found[c, row * v[c] + y, column * h[c] + x] = natural
        if row == n_rows - 1 and last_column == n_columns - 1:
            assert rows[-1] - 2 <= scan.at + begin <= rows[-1]
    return found


def compare_marks(marked, coefficients):
    """Crops by marks have the coefficients that the encoding dct holds."""
    n_compared = 0
    for i, sample in enumerate(marked):
        if sample["encoding"] != "marked":
            continue
        wanted, _ = read_blocks(coefficients[i])
        h, v = sample["template"][2:6], sample["template"][6:10]
        n_columns, n_rows = -(-sample["width"] // (8 * max(h))), sample["n_rows"]
        boxes = [(0, n_rows - 1, 0, n_columns - 1)] if i < 2 else []
        boxes.append((n_rows // 3, n_rows // 2, n_columns * 2 // 3, n_columns - 1 - i % 2))
        for box in boxes:
            found = decode_by_marks(sample, *box)
            assert found and all(block == wanted[key]
                                 for key, block in found.items()), (sample["name"], box)
            n_compared += len(found)
            assert box[3] - box[2] < n_columns - 1 or len(found) == len(wanted)
    assert n_compared > 1000


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["descr"] == "|u1" and not header["fortran_order"]
    return header["shape"], data[10 + length :]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)} ended with {done.returncode}: {done.stderr}")


def export(millrace, folder, name, place):
    """The pixels of one file, R, G and B plane."""
    with open(os.path.join(folder, "one.list"), "w", encoding="utf-8") as file:
        file.write(f"{name}\t0\n")
    run(millrace, "export", "--data", f"list:{folder}/one.list", "--transform", "none",
        "--batch-size", "1", "--out", place)
    return read_npy(place)


def compare_brightness(sample, shape, pixels):
    """The first component is grey, or the brightness of red, green and blue if none of them was
    clipped.
    """
    height, width = shape[2:]
    assert (width, height) == (sample["width"], sample["height"])
    blocks, n_components = read_blocks(sample)
    worst, n_compared = 0.0, 0
    for (c, row, column), block in blocks.items():
        if c != 0 or (row + column) % 7 != 0:  # a seventh of them: Python is slow
            continue
        for y, line in enumerate(inverse_dct(block)):
            for x, value in enumerate(line):
                at = (8 * row + y) * width + 8 * column + x
                if 8 * row + y >= height or 8 * column + x >= width:
                    continue
                rgb = [pixels[at + plane * width * height] for plane in range(3)]
                if min(rgb) == 0 or max(rgb) == 255:
                    continue
                brightness = rgb[
                    0] if n_components == 1 else 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
                worst = max(worst, abs(brightness - value))
                n_compared += 1
    assert n_compared > 1000 and worst < 1.6, (
        f"{sample['name']}: {n_compared} pixels, off by up to {worst}")


def test(millrace, folder, out, encoding, references, *options):
    run(millrace, "pack", folder, out, "--encoding", encoding, "--shard-size", "1M",
        *options)
    samples = read_index(out)
    assert len(samples) == IMAGES
    for i, sample in enumerate(samples):
        name = f"class_0/{i:04}.{'png' if i == 12 else 'jpg'}"
        assert sample["name"] == name and sample["label"] == 0 and sample["orientation"] == 1
        with open(os.path.join(folder, name), "rb") as file:
            original = file.read()
        kept = i == 12 and encoding != "raw"
        wanted = "jpeg" if kept else encoding
        if encoding == "jpeg" and not options and i not in (10, 12):  # of several scans, no JPEG
            wanted = "marked"
        assert sample["encoding"] == wanted, (name, sample["encoding"])
        if wanted in ("jpeg", "marked"):
            assert sample["bytes"] == original
        elif wanted == "raw":
            shape, pixels = references[i]
            assert shape[2:] == (sample["height"],
                                 sample["width"]) and sample["len"] == 3 * shape[2] * shape[3]
            n = shape[2] * shape[3]
            assert all(sample["bytes"][c::3] == pixels[c * n : (c + 1) * n] for c in range(3))
        else:
            compare_brightness(sample, *references[i])
    return samples


def test_members(millrace, folder, base):
    """Some images have a text, some of them an empty one."""
    texts = {i: os.urandom(397 * (i % 5)) for i in range(0, IMAGES, 2)}
    os.makedirs(os.path.join(base, "texts", "class_0"))
    for i, text in texts.items():
        with open(os.path.join(base, "texts", "class_0", f"{i:04}.txt"), "wb") as file:
            file.write(text)
    extra = f"text:2000:.txt:{base}/texts,other:7:.none:{base}"
    run(millrace, "pack", f"imagefolder:{folder}?extra={extra}", os.path.join(base, "members"))
    for i, sample in enumerate(read_index(os.path.join(base, "members"))):
        assert sample["members"] == {"text": texts.get(i, b""), "other": b""}


def main():
    millrace, make_folder = sys.argv[1:]
    base = tempfile.mkdtemp(prefix="millrace-pack-format-")
    try:
        folder = os.path.join(base, "images")
        run(make_folder, folder, str(CLASSES), str(IMAGES))
        references = {
            i: export(millrace, folder, f"class_0/{i:04}.{'png' if i == 12 else 'jpg'}",
                      f"{base}/one.npy") for i in range(IMAGES)
        }
        samples = {
            encoding: test(millrace, folder, os.path.join(base, encoding), encoding, references)
            for encoding in ("jpeg", "raw", "dct")
        }
        compare_marks(samples["jpeg"], samples["dct"])
        test(millrace, folder, os.path.join(base, "plain"), "jpeg", references, "--no-index")
        test_members(millrace, folder, base)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
