"""append_kv, compute_means, calibrate and quantize_q against the oracle."""

from __future__ import annotations

import itertools

import ml_dtypes
import mpfa
import numpy as np
import oracle
import pytest
from problems import DTYPES, Problem, make_problem, random_values, to_framework


def check_bytes(problem: Problem, *, search: bool = True, rows: list[int] | None = None) -> None:
    """Every byte that the problem's tokens left in the cache is the oracle's."""
    cache = problem.cache
    k, v = oracle.to_numpy(problem.k), oracle.to_numpy(problem.v)
    owner = np.repeat(np.arange(len(problem.seq_lens)), problem.seq_lens)
    for row in range(cache.k_mean.shape[0]):
        mine = np.flatnonzero((owner if rows is None else np.array(rows)[owner]) == row)
        expected = oracle.written(k[mine], v[mine], oracle.stats_row(cache, row), search)
        page, offset = np.divmod(problem.slots[mine], cache.page_size)
        for name, values in expected.items():
            tensor = oracle.to_numpy(getattr(cache, name))
            if tensor is None:
                continue
            if name == "k_first":
                found, values = tensor[page[offset == 0]], values[offset == 0]
            else:
                found = tensor[page, :, offset]
            np.testing.assert_array_equal(
                found.reshape(values.shape).view(np.uint8), values.view(np.uint8), err_msg=name
            )


@pytest.mark.parametrize(
    ("head_dim", "page_size", "residual_rank", "dtype"),
    [
        (64, 16, 8, "bfloat16"),
        (64, 32, 0, "float16"),
        (64, 64, 16, "float32"),
        (128, 64, 8, "bfloat16"),
        (128, 128, 4, "float32"),
        (128, 16, 0, "bfloat16"),
    ],
)
@pytest.mark.parametrize("delta_s", [False, True])
@pytest.mark.parametrize("scale_rule", ["search", "plain"])
def test_append_writes_the_specified_bytes(
    framework: str,
    head_dim: int,
    page_size: int,
    residual_rank: int,
    dtype: str,
    delta_s: bool,
    scale_rule: str,
) -> None:
    problem = make_problem(
        [37, 1, 0, 130],
        [],
        heads=(6, 2),
        head_dim=head_dim,
        page_size=page_size,
        residual_rank=residual_rank,
        dtype=dtype,
        delta_s=delta_s,
        scale_rule=scale_rule,
        framework=framework,
    )
    check_bytes(problem, search=scale_rule == "search")


def test_scales_divide_before_quantisation(framework: str) -> None:
    problem = make_problem([50], [], framework=framework, append=False)
    problem.cache.k_scale[:] = 0.37
    problem.cache.v_scale[:] = 3.1
    mpfa.append_kv(problem.cache, problem.k, problem.v, problem.to(problem.slots))
    check_bytes(problem)


def test_each_sequence_uses_its_row_of_statistics(framework: str) -> None:
    problem = make_problem([20, 33, 5], [], num_stats=2, framework=framework)
    check_bytes(problem, rows=[0, 1, 0])


def test_token_by_token_writes_the_same(framework: str) -> None:
    whole = make_problem([70], [], framework=framework)
    parts = make_problem([70], [], framework=framework, append=False)
    for i in range(70):
        one = slice(i, i + 1)
        mpfa.append_kv(parts.cache, parts.k[one], parts.v[one], parts.to(parts.slots[one]))
    for name, a, b in zip(
        mpfa._direct.CACHE_FIELDS, whole.cache.tensors(), parts.cache.tensors(), strict=True
    ):
        if a is not None:
            np.testing.assert_array_equal(
                oracle.to_numpy(a).view(np.uint8), oracle.to_numpy(b).view(np.uint8), err_msg=name
            )


def test_slot_minus_one_is_skipped(framework: str) -> None:
    problem = make_problem([32], [], framework=framework, append=False)
    problem.slots[1::2] = -1
    mpfa.append_kv(problem.cache, problem.k, problem.v, problem.to(problem.slots))
    used = np.zeros((problem.cache.num_pages, problem.cache.page_size), bool)
    used.reshape(-1)[problem.slots[::2]] = True
    touched = oracle.to_numpy(problem.cache.k_scales).view(np.uint8).any(axis=(1, 3))
    np.testing.assert_array_equal(touched, used)


