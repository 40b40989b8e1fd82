"""Statistics of one layer for emulated policies: means, residual basis, scales."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import mpfa
from mpfa.eval.policies import Policy


@dataclass(frozen=True)
class LayerStatistics:
    """What a policy freezes of one layer, FP32; None where it needs none."""

    k_mean: torch.Tensor | None = None  # [Hkv, d]
    q_mean: torch.Tensor | None = None  # [Hq, d]
    residual_basis: torch.Tensor | None = None  # [Hkv, r, d], orthonormal rows
    residual_scale: torch.Tensor | None = None  # [Hkv, r]; None for a BF16 residual

    def to(self, device: torch.device) -> LayerStatistics:
        """The same on a device."""
        tensors = (self.k_mean, self.q_mean, self.residual_basis, self.residual_scale)
        return LayerStatistics(*(None if x is None else x.to(device) for x in tensors))


def find_statistics(policy: Policy, q: torch.Tensor, k: torch.Tensor) -> LayerStatistics:
    """Statistics for `policy` from a sample: q [Hq, tokens, d], k [Hkv, tokens, d], FP32.

    A BF16 residual's basis is that of the centred queries, which it meets (spec.md, section 2).
    """
    if not policy.needs_statistics:
        return LayerStatistics()
    q, k = q.cpu(), k.cpu()
    in_bf16 = policy.residual_format == "bf16"
    found = mpfa.calibrate(
        q.transpose(0, 1).contiguous(),
        k.transpose(0, 1).contiguous(),
        residual_rank=0 if in_bf16 else policy.residual_rank,
        q_mean=policy.delta_s,
        scale_rule=policy.k_scale_rule,
    )
    basis = found.residual_basis
    if in_bf16:
        basis = principal_directions(q - found.q_mean[:, None], k.shape[0], policy.residual_rank)
    return LayerStatistics(found.k_mean, found.q_mean, basis, found.residual_scale)


def principal_directions(q: torch.Tensor, kv_heads: int, rank: int) -> torch.Tensor:
    """Top eigenvectors [Hkv, rank, d] of E[x x^T], x each group's rows of q [Hq, tokens, d]."""
    rows = q.double().reshape(kv_heads, -1, q.shape[-1])
    vectors = torch.linalg.eigh(rows.transpose(1, 2) @ rows).eigenvectors  # ascending
    return vectors.flip(-1)[..., :rank].transpose(1, 2).float().contiguous()
