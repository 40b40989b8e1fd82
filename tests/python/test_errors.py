"""Each kind of bad input gets an error that names it, before anything is written."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable
from typing import Any

import gpu
import mpfa
import numpy as np
import oracle
import pytest
from problems import Problem, make_problem


@pytest.fixture
def problem() -> Problem:
    """Two sequences in NumPy."""
    return make_problem([30, 20], [3, 2], framework="numpy")


def attend(p: Problem, **changes: Any) -> Any:
    """attention() with some arguments changed."""
    given = {
        "q": p.q,
        "cache": p.cache,
        "block_table": p.block_table,
        "seq_lens": p.seq_lens,
        "cu_seqlens_q": p.cu_seqlens_q,
        **changes,
    }
    return mpfa.attention(**given)


def append(p: Problem, **changes: Any) -> Any:
    """append_kv() with some arguments changed."""
    given = {"cache": p.cache, "k": p.k, "v": p.v, "slot_mapping": p.slots, **changes}
    return mpfa.append_kv(**given)


def with_cache(p: Problem, **tensors: Any) -> mpfa.KvCache:
    """The problem's cache with some tensors replaced."""
    cache = copy.copy(p.cache)
    for name, x in tensors.items():
        setattr(cache, name, x)
    return cache


def some_plan(**changes: Any) -> mpfa.Plan:
    """plan() with some arguments changed."""
    given = {
        "batch_size": 2,
        "num_q_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 64,
        "total_seqlen_q": 5,
        "max_seqlen_k": 64,
    }
    return mpfa.plan(**{**given, **changes})


def read_only(x: np.ndarray) -> np.ndarray:
    """The same elements, not to be written."""
    view = x.view()
    view.flags.writeable = False
    return view


class Unexportable:
    """Knows DLPack's protocol, but not how to put its elements in it."""

    def __dlpack__(self, **_: Any) -> Any:
        """Refuses."""
        raise BufferError("not in words")


Call = Callable[[Problem], Any]
F32 = np.float32

