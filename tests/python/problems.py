"""What the tests share: random caches and the frameworks that are installed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import mpfa
import numpy as np

DTYPES = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
}
HAS_TORCH = importlib.util.find_spec("torch") is not None
FRAMEWORKS = ["numpy", "torch"] if HAS_TORCH else ["numpy"]


def to_framework(x: np.ndarray, framework: str) -> Any:
    """The same values as a tensor of torch or NumPy; a copy."""
    if framework == "numpy":
        return x.copy()
    import torch

    # NumPy's types that torch knows, but not from NumPy, go by their bytes.
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16).copy()).view(torch.bfloat16)
    if x.dtype == ml_dtypes.float8_e4m3fn:
        return torch.from_numpy(x.view(np.uint8).copy()).view(torch.float8_e4m3fn)
    return torch.from_numpy(x.copy())


def random_values(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "bfloat16"
) -> np.ndarray:
    """Values like activations': of several scales, off centre, some dimensions large."""
    scale = np.exp(rng.normal(0, 1, (1,) * (len(shape) - 1) + (shape[-1],)))
    offset = rng.normal(0, 2, (1, *shape[1:]))
    return (rng.normal(0, 1, shape) * scale + offset).astype(np.float32).astype(DTYPES[dtype])


@dataclass
class Problem:
    """A cache that holds a batch of sequences, and queries for it."""

    cache: mpfa.KvCache
    q: Any
    k: Any
    v: Any
    slots: np.ndarray
    block_table: np.ndarray
    seq_lens: np.ndarray
    cu_seqlens_q: np.ndarray
    cu_seqlens_k: np.ndarray
    framework: str

    def to(self, x: np.ndarray) -> Any:
        """An array as a tensor of the problem's framework."""
        return to_framework(x, self.framework)


def make_problem(
    seq_lens: list[int],
    q_lens: list[int],
    *,
    heads: tuple[int, int] = (4, 2),
    head_dim: int = 64,
    page_size: int = 16,
    dtype: str = "bfloat16",
    framework: str = FRAMEWORKS[-1],
    num_stats: int = 1,
    scale_rule: str = "search",
    append: bool = True,
    seed: int = 0,
    **options: Any,
) -> Problem:
    """A random problem; pages are in random order, statistics calibrated on its own tokens."""
    rng = np.random.default_rng(seed)
    num_q_heads, num_kv_heads = heads
    pages_of = [-(-n // page_size) for n in seq_lens]
    batch, max_pages = len(seq_lens), max([1, *pages_of])
    cache = mpfa.KvCache(
        num_pages=sum(pages_of) + 2,
        page_size=page_size,
        num_q_heads=num_q_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        num_stats=num_stats,
        batch_size=batch if num_stats > 1 else 0,
        framework=framework,
        **options,
    )
    order = rng.permutation(cache.num_pages)
    block_table = np.full((batch, max_pages), cache.num_pages - 1, np.int32)
    slots, first = [], 0
    for i, (length, pages) in enumerate(zip(seq_lens, pages_of, strict=True)):
        block_table[i, :pages] = order[first : first + pages]
        first += pages
        token = np.arange(length)
        slots.append(
            block_table[i, token // page_size].astype(np.int64) * page_size + token % page_size
        )
    tokens = sum(seq_lens)
    q = random_values(rng, (sum(q_lens), num_q_heads, head_dim), dtype)
    k = random_values(rng, (tokens, num_kv_heads, head_dim), dtype)
    v = random_values(rng, (tokens, num_kv_heads, head_dim), dtype)
    _calibrate(cache, rng, k, num_q_heads)
    if num_stats > 1:
        index = to_framework(np.arange(batch, dtype=np.int32) % num_stats, framework)
        cache.stats_index[:] = index
    problem = Problem(
        cache,
        to_framework(q, framework),
        to_framework(k, framework),
        to_framework(v, framework),
        np.concatenate([*slots, np.zeros(0, np.int64)]),
        block_table,
        np.array(seq_lens, np.int32),
        np.cumsum([0, *q_lens], dtype=np.int32),
        np.cumsum([0, *seq_lens], dtype=np.int32),
        framework,
    )
    if append:
        mpfa.append_kv(
            cache,
            problem.k,
            problem.v,
            problem.to(problem.slots),
            cu_seqlens=problem.to(problem.cu_seqlens_k),
            scale_rule=scale_rule,
        )
    return problem


def _calibrate(cache: mpfa.KvCache, rng: np.random.Generator, k: np.ndarray, heads: int) -> None:
    rows = cache.k_mean.shape[0]
    for row in range(rows):
        sample_q = random_values(rng, (40, heads, cache.head_dim))
        sample_k = k if len(k) > 0 else random_values(rng, (1, *k.shape[1:]))
        found = mpfa.calibrate(
            sample_q,
            sample_k,
            residual_rank=cache.residual_rank,
            q_mean=cache.delta_s is not None,
        )
        cache.set_statistics(found, row)
