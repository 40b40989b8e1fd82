"""Operators of torch, so that torch.compile and torch.export see each call as one.

torch.ops.mpfa.NAME takes what the function of the package takes, outputs first, a cache as its
tensors. Nothing is returned: results are written into outputs, which is all that tracing has to
know, and what lets the cache's pages be written in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mpfa import _direct
from mpfa._attention import default_plan
from mpfa._direct import CACHE_FIELDS, PAGE_FIELDS, pack_cache

_REQUIRED = ("k_codes", "k_scales", "v", "k_mean")
_LIBRARY = torch.library.Library("mpfa", "DEF")
_SIZE = len(CACHE_FIELDS)


def _cache_schema(is_written: bool) -> str:
    parts = []
    for index, name in enumerate(CACHE_FIELDS):
        alias = f"(c{index}!)" if is_written and name in PAGE_FIELDS else ""
        optional = "" if name in _REQUIRED else "?"
        parts.append(f"Tensor{alias}{optional} {name}")
    return ", ".join(parts)


def _compute_means(out: Any, x: Any, cu_seqlens: Any) -> None:
    _direct.compute_means(out, x, cu_seqlens)


def _append_kv(*args: Any) -> None:
    _direct.append_kv(pack_cache(args[:_SIZE]), *args[_SIZE:])


def _schedule(*args: Any) -> None:
    _direct.schedule(pack_cache(args[:_SIZE]), *args[_SIZE:])


def _attention(out: Any, lse: Any, q: Any, *args: Any) -> None:
    tensors, rest = args[:_SIZE], args[_SIZE:]
    *between, plan, workspace = rest
    block_table, _, cu_seqlens_q = rest[:3]
    if plan is None:
        plan = default_plan(q, tensors[0], block_table, cu_seqlens_q)
    _direct.attention(out, lse, q, pack_cache(tensors), *between, plan, workspace)


def _merge_states(out: Any, lse: Any, outs: Any, lses: Any) -> None:
    _direct.merge_states(out, lse, outs, lses)


def _quantize_q(*args: Any) -> None:
    outputs = ("codes", "scales", "codes2", "scales2", "rowbias", "residual", "first_key")
    inputs = ("q_mean", "k_mean", "residual_basis", "k_first", "stats_index", "cu_seqlens_q")
    made, (q, search, *rest) = args[: len(outputs)], args[len(outputs) :]
    _direct.quantize_q(
        dict(zip(outputs, made, strict=True)),
        q,
        search,
        dict(zip(inputs, rest[:-1], strict=True)),
        rest[-1],
    )


_OPERATORS: dict[str, tuple[str, Callable[..., None]]] = {
    "compute_means": ("Tensor(a!) out, Tensor x, Tensor? cu_seqlens", _compute_means),
    "append_kv": (
        f"{_cache_schema(True)}, Tensor k, Tensor v_new, Tensor slot_mapping, bool search_scales,"
        " Tensor? cu_seqlens, Tensor(e!)? error_count",
        _append_kv,
    ),
    "schedule": (
        f"{_cache_schema(False)}, Tensor block_table, Tensor seq_lens, Tensor? cu_seqlens_q,"
        " bool causal, int window_left, Tensor(e!)? error_count, int[] plan, Tensor(w!) workspace",
        _schedule,
    ),
    "attention": (
        f"Tensor(a!) out, Tensor(b!)? lse, Tensor q, {_cache_schema(False)}, Tensor block_table,"
        " Tensor seq_lens, Tensor? cu_seqlens_q, float? softmax_scale, bool causal,"
        " int window_left, float softcap, Tensor? sinks, bool is_scheduled,"
        " Tensor(e!)? error_count, int[]? plan, Tensor(w!)? workspace",
        _attention,
    ),
    "merge_states": (
        "Tensor(a!) out, Tensor(b!)? lse, Tensor[] outs, Tensor[] lses",
        _merge_states,
    ),
    "quantize_q": (
        "Tensor(a!) codes, Tensor(b!) scales, Tensor(c!)? codes2, Tensor(d!)? scales2,"
        " Tensor(f!)? rowbias, Tensor(g!)? residual, Tensor(h!)? first_key, Tensor q,"
        " bool search_scales, Tensor? q_mean, Tensor? k_mean, Tensor? residual_basis,"
        " Tensor? k_first, Tensor? stats_index, Tensor? cu_seqlens_q, Tensor(e!)? error_count",
        _quantize_q,
    ),
}


def _fake(*_: Any) -> None:
    """What tracing runs: outputs exist already."""


def _register() -> None:
    for name, (arguments, call) in _OPERATORS.items():
        _LIBRARY.define(f"{name}({arguments}) -> ()")
        for key in ("CPU", "CUDA"):
            _LIBRARY.impl(name, call, key)
        torch.library.register_fake(f"mpfa::{name}", _fake, lib=_LIBRARY)


_register()