ATTENTION: list[tuple[Call, type, str]] = [
    (lambda p: attend(p, q="text"), TypeError, "q is a builtins.str: must be a tensor"),
    (lambda p: attend(p, q=[[1.0]]), TypeError, "q is a builtins.list: must be a tensor"),
    (lambda p: attend(p, q=p.q[0]), ValueError, "q has 2 dimensions: must have 3"),
    (lambda p: attend(p, q=p.q[:, :3]), ValueError, "num_q_heads = 3: must be"),
    (lambda p: attend(p, q=p.q[..., :32]), ValueError, "q has shape"),
    (lambda p: attend(p, q=p.q.repeat(2, -1)[..., ::2]), ValueError, "q has stride 2"),
    (lambda p: attend(p, q=p.q.astype(np.float64)), ValueError, "q has type"),
    (lambda p: attend(p, q=p.q.astype(">f4")), ValueError, "q is a NumPy array of type >f4"),
    (lambda p: attend(p, q=p.q.astype(object)), ValueError, "q is a NumPy array of type object"),
    (lambda p: attend(p, q=Unexportable()), ValueError, "q cannot be exported by DLPack: not in"),
    (lambda p: attend(p, cache={}), TypeError, "cache is a dict: must be a KvCache"),
    (
        lambda p: attend(p, cache=with_cache(p, k_codes=None)),
        TypeError,
        "cache.k_codes is a builtins.NoneType: must be a tensor",
    ),
    (
        lambda p: attend(p, cache=with_cache(p, k_codes=p.cache.k_codes[0])),
        ValueError,
        "cache.k_codes has 3 dimensions: must have 4",
    ),
    (lambda p: attend(p, block_table=None), TypeError, "block_table is None: must be given"),
    (lambda p: attend(p, block_table=3), TypeError, "block_table is a builtins.int"),
    (lambda p: attend(p, block_table=p.block_table[0]), ValueError, "block_table has 1 dimen"),
    (lambda p: attend(p, block_table=p.block_table + 99), ValueError, "block_table"),
    (lambda p: attend(p, block_table=p.block_table.astype(np.int64)), ValueError, "block_table"),
    (lambda p: attend(p, seq_lens=None), TypeError, "seq_lens is None: must be given"),
    (lambda p: attend(p, seq_lens=p.seq_lens[:1]), ValueError, "seq_lens"),
    (lambda p: attend(p, seq_lens=p.seq_lens + 99), ValueError, r"seq_lens\[0\]"),
    (lambda p: attend(p, seq_lens=-p.seq_lens), ValueError, r"seq_lens\[0\]"),
    (lambda p: attend(p, cu_seqlens_q=p.cu_seqlens_q[:2]), ValueError, "cu_seqlens_q"),
    (lambda p: attend(p, cu_seqlens_q=p.cu_seqlens_q[::-1]), ValueError, "cu_seqlens_q"),
    (lambda p: attend(p, cu_seqlens_q=(0, 3, 5)), TypeError, "cu_seqlens_q is a builtins.tuple"),
    (lambda p: attend(p, softmax_scale="1"), TypeError, "softmax_scale = '1': must be a number"),
    (lambda p: attend(p, softmax_scale=float("nan")), ValueError, "softmax_scale = nan"),
    (lambda p: attend(p, softcap=-1.0), ValueError, "softcap = -1"),
    (lambda p: attend(p, softcap=None), TypeError, "softcap = None: must be a number"),
    (lambda p: attend(p, causal=1), TypeError, "causal = 1: must be True or False"),
    (lambda p: attend(p, window_left=1.5), TypeError, "window_left = 1.5: must be an integer"),
    (lambda p: attend(p, window_left=-2), ValueError, "window_left = -2"),
    (
        lambda p: attend(p, window_left=2**63),
        ValueError,
        f"window_left = {2**63}: must fit 64 bits",
    ),
    (lambda p: attend(p, sinks=np.zeros(3, F32)), ValueError, "sinks"),
    (lambda p: attend(p, out=p.q), ValueError, "out"),
    (lambda p: attend(p, out=read_only(np.empty_like(p.q))), ValueError, "out is a read-only"),
    (lambda p: attend(p, out=np.empty(p.q.shape, F32)), ValueError, "out"),
    (lambda p: attend(p, lse=np.empty((5, 3), F32)), ValueError, "lse"),
    (lambda p: attend(p, plan=(1, 2)), TypeError, "plan is a tuple: must be a Plan"),
    (lambda p: attend(p, plan=some_plan(batch_size=1)), ValueError, "batch"),
    (
        lambda p: attend(p, plan=dataclasses.replace(some_plan(), batch_size=1)),
        ValueError,
        "batch size 2: exceeds plan.params.batch_size = 1",
    ),
    (lambda _: some_plan(prefill_precision="fp4"), ValueError, "prefill_precision = 'fp4'"),
    (
        lambda p: attend(p, plan=dataclasses.replace(some_plan(), max_num_splits=7)),
        ValueError,
        "plan.max_num_splits = 7",
    ),
    (
        lambda p: attend(p, plan=some_plan(max_seqlen_k=8)),
        ValueError,
        r"seq_lens\[0\] = 30: exceeds",
    ),
    (lambda p: attend(p, is_scheduled=True), ValueError, "is_scheduled is True"),
    (
        lambda p: attend(
            p,
            plan=some_plan(max_seqlen_k=1024, kv_split_size=128),
            workspace=np.empty(4, np.uint8),
        ),
        ValueError,
        "workspace",
    ),
    (lambda p: some_plan(head_dim=96), ValueError, "head_dim = 96: must be 64 or 128"),
    (lambda p: some_plan(num_q_heads=5), ValueError, "num_q_heads = 5"),
    (lambda p: some_plan(batch_size=2.0), TypeError, "batch_size = 2.0: must be an integer"),
    (lambda p: some_plan(batch_size=True), TypeError, "batch_size = True: must be an integer"),
    (lambda p: some_plan(device="tpu"), ValueError, "device = 'tpu': must be 'cpu', 'cuda'"),
    (lambda p: some_plan(device=f"cuda:{2**31}"), ValueError, f"device = 'cuda:{2**31}': must be"),
    (lambda p: mpfa.schedule({}, *[None] * 4), TypeError, "cache is a dict: must be a KvCache"),
    (lambda p: mpfa.merge_states([], []), ValueError, "outs is empty"),
    (
        lambda p: mpfa.merge_states([p.q.astype(">f4")], [np.zeros((5, 4), F32)]),
        ValueError,
        r"outs\[0\] is a NumPy array of type >f4",
    ),
    (lambda p: mpfa.merge_states([p.q], []), ValueError, "lses is empty"),
    (lambda p: mpfa.merge_states([p.q], ["x"]), TypeError, r"lses\[0\] is a builtins.str"),
    (lambda p: mpfa.merge_states([p.q], [np.zeros((2, 4), F32)]), ValueError, "lse"),
]

