# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/peers/run, their commands, and the pairs whose ratios are the result.

What a row reads: "photos" are the photographs' files; "beton" is FFCV's file of re-encoded ones;
"jpeg" are the JPEG files in that file, one by one; "pack" is a millrace pack of the photos'
coefficients; "index_pack" has the photos' files with their index; "raw_beton" and "raw_pack" hold
the photos' pixels, the longest side 256; "tar" are shards of the photos, written by webdataset;
"single_tar" is one tar file of them.
"""

import os

import peer_contracts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build", "peers")
LIBRARY = os.path.join(BUILD, "millrace", "libmillrace.so")  # for the rows of the Python package

MEAN_LIMIT = 0.25  # of 255; Pillow-like antialiased bilinear filters stay below it
MAX_LIMIT = 4
OUR_BUILDS = ("millrace", "before")  # under build/peers: of this tree, and of an older commit


class Peer:
    """One row. contracts: none for rows that only decode; cannot: {contract: why not}."""
    def __init__(self,
                 name,
                 title,
                 environment,
                 command,
                 contracts=tuple(peer_contracts.NAMES),
                 reads="photos",
                 cannot=None):
        self.name = name
        self.title = title
        self.environment = environment
        self.cannot = cannot or {}
        self.contracts = [contract for contract in contracts if contract not in self.cannot]
        self.reads = reads
        self.words = command

    def command(self, data, *more):
        """data: paths of what is read, by kind."""
        if self.environment in OUR_BUILDS:
            program = [
                os.path.join(BUILD, self.environment, "bench", "millrace-bench-" + self.words[0])
            ]
        else:
            program = [
                os.path.join(BUILD, self.environment, "bin", "python"), "-B",
                os.path.join(HERE, self.words[0])
            ]
        place = data[self.reads]
        if self.reads.endswith("pack"):
            place = "pack:" + place
        elif self.reads == "tar" and self.environment in OUR_BUILDS:
            place = "tar:" + os.path.join(place, "*.tar")
        return program + list(self.words[1:]) + ["--data", place] + [str(word) for word in more]

    def missing(self, have):
        """Why it cannot run here, or None. have: the kinds of data that exist."""
        note = os.path.join(BUILD, self.environment + ".missing")
        if os.path.exists(note):
            with open(note, encoding="utf-8") as file:
                return file.read().strip()
        whole = self.command({self.reads: ""})[0]
        if self.environment not in OUR_BUILDS:
            whole = os.path.join(BUILD, self.environment, "setup-stamp")
        if self.words[0] == "peer_millrace.py" and not os.path.exists(LIBRARY):
            return "bench/peers/setup --only millrace has not been run"
        if not os.path.exists(whole):
            words = ("--before COMMIT" if self.environment == "before"
                     else "--only " + self.environment)
            return "bench/peers/setup %s has not been run" % words
        if self.reads not in have:
            return "its file could not be made: " + self.reads
        return None


U8_ONLY = dict.fromkeys(["A2", "A3", "A4", "A5"], "it gives u8 only")
NO_DRAWN_OPERATIONS = {
    "A3": "it has no TrivialAugment", "A4": "it has no TrivialAugment", "A5": "it has no blur"
}
F32_CROPS_ONLY = dict.fromkeys(["A3", "A4", "A5"], "its crop takes no further operations")
F32_CROPS_ONLY["A1"] = "it gives f32 only"

PEERS = [
    Peer("ours", "millrace", "millrace", ["ours"]),
    Peer("torch_pillow", "PyTorch DataLoader (Pillow)", "torch", ["peer_torch.py", "pillow"]),
    Peer("torchvision_tensors", "torchvision tensors", "torch", ["peer_torch.py", "tensors"]),
    Peer("torchcodec", "TorchCodec", "torchcodec", ["peer_torch.py", "torchcodec"]),
    Peer("dali",
         "DALI CPU",
         "dali", ["peer_dali.py"],
         cannot={"A5": "its colour jitter has one fixed order"}),
    Peer("spdl", "SPDL", "spdl", ["peer_spdl.py"], cannot=U8_ONLY),
    Peer("ffcv",
         "FFCV (its re-encoded file)",
         "ffcv", ["peer_ffcv.py"],
         reads="beton",
         cannot=NO_DRAWN_OPERATIONS),
    Peer("ours_reencoded", "millrace (FFCV's JPEG files)", "millrace", ["ours"], reads="jpeg"),
    Peer("ours_packed", "millrace packed", "millrace", ["ours"], reads="pack"),
    Peer("ours_index", "millrace, index", "millrace", ["ours"], reads="index_pack"),
    Peer("ours_raw", "millrace raw 256", "millrace", ["ours"], reads="raw_pack"),
    Peer("ffcv_raw",
         "FFCV raw 256",
         "ffcv", ["peer_ffcv.py"],
         reads="raw_beton",
         cannot=NO_DRAWN_OPERATIONS),
    Peer("ours_tar", "millrace, tar shards", "millrace", ["ours"], reads="tar"),
    Peer("webdataset",
         "webdataset (Pillow, the same shards)",
         "webdataset", ["peer_webdataset.py"],
         reads="tar"),
    Peer("turboloader",
         "TurboLoader (one tar file)",
         "turboloader", ["peer_turboloader.py"],
         reads="single_tar",
         cannot=F32_CROPS_ONLY),
    Peer("ours_python", "millrace in Python", "torch", ["peer_millrace.py", "loader"]),
    Peer("ours_torch", "millrace.torch.DataLoader", "torch", ["peer_millrace.py", "torch"]),
    Peer("ours_python_packed",
         "millrace in Python, packed",
         "torch", ["peer_millrace.py", "loader"],
         reads="pack"),
    Peer("ours_torch_packed",
         "millrace.torch.DataLoader, packed",
         "torch", ["peer_millrace.py", "torch"],
         reads="pack"),
    Peer("ours_before", "millrace before", "before", ["ours"]),
    Peer("light_full", "full decode alone", "millrace", ["light", "--full"], contracts=()),
    Peer("light_roi", "ROI decode alone", "millrace", ["light"], contracts=()),
]

# The aims, with two workers; for packs on a CPU with AVX-512:
# (ours, against, contract, field, at least | at most, bound). "A3/A2" is the first row's A3 over
# the other's A2.
TARGETS = [
    ("ours", "light_roi", "A1", "img_s", "at least", 1.30),
    ("ours_index", "light_roi", "A1", "img_s", "at least", 1.60),
    ("ours", "light_roi", "A2", "img_s", "at least", 1.25),
    ("ours", "torch_pillow", "A1", "img_s", "at least", 4.0),
    ("ours", "torch_pillow", "A2", "img_s", "at least", 5.0),
    ("ours", "torchvision_tensors", "A1", "img_s", "at least", 2.9),
    ("ours", "dali", "A1", "img_s", "at least", 3.0),
    ("ours", "dali", "A2", "img_s", "at least", 3.0),
    ("ours", "spdl", "A1", "img_s", "at least", 3.4),
    ("ours", "ffcv", "A1", "img_s", "at least", 2.1),
    ("ours_reencoded", "ffcv", "A1", "img_s", "at least", 3.6),
    ("ours", "torch_pillow", "A2", "cpu_s_per_1000", "at most", 0.20),
    ("ours_packed", "light_roi", "A1", "img_s", "at least", 3.0),
    ("ours_packed", "dali", "A1", "img_s", "at least", 6.5),
    ("ours_packed", "torchvision_tensors", "A1", "img_s", "at least", 6.5),
    ("ours_packed", "ffcv", "A1", "img_s", "at least", 4.5),
    ("ours_packed", "torch_pillow", "A2", "img_s", "at least", 11.5),
    ("ours_raw", "ffcv_raw", "A1", "img_s", "at least", 1.3),
    ("ours_tar", "ours", "A1", "img_s", "at least", 0.95),
    ("ours_tar", "webdataset", "A1", "img_s", "at least", 3.0),
    ("ours", "ours", "A3/A2", "img_s", "at least", 0.95),
    ("ours_packed", "ours_packed", "A3/A2", "img_s", "at least", 0.80),
    ("ours", "ours", "A4/A2", "img_s", "at least", 0.93),
    ("ours_packed", "ours_packed", "A4/A2", "img_s", "at least", 0.74),
    ("ours", "torch_pillow", "A3", "img_s", "at least", 3.5),
    ("ours_packed", "torch_pillow", "A3", "img_s", "at least", 13),
    ("ours", "torchvision_tensors", "A3", "img_s", "at least", 2.2),
    ("ours_packed", "torchvision_tensors", "A3", "img_s", "at least", 9),
    ("ours", "dali", "A3", "img_s", "at least", 2.2),
    ("ours_packed", "dali", "A3", "img_s", "at least", 9),
    ("ours", "torch_pillow", "A5", "img_s", "at least", 9),
    ("ours_packed", "torch_pillow", "A5", "img_s", "at least", 26),
    ("ours_python", "ours", "A1", "img_s", "at least", 0.97),
    ("ours_python", "ours", "A2", "img_s", "at least", 0.97),
    ("ours_python_packed", "ours_packed", "A1", "img_s", "at least", 0.97),
    ("ours_python_packed", "ours_packed", "A2", "img_s", "at least", 0.97),
    ("ours_torch", "ours", "A1", "img_s", "at least", 0.95),
    ("ours_torch", "ours", "A2", "img_s", "at least", 0.95),
    ("ours_torch_packed", "ours_packed", "A1", "img_s", "at least", 0.95),
    ("ours_torch_packed", "ours_packed", "A2", "img_s", "at least", 0.95),
    ("ours", "fastest", "A1", "first_s", "at most", 1 / 5),
    ("ours", "leanest", "A1", "pss_mb", "at most", 0.8),
]
TARGET_WORKERS = 2


def contracts_of(peer, contracts):
    """The wanted contracts that a row runs; None for rows that only decode."""
    return [None] if not peer.contracts else [
        contract for contract in contracts if contract in peer.contracts
    ]
