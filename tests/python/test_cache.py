"""KvCache: its tensors, statistics and files."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import ml_dtypes
import mpfa
import numpy as np
import oracle
import pytest
from mpfa._direct import CACHE_FIELDS
from problems import FRAMEWORKS, HAS_TORCH, make_problem, random_values, to_framework

CONFIG = {"num_pages": 3, "num_kv_heads": 2, "head_dim": 128, "framework": "numpy"}


def same(a: mpfa.KvCache, b: mpfa.KvCache, names: tuple[str, ...] = CACHE_FIELDS) -> None:
    """Both hold the same bytes."""
    for name in names:
        x, y = oracle.to_numpy(getattr(a, name)), oracle.to_numpy(getattr(b, name))
        assert (x is None) == (y is None), name
        if x is not None:
            assert x.shape == y.shape, name
            np.testing.assert_array_equal(
                np.ascontiguousarray(x).view(np.uint8), np.ascontiguousarray(y).view(np.uint8)
            )


def test_shapes_types_and_first_values(framework: str) -> None:
    cache = mpfa.KvCache(
        num_pages=5,
        page_size=32,
        num_q_heads=6,
        num_kv_heads=2,
        head_dim=64,
        residual_rank=4,
        delta_s=True,
        num_stats=3,
        batch_size=7,
        max_pages_per_seq=9,
        framework=framework,
    )
    e4m3, bf16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
    expected = {
        "k_codes": ((5, 2, 32, 32), np.uint8),
        "k_scales": ((5, 2, 32, 4), e4m3),
        "v": ((5, 2, 32, 64), e4m3),
        "delta_s": ((5, 6, 32), bf16),
        "k_residual": ((5, 2, 32, 4), e4m3),
        "k_first": ((5, 2, 64), bf16),
        "k_mean": ((3, 2, 64), np.float32),
        "q_mean": ((3, 6, 64), np.float32),
        "residual_basis": ((3, 2, 4, 64), np.float32),
        "residual_scale": ((3, 2, 4), np.float32),
        "k_scale": ((3, 2), np.float32),
        "v_scale": ((3, 2), np.float32),
        "stats_index": ((7,), np.int32),
        "block_table": ((7, 9), np.int32),
        "seq_lens": ((7,), np.int32),
    }
    assert set(expected) == {*CACHE_FIELDS, "block_table", "seq_lens"}
    for name, (shape, dtype) in expected.items():
        x = oracle.to_numpy(getattr(cache, name))
        assert (x.shape, x.dtype) == (shape, np.dtype(dtype)), name
        if name in ("residual_scale", "k_scale", "v_scale"):
            assert (x == 1).all(), name
        elif name == "residual_basis":
            np.testing.assert_array_equal(x, np.broadcast_to(np.eye(4, 64), shape))
        else:
            assert not x.astype(np.float32).any(), name
    assert (cache.num_pages, cache.page_size, cache.num_kv_heads) == (5, 32, 2)
    assert (cache.head_dim, cache.residual_rank) == (64, 4)


def test_what_a_cache_may_lack() -> None:
    cache = mpfa.KvCache(**CONFIG, residual_rank=0, first_key=False)
    for name in ("delta_s", "k_residual", "k_first", "q_mean", "residual_basis", "stats_index"):
        assert getattr(cache, name) is None
    assert cache.residual_rank == 0


@pytest.mark.parametrize(
    ("head_dim", "options", "expected"),
    [
        (128, {"residual_rank": 0}, 200),
        (64, {"residual_rank": 0}, 100),
        (128, {}, 208),
        (64, {}, 108),
        (64, {"residual_rank": 0, "delta_s": True, "group_size": 3}, 106),
    ],
)
def test_bytes_per_token(head_dim: int, options: dict[str, int], expected: float) -> None:
    assert mpfa.bytes_per_token_and_kv_head(head_dim, **options) == expected


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "dlpack"])
def test_bytes_of_a_cache_are_those_of_its_tokens(framework: str) -> None:
    cache = mpfa.KvCache(
        num_pages=10, num_kv_heads=4, head_dim=128, first_key=False, framework=framework
    )
    assert cache.nbytes == 10 * 64 * 4 * mpfa.bytes_per_token_and_kv_head(128)
    assert "10 pages of 64 tokens" in repr(cache)


def test_the_librarys_own_tensors_serve_all(framework: str) -> None:
    problem = make_problem([30], [4], framework=framework)
    own = mpfa.KvCache(
        num_pages=problem.cache.num_pages,
        page_size=16,
        num_q_heads=4,
        num_kv_heads=2,
        head_dim=64,
        framework="dlpack",
    )
    found = mpfa.Statistics(
        *(
            np.ascontiguousarray(oracle.to_numpy(getattr(problem.cache, name))[0])
            for name in ("k_mean",)
        ),
        residual_basis=oracle.to_numpy(problem.cache.residual_basis)[0],
        residual_scale=oracle.to_numpy(problem.cache.residual_scale)[0],
    )
    own.set_statistics(found)
    mpfa.append_kv(own, problem.k, problem.v, problem.to(problem.slots))
    tables = (problem.to(problem.block_table), problem.to(problem.seq_lens))
    rows = problem.to(problem.cu_seqlens_q)
    a = mpfa.attention(problem.q, own, *tables, cu_seqlens_q=rows)
    b = mpfa.attention(problem.q, problem.cache, *tables, cu_seqlens_q=rows)
    np.testing.assert_array_equal(
        oracle.to_numpy(a).view(np.uint8), oracle.to_numpy(b).view(np.uint8)
    )


@pytest.mark.parametrize("options", [{}, {"delta_s": True, "residual_rank": 0}], ids=str)
def test_save_and_load(tmp_path, framework: str, options: dict) -> None:
    problem = make_problem([30, 70], [3, 2], framework=framework, num_stats=2, **options)
    cache = problem.cache
    cache.block_table = problem.to(problem.block_table)
    cache.seq_lens = problem.to(problem.seq_lens)
    path = tmp_path / "cache.safetensors"
    cache.save(path, metadata={"model": "made up", "ü": "✓"})
    for other in FRAMEWORKS:
        loaded = mpfa.KvCache.load(str(path), framework=other)
        same(loaded, cache, (*CACHE_FIELDS, "block_table", "seq_lens"))
        assert loaded.metadata == {"model": "made up", "ü": "✓"}
        out = mpfa.attention(problem.q, loaded, cu_seqlens_q=problem.to(problem.cu_seqlens_q))
        expected = mpfa.attention(problem.q, cache, cu_seqlens_q=problem.to(problem.cu_seqlens_q))
        np.testing.assert_array_equal(
            oracle.to_numpy(out).view(np.uint8), oracle.to_numpy(expected).view(np.uint8)
        )
    again = tmp_path / "again.safetensors"
    mpfa.KvCache.load(path, framework=framework).save(again)
    assert again.read_bytes() == path.read_bytes()


def test_a_loaded_cache_outlives_the_file_and_can_be_written(tmp_path, framework: str) -> None:
    problem = make_problem([20], [], framework=framework)
    path = tmp_path / "cache.safetensors"
    problem.cache.save(path)
    loaded = mpfa.KvCache.load(path, framework=framework)
    path.unlink()
    mpfa.append_kv(loaded, problem.k[:1], problem.v[:1], problem.to(problem.slots[5:6]))
    mpfa.append_kv(problem.cache, problem.k[:1], problem.v[:1], problem.to(problem.slots[5:6]))
    same(loaded, problem.cache)


def test_the_file_is_a_safetensors_file(tmp_path) -> None:
    safetensors = pytest.importorskip("safetensors")
    problem = make_problem([20], [])
    path = tmp_path / "cache.safetensors"
    problem.cache.save(path)
    with safetensors.safe_open(path, framework="numpy") as file:
        names = set(file.keys())
        np.testing.assert_array_equal(
            file.get_tensor("k_codes"), oracle.to_numpy(problem.cache.k_codes)
        )
    assert {"k_codes", "k_scales", "v", "k_residual", "k_first", "k_mean"} <= names


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"", "nothing.safetensors"), (b"\x08" + 15 * b"\0", "nothing")],
)
def test_files_that_are_no_cache(tmp_path, content: bytes | None, message: str) -> None:
    path = tmp_path / "nothing.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OSError, match=message):
        mpfa.KvCache.load(path)


def test_save_into_a_folder_that_is_not_there(tmp_path) -> None:
    cache = mpfa.KvCache(**CONFIG)
    with pytest.raises(OSError, match="missing"):
        cache.save(tmp_path / "missing" / "cache.safetensors")


def test_from_tensors_uses_them_in_place(framework: str) -> None:
    problem = make_problem([20], [], framework=framework, append=False)
    tensors = {
        name: x
        for name, x in zip(CACHE_FIELDS, problem.cache.tensors(), strict=True)
        if x is not None
    }
    cache = mpfa.KvCache.from_tensors(**tensors)
    assert cache.k_codes is problem.cache.k_codes
    mpfa.append_kv(cache, problem.k, problem.v, problem.to(problem.slots))
    assert oracle.to_numpy(problem.cache.k_codes).any()


def test_replaced_tensors_are_used() -> None:
    problem = make_problem([20], [], framework="numpy")
    other = np.zeros_like(problem.cache.v)
    problem.cache.v = other
    mpfa.append_kv(problem.cache, problem.k, problem.v, problem.slots)
    assert other.view(np.uint8).any()


def test_uint8_stands_for_e4m3(framework: str) -> None:
    problem = make_problem([40], [5], framework=framework)
    tables = (problem.to(problem.block_table), problem.to(problem.seq_lens))
    rows = problem.to(problem.cu_seqlens_q)
    expected = mpfa.attention(problem.q, problem.cache, *tables, cu_seqlens_q=rows)
    uint8 = np.uint8 if framework == "numpy" else pytest.importorskip("torch").uint8
    for name in ("k_scales", "v", "k_residual"):
        setattr(problem.cache, name, getattr(problem.cache, name).view(uint8))
    found = mpfa.attention(problem.q, problem.cache, *tables, cu_seqlens_q=rows)
    np.testing.assert_array_equal(
        oracle.to_numpy(found).view(np.uint8), oracle.to_numpy(expected).view(np.uint8)
    )


def test_set_statistics(framework: str) -> None:
    cache = mpfa.KvCache(
        num_pages=1, num_kv_heads=2, head_dim=64, num_stats=2, residual_rank=4, framework=framework
    )
    rng = np.random.default_rng(0)
    q, k = random_values(rng, (20, 2, 64)), random_values(rng, (20, 2, 64))
    found = mpfa.calibrate(to_framework(q, framework), to_framework(k, framework), residual_rank=4)
    cache.set_statistics(found, row=1)
    for name in ("k_mean", "residual_basis", "residual_scale"):
        np.testing.assert_array_equal(
            oracle.to_numpy(getattr(cache, name))[1], oracle.to_numpy(getattr(found, name))
        )
    assert not oracle.to_numpy(cache.k_mean)[0].any()


def test_statistics_may_be_read_only() -> None:
    for framework in FRAMEWORKS:
        cache = mpfa.KvCache(**{**CONFIG, "framework": framework, "residual_rank": 0})
        mean = np.arange(256, dtype=np.float32).reshape(2, 128)
        mean.flags.writeable = False
        cache.set_statistics(mpfa.Statistics(mean))
        np.testing.assert_array_equal(oracle.to_numpy(cache.k_mean)[0], mean)


def pickled(cache: mpfa.KvCache) -> mpfa.KvCache:
    """A copy by way of bytes; pickle alone does not know torch's float8."""
    if isinstance(cache.v, np.ndarray):
        return pickle.loads(pickle.dumps(cache))
    import torch

    file = io.BytesIO()
    torch.save(cache, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_copies_have_tensors_of_their_own(
    framework: str, copied: Callable[[mpfa.KvCache], mpfa.KvCache]
) -> None:
    problem = make_problem([40], [1], framework=framework)
    tables = (problem.to(problem.block_table), problem.to(problem.seq_lens))
    expected = oracle.to_numpy(mpfa.attention(problem.q, problem.cache, *tables))
    problem.cache.metadata["key"] = "value"
    twin = copied(problem.cache)
    same(twin, problem.cache)
    assert twin.metadata == {"key": "value"}
    twin.k_mean[:] = 1e3
    twin.v[:] = 0
    assert not oracle.to_numpy(mpfa.attention(problem.q, twin, *tables)).any()
    found = oracle.to_numpy(mpfa.attention(problem.q, problem.cache, *tables))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_to_copies_to_a_device() -> None:
    cache = make_problem([20], []).cache
    moved = cache.to("cpu")
    same(moved, cache)
    with pytest.raises(TypeError, match="torch"):
        mpfa.KvCache(**CONFIG).to("cpu")
