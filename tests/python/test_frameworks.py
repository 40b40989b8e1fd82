"""Tensors of every framework are taken where they lie."""

from __future__ import annotations

import importlib.util
import mmap
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import mpfa
import numpy as np
import oracle
import pytest
import tvm_ffi
from mpfa import _tensors
from problems import FRAMEWORKS, make_problem, random_values, to_framework

MAP_NORESERVE = 0x4000  # mmap has it from Python 3.13 on
HAS_JAX = importlib.util.find_spec("jax") is not None
needs_jax = pytest.mark.skipif(not HAS_JAX, reason="jax is not installed")


def to_jax(x: np.ndarray) -> Any:
    """The same values as an array of JAX on the CPU, which need not be where it works."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.device_put(x, jax.devices("cpu")[0])


def resident_bytes() -> int:
    """Memory of this process that is really there."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float32])
def test_numpy_arrays_are_passed_in_place(dtype: type) -> None:
    x = np.zeros((4, 6, 8), dtype)[1:, ::2]
    assert np.shares_memory(np.from_dlpack(_tensors.to_ffi("x", x)), x)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_ml_dtypes_arrays_are_passed_in_place(dtype: type) -> None:
    x = np.zeros((4, 6, 8), dtype)[1:, ::2]
    tensor = _tensors.to_ffi("x", x)
    assert str(tensor.dtype) == np.dtype(dtype).name
    assert tensor.shape == x.shape
    back = _tensors.from_ffi(tensor, "numpy")
    assert back.dtype == x.dtype
    assert back.strides == x.strides
    assert np.shares_memory(back.view(np.uint8), x)


def test_read_only_arrays_can_be_read(framework: str) -> None:
    problem = make_problem([20], [], framework="numpy", append=False)
    expected = make_problem([20], [], framework="numpy")
    for x in (problem.k, problem.v, problem.slots, problem.cache.k_mean):
        x.flags.writeable = False
    mpfa.append_kv(problem.cache, problem.k, problem.v, problem.slots)
    np.testing.assert_array_equal(problem.cache.k_codes, expected.cache.k_codes)


def test_arrays_that_dlpack_has_no_words_for() -> None:
    odd = np.zeros((3, 100), np.uint8)[:, 1:97].view()
    strided = np.lib.stride_tricks.as_strided(odd.view(np.uint8), (3, 2, 4), (98, 3, 1))
    records = np.zeros((3, 2, 64), [("a", np.float32), ("b", np.uint8)])["a"]  # strides of 5 bytes
    with pytest.raises(ValueError, match="x is a NumPy array of type float32 and strides"):
        mpfa.compute_means(records)
    assert np.shares_memory(np.from_dlpack(_tensors.to_ffi("x", strided)), strided)


def test_nothing_is_copied(framework: str) -> None:
    """A cache far larger than memory, of which one page is used."""
    pages = 1 << 20  # of 16 tokens: 2 GiB of codes, 4 GiB of V
    shapes = {"k_codes": (1, 16, 64), "k_scales": (1, 16, 8), "v": (1, 16, 128)}
    tensors = {"k_mean": to_framework(np.zeros((1, 1, 128), np.float32), framework)}
    for name, shape in shapes.items():
        memory = mmap.mmap(-1, pages * int(np.prod(shape)), mmap.MAP_PRIVATE | MAP_NORESERVE)
        array = np.frombuffer(memory, np.uint8).reshape(pages, *shape)
        tensors[name] = array if framework == "numpy" else __import__("torch").from_numpy(array)
    cache = mpfa.KvCache.from_tensors(**tensors)
    rng = np.random.default_rng(0)
    q, k, v = (to_framework(random_values(rng, (5, 1, 128)), framework) for _ in range(3))
    slots = np.arange(5) + (pages - 1) * 16
    before = resident_bytes()
    mpfa.append_kv(cache, k, v, to_framework(slots, framework))
    mpfa.attention(
        q[4:],
        cache,
        to_framework(np.array([[pages - 1]], np.int32), framework),
        to_framework(np.array([5], np.int32), framework),
    )
    assert resident_bytes() - before < 64 << 20
    assert cache.nbytes > 3 << 30
    assert oracle.to_numpy(cache.v)[pages - 1, 0, :5].any(axis=-1).all()


