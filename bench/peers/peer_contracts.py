# SPDX-License-Identifier: Apache-2.0
"""The contracts of bench/peers: what a row makes of every image, in batches of 64 in host memory.

All begin with RandomResizedCrop(224) and a flip. A1 is u8, the others are f32 NCHW, normalised.
From A3 on the colours change, so the gate for boxes, which reads places from colours, checks only
A1 and A2.
"""

TITLES = {
    "A1": "A1: u8, 224 × 224, in host memory",
    "A2": "A2: f32 NCHW, normalised, in host memory",
    "A3": "A3: as A2, with TrivialAugmentWide (nearest)",
    "A4": "A4: as A2, with TrivialAugmentWide (bilinear)",
    "A5": "A5: as A2, SimCLR's view",
}
CAPTIONS = {"A1": "u8", "A2": "f32 NCHW, normalised", "A3": "f32, TrivialAugmentWide",
            "A5": "f32, SimCLR view",
            "A4": "f32, TrivialAugmentWide bilinear"}  # of figures
NAMES = list(TITLES)
PLAIN = ["A1", "A2"]
