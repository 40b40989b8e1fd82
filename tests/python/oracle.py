"""docs/spec.md in NumPy: the writer to the bit, attention in double. Shares nothing with MpFA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

F32 = np.float32
E4M3 = ml_dtypes.float8_e4m3fn
E2M1_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)


def to_numpy(x: Any) -> Any:
    """A NumPy array (of ml_dtypes' types where need be) over a tensor of torch or NumPy."""
    if x is None or isinstance(x, np.ndarray):
        return x
    name = str(x.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return x.contiguous().view(dtype=_torch().int16).numpy().view(ml_dtypes.bfloat16)
    if name == "float8_e4m3fn":
        return x.contiguous().view(dtype=_torch().uint8).numpy().view(E4M3)
    return x.numpy()


def _torch() -> Any:
    import torch

    return torch


def e4m3(x: np.ndarray) -> np.ndarray:
    """To nearest even, saturating at 448."""
    return np.clip(x, F32(-448), F32(448)).astype(E4M3)


def e2m1_codes(x: np.ndarray) -> np.ndarray:
    """Codes of the nearest values, ties to the even code, saturating at 6."""
    middles = (E2M1_VALUES[1:] + E2M1_VALUES[:-1]) / 2
    size = np.abs(x)
    # A tie belongs to the even one of its neighbours: the upper one where the lower is odd.
    above = np.where(np.arange(7) % 2 == 1, size[..., None] >= middles, size[..., None] > middles)
    return (above.sum(-1) | np.where(np.signbit(x), 8, 0)).astype(np.uint8)


def e2m1_values(codes: np.ndarray) -> np.ndarray:
    """Values of codes."""
    return np.where(codes & 8, -E2M1_VALUES[codes & 7], E2M1_VALUES[codes & 7])


def sum_by_halves(x: np.ndarray) -> np.ndarray:
    """FP32 sums over the last dimension: v_i += v_{i + n/2}, then n/4, ..., 1."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]


def nvfp4(x: np.ndarray, search: bool) -> tuple[np.ndarray, np.ndarray]:
    """NVFP4 of x [..., d], FP32: codes [..., d] (one each) and scales [..., d / 16] e4m3."""
    blocks = x.reshape(*x.shape[:-1], -1, 16)
    plain = e4m3(np.abs(blocks).max(-1) / F32(6)).view(np.uint8).astype(int)
    best_scale = best_codes = best_error = None
    for step in range(-1, 5) if search else (0,):
        scale = np.where(plain == 0, 0, plain + step)
        allowed = (plain == 0) | ((scale >= 1) & (scale <= 0x7E))
        scale = np.clip(scale, 0, 0x7E).astype(np.uint8)
        s = scale.view(E4M3).astype(F32)
        r = np.where(scale == 0, F32(0), F32(1) / np.where(scale == 0, F32(1), s))
        codes = e2m1_codes(blocks * r[..., None])
        difference = s[..., None] * e2m1_values(codes) - blocks
        error = np.where(allowed, sum_by_halves(difference * difference), np.inf)
        if best_scale is None:
            best_scale, best_codes, best_error = scale, codes, error
            continue
        wins = error < best_error
        best_scale = np.where(wins, scale, best_scale)
        best_codes = np.where(wins[..., None], codes, best_codes)
        best_error = np.where(wins, error, best_error)
    return best_codes.reshape(x.shape), best_scale.view(E4M3)


def nvfp4_values(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Values of NVFP4, FP32 and exact."""
    return e2m1_values(codes) * np.repeat(scales.astype(F32), 16, axis=-1)


def pack_codes(codes: np.ndarray) -> np.ndarray:
    """Two a byte, element 2i in the low nibble."""
    return codes[..., ::2] | (codes[..., 1::2] << 4)


def unpack_codes(packed: np.ndarray) -> np.ndarray:
    """The inverse of pack_codes."""
    shape = (*packed.shape[:-1], 2 * packed.shape[-1])
    return np.stack([packed & 15, packed >> 4], -1).reshape(shape)


@dataclass
class Stats:
    """One row of statistics."""

    k_mean: np.ndarray  # [Hkv, d]
    k_scale: np.ndarray  # [Hkv]
    v_scale: np.ndarray  # [Hkv]
    q_mean: np.ndarray | None = None  # [Hq, d]
    basis: np.ndarray | None = None  # [Hkv, r, d]
    p_scale: np.ndarray | None = None  # [Hkv, r]


def stats_row(cache: Any, row: int) -> Stats:
    """A row of a cache's statistics."""

    def of(name: str) -> Any:
        x = to_numpy(getattr(cache, name))
        return None if x is None else x[row]

    ones = np.ones(cache.num_kv_heads, F32)
    return Stats(
        of("k_mean"),
        ones if cache.k_scale is None else of("k_scale"),
        ones if cache.v_scale is None else of("v_scale"),
        of("q_mean"),
        of("residual_basis"),
        of("residual_scale"),
    )


def written(k: np.ndarray, v: np.ndarray, stats: Stats, search: bool) -> dict[str, np.ndarray]:
    """What the cache stores for tokens k, v [tokens, Hkv, d]: arrays [tokens, heads, ...]."""
    centred = k.astype(F32) - stats.k_mean
    codes, scales = nvfp4(centred / stats.k_scale[:, None], search)
    error = centred - nvfp4_values(codes, scales) * stats.k_scale[:, None]
    result = {
        "k_codes": pack_codes(codes),
        "k_scales": scales,
        "v": e4m3(v.astype(F32) / stats.v_scale[:, None]),
    }
    if stats.q_mean is not None:
        group = stats.q_mean.shape[0] // k.shape[1]
        products = stats.q_mean * np.repeat(centred, group, axis=1)
        result["delta_s"] = sum_by_halves(products).astype(ml_dtypes.bfloat16)
    left = error
    if stats.basis is not None:
        p = e4m3(sum_by_halves(stats.basis * error[:, :, None, :]) / stats.p_scale)
        result["k_residual"] = p
        values = stats.p_scale * p.astype(F32)
        restored = np.zeros_like(error)
        for j in range(values.shape[-1]):  # summed in order
            restored = restored + stats.basis[:, j] * values[..., j, None]
        left = error - restored
    result["k_first"] = left.astype(ml_dtypes.bfloat16)
    return result


def _tokens(pages: Any, table: np.ndarray, length: int, page_size: int) -> np.ndarray | None:
    """A sequence's tokens [length, heads, ...] of a paged tensor [pages, heads, page_size, ...]."""
    pages = to_numpy(pages)
    if pages is None:
        return None
    index = np.arange(length)
    return pages[table[index // page_size], :, index % page_size]


def _keys(cache: Any, table: np.ndarray, length: int, stats: Stats) -> tuple[Any, Any, Any]:
    """K^ + what the residual restores, and V [length, Hkv, d], delta_s [length, Hq] or None."""
    size = cache.page_size
    codes = unpack_codes(_tokens(cache.k_codes, table, length, size))
    scales = _tokens(cache.k_scales, table, length, size).view(E4M3)
    keys = nvfp4_values(codes, scales).astype(np.float64) * stats.k_scale[:, None]
    if cache.k_residual is not None:
        p = _tokens(cache.k_residual, table, length, size).view(E4M3).astype(np.float64)
        keys = keys + np.einsum("thr,hrd->thd", p * stats.p_scale, stats.basis.astype(np.float64))
    if cache.k_first is not None and length > 0:
        keys[0] += to_numpy(cache.k_first)[table[0]].astype(np.float64)
    values = _tokens(cache.v, table, length, size).view(E4M3).astype(np.float64)
    return keys, values * stats.v_scale[:, None], _tokens(cache.delta_s, table, length, size)


def attend(
    q: np.ndarray,
    cache: Any,
    block_table: np.ndarray,
    seq_lens: np.ndarray,
    cu_seqlens_q: np.ndarray | None = None,
    *,
    scale: float | None = None,
    causal: bool = True,
    window_left: int = -1,
    softcap: float = 0.0,
    sinks: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """docs/spec.md, section 3, in double: out [total_q, Hq, d] and lse [total_q, Hq]."""
    total, heads, dim = q.shape
    group = heads // cache.num_kv_heads
    scale = dim**-0.5 if scale is None else scale
    out, lse = np.zeros(q.shape), np.full((total, heads), -np.inf)
    if cu_seqlens_q is None:
        cu_seqlens_q = np.arange(len(seq_lens) + 1)
    rows = to_numpy(cache.stats_index)
    for i, length in enumerate(seq_lens):
        begin, end = cu_seqlens_q[i], cu_seqlens_q[i + 1]
        stats = stats_row(cache, 0 if rows is None else rows[i])
        keys, values, delta_s = _keys(cache, block_table[i], length, stats)
        for h in range(heads):
            query = q[begin:end, h].astype(np.float64)
            mean = stats.k_mean[h // group].astype(np.float64)
            centred = query if delta_s is None else query - stats.q_mean[h].astype(np.float64)
            scores = centred @ keys[:, h // group].T + (query @ mean)[:, None]
            if delta_s is not None:
                scores = scores + delta_s[:, h].astype(np.float64)
            scores = scores * scale
            if softcap > 0:
                scores = softcap * np.tanh(scores / softcap)
            position = np.arange(end - begin)[:, None] + length - (end - begin)
            j = np.arange(length)
            visible = np.ones_like(scores, bool)
            if causal:
                visible &= j <= position
            if window_left >= 0:
                visible &= j >= position - window_left
            weights = np.where(visible, np.exp(np.where(visible, scores, -np.inf)), 0.0)
            total_weight = weights.sum(-1)
            some = total_weight > 0
            if sinks is not None:
                total_weight = total_weight + np.where(some, np.exp(np.float64(sinks[h])), 0.0)
            safe = np.where(some, total_weight, 1.0)
            out[begin:end, h] = weights @ values[:, h // group] / safe[:, None]
            lse[begin:end, h] = np.where(some, np.log(safe), -np.inf)
    return out, lse