def test_strided_inputs_and_outputs(framework: str) -> None:
    problem = make_problem([40], [7], framework=framework)
    tables = (problem.to(problem.block_table), problem.to(problem.seq_lens))
    rows = problem.to(problem.cu_seqlens_q)
    expected = mpfa.attention(problem.q, problem.cache, *tables, cu_seqlens_q=rows)
    wide = problem.to(np.zeros((7, 2, 4, 64), np.float32).astype(oracle.to_numpy(problem.q).dtype))
    wide[:, 1] = problem.q
    out = wide[:, 0]
    found = mpfa.attention(wide[:, 1], problem.cache, *tables, cu_seqlens_q=rows, out=out)
    assert found is out
    np.testing.assert_array_equal(
        oracle.to_numpy(wide)[:, 0].astype(np.float32), oracle.to_numpy(expected).astype(np.float32)
    )


def test_frameworks_agree_to_the_bit() -> None:
    results = []
    for framework in FRAMEWORKS:
        problem = make_problem([70, 30], [9, 2], framework=framework)
        tables = (problem.to(problem.block_table), problem.to(problem.seq_lens))
        out = mpfa.attention(
            problem.q, problem.cache, *tables, cu_seqlens_q=problem.to(problem.cu_seqlens_q)
        )
        assert type(out) is type(problem.q)
        results.append(oracle.to_numpy(out).view(np.uint8))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@needs_jax
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_jax(dtype: str) -> None:
    import jax

    problem = make_problem([70, 30], [9, 2], dtype=dtype, framework="numpy", append=False)
    expected = make_problem([70, 30], [9, 2], dtype=dtype, framework="numpy")
    q, k, v, slots = map(to_jax, (problem.q, problem.k, problem.v, problem.slots))
    mpfa.append_kv(problem.cache, k, v, slots)
    np.testing.assert_array_equal(problem.cache.k_codes, expected.cache.k_codes)
    tables = (problem.block_table, problem.seq_lens)
    out, lse = mpfa.attention(
        q,
        problem.cache,
        *map(to_jax, tables),
        cu_seqlens_q=to_jax(problem.cu_seqlens_q),
        return_lse=True,
    )
    assert isinstance(out, jax.Array)
    assert isinstance(lse, jax.Array)
    assert out.dtype == q.dtype
    again, lse_again = mpfa.attention(
        problem.q, expected.cache, *tables, cu_seqlens_q=problem.cu_seqlens_q, return_lse=True
    )
    np.testing.assert_array_equal(np.asarray(out).view(np.uint8), again.view(np.uint8))
    np.testing.assert_array_equal(np.asarray(lse), lse_again)
    np.testing.assert_array_equal(np.asarray(mpfa.compute_means(k)), mpfa.compute_means(problem.k))
    found = mpfa.calibrate(q, k, residual_rank=4)
    assert isinstance(found.residual_basis, jax.Array)
    merged, _ = mpfa.merge_states([out], [lse])
    np.testing.assert_array_equal(np.asarray(merged), np.asarray(out))


@needs_jax
def test_jax_arrays_are_not_written() -> None:
    problem = make_problem([20], [1], framework="numpy")
    out = to_jax(problem.q)
    with pytest.raises(ValueError, match="out is an array of JAX, which are immutable"):
        mpfa.attention(problem.q, problem.cache, problem.block_table, problem.seq_lens, out=out)


@needs_jax
def test_jax_tracers_are_refused() -> None:
    import jax

    with pytest.raises(TypeError, match="x is traced by JAX"):
        jax.jit(mpfa.compute_means)(to_jax(np.zeros((3, 2, 64), np.float32)))


@pytest.mark.parametrize("has_shape", [True, False])
def test_any_other_dlpack_producer(has_shape: bool) -> None:
    problem = make_problem([40], [1], framework="numpy")

    class Foreign:
        """Knows the protocol and nothing else."""

        def __init__(self, array: np.ndarray) -> None:
            self._tensor = _tensors.to_ffi("array", array)
            if has_shape:
                self.shape = array.shape

        def __dlpack__(self, **options: Any) -> Any:
            return self._tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self._tensor.__dlpack_device__()

    tables = (problem.block_table, problem.seq_lens)
    out = mpfa.attention(Foreign(problem.q), problem.cache, *map(Foreign, tables))
    assert isinstance(out, tvm_ffi.Tensor)
    expected = mpfa.attention(problem.q, problem.cache, *tables)
    np.testing.assert_array_equal(
        _tensors.from_ffi(out, "numpy").view(np.uint8), expected.view(np.uint8)
    )
