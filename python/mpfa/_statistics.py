"""Statistics and quantisers on plain (not paged) tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpfa import _direct
from mpfa._dispatch import operators_for
from mpfa._library import function
from mpfa._scalars import ScaleRule, flag, integer, searches_scales
from mpfa._tensors import check_rank, empty, finish, output_to_ffi, to_ffi, to_ffi_or_none

_calibrate = function("calibrate")


@dataclass(frozen=True)
class Statistics:
    """One row of frozen statistics of a layer, as calibrate() finds it. FP32."""

    k_mean: Any  # [Hkv, d]
    q_mean: Any = None  # [Hq, d]
    residual_basis: Any = None  # [Hkv, r, d], orthonormal rows
    residual_scale: Any = None  # [Hkv, r], > 0


@dataclass(frozen=True)
class QuantizedQ:
    """Queries in NVFP4, as quantize_q() makes them; None for what was not asked for."""

    codes: Any  # [tokens, Hq, d / 2] uint8: NVFP4(x)
    scales: Any  # [tokens, Hq, d / 16] e4m3
    codes2: Any = None  # [tokens, Hq, d / 2]: NVFP4 of what the first term leaves
    scales2: Any = None  # [tokens, Hq, d / 16]
    rowbias: Any = None  # [tokens, Hq] FP32: q . k_mean
    residual: Any = None  # [tokens, Hq, r] FP32: U x
    first_key: Any = None  # [tokens, Hq] FP32: x . k_first


def compute_means(x: Any, cu_seqlens: Any = None, *, out: Any = None) -> Any:
    """Means over the tokens of each sequence.

    Args:
        x: [tokens, heads, d] BF16, FP16 or FP32; any outer strides, innermost contiguous.
        cu_seqlens: [b + 1] int32, first 0, not decreasing; None: one sequence of all tokens.
        out: [b, heads, d] FP32 to write to; None: a new tensor.

    Returns:
        out. A sequence without tokens gets 0.

    Raises:
        TypeError: an argument that is no tensor.
        ValueError: a shape, type, stride or value that does not fit; nothing is written.
    """
    result = out
    if result is None:
        x = check_rank("x", x, 3)
        sequences = 1
        if cu_seqlens is not None:
            cu_seqlens = check_rank("cu_seqlens", cu_seqlens, 1)
            sequences = max(cu_seqlens.shape[0] - 1, 0)
        result = empty(x, (sequences, x.shape[1], x.shape[2]), "float32")
    operators = operators_for(x=x)
    call = _direct.compute_means if operators is None else operators.compute_means
    call(result, x, cu_seqlens)
    return finish(x, result)


def calibrate(
    q: Any,
    k: Any,
    *,
    residual_rank: int = 8,
    q_mean: bool = False,
    scale_rule: ScaleRule = "search",
    k_scale: Any = None,
    cu_seqlens: Any = None,
) -> Statistics:
    """Calibrates one layer from sample activations, on the CPU.

    Finds the means over the tokens, the top r eigenvectors of E[q q^T] over each group's queries,
    and the scales of the keys' rounding error along them (docs/spec.md, section 2).

    Args:
        q: [tokens_q, Hq, d], k: [tokens, Hkv, d]: BF16, FP16 or FP32, after the rotary embedding;
            d is 64 or 128. All rows of q are used. Finite values only.
        residual_rank: r, 4, 8 or 16; 0: no residual.
        q_mean: whether the queries' mean is wanted, which delta_s needs.
        scale_rule: how the cache will quantise K.
        k_scale: [Hkv] FP32, as the cache will use it; None: 1.
        cu_seqlens: [b + 1] int32: the tokens of k to use; None: all.

    Raises:
        TypeError, ValueError: an argument that does not fit, by name.
        RuntimeError: eigenvectors that do not converge.
    """
    q, k = check_rank("q", q, 3), check_rank("k", k, 3)
    q_heads, kv_heads, head_dim = q.shape[1], k.shape[1], k.shape[2]
    rank = integer("residual_rank", residual_rank)
    if rank < 0:
        raise ValueError(f"residual_rank = {rank}: must be 0, 4, 8 or 16")

    def new(wanted: bool, *shape: int) -> Any:
        return empty(k, shape, "float32") if wanted else None

    found = {
        "k_mean": new(True, kv_heads, head_dim),
        "q_mean": new(flag("q_mean", q_mean), q_heads, head_dim),
        "residual_basis": new(rank > 0, kv_heads, rank, head_dim),
        "residual_scale": new(rank > 0, kv_heads, rank),
    }
    _calibrate(
        to_ffi("q", q),
        to_ffi("k", k),
        *(None if x is None else output_to_ffi(name, x) for name, x in found.items()),
        searches_scales(scale_rule),
        to_ffi_or_none("k_scale", k_scale),
        to_ffi_or_none("cu_seqlens", cu_seqlens),
    )
    return Statistics(**{name: finish(k, x) for name, x in found.items()})


def quantize_q(
    q: Any,
    *,
    two_terms: bool = False,
    scale_rule: ScaleRule = "search",
    q_mean: Any = None,
    k_mean: Any = None,
    residual_basis: Any = None,
    k_first: Any = None,
    stats_index: Any = None,
    cu_seqlens_q: Any = None,
    error_count: Any = None,
) -> QuantizedQ:
    """Quantises queries for kernels whose tensor cores take NVFP4.

    Args:
        q: [tokens, Hq, d] BF16, FP16 or FP32; d a multiple of 16 up to 1024.
        two_terms: whether the second term is wanted, too.
        scale_rule: "search" or "plain".
        q_mean: [stats, Hq, d] FP32: x = q - q_mean is quantised instead of q.
        k_mean: [stats, Hkv, d] FP32: asks for rowbias.
        residual_basis: [stats, Hkv, r, d] FP32: asks for residual.
        k_first: [b, Hkv, d] BF16: asks for first_key.
        stats_index: [b] int32: row of statistics of each sequence; None: row 0.
        cu_seqlens_q: [b + 1] int32; None: all tokens belong to the only sequence.
        error_count: [1] int32 on the GPU: counts tokens whose row is out of range.

    Returns:
        New tensors; values of tokens outside cu_seqlens_q are undefined.

    Raises:
        TypeError, ValueError: an argument that does not fit, by name.
    """
    q = check_rank("q", q, 3)
    if residual_basis is not None:
        residual_basis = check_rank("residual_basis", residual_basis, 4)
    tokens, heads, head_dim = q.shape
    second = flag("two_terms", two_terms)

    def new(wanted: bool, size: int, dtype: str) -> Any:
        return (
            empty(q, (tokens, heads, size) if size else (tokens, heads), dtype) if wanted else None
        )

    rank = 0 if residual_basis is None else residual_basis.shape[2]
    outputs = {
        "codes": new(True, head_dim // 2, "uint8"),
        "scales": new(True, head_dim // 16, "float8_e4m3fn"),
        "codes2": new(second, head_dim // 2, "uint8"),
        "scales2": new(second, head_dim // 16, "float8_e4m3fn"),
        "rowbias": new(k_mean is not None, 0, "float32"),
        "residual": new(residual_basis is not None, rank, "float32"),
        "first_key": new(k_first is not None, 0, "float32"),
    }
    inputs = {
        "q_mean": q_mean,
        "k_mean": k_mean,
        "residual_basis": residual_basis,
        "k_first": k_first,
        "stats_index": stats_index,
        "cu_seqlens_q": cu_seqlens_q,
    }
    search = searches_scales(scale_rule)
    operators = operators_for(q=q)
    if operators is None:
        _direct.quantize_q(outputs, q, search, inputs, error_count)
    else:
        operators.quantize_q(*outputs.values(), q, search, *inputs.values(), error_count)
    return QuantizedQ(**{name: finish(q, x) for name, x in outputs.items()})
