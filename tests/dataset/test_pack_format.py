#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_pack_format.py MILLRACE MAKE_FOLDER: docs/pack-format.md is enough to read a pack.

A reader that knows nothing but that page: index, checksums, row tables, tiles. What it reads is compared with the files
that were packed and with the pixels that millrace exports. The reader must not be mended by looking at the C code: where
the two differ, one of page and code is wrong.
"""
import ast
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

CLASSES, IMAGES = 1, 13  # of make_folder: colour in 4:2:0, the 7th grey, the 11th progressive, the last a PNG
MASK = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
ENCODINGS = {1: "jpeg", 2: "raw", 3: "dct", 4: "dct8"}
ZIGZAG = sorted(range(64), key=lambda k: (k // 8 + k % 8, k // 8 if (k // 8 + k % 8) % 2 else k % 8))


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


def read_index(folder):
    with open(os.path.join(folder, "index"), "rb") as file:
        data = file.read()
    magic, version, header_bytes, file_bytes, checksum, n = struct.unpack_from("<8sIIQQQ", data, 0)
    assert (magic, version, header_bytes, file_bytes) == (b"mrpIndx1", 1, 256, len(data))
    assert xxh3(data[:24] + bytes(8) + data[32:]) == checksum, "the index's checksum"
    dtype, ndim = struct.unpack_from("<II", data, 40)
    assert (dtype, ndim, struct.unpack_from("<Q", data, 104)[0]) == (10, 0, 8)
    places = struct.unpack_from("<18Q", data, 112)
    assert all(place % 8 == 0 for place in places[::2])
    samples, rows, templates, labels, names, classes, class_names, shards, origin = (
        data[off : off + length] for off, length in zip(places[::2], places[1::2]))
    assert len(samples) == 80 * n and len(labels) == 8 * n and origin.endswith(b"\0")
    for i, (size,) in enumerate(struct.iter_unpack("<Q", shards)):
        assert os.path.getsize(os.path.join(folder, f"shard-{i:05}")) == size
    assert [text_at(class_names, at) for (at,) in struct.iter_unpack("<Q", classes)] == ["class_0"]
    keys = ("offset len beside_len checksum rows name head_hash shard template width height n_rows encoding flags "
            "orientation").split()
    found = []
    for i, fields in enumerate(struct.iter_unpack("<7Q5IHBB", samples)):
        sample = dict(zip(keys, fields))
        sample["name"] = text_at(names, sample["name"])
        sample["encoding"] = ENCODINGS[sample["encoding"]]
        sample["label"] = struct.unpack_from("<q", labels, 8 * i)[0]
        if sample["encoding"].startswith("dct"):
            sample["rows"] = struct.unpack_from(f"<{sample['n_rows'] + 1}I", rows, 4 * sample["rows"])
            sample["template"] = templates[528 * sample["template"] : 528 * sample["template"] + 528]
        with open(os.path.join(folder, f"shard-{sample['shard']:05}"), "rb") as shard:
            shard.seek(sample["offset"])
            whole = shard.read(sample["len"] + sample["beside_len"])
        assert xxh3(whole) == sample["checksum"], "a sample's checksum"
        sample["bytes"] = whole[: sample["len"]]
        sample["beside"] = whole[sample["len"] :]
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


COSINES = [[(math.sqrt(0.5) if u == 0 else 1) / 2 * math.cos((2 * x + 1) * u * math.pi / 16) for u in range(8)]
           for x in range(8)]


def inverse_dct(block):
    columns = [[sum(COSINES[y][v] * block[8 * v + u] for v in range(8)) for u in range(8)] for y in range(8)]
    return [[sum(COSINES[x][u] * columns[y][u] for u in range(8)) + 128 for x in range(8)] for y in range(8)]


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
    run(millrace, "export", "--data", f"list:{folder}/one.list", "--transform", "none", "--batch-size", "1", "--out", place)
    return read_npy(place)


def compare_brightness(sample, shape, pixels):
    """The first component is grey, or the brightness that red, green and blue make; where none of them was cut off."""
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
                brightness = rgb[0] if n_components == 1 else 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
                worst = max(worst, abs(brightness - value))
                n_compared += 1
    assert n_compared > 1000 and worst < 1.6, f"{sample['name']}: {n_compared} pixels, off by up to {worst}"


def test(millrace, folder, out, encoding, references):
    run(millrace, "pack", folder, out, "--encoding", encoding, "--shard-size", "1M",
        *(["--restorable"] if encoding == "dct" else []))
    samples = read_index(out)
    assert len(samples) == IMAGES
    for i, sample in enumerate(samples):
        name = f"class_0/{i:04}.{'png' if i == 12 else 'jpg'}"
        assert sample["name"] == name and sample["label"] == 0 and sample["orientation"] == 1
        with open(os.path.join(folder, name), "rb") as file:
            original = file.read()
        kept = (i == 12 and encoding != "raw") or (i == 10 and encoding == "dct")  # several scans are not restorable
        wanted = "jpeg" if kept else encoding
        assert sample["encoding"] == wanted, (name, sample["encoding"])
        if wanted == "jpeg":
            assert sample["bytes"] == original
        elif wanted == "raw":
            shape, pixels = references[i]
            assert shape[2:] == (sample["height"], sample["width"]) and sample["len"] == 3 * shape[2] * shape[3]
            n = shape[2] * shape[3]
            assert all(sample["bytes"][c::3] == pixels[c * n : (c + 1) * n] for c in range(3))
        else:
            compare_brightness(sample, *references[i])
        if sample["beside_len"]:
            version, flags, zero, n = struct.unpack_from("<BBHI", sample["beside"], 0)
            assert (version, flags & ~1, zero) == (1, 0, 0) and sample["beside"][8 : 8 + n] == original[:n]
            assert original.endswith(sample["beside"][8 + n :])
    assert encoding != "dct" or sum(sample["beside_len"] > 0 for sample in samples) >= 10


def main():
    millrace, make_folder = sys.argv[1:]
    base = tempfile.mkdtemp(prefix="millrace-pack-format-")
    try:
        folder = os.path.join(base, "images")
        run(make_folder, folder, str(CLASSES), str(IMAGES))
        references = {i: export(millrace, folder, f"class_0/{i:04}.{'png' if i == 12 else 'jpg'}", f"{base}/one.npy")
                      for i in range(IMAGES)}
        for encoding in ENCODINGS.values():
            test(millrace, folder, os.path.join(base, encoding), encoding, references)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
