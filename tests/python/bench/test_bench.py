"""python -m mpfa.bench on a tiny model, on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from mpfa.bench.breakdown import OTHERS, decode_breakdown, kind_of
from mpfa.bench.command import main
from mpfa.bench.generation import time_generation
from mpfa.bench.methods import METHODS, cache_bytes
from mpfa.bench.model import ModelSize, make_model, model_statistics, random_tokens
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

SIZE = ModelSize(2, 64, 96, 4, 2, 64, 50)
TINY = (
    *("--device", "cpu", "--dtype", "float32", "--layers", "2", "--hidden-size", "64"),
    *("--intermediate-size", "96", "--q-heads", "4", "--kv-heads", "2", "--head-dim", "64"),
    *("--vocabulary", "50", "--steps", "3", "--warmup", "1"),
)


def tiny_model():
    return make_model(SIZE, max_tokens=256, dtype=torch.float32, device="cpu")


@pytest.mark.parametrize("name", ["mpfa", "sdpa", "sdpa_static"])
def test_a_generation_is_timed_and_its_cache_weighed(name: str) -> None:
    model, method = tiny_model(), METHODS[name]
    model.set_attn_implementation(method.attention)
    cache = method.make_cache(model.config, 128, model_statistics(model, 100))
    tokens = random_tokens(model, 2, 40)
    found = time_generation(model, method, cache, tokens, steps=4, warmup=2)
    assert cache.get_seq_length() == 40 + 6  # the last of the 7 new tokens is not stored
    assert 0 < found.step_seconds <= found.step_seconds_max
    assert found.prefill_seconds > 0
    assert found.tokens_per_second(2) == 2 / found.step_seconds
    assert found.prefill_peak_bytes == found.decode_peak_bytes == 0  # only GPUs have them
    assert found.cache_bytes == cache_bytes(cache)
    if name == "mpfa":
        memory = cache.memory()
        assert found.cache_bytes == memory.page_bytes + memory.statistics_bytes
    else:
        columns = 128 if name == "sdpa_static" else 46
        assert found.cache_bytes == 2 * 2 * 4 * 2 * columns * 2 * 64  # layers, K and V, FP32, ...


def test_the_model_is_of_the_size_asked_for() -> None:
    model = tiny_model()
    layer = model.model.layers[0]
    assert len(model.model.layers) == 2
    assert layer.self_attn.q_proj.weight.shape == (4 * 64, 64)
    assert layer.self_attn.k_proj.weight.shape == (2 * 64, 64)
    assert layer.mlp.up_proj.weight.shape == (96, 64)
    assert model.lm_head.weight.shape == (50, 64)


@pytest.mark.parametrize("name", ["mpfa", "sdpa"])
def test_a_decode_step_is_taken_apart(name: str) -> None:
    model, method = tiny_model(), METHODS[name]
    model.set_attn_implementation(method.attention)
    cache = method.make_cache(model.config, 0, model_statistics(model, 100))
    with torch.no_grad():
        model(random_tokens(model, 2, 20), past_key_values=cache)
    before = ALL_ATTENTION_FUNCTIONS[method.attention]
    found = decode_breakdown(model, cache, 2, steps=3)
    assert cache.get_seq_length() == 20 + 3 + 3 + 3
    assert ALL_ATTENTION_FUNCTIONS[method.attention] is before
    assert "update" not in vars(cache)
    assert found.attention_host > 0
    assert 0 < found.host <= found.step
    assert found.gpu == 0
    assert found.kernels == {}


def test_kernels_have_kinds() -> None:
    assert kind_of("void mpfa::kernels::decode_kernel<128, 8>(Params)") == "MpFA's decode"
    assert kind_of("void mpfa::kernels::append_kernel<128>(Params)") == "MpFA's append"
    assert kind_of("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT") == "matrix products"
    assert kind_of("void at::native::CatArrayBatchedCopy<int>()") == "concatenation"
    assert kind_of("void pytorch_flash::flash_fwd<cutlass::bfloat16_t>()") == "attention"
    assert kind_of("void at::native::elementwise_kernel<128, 4>()") == OTHERS


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    options = ["--methods", "mpfa,sdpa", "--lengths", "20,70", "--batches", "1,3", "--breakdown"]
    assert main([*TINY, *options, "-o", str(path), "--repeats", "2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    rows = [line for line in shown if line.startswith(("| mpfa", "| sdpa"))]
    assert len(rows) == 8
    assert all(row.count("|") == shown[0].count("|") for row in rows)
    report = json.loads(path.read_text())
    assert report["model"]["layers"] == 2
    assert report["missing"] == []
    weights = 2 * (64 * (4 + 2 + 2 + 4) * 64 + 3 * 64 * 96 + 2 * 64) + 2 * 50 * 64 + 64
    assert report["model_bytes"] == 4 * weights
    kept = [(run["method"], run["batch"], run["length"]) for run in report["runs"]]
    assert kept == [
        (name, batch, length)
        for batch in (1, 3)
        for length in (20, 70)
        for name in ("mpfa", "sdpa")
    ]
    assert all(run["breakdown"]["step"] > 0 for run in report["runs"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "mpfa,fast"], "--methods fast: must be of mpfa, sdpa"),
        (["--dtype", "int4"], "--dtype int4: must be one of"),
        (["--warmup", "-1"], "--warmup -1: must not be negative"),
        (["--head-dim", "32"], "head_dim"),
    ],
)
def test_bad_options(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--lengths", "20", *options]) == 2
    assert message in capsys.readouterr().err


def test_the_command_on_a_gpu(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if not torch.cuda.is_available():
        if request.config.getoption("--require-gpu"):
            pytest.fail("torch sees no GPU")
        pytest.skip("torch sees no GPU")
    path = tmp_path / "bench.json"
    options = ["--device", "cuda", "--dtype", "bfloat16", "--lengths", "500", "--batches", "2"]
    options += ["--methods", "mpfa,sdpa_flash", "--breakdown", "-o", str(path)]
    assert main([*TINY, *options]) == 0
    assert "NVIDIA" in capsys.readouterr().err
    report = json.loads(path.read_text())
    packed, plain = report["runs"]
    for run in (packed, plain):
        assert run["prefill_peak_bytes"] > report["model_bytes"] + run["cache_bytes"]
        assert run["decode_peak_bytes"] > report["model_bytes"] + run["cache_bytes"]
        assert run["breakdown"]["gpu"] > 0
    assert packed["cache_bytes"] < plain["cache_bytes"]
    assert packed["breakdown"]["kinds"]["MpFA's decode"] > 0
    assert packed["breakdown"]["kinds"]["MpFA's append"] > 0
    assert plain["breakdown"]["kinds"]["attention"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--layers", "1"]) == 2
    assert "torch sees no GPU" in capsys.readouterr().err


def test_what_is_not_installed_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.utils import import_utils

    monkeypatch.setattr(import_utils, "is_flash_attn_2_available", lambda: False)
    path = tmp_path / "bench.json"
    options = ["--methods", "sdpa,flash_attention_2", "--lengths", "20", "--batches", "1"]
    assert main([*TINY, *options, "-o", str(path)]) == 0
    assert "flash_attention_2 is left out" in capsys.readouterr().err
    report = json.loads(path.read_text())
    assert report["missing"] == ["flash_attention_2"]
    assert [run["method"] for run in report["runs"]] == ["sdpa"]