@pytest.mark.parametrize("dtype", DTYPES)
def test_compute_means(framework: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = random_values(rng, (57, 3, 64), dtype)
    cu_seqlens = np.array([0, 10, 10, 41, 57], np.int32)
    means = oracle.to_numpy(
        mpfa.compute_means(to_framework(x, framework), to_framework(cu_seqlens, framework))
    )
    assert means.dtype == np.float32
    for i, (begin, end) in enumerate(itertools.pairwise(cu_seqlens)):
        expected = x[begin:end].astype(np.float64).sum(0) / max(end - begin, 1)
        np.testing.assert_allclose(means[i], expected, rtol=1e-6, atol=1e-7)


def test_compute_means_of_one_sequence_into_out(framework: str) -> None:
    x = to_framework(random_values(np.random.default_rng(2), (9, 2, 128)), framework)
    out = to_framework(np.full((1, 2, 128), np.nan, np.float32), framework)
    assert mpfa.compute_means(x, out=out) is out
    expected = oracle.to_numpy(x).astype(np.float64).mean(0, keepdims=True)
    np.testing.assert_allclose(oracle.to_numpy(out), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("rank", [0, 4, 8, 16])
def test_calibrate_finds_the_top_directions(framework: str, rank: int) -> None:
    rng = np.random.default_rng(3)
    q, k = random_values(rng, (200, 4, 64)), random_values(rng, (90, 2, 64))
    found = mpfa.calibrate(
        to_framework(q, framework), to_framework(k, framework), residual_rank=rank, q_mean=True
    )
    k_mean = oracle.to_numpy(found.k_mean)
    np.testing.assert_allclose(k_mean, k.astype(np.float64).mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        oracle.to_numpy(found.q_mean), q.astype(np.float64).mean(0), rtol=1e-5, atol=1e-6
    )
    if rank == 0:
        assert found.residual_basis is None
        assert found.residual_scale is None
        return
    basis = oracle.to_numpy(found.residual_basis).astype(np.float64)
    centred = k.astype(np.float32) - k_mean
    error = centred - oracle.nvfp4_values(*oracle.nvfp4(centred, True))
    for head in range(2):
        queries = q[:, 2 * head : 2 * head + 2].astype(np.float64).reshape(-1, 64)
        values, vectors = np.linalg.eigh(queries.T @ queries)
        assert values[-rank] > 1.0001 * values[-rank - 1], "the test needs a gap"
        top = vectors[:, ::-1][:, :rank].T
        np.testing.assert_allclose(np.abs(np.sum(basis[head] * top, axis=-1)), 1, atol=1e-4)
        largest = np.abs(error[:, head] @ basis[head].T).max(0) / 64
        np.testing.assert_allclose(oracle.to_numpy(found.residual_scale)[head], largest, rtol=1e-3)


def test_quantize_q(framework: str) -> None:
    rng = np.random.default_rng(4)
    q = random_values(rng, (13, 4, 64))
    mean = rng.normal(0, 1, (1, 4, 64)).astype(np.float32)
    k_mean = rng.normal(0, 1, (1, 2, 64)).astype(np.float32)
    basis = np.linalg.qr(rng.normal(0, 1, (1, 2, 64, 64)))[0][:, :, :8].astype(np.float32)
    k_first = rng.normal(0, 1, (1, 2, 64)).astype(ml_dtypes.bfloat16)
    given = {"q_mean": mean, "k_mean": k_mean, "residual_basis": basis, "k_first": k_first}
    found = mpfa.quantize_q(
        to_framework(q, framework),
        two_terms=True,
        **{name: to_framework(x, framework) for name, x in given.items()},
    )
    x = q.astype(np.float32) - mean[0]
    codes, scales = oracle.nvfp4(x, True)
    rest_codes, rest_scales = oracle.nvfp4(x - oracle.nvfp4_values(codes, scales), True)
    per_head = np.repeat(np.arange(2), 2)
    expected = {
        "codes": oracle.pack_codes(codes),
        "scales": scales,
        "codes2": oracle.pack_codes(rest_codes),
        "scales2": rest_scales,
        "rowbias": oracle.sum_by_halves(q.astype(np.float32) * k_mean[0, per_head]),
        "residual": oracle.sum_by_halves(x[:, :, None] * basis[0, per_head]),
        "first_key": oracle.sum_by_halves(x * k_first[0, per_head].astype(np.float32)),
    }
    for name, values in expected.items():
        tensor = oracle.to_numpy(getattr(found, name))
        np.testing.assert_array_equal(tensor.view(np.uint8), values.view(np.uint8), err_msg=name)


def test_quantize_q_leaves_out_what_is_not_asked_for(framework: str) -> None:
    q = to_framework(random_values(np.random.default_rng(5), (3, 2, 128)), framework)
    found = mpfa.quantize_q(q, scale_rule="plain")
    codes, scales = oracle.nvfp4(oracle.to_numpy(q).astype(np.float32), False)
    np.testing.assert_array_equal(oracle.to_numpy(found.codes), oracle.pack_codes(codes))
    np.testing.assert_array_equal(
        oracle.to_numpy(found.scales).view(np.uint8), scales.view(np.uint8)
    )
    assert found.codes2 is found.scales2 is found.rowbias is found.residual is None
