"""Rounding to the formats of docs/spec.md, section 1, as values: FP32 in, FP32 out."""

from __future__ import annotations

import torch

import mpfa
from mpfa._scalars import ScaleRule

_E4M3_MAX = 448.0
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_E2M1_VALUES = torch.tensor([*_E2M1, *(-x for x in _E2M1)])
_BLOCK = 16


def bf16(x: torch.Tensor) -> torch.Tensor:
    """The nearest BF16 values, ties to even."""
    return x.to(torch.bfloat16).float()


def e4m3(x: torch.Tensor) -> torch.Tensor:
    """The nearest e4m3 values, ties to even, saturating at 448."""
    return x.clamp(-_E4M3_MAX, _E4M3_MAX).to(torch.float8_e4m3fn).float()


def nvfp4(x: torch.Tensor, rule: ScaleRule) -> torch.Tensor:
    """NVFP4 along the last dimension of x [heads, tokens, d], by the library's quantiser."""
    rows = x.transpose(0, 1).contiguous()
    found = mpfa.quantize_q(rows, scale_rule=rule)
    return _values(found.codes, found.scales).transpose(0, 1)


def nvfp4_two_terms(x: torch.Tensor, rule: ScaleRule) -> torch.Tensor:
    """NVFP4(x) + NVFP4(x - NVFP4(x)), x [heads, tokens, d]."""
    rows = x.transpose(0, 1).contiguous()
    found = mpfa.quantize_q(rows, scale_rule=rule, two_terms=True)
    first = _values(found.codes, found.scales)
    return (first + _values(found.codes2, found.scales2)).transpose(0, 1)


def _values(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    nibbles = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()
    return _E2M1_VALUES.to(codes.device)[nibbles] * scales.float().repeat_interleave(_BLOCK, -1)
