# SPDX-License-Identifier: Apache-2.0
"""Rotations, affine maps and perspectives of tensors, with fused multiply-add in the products that
place the pixels and the corners of boxes.

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
    a = (theta.transpose(1, 2) / torch.tensor([0.5 * w, 0.5 * h]))[0]
    x, y = torch.meshgrid(torch.arange(ow) - (ow - 1) / 2, torch.arange(oh) - (oh - 1) / 2,
                          indexing="xy")
    return multiply(torch.stack([x, y, torch.ones_like(x)], -1), a)[None]


def make_perspective_grid(coeffs, ow, oh, dtype, device):
    a = torch.tensor(coeffs + [1.0]).reshape(3, 3)
    half = torch.tensor([0.5 * ow, 0.5 * oh])
    x, y = torch.meshgrid(torch.arange(ow) + 0.5, torch.arange(oh) + 0.5, indexing="xy")
    places = torch.stack([x, y, torch.ones_like(x)], -1)
    return (multiply(places, a[:2].T / half) / multiply(places, a[2:].T) - 1.0)[None]


def multiply(places, a):
    """The matrix product of [..., 3], whose last column is 1, and [3, n]."""
    places, a = places.double(), a.double()
    first = (places[..., :1] * a[0]).float().double()
    return fused_sum(places[..., 1:2] * a[1], first) + a[2].float()


def fused_sum(a, b):
    """The sum of doubles, rounded once to f32: an inexact one is made odd before."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    is_even = total.view(torch.int64) % 2 == 0
    odd = torch.nextafter(total, rest.sign() * torch.inf)
    return torch.where((rest != 0) & is_even, odd, total).float()


def fused_grids():
    """A context in which torchvision uses these products."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(v1, "_gen_affine_grid", make_grid))
    if hasattr(v2, "_affine_grid"):
        stack.enter_context(mock.patch.object(v2, "_affine_grid", make_grid))
        stack.enter_context(mock.patch.object(v2, "_perspective_grid", make_perspective_grid))
        stack.enter_context(mock.patch.object(torch, "matmul", multiply))
    return stack
