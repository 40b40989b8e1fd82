"""What is torch's own: compilation, fake tensors, grad modes."""

from __future__ import annotations

from typing import Any

import mpfa
import numpy as np
import pytest
from problems import Problem, make_problem

torch = pytest.importorskip("torch")


@pytest.fixture
def problem() -> Problem:
    """Two sequences, decode."""
    return make_problem([70, 33], [1, 1])


def tables(problem: Problem) -> tuple[Any, Any]:
    """block_table and seq_lens."""
    return problem.to(problem.block_table), problem.to(problem.seq_lens)


def same_bytes(a: Any, b: Any) -> bool:
    """Whether two tensors hold the same, NaN included."""
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def test_compile_attention_is_one_graph(problem: Problem) -> None:
    def step(q: Any, cache: mpfa.KvCache, block_table: Any, seq_lens: Any) -> Any:
        out, lse = mpfa.attention(q * 2, cache, block_table, seq_lens, return_lse=True, softcap=9.0)
        return out + 1, lse

    compiled = torch.compile(step, fullgraph=True)
    args = (problem.q, problem.cache, *tables(problem))
    for found, expected in zip(compiled(*args), step(*args), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


def test_compile_a_whole_step() -> None:
    """Append, attend, merge and means in one graph; the cache is written in place."""
    compiled_cache = make_problem([40, 20], [2, 2], append=False)
    eager_cache = make_problem([40, 20], [2, 2], append=False)
    slots, rows = (
        compiled_cache.to(compiled_cache.slots),
        compiled_cache.to(compiled_cache.cu_seqlens_q),
    )

    def step(p_cache: mpfa.KvCache, q: Any, k: Any, v: Any, table: Any, lens: Any) -> Any:
        mpfa.append_kv(p_cache, k, v, slots)
        out, lse = mpfa.attention(
            q, p_cache, table, lens, cu_seqlens_q=rows, window_left=30, return_lse=True
        )
        merged, _ = mpfa.merge_states([out, out], [lse, lse])
        return merged, mpfa.compute_means(k), mpfa.quantize_q(q, two_terms=True).codes2

    def run(function: Any, p: Problem) -> Any:
        return function(p.cache, p.q, p.k, p.v, *tables(p))

    before = compiled_cache.cache.k_codes.data_ptr()
    found = run(torch.compile(step, fullgraph=True), compiled_cache)
    expected = run(step, eager_cache)
    for a, b in zip(found, expected, strict=True):
        assert same_bytes(a, b)
    assert compiled_cache.cache.k_codes.data_ptr() == before
    for a, b in zip(compiled_cache.cache.tensors(), eager_cache.cache.tensors(), strict=True):
        assert (a is None) == (b is None)
        assert a is None or same_bytes(a, b)
    assert compiled_cache.cache.k_codes.any()


def test_compiled_append_copies_no_pages() -> None:
    from torch._inductor.utils import run_and_get_code

    problem = make_problem([40], [], append=False)
    slots = problem.to(problem.slots)
    compiled = torch.compile(lambda cache, k, v: mpfa.append_kv(cache, k, v, slots), fullgraph=True)
    _, code = run_and_get_code(compiled, problem.cache, problem.k, problem.v)
    calls = [line for source in code for line in source.splitlines() if "mpfa" in line]
    assert any("append_kv" in line for line in calls)
    pages = problem.cache.num_pages
    for source in code:
        assert "clone" not in source
        assert f"empty_strided_cpu(({pages}, " not in source


def test_compile_with_lengths_that_change() -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda q, cache, table, lens, rows: mpfa.attention(
            q, cache, table, lens, cu_seqlens_q=rows
        ),
        fullgraph=True,
        dynamic=True,
        backend=counter,
    )
    for length in (100, 137, 150, 161):
        problem = make_problem([length], [length])
        args = (problem.q, problem.cache, *tables(problem), problem.to(problem.cu_seqlens_q))
        expected = mpfa.attention(*args[:4], cu_seqlens_q=args[4])
        assert same_bytes(compiled(*args), expected)
    assert counter.frame_count <= 2


def test_compile_with_a_plan(problem: Problem) -> None:
    plan = mpfa.plan(
        batch_size=2,
        num_q_heads=4,
        num_kv_heads=2,
        head_dim=64,
        total_seqlen_q=2,
        max_seqlen_k=256,
        kv_split_size=128,
    )
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8)

    def step(q: Any, cache: mpfa.KvCache, table: Any, lens: Any, workspace: Any) -> Any:
        mpfa.schedule(cache, table, lens, plan, workspace)
        return mpfa.attention(
            q, cache, table, lens, plan=plan, workspace=workspace, is_scheduled=True
        )

    args = (problem.q, problem.cache, *tables(problem), workspace)
    assert same_bytes(torch.compile(step, fullgraph=True)(*args), step(*args))


def test_errors_reach_through_compiled_code(problem: Problem) -> None:
    compiled = torch.compile(
        lambda q, cache, table, lens: mpfa.attention(q, cache, table, lens), fullgraph=True
    )
    table, lens = tables(problem)
    with pytest.raises(ValueError, match=r"seq_lens\[0\] = 169"):
        compiled(problem.q, problem.cache, table, lens + 99)


