"""The same functions on a GPU: real with torch, or simulated (see gpu.py)."""

from __future__ import annotations

import dataclasses
from typing import Any

import gpu
import mpfa
import numpy as np
import oracle
import pytest
from mpfa._direct import CACHE_FIELDS, PAGE_FIELDS
from problems import Problem, make_problem, random_values


@pytest.fixture(autouse=True)
def _needs_a_gpu(request: pytest.FixtureRequest) -> None:
    if gpu.IS_THERE:
        return
    if request.config.getoption("--require-gpu"):
        pytest.fail("there is no GPU")
    pytest.skip("there is no GPU")


def cache_on_gpu(problem: Problem, *, with_pages: bool = True) -> mpfa.KvCache:
    """A copy of the problem's cache; of the pages only the shape, unless asked for."""
    cache = problem.cache
    result = mpfa.KvCache(
        num_pages=cache.num_pages,
        page_size=cache.page_size,
        num_q_heads=problem.q.shape[1],
        num_kv_heads=cache.num_kv_heads,
        head_dim=cache.head_dim,
        residual_rank=cache.residual_rank,
        first_key=cache.k_first is not None,
        delta_s=cache.delta_s is not None,
        num_stats=cache.k_mean.shape[0],
        device="cuda",
        framework=gpu.FRAMEWORK,
    )
    for name in CACHE_FIELDS:
        x = getattr(cache, name)
        if x is not None and (with_pages or name not in PAGE_FIELDS):
            setattr(result, name, gpu.upload(oracle.to_numpy(x)))
    return result


@pytest.mark.parametrize(
    "options",
    [
        {"head_dim": 64, "page_size": 16},
        {"head_dim": 128, "page_size": 64, "delta_s": True, "residual_rank": 4},
        {"head_dim": 128, "page_size": 32, "first_key": False, "residual_rank": 0},
    ],
    ids=str,
)
def test_append_writes_the_bytes_of_the_cpu(options: dict[str, Any]) -> None:
    problem = make_problem([37, 0, 20], [], num_stats=2, framework="numpy", **options)
    cache = cache_on_gpu(problem, with_pages=False)
    mpfa.append_kv(
        cache,
        gpu.upload(problem.k),
        gpu.upload(problem.v),
        gpu.upload(problem.slots),
        cu_seqlens=gpu.upload(problem.cu_seqlens_k),
    )
    page, offset = np.divmod(problem.slots, cache.page_size)
    for name in PAGE_FIELDS:
        expected = getattr(problem.cache, name)
        if expected is None:
            continue
        found = gpu.download(getattr(cache, name))
        if name == "k_first":
            used = page[offset == 0]
            found, expected = found[used], expected[used]
        else:
            found, expected = found[page, :, offset], expected[page, :, offset]
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8), err_msg=name)


@pytest.mark.parametrize("q_lens", [[1, 1, 1], [9, 0, 30]], ids=["decode", "prompt"])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("has_plan", [False, True])
def test_attention(q_lens: list[int], head_dim: int, has_plan: bool) -> None:
    problem = make_problem([70, 1, 30], q_lens, head_dim=head_dim, framework="numpy")
    is_decode = max(q_lens) == 1
    cache = cache_on_gpu(problem)
    tables = (gpu.upload(problem.block_table), gpu.upload(problem.seq_lens))
    rows = None if is_decode else gpu.upload(problem.cu_seqlens_q)
    options: dict[str, Any] = {}
    if has_plan:
        plan = mpfa.plan(
            batch_size=3,
            num_q_heads=4,
            num_kv_heads=2,
            head_dim=head_dim,
            total_seqlen_q=sum(q_lens),
            max_seqlen_q=max(q_lens),
            max_seqlen_k=80,
            prefill_precision="fp16",
            device="cuda",
        )
        assert plan.device == "cuda:0"
        assert plan.prefill_precision == "fp16"
        workspace = gpu.upload(np.full(max(plan.workspace_bytes, 256), 0xFF, np.uint8))
        mpfa.schedule(cache, *tables, plan, workspace, cu_seqlens_q=rows)
        options = {"plan": plan, "workspace": workspace, "is_scheduled": True}
    out, lse = mpfa.attention(
        gpu.upload(problem.q), cache, *tables, cu_seqlens_q=rows, return_lse=True, **options
    )
    expected, expected_lse = oracle.attend(
        problem.q, problem.cache, problem.block_table, problem.seq_lens, problem.cu_seqlens_q
    )
    found = gpu.download(out).astype(np.float64)
    # The default plan of prompts may round probabilities to FP8.
    is_exact = has_plan or is_decode
    assert np.linalg.norm(found - expected) <= (6e-3 if is_exact else 4e-2) * np.linalg.norm(
        expected
    )
    np.testing.assert_allclose(
        gpu.download(lse), expected_lse, rtol=2e-4, atol=5e-3 if is_exact else 2e-2
    )