WRITER: list[tuple[Call, type, str]] = [
    (lambda p: append(p, k=None), TypeError, "k is a builtins.NoneType: must be a tensor"),
    (lambda p: append(p, cache=None), TypeError, "cache is a NoneType: must be a KvCache"),
    (lambda p: append(p, k=p.k[:3]), ValueError, "v has shape"),
    (lambda p: append(p, v=p.v.astype(F32)), ValueError, "v has type"),
    (lambda p: append(p, k=p.k.astype(np.int32)), ValueError, "k has type"),
    (lambda p: append(p, slot_mapping=p.slots.astype(np.int32)), ValueError, "slot_mapping"),
    (lambda p: append(p, slot_mapping=p.slots - 999), ValueError, r"slot_mapping\[0\]"),
    (lambda p: append(p, slot_mapping=p.slots * 0), ValueError, "slot_mapping"),
    (lambda p: append(p, slot_mapping=list(p.slots)), TypeError, "slot_mapping is a builtins.list"),
    (lambda p: append(p, scale_rule="best"), ValueError, "scale_rule = 'best': must be 'search'"),
    (lambda p: append(p, cu_seqlens=np.array([0, 99], np.int32)), ValueError, "cu_seqlens"),
    (
        lambda p: append(p, cache=with_cache(p, v=read_only(p.cache.v))),
        ValueError,
        "cache.v is read-only: must be writable",
    ),
    (
        lambda p: append(p, cache=with_cache(p, k_residual=p.cache.k_residual[..., :3])),
        ValueError,
        "k_residual",
    ),
    (lambda p: append(p, cache=with_cache(p, k_mean=None)), ValueError, "k_mean"),
    (lambda p: append(p, cache=with_cache(p, v_scale=p.cache.v_scale * 0)), ValueError, "v_scale"),
    (lambda p: mpfa.compute_means(None), TypeError, "x is a builtins.NoneType"),
    (lambda p: mpfa.compute_means(p.q[0]), ValueError, "x has 2 dimensions: must have 3"),
    (lambda p: mpfa.compute_means(p.q, p.slots), ValueError, "cu_seqlens"),
    (lambda p: mpfa.compute_means(p.q, [0, 5]), TypeError, "cu_seqlens is a builtins.list"),
    (lambda p: mpfa.compute_means(p.q, np.array(5)), ValueError, "cu_seqlens has 0 dimensions"),
    (lambda p: mpfa.compute_means(p.q, out=np.empty((2, 4, 64), F32)), ValueError, "out"),
    (lambda p: mpfa.calibrate(p.q, p.k, residual_rank=5), ValueError, "residual"),
    (lambda p: mpfa.calibrate(p.q, p.k, residual_rank=-1), ValueError, "residual_rank = -1"),
    (lambda p: mpfa.calibrate(p.q, p.k, q_mean="yes"), TypeError, "q_mean = 'yes'"),
    (lambda p: mpfa.calibrate(p.q, p.k * np.nan), ValueError, "k"),
    (lambda p: mpfa.calibrate(p.q[:, :3], p.k), ValueError, "q"),
    (lambda p: mpfa.quantize_q(p.q[..., :24]), ValueError, "q has shape"),
    (lambda p: mpfa.quantize_q(p.q, residual_basis=[1]), TypeError, "residual_basis is a"),
    (
        lambda p: mpfa.quantize_q(p.q, residual_basis=np.zeros((2, 8, 64), F32)),
        ValueError,
        "residual_basis has 3 dimensions: must have 4",
    ),
    (lambda p: mpfa.quantize_q(p.q, k_mean=np.zeros((1, 3, 64), F32)), ValueError, "k_mean"),
]