@pytest.mark.parametrize("name", ["attention", "append_kv", "compute_means", "merge_states"])
def test_operators_keep_torchs_rules(problem: Problem, name: str) -> None:
    q, k, v = problem.q, problem.k, problem.v
    # The checks compare values in ways that e4m3 tensors do not know.
    cache = [
        x.view(torch.uint8) if x is not None and x.dtype == torch.float8_e4m3fn else x
        for x in problem.cache.tensors()
    ]
    lse = torch.zeros(2, 4)
    args = {
        "attention": (
            *(torch.empty_like(q), lse, q, *cache, *tables(problem), None),
            *(None, True, -1, 0.0, None, False, None, None, None),
        ),
        "append_kv": (*cache, k, v, problem.to(problem.slots), True, None, None),
        "compute_means": (torch.empty(1, 2, 64), k, None),
        "merge_states": (torch.empty_like(q), None, [q, q], [lse, lse]),
    }[name]
    torch.library.opcheck(
        getattr(torch.ops.mpfa, name).default,
        args,
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )


def test_fake_tensors(problem: Problem) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        cache = mpfa.KvCache.__new__(mpfa.KvCache)
        fakes = {
            name: None if x is None else mode.from_tensor(x)
            for name, x in zip(mpfa._direct.CACHE_FIELDS, problem.cache.tensors(), strict=True)
        }
        cache._set(fakes, {})
        out, lse = mpfa.attention(
            mode.from_tensor(problem.q),
            cache,
            *map(mode.from_tensor, tables(problem)),
            return_lse=True,
        )
    assert (out.shape, out.dtype) == ((2, 4, 64), torch.bfloat16)
    assert (lse.shape, lse.dtype) == ((2, 4), torch.float32)


def test_export(problem: Problem) -> None:
    class Step(torch.nn.Module):
        """Attention over buffers."""

        def __init__(self) -> None:
            super().__init__()
            self.cache = problem.cache
            for name, x in zip(mpfa._direct.CACHE_FIELDS, problem.cache.tensors(), strict=True):
                self.register_buffer(name, x)

        def forward(self, q: Any, table: Any, lens: Any) -> Any:
            """One decode step."""
            fields = {
                name: getattr(self, name)
                for name in mpfa._direct.CACHE_FIELDS
                if getattr(self, name) is not None
            }
            cache = mpfa.KvCache.__new__(mpfa.KvCache)
            cache._set(fields, {})
            return mpfa.attention(q, cache, table, lens)

    args = (problem.q, *tables(problem))
    program = torch.export.export(Step(), args, strict=False)
    assert "mpfa.attention" in str(program.graph)
    assert same_bytes(program.module()(*args), Step()(*args))


def test_gradients_are_refused_not_dropped(problem: Problem) -> None:
    q = problem.q.clone().requires_grad_()
    with pytest.raises(ValueError, match="q requires grad"):
        mpfa.attention(q, problem.cache, *tables(problem))
    compiled = torch.compile(lambda q, cache, *rest: mpfa.attention(q, cache, *rest))
    with pytest.raises(ValueError, match="q requires grad"):
        compiled(q, problem.cache, *tables(problem))
    expected = mpfa.attention(problem.q, problem.cache, *tables(problem))
    with torch.no_grad():
        assert same_bytes(mpfa.attention(q, problem.cache, *tables(problem)), expected)
    with torch.inference_mode():
        out = mpfa.attention(problem.q.clone(), problem.cache, *tables(problem))
        assert same_bytes(out, expected)


def test_parameters_and_other_devices(problem: Problem) -> None:
    frozen = torch.nn.Parameter(problem.q, requires_grad=False)
    expected = mpfa.attention(problem.q, problem.cache, *tables(problem))
    assert same_bytes(mpfa.attention(frozen, problem.cache, *tables(problem)), expected)
    with pytest.raises(ValueError, match="k is on device meta: must be on cpu or cuda"):
        mpfa.append_kv(problem.cache, problem.k.to("meta"), problem.v, problem.to(problem.slots))
    with pytest.raises(ValueError, match="q is on device meta"):
        mpfa.attention(problem.q.to("meta"), problem.cache, *tables(problem))
    negated = torch._neg_view(problem.q)
    with pytest.raises(ValueError, match="q is a view of negated elements"):
        mpfa.attention(negated, problem.cache, *tables(problem))
    with pytest.raises(ValueError, match=r"x has layout torch.sparse_coo"):
        mpfa.compute_means(problem.k.float().to_sparse(), out=torch.empty(1, 2, 64))


def test_threads_share_nothing() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(seed: int) -> Any:
        p = make_problem([100 + seed], [100 + seed], seed=seed)
        rows = p.to(p.cu_seqlens_q)
        return mpfa.attention(p.q, p.cache, *tables(p), cu_seqlens_q=rows)

    alone = [work(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, range(8)))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a.float().numpy(), b.float().numpy())
