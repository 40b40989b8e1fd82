"""attention, plan, schedule and merge_states against the oracle."""

from __future__ import annotations

from typing import Any

import mpfa
import numpy as np
import oracle
import pytest
from problems import FRAMEWORKS, Problem, make_problem

# What rounding of the output (BF16: 2^-9) and of P leave.
TOLERANCE = {"bfloat16": 6e-3, "float16": 3e-3, "float32": 3e-3}


def run(problem: Problem, *, decode: bool = False, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """attention() on the problem."""
    out, lse = mpfa.attention(
        problem.q,
        problem.cache,
        problem.to(problem.block_table),
        problem.to(problem.seq_lens),
        cu_seqlens_q=None if decode else problem.to(problem.cu_seqlens_q),
        return_lse=True,
        **options,
    )
    return oracle.to_numpy(out), oracle.to_numpy(lse)


def expect(problem: Problem, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The oracle on the problem."""
    return oracle.attend(
        oracle.to_numpy(problem.q),
        problem.cache,
        problem.block_table,
        problem.seq_lens,
        problem.cu_seqlens_q,
        **options,
    )


def check(found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> None:
    """Both agree up to rounding; -inf and zero rows exactly."""
    (out, lse), (expected_out, expected_lse) = found, expected
    assert out.shape == expected_out.shape
    assert lse.shape == expected_lse.shape
    assert lse.dtype == np.float32
    unseen = np.isneginf(expected_lse)
    np.testing.assert_array_equal(np.isneginf(lse), unseen)
    assert not out[unseen].any()
    difference = np.linalg.norm(out.astype(np.float64) - expected_out)
    assert difference <= TOLERANCE[out.dtype.name] * np.linalg.norm(expected_out)
    np.testing.assert_allclose(lse[~unseen], expected_lse[~unseen], rtol=2e-4, atol=5e-3)


@pytest.mark.parametrize("page_size", [16, 32, 64, 128])
@pytest.mark.parametrize("heads", [(2, 2), (6, 2), (5, 1), (8, 4), (16, 1)])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_ragged_batch(page_size: int, heads: tuple[int, int], head_dim: int) -> None:
    problem = make_problem(
        [150, 0, 1, 300, 17],
        [20, 0, 1, 300, 3],
        heads=heads,
        head_dim=head_dim,
        page_size=page_size,
        framework=FRAMEWORKS[-1],
    )
    check(run(problem), expect(problem))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_types(framework: str, dtype: str) -> None:
    problem = make_problem([90, 40], [9, 40], dtype=dtype, framework=framework)
    check(run(problem), expect(problem))


@pytest.mark.parametrize("residual_rank", [0, 4, 8, 16])
@pytest.mark.parametrize("first_key", [False, True])
@pytest.mark.parametrize("delta_s", [False, True])
def test_compensations(residual_rank: int, first_key: bool, delta_s: bool) -> None:
    problem = make_problem(
        [130, 60],
        [3, 60],
        residual_rank=residual_rank,
        first_key=first_key,
        delta_s=delta_s,
        framework=FRAMEWORKS[-1],
    )
    check(run(problem), expect(problem))


@pytest.mark.parametrize(
    "options",
    [
        {"causal": False},
        {"window_left": 0},
        {"window_left": 31},
        {"causal": False, "window_left": 7},
        {"softcap": 5.0},
        {"scale": 0.5},
    ],
    ids=str,
)
def test_masks_and_scores(framework: str, options: dict[str, Any]) -> None:
    problem = make_problem([100, 30, 8], [10, 30, 12], framework=framework)
    given = {("softmax_scale" if k == "scale" else k): v for k, v in options.items()}
    check(run(problem, **given), expect(problem, **options))


def test_sinks(framework: str) -> None:
    problem = make_problem([100, 0], [10, 2], framework=framework)
    sinks = np.array([0.5, 20.0, -3.0, 8.0], np.float32)
    check(run(problem, sinks=problem.to(sinks)), expect(problem, sinks=sinks))


def test_decode_needs_no_cu_seqlens(framework: str) -> None:
    problem = make_problem([64, 200, 0, 1], [1, 1, 1, 1], framework=framework)
    check(run(problem, decode=True), expect(problem))


def test_each_sequence_uses_its_row_of_statistics(framework: str) -> None:
    problem = make_problem([50, 70, 20], [5, 6, 7], num_stats=2, framework=framework)
    check(run(problem), expect(problem))


def test_scales_multiply_back(framework: str) -> None:
    problem = make_problem([80], [8], framework=framework, append=False)
    problem.cache.k_scale[:] = 0.37
    problem.cache.v_scale[:] = 3.1
    mpfa.append_kv(problem.cache, problem.k, problem.v, problem.to(problem.slots))
    check(run(problem), expect(problem))


def test_close_to_attention_over_what_was_stored() -> None:
    problem = make_problem([256], [256], heads=(8, 2), head_dim=128)
    q, k, v = (oracle.to_numpy(x).astype(np.float64) for x in (problem.q, problem.k, problem.v))
    k, v = np.repeat(k, 4, axis=1), np.repeat(v, 4, axis=1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(128)
    scores = np.where(np.tri(256, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    exact = np.einsum("hqk,khd->qhd", weights, v)
    error = np.linalg.norm(run(problem)[0].astype(np.float64) - exact) / np.linalg.norm(exact)
    assert error < 0.12  # random keys, whose errors lie in no few directions, are the worst case


def test_what_lies_past_a_sequence_does_not_matter(framework: str) -> None:
    problem = make_problem([20, 3], [4, 3], framework=framework)
    before = run(problem)
    used = np.zeros((problem.cache.num_pages, problem.cache.page_size), bool)
    used.reshape(-1)[problem.slots] = True
    page, offset = np.nonzero(~used)
    for name in ("k_scales", "v"):
        tensor = oracle.to_numpy(getattr(problem.cache, name)).view(np.uint8)
        tensor[page, :, offset] = 0x7F  # NaN
    after = run(problem)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def test_padding_rows_are_left_alone(framework: str) -> None:
    problem = make_problem([40], [6], framework=framework)
    problem.cu_seqlens_q = np.array([0, 4], np.int32)
    out = problem.to(np.full((6, 4, 64), 7, np.float32).astype(oracle.to_numpy(problem.q).dtype))
    lse = problem.to(np.full((6, 4), 7, np.float32))
    result = mpfa.attention(
        problem.q,
        problem.cache,
        problem.to(problem.block_table),
        problem.to(problem.seq_lens),
        cu_seqlens_q=problem.to(problem.cu_seqlens_q),
        out=out,
        lse=lse,
    )
    assert result[0] is out
    assert result[1] is lse
    assert (oracle.to_numpy(out)[4:] == 7).all()
    assert (oracle.to_numpy(lse)[4:] == 7).all()
    assert (oracle.to_numpy(lse)[:4] != 7).all()


def test_the_cache_brings_its_tables(framework: str) -> None:
    problem = make_problem([40, 22], [1, 1], framework=framework)
    expected = run(problem, decode=True)[0]
    problem.cache.block_table = problem.to(problem.block_table)
    problem.cache.seq_lens = problem.to(problem.seq_lens)
    out = mpfa.attention(problem.q, problem.cache)
    np.testing.assert_array_equal(oracle.to_numpy(out).view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("kv_split_size", [0, 128, 256])
def test_a_plan_of_ones_own(framework: str, kv_split_size: int) -> None:
    problem = make_problem([400, 130], [1, 1], framework=framework)
    plan = mpfa.plan(
        batch_size=2,
        num_q_heads=4,
        num_kv_heads=2,
        head_dim=64,
        total_seqlen_q=2,
        max_seqlen_k=400,
        kv_split_size=kv_split_size,
        prefill_precision="fp8_fp16_scores",  # a hint, which the CPU does not need
    )
    assert plan.device == "cpu"
    assert plan.prefill_precision == "fp8_fp16_scores"
    assert plan.max_num_splits == -(-400 // plan.kv_split_size)
    workspace = problem.to(np.full(max(plan.workspace_bytes, 4), 0xFF, np.uint8))
    mpfa.schedule(
        problem.cache,
        problem.to(problem.block_table),
        problem.to(problem.seq_lens),
        plan,
        workspace,
    )
    found = run(problem, decode=True, plan=plan, workspace=workspace, is_scheduled=True)
    check(found, expect(problem))
    check(run(problem, decode=True, plan=plan), expect(problem))  # a workspace is made


def test_merge_states(framework: str) -> None:
    problem = make_problem([200], [1], framework=framework)
    whole = expect(problem)
    parts = []
    for begin, end in ((0, 96), (96, 96), (96, 200)):  # whole pages; the second is empty
        pages = problem.block_table[:, begin // 16 : max(-(-end // 16), begin // 16 + 1)]
        cache = problem.cache
        if begin > 0:  # the exact first key is the sequence's, not the part's
            cache = mpfa.KvCache.from_tensors(
                **{
                    name: getattr(cache, name)
                    for name in mpfa._direct.CACHE_FIELDS
                    if name != "k_first"
                }
            )
        parts.append(
            mpfa.attention(
                problem.q,
                cache,
                problem.to(np.ascontiguousarray(pages)),
                problem.to(np.array([end - begin], np.int32)),
                return_lse=True,
            )
        )
    outs, lses = [out for out, _ in parts], [lse for _, lse in parts]
    check(tuple(map(oracle.to_numpy, mpfa.merge_states(outs, lses))), whole)
    merged = mpfa.merge_states(outs, lses, out=outs[0], lse=lses[0])
    assert merged[0] is outs[0]
    assert merged[1] is lses[0]
    check(tuple(map(oracle.to_numpy, merged)), whole)