CACHE: list[tuple[Call, type, str]] = [
    (lambda p: new(num_pages=0), ValueError, "num_pages = 0: must be 1 to"),
    (lambda p: new(num_pages="1"), TypeError, "num_pages = '1': must be an integer"),
    (lambda p: new(page_size=48), ValueError, "page_size = 48: must be 16, 32, 64 or 128"),
    (lambda p: new(head_dim=80), ValueError, "head_dim = 80: must be 64 or 128"),
    (lambda p: new(num_kv_heads=0), ValueError, "num_kv_heads = 0"),
    (lambda p: new(num_q_heads=3), ValueError, "num_q_heads = 3: must be a multiple"),
    (lambda p: new(residual_rank=5), ValueError, "residual_rank = 5: must be 0, 4, 8 or 16"),
    (lambda p: new(delta_s=True), ValueError, "num_q_heads = 0"),
    (lambda p: new(first_key=1), TypeError, "first_key = 1: must be True or False"),
    (lambda p: new(num_stats=0), ValueError, "num_stats = 0"),
    (lambda p: new(max_pages_per_seq=4), ValueError, "max_pages_per_seq = 4"),
    (lambda p: new(device="cpu:x"), ValueError, "device = 'cpu:x'"),
    (lambda p: new(framework="jax"), ValueError, "framework = 'jax': must be 'torch', 'numpy'"),
    (lambda p: new(framework="numpy", device="cuda"), ValueError, "device = 'cuda'"),
    (lambda p: mpfa.KvCache.from_tensors(v=p.cache.v), TypeError, "k_codes is missing"),
    (lambda p: mpfa.KvCache.from_tensors(x=1), TypeError, "x is no tensor of a cache"),
    (lambda p: mpfa.KvCache.load(3), TypeError, "path = 3: must be a path"),
    (lambda p: p.cache.save(None), TypeError, "path = None: must be a path"),
    (lambda p: mpfa.KvCache.load("a\0b"), ValueError, r"path = 'a\\x00b': must be UTF-8 without"),
    (lambda p: p.cache.save(b"/\xff"), ValueError, r"path = b'/\\xff': must be UTF-8"),
    (
        lambda p: p.cache.save("x", metadata={"a": "\udc80"}),
        ValueError,
        r"metadata\['a'\] = '\\udc80': must be text",
    ),
    (lambda p: p.cache.save("x", metadata={"a": 1}), TypeError, r"metadata\['a'\] = 1"),
    (lambda p: p.cache.set_statistics(mpfa.Statistics(p.cache.k_mean[0])), ValueError, "basis"),
    (
        lambda p: p.cache.set_statistics(
            mpfa.calibrate(p.q, p.k, residual_rank=p.cache.residual_rank), row=1
        ),
        ValueError,
        "row = 1: must be 0 to 0",
    ),
    (
        lambda p: p.cache.set_statistics(mpfa.calibrate(p.q, p.k, residual_rank=4)),
        ValueError,
        "residual_basis has shape",
    ),
    (
        lambda p: p.cache.set_statistics(
            mpfa.Statistics(p.cache.k_mean[0] + 1, residual_basis=np.zeros((2, 9, 64), F32))
        ),
        ValueError,
        "residual_basis has shape",
    ),
    (lambda p: p.cache.set_statistics(mpfa.Statistics([1])), TypeError, "statistics.k_mean is a"),
    (lambda p: mpfa.bytes_per_token_and_kv_head(100), ValueError, "head_dim = 100"),
]


def new(**changes: Any) -> mpfa.KvCache:
    """KvCache() with some arguments changed."""
    return mpfa.KvCache(**{"num_pages": 2, "num_kv_heads": 2, "head_dim": 64, **changes})


def snapshot(p: Problem) -> list[bytes]:
    """All bytes of the cache."""
    return [oracle.to_numpy(x).tobytes() for x in p.cache.tensors() if x is not None]


@pytest.mark.parametrize(("call", "kind", "message"), ATTENTION + WRITER + CACHE)
def test_errors(problem: Problem, call: Call, kind: type, message: str) -> None:
    before = snapshot(problem)
    with pytest.raises(kind) as caught:
        call(problem)
    assert type(caught.value) is kind
    assert re.search(message, str(caught.value)), str(caught.value)
    assert snapshot(problem) == before


def test_nothing_is_written_on_an_error(problem: Problem) -> None:
    out, lse = np.full_like(problem.q, 3), np.full((5, 4), 3, F32)
    with pytest.raises(ValueError, match="seq_lens"):
        attend(problem, out=out, lse=lse, seq_lens=problem.seq_lens + 99)
    assert (out == 3).all()
    assert (lse == 3).all()


@pytest.mark.skipif(gpu.IS_THERE, reason="there is a GPU")
def test_cuda_without_a_gpu_is_an_error() -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"CUDA|cuda|device"):
        mpfa.KvCache(num_pages=1, num_kv_heads=1, head_dim=64, device="cuda", framework="dlpack")