@pytest.mark.parametrize("q_lens", [[1, 1, 1], [9, 0, 30]], ids=["decode", "prompt"])
@pytest.mark.parametrize(
    "options",
    [{"sinks": True}, {"sinks": True, "window_left": 19}, {"softcap": 5.0, "window_left": 19}],
    ids=str,
)
def test_masks_and_scores(q_lens: list[int], options: dict[str, Any]) -> None:
    problem = make_problem([70, 1, 30], q_lens, framework="numpy")
    on_gpu, on_cpu = dict(options), dict(options)
    if "sinks" in options:
        on_cpu["sinks"] = np.array([0.5, 20.0, -3.0, 8.0], np.float32)
        on_gpu["sinks"] = gpu.upload(on_cpu["sinks"])
    out = mpfa.attention(
        gpu.upload(problem.q),
        cache_on_gpu(problem),
        gpu.upload(problem.block_table),
        gpu.upload(problem.seq_lens),
        cu_seqlens_q=None if max(q_lens) == 1 else gpu.upload(problem.cu_seqlens_q),
        **on_gpu,
    )
    expected, _ = oracle.attend(
        problem.q,
        problem.cache,
        problem.block_table,
        problem.seq_lens,
        problem.cu_seqlens_q,
        **on_cpu,
    )
    found = gpu.download(out).astype(np.float64)
    assert np.linalg.norm(found - expected) <= 6e-3 * np.linalg.norm(expected)


def test_means_queries_and_states() -> None:
    rng = np.random.default_rng(0)
    q = random_values(rng, (6, 2, 64))
    on_gpu = gpu.upload(q)
    np.testing.assert_allclose(
        gpu.download(mpfa.compute_means(on_gpu))[0], q.astype(np.float64).mean(0), rtol=1e-5
    )
    found, expected = mpfa.quantize_q(on_gpu, two_terms=True), mpfa.quantize_q(q, two_terms=True)
    for name in ("codes", "scales", "codes2", "scales2"):
        np.testing.assert_array_equal(
            gpu.download(getattr(found, name)).view(np.uint8),
            getattr(expected, name).view(np.uint8),
            err_msg=name,
        )
    lses = [np.zeros((6, 2), np.float32), np.full((6, 2), -np.inf, np.float32)]
    merged, lse = mpfa.merge_states([on_gpu, on_gpu], [gpu.upload(x) for x in lses])
    np.testing.assert_array_equal(gpu.download(merged).view(np.uint8), q.view(np.uint8))
    np.testing.assert_array_equal(gpu.download(lse), lses[0])


def test_save_from_the_gpu(tmp_path) -> None:
    problem = make_problem([30], [1], framework="numpy")
    path = tmp_path / "cache.safetensors"
    cache_on_gpu(problem).save(path)
    loaded = mpfa.KvCache.load(path, framework="numpy")
    np.testing.assert_array_equal(loaded.k_codes, problem.cache.k_codes)


STATISTICS = ("k_mean", "q_mean", "residual_basis", "residual_scale")


def sample_statistics() -> mpfa.Statistics:
    """Of random queries and keys, for 4 and 2 heads of 64."""
    rng = np.random.default_rng(0)
    q, k = random_values(rng, (50, 4, 64)), random_values(rng, (50, 2, 64))
    return mpfa.calibrate(q, k, q_mean=True)


def cache_for_statistics(framework: str) -> mpfa.KvCache:
    """Three rows of statistics, on the GPU where the framework has one."""
    return mpfa.KvCache(
        num_pages=1,
        num_q_heads=4,
        num_kv_heads=2,
        head_dim=64,
        delta_s=True,
        num_stats=3,
        device="cpu" if framework == "numpy" else "cuda",
        framework=framework,
    )


@pytest.mark.parametrize("from_gpu", [False, True])
@pytest.mark.parametrize("framework", sorted({"numpy", "dlpack", gpu.FRAMEWORK}))
def test_statistics_go_from_and_to_the_gpu(framework: str, from_gpu: bool) -> None:
    cache = cache_for_statistics(framework)
    found = sample_statistics()
    read = np.array if framework == "numpy" else gpu.download
    before = {name: read(getattr(cache, name)) for name in STATISTICS}
    given = found
    if from_gpu:
        given = mpfa.Statistics(**{name: gpu.upload(getattr(found, name)) for name in STATISTICS})
    cache.set_statistics(given, 1)
    for name in STATISTICS:
        after = read(getattr(cache, name))
        np.testing.assert_array_equal(after[1], getattr(found, name), err_msg=name)
        np.testing.assert_array_equal(after[::2], before[name][::2], err_msg=name)


