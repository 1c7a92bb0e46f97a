# SPDX-License-Identifier: Apache-2.0
"""Rotations and affine maps of tensors, with fused multiply-add in the product that places the
pixels.

torchvision computes that product with torch's BLAS, which on some processors multiplies and adds in
two steps. Then a byte in some hundred of a shear, fewer of a rotation, differ by 1.
"""
import contextlib
from unittest import mock

import torch

try:
    from torchvision.transforms import _functional_tensor as v1
except ImportError:
    from torchvision.transforms import functional_tensor as v1
try:
    from torchvision.transforms.v2.functional import _geometry as v2
except ImportError:
    v2 = None


def make_grid(theta, w, h, ow, oh):
    """Products of floats are exact in doubles."""
    a = (theta.transpose(1, 2) / torch.tensor([0.5 * w, 0.5 * h]))[0].double()
    x = (torch.arange(ow).double() - (ow - 1) / 2)[None, :, None]
    y = (torch.arange(oh).double() - (oh - 1) / 2)[:, None, None]
    first = (x * a[0]).float().double()
    return ((y * a[1] + first).float() + a[2].float())[None]


def fused_grids():
    """A context in which torchvision uses make_grid()."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(v1, "_gen_affine_grid", make_grid))
    if hasattr(v2, "_affine_grid"):
        stack.enter_context(mock.patch.object(v2, "_affine_grid", make_grid))
    return stack
