"""Statistics of streams of queries and keys, on any device.

The same definitions as mpfa.calibrate(), which needs all tokens at once and on the CPU
(docs/spec.md, section 2): means, the directions of the queries' second moments, and the residual
scales. Work on R rows at once, a row having statistics of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from mpfa._statistics import Statistics, quantize_q

# The largest residual of the sample becomes this in e4m3: headroom of 448 / 64, as calibrate() has.
_RESIDUAL_TARGET = 64.0
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# Tokens at a time, which bounds the FP32 copies.
_CHUNK = 2048


class Moments:
    """Sums over tokens that means and residual directions are made of, in FP64."""

    def __init__(
        self, rows: int, num_q_heads: int, num_kv_heads: int, head_dim: int, device: torch.device
    ) -> None:
        """Nothing summed up yet."""

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(rows, *shape, dtype=torch.float64, device=device)

        self.k_count = zeros()
        self.q_count = zeros()
        self.k_sum = zeros(num_kv_heads, head_dim)
        self.q_sum = zeros(num_q_heads, head_dim)
        self.qq_sum = zeros(num_kv_heads, head_dim, head_dim)

    def add(self, q: torch.Tensor, k: torch.Tensor, valid: torch.Tensor | None) -> None:
        """Adds tokens: k [R, Hkv, n, d], q [R, Hq, m, d] of the last m of them.

        valid: [R, n] bool: which are tokens; None: all.
        """
        for begin, part in _chunks(k):
            x, count = _valid_part(part, valid, begin)
            self.k_count += count
            self.k_sum += x.sum(2, dtype=torch.float64)
        asked = None if valid is None else valid[:, k.shape[2] - q.shape[2] :]
        for begin, part in _chunks(q):
            x, count = _valid_part(part, asked, begin)
            self.q_count += count
            self.q_sum += x.sum(2, dtype=torch.float64)
            grouped = x.unflatten(1, (k.shape[1], -1)).flatten(2, 3)
            self.qq_sum += grouped.transpose(2, 3) @ grouped

    def is_finite(self) -> bool:
        """Whether every value added was finite (waits for a GPU)."""
        return bool(torch.isfinite(self.qq_sum).all() & torch.isfinite(self.k_sum).all())

    def means(self) -> tuple[torch.Tensor, torch.Tensor]:
        """k_mean [R, Hkv, d] and q_mean [R, Hq, d], FP32; 0 for a row without tokens."""
        k_count, q_count = (x.clamp(min=1)[:, None, None] for x in (self.k_count, self.q_count))
        return (self.k_sum / k_count).float(), (self.q_sum / q_count).float()

    def directions(self, rank: int, *, centred: bool) -> torch.Tensor:
        """The top `rank` eigenvectors of E[q q^T], [R, Hkv, rank, d] FP32.

        centred: of the queries less their mean.
        """
        rows, heads, head_dim = self.k_sum.shape
        group = self.q_sum.shape[1] // heads
        count = self.q_count.clamp(min=1)[:, None, None, None]
        moments = self.qq_sum / (count * group)
        if centred:
            means = self.q_sum.reshape(rows, heads, group, head_dim) / count
            moments = moments - means.transpose(2, 3) @ means / group
        vectors = torch.linalg.eigh(moments).eigenvectors  # columns, eigenvalues increasing
        basis = vectors[..., -rank:].flip(-1).transpose(2, 3)
        largest = basis.gather(3, basis.abs().argmax(3, keepdim=True))
        return (basis * torch.where(largest < 0, -1.0, 1.0)).float()


class KeySample:
    """At most 2 `size` keys of a stream, evenly spread over it: every 2^n-th token."""

    def __init__(self, size: int) -> None:
        """Empty."""
        self._size = size
        self._stride = 1
        self._seen = 0
        self._parts: list[torch.Tensor] = []
        self._kept = 0

    def add(self, k: torch.Tensor) -> None:
        """Takes some of k [n, Hkv, d]."""
        first = -self._seen % self._stride
        part = k[first :: self._stride].clone()
        self._seen += k.shape[0]
        self._parts.append(part)
        self._kept += part.shape[0]
        while self._kept > 2 * self._size:
            # The first kept token is token 0, so that every second of them all stays on the grid.
            self._parts = [torch.cat(self._parts)[::2].clone()]
            self._kept = self._parts[0].shape[0]
            self._stride *= 2

    def keys(self) -> torch.Tensor:
        """[1, Hkv, n, d]."""
        return torch.cat(self._parts).transpose(0, 1)[None]


def residual_scales(
    k: torch.Tensor,
    valid: torch.Tensor | None,
    k_mean: torch.Tensor,
    basis: torch.Tensor,
    scale_rule: str,
) -> torch.Tensor:
    """p_scale [R, Hkv, r] FP32 for keys k [R, Hkv, n, d] with means and directions per row."""
    largest = torch.zeros(basis.shape[:3], dtype=torch.float32, device=k.device)
    for begin, part in _chunks(k):
        error = _key_errors(part, k_mean, scale_rule)
        residual = (error @ basis.transpose(2, 3)).abs()
        if valid is not None:
            keep = valid[:, None, begin : begin + part.shape[2], None]
            residual = residual.masked_fill(~keep, 0)
        largest = torch.maximum(largest, residual.amax(2))
    scales = largest.clamp(max=torch.finfo(torch.float32).max) / _RESIDUAL_TARGET
    return torch.where(scales > 0, scales, 1.0)


def _chunks(x: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """x [R, heads, n, d] in parts of some tokens."""
    for begin in range(0, x.shape[2], _CHUNK):
        yield begin, x[:, :, begin : begin + _CHUNK]


def _valid_part(
    x: torch.Tensor, valid: torch.Tensor | None, begin: int
) -> tuple[torch.Tensor, torch.Tensor | int]:
    """A part of a tensor in FP32 with 0 for padding, and how many tokens of each row it has."""
    if valid is None:
        return x.float(), x.shape[2]
    keep = valid[:, begin : begin + x.shape[2]]
    return x.float().masked_fill(~keep[:, None, :, None], 0), keep.sum(1)


def _key_errors(k: torch.Tensor, k_mean: torch.Tensor, scale_rule: str) -> torch.Tensor:
    """E = Kc - NVFP4(Kc), [R, Hkv, n, d] FP32, in the library's own arithmetic."""
    rows, heads, tokens, head_dim = k.shape
    flat = k.transpose(1, 2).reshape(rows * tokens, heads, head_dim)
    found = quantize_q(
        flat,
        scale_rule=scale_rule,
        q_mean=k_mean.contiguous(),
        stats_index=torch.arange(rows, dtype=torch.int32, device=k.device),
        cu_seqlens_q=torch.arange(rows + 1, dtype=torch.int32, device=k.device) * tokens,
    )
    values = dequantize(found.codes, found.scales).reshape(rows, tokens, heads, head_dim)
    return k.float() - k_mean[:, :, None] - values.transpose(1, 2)


def dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """NVFP4 as FP32: codes [..., d / 2] uint8, scales [..., d / 16] e4m3; [..., d]."""
    positive = torch.tensor(_E2M1, device=codes.device)
    table = torch.cat([positive, -positive])
    both = torch.stack([codes & 15, codes >> 4], -1).flatten(-2)  # low nibble first
    return table[both.int()] * scales.float().repeat_interleave(16, -1)


def row_statistics(
    moments: Moments,
    k: torch.Tensor,
    valid: torch.Tensor | None,
    *,
    residual_rank: int,
    delta_s: bool,
    scale_rule: str,
) -> Statistics:
    """The statistics of each row, with a leading dimension of R; k as in residual_scales().

    Raises:
        ValueError: values that are not finite.
    """
    if not moments.is_finite():
        raise ValueError("queries or keys have values that are not finite")
    k_mean, q_mean = moments.means()
    if residual_rank == 0:
        return Statistics(k_mean, q_mean)
    basis = moments.directions(residual_rank, centred=delta_s)
    scales = residual_scales(k, valid, k_mean, basis, scale_rule)
    return Statistics(k_mean, q_mean, basis, scales)