def test_statistics_on_the_gpu_that_do_not_fit() -> None:
    cache, found = cache_for_statistics("dlpack"), sample_statistics()
    half = gpu.upload(found.residual_scale.astype(np.float16))
    with pytest.raises(
        ValueError, match=r"statistics\.residual_scale has type float16: must be float32"
    ):
        cache.set_statistics(dataclasses.replace(found, residual_scale=half))
    assert not gpu.download(cache.k_mean).any()  # nothing has been written
    # From the host any type and stride is taken, as of the other frameworks.
    wide = np.repeat(found.k_mean.astype(np.float64), 2, axis=1)[:, ::2]
    cache.set_statistics(dataclasses.replace(found, k_mean=wide))
    np.testing.assert_array_equal(gpu.download(cache.k_mean)[0], found.k_mean)


def test_jax_on_the_gpu() -> None:
    jax = pytest.importorskip("jax")
    try:
        place = jax.devices("cuda")[0]
    except RuntimeError:
        pytest.skip("JAX sees no GPU")
    jax.config.update("jax_enable_x64", True)
    problem = make_problem([70, 30], [1, 1], framework="numpy")
    cache = cache_on_gpu(problem, with_pages=False)
    x = {
        name: jax.device_put(getattr(problem, name), place)
        for name in ("q", "k", "v", "slots", "block_table", "seq_lens")
    }
    mpfa.append_kv(cache, x["k"], x["v"], x["slots"])
    out = mpfa.attention(x["q"], cache, x["block_table"], x["seq_lens"])
    assert isinstance(out, jax.Array)
    assert out.devices() == {place}
    expected, _ = oracle.attend(
        problem.q, problem.cache, problem.block_table, problem.seq_lens, problem.cu_seqlens_q
    )
    found = np.asarray(out).astype(np.float64)
    assert np.linalg.norm(found - expected) <= 6e-3 * np.linalg.norm(expected)


def test_what_the_host_cannot_see_is_counted() -> None:
    problem = make_problem([20], [1], framework="numpy")
    cache = cache_on_gpu(problem)
    count = gpu.upload(np.zeros(1, np.int32))
    slots = problem.slots.copy()
    slots[3] = 10**6
    arrays = (gpu.upload(x) for x in (problem.k, problem.v, slots))
    mpfa.append_kv(cache, *arrays, error_count=count)
    assert gpu.download(count)[0] == 1
    mpfa.attention(
        gpu.upload(problem.q),
        cache,
        gpu.upload(problem.block_table),
        gpu.upload(problem.seq_lens + 99),
        error_count=count,
    )
    assert gpu.download(count)[0] > 1


def test_tensors_on_two_devices() -> None:
    problem = make_problem([20], [1], framework="numpy")
    with pytest.raises(ValueError, match="lies on DLPack device type 2"):
        mpfa.attention(
            problem.q,
            cache_on_gpu(problem),
            gpu.upload(problem.block_table),
            gpu.upload(problem.seq_lens),
        )


@pytest.mark.skipif(not gpu.USES_TORCH, reason="torch sees no GPU")
def test_work_goes_to_torchs_current_stream() -> None:
    import torch

    problem = make_problem([300, 200], [1, 1], framework="numpy")
    cache = cache_on_gpu(problem)
    q, table, lens = map(gpu.upload, (problem.q, problem.block_table, problem.seq_lens))
    expected = mpfa.attention(q, cache, table, lens)
    late = torch.zeros_like(q)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        late.copy_(q)  # attention sees these values only if it waits in the same stream
        out = mpfa.attention(late, cache, table, lens)
    stream.synchronize()
    assert torch.equal(out, expected)


@pytest.mark.skipif(not gpu.USES_TORCH, reason="torch sees no GPU")
def test_cuda_graphs() -> None:
    import torch

    problem = make_problem([300, 200], [1, 1], framework="numpy")
    cache = cache_on_gpu(problem)
    q, k, v = (gpu.upload(x[:2].copy()) for x in (problem.q, problem.k, problem.v))
    table, lens = gpu.upload(problem.block_table), gpu.upload(problem.seq_lens)
    slots = gpu.upload(problem.slots[:2])
    out = torch.empty_like(q)

    def step() -> None:
        mpfa.append_kv(cache, k, v, slots)
        mpfa.attention(q, cache, table, lens, out=out)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for shrink in (0, 50):
        lens.sub_(shrink)
        q.mul_(-1)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, mpfa.attention(q, cache, table, lens))
