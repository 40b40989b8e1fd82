"""The library's calls on tensors of any framework, outputs given. No result is made here.

What the functions of the package and the operators of torch have in common. Arguments are the C++
API's (include/mpfa/), a cache being its tensors in the order of CACHE_FIELDS.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tvm_ffi

from mpfa._library import function
from mpfa._tensors import (
    empty,
    ffi_device,
    is_read_only,
    output_to_ffi,
    output_to_ffi_or_none,
    to_ffi,
    to_ffi_or_none,
)

CACHE_FIELDS = tuple(str(name) for name in function("cache_fields")())
# Those that append_kv() writes.
PAGE_FIELDS = ("k_codes", "k_scales", "v", "delta_s", "k_residual", "k_first")

_append_kv = function("append_kv")
_attention = function("attention")
_compute_means = function("compute_means")
_merge_states = function("merge_states")
_plan = function("plan")
_quantize_q = function("quantize_q")
_schedule = function("schedule")


def pack_cache(tensors: Sequence[Any]) -> Any:
    """The tensors of a cache, as the library takes them; they may be kept between calls."""
    fields = zip(CACHE_FIELDS, tensors, strict=True)
    return tvm_ffi.convert(tuple(to_ffi_or_none(f"cache.{name}", x) for name, x in fields))


def compute_means(out: Any, x: Any, cu_seqlens: Any) -> None:
    """See mpfa.compute_means."""
    _compute_means(
        to_ffi("x", x), to_ffi_or_none("cu_seqlens", cu_seqlens), output_to_ffi("out", out)
    )


def append_kv(
    cache: Any,
    k: Any,
    v: Any,
    slot_mapping: Any,
    search_scales: bool,
    cu_seqlens: Any,
    error_count: Any,
) -> None:
    """See mpfa.append_kv; `cache` is pack_cache()'s."""
    _append_kv(
        cache,
        to_ffi("k", k),
        to_ffi("v", v),
        to_ffi("slot_mapping", slot_mapping),
        search_scales,
        to_ffi_or_none("cu_seqlens", cu_seqlens),
        output_to_ffi_or_none("error_count", error_count),
    )


def check_writable(names: Sequence[str], tensors: Sequence[Any]) -> None:
    """ValueError for the first tensor of a cache that append_kv() could not write."""
    for name, tensor in zip(names, tensors, strict=True):
        if tensor is not None and is_read_only(tensor):
            raise ValueError(f"cache.{name} is read-only: must be writable")


# As many as a program has models and batch sizes.
@lru_cache(maxsize=4096)
def plan(
    device: tuple[int, int],
    batch_size: int,
    num_q_heads: int,
    num_kv_heads: int,
    head_dim: int,
    total_seqlen_q: int,
    max_seqlen_q: int,
    max_seqlen_k: int,
    kv_split_size: int,
    batch_invariant: bool,
    prefill_precision: int,
) -> tuple[int, ...]:
    """The numbers of a plan, in the order of mpfa.Plan's fields after the device's two."""
    return tuple(
        _plan(
            ffi_device(device),
            batch_size,
            num_q_heads,
            num_kv_heads,
            head_dim,
            total_seqlen_q,
            max_seqlen_q,
            max_seqlen_k,
            kv_split_size,
            batch_invariant,
            prefill_precision,
        )
    )


def schedule(
    cache: Any,
    block_table: Any,
    seq_lens: Any,
    cu_seqlens_q: Any,
    causal: bool,
    window_left: int,
    error_count: Any,
    plan_numbers: Sequence[int],
    workspace: Any,
) -> None:
    """See mpfa.schedule; `cache` is pack_cache()'s."""
    _schedule(
        cache,
        to_ffi("block_table", block_table),
        to_ffi("seq_lens", seq_lens),
        to_ffi_or_none("cu_seqlens_q", cu_seqlens_q),
        causal,
        window_left,
        output_to_ffi_or_none("error_count", error_count),
        tuple(plan_numbers),
        output_to_ffi("workspace", workspace),
    )


def attention(
    out: Any,
    lse: Any,
    q: Any,
    cache: Any,
    block_table: Any,
    seq_lens: Any,
    cu_seqlens_q: Any,
    softmax_scale: float | None,
    causal: bool,
    window_left: int,
    softcap: float,
    sinks: Any,
    is_scheduled: bool,
    error_count: Any,
    plan_numbers: Sequence[int],
    workspace: Any,
) -> None:
    """See mpfa.attention; `cache` is pack_cache()'s. Without a workspace one is made."""
    given_q = to_ffi("q", q)  # first, so that errors name it and not an output like it
    if workspace is None and plan_numbers[-1] > 0:
        workspace = empty(q, (plan_numbers[-1],), "uint8")
    _attention(
        output_to_ffi("out", out),
        output_to_ffi_or_none("lse", lse),
        given_q,
        cache,
        to_ffi("block_table", block_table),
        to_ffi("seq_lens", seq_lens),
        to_ffi_or_none("cu_seqlens_q", cu_seqlens_q),
        softmax_scale,
        causal,
        window_left,
        softcap,
        to_ffi_or_none("sinks", sinks),
        is_scheduled,
        output_to_ffi_or_none("error_count", error_count),
        tuple(plan_numbers),
        output_to_ffi_or_none("workspace", workspace),
    )


def merge_states(out: Any, lse: Any, outs: Sequence[Any], lses: Sequence[Any]) -> None:
    """See mpfa.merge_states."""
    states = tuple(to_ffi(f"outs[{i}]", x) for i, x in enumerate(outs))
    sums = tuple(to_ffi(f"lses[{i}]", x) for i, x in enumerate(lses))
    _merge_states(output_to_ffi("out", out), output_to_ffi_or_none("lse", lse), states, sums)


def quantize_q(
    outputs: dict[str, Any], q: Any, search_scales: bool, inputs: dict[str, Any], error_count: Any
) -> None:
    """See mpfa.quantize_q; the dictionaries are in the order of the C++ structs."""
    _quantize_q(
        to_ffi("q", q),
        *(output_to_ffi_or_none(name, x) for name, x in outputs.items()),
        search_scales,
        *(to_ffi_or_none(name, x) for name, x in inputs.items()),
        output_to_ffi_or_none("error_count", error_count),
    )
