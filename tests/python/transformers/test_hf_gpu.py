"""The same on a GPU, for which torch must see one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hf_support import (
    MODELS,
    assert_close,
    make_model,
    make_statistics,
    oracle_logits,
    padding,
    random_tokens,
    run,
)
from mpfa.transformers import MpfaCache, calibrate_model, quantize_foreign_caches
from mpfa.transformers._moments import Moments, row_statistics
from transformers import DynamicCache


@pytest.fixture(autouse=True)
def _needs_a_gpu(request: pytest.FixtureRequest) -> None:
    if torch.cuda.is_available():
        return
    if request.config.getoption("--require-gpu"):
        pytest.fail("torch sees no GPU")
    pytest.skip("torch sees no GPU")


def to_cpu(cache: MpfaCache) -> MpfaCache:
    """A copy that the oracle can read."""
    copied = copy.deepcopy(cache)
    for layer in copied.layers:
        layer.store = layer.store.to("cpu")
    return copied


# All experts, weighted: which ones are chosen would depend on rounding to BF16.
CHANGES = {"gpt_oss": {"num_experts_per_tok": 2}}


@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_prompt_chunks_and_decode_steps(name: str, side: str, calibrated: bool) -> None:
    """BF16 on the GPU beside the oracle's FP32 over the same bytes."""
    changes = CHANGES.get(name, {})
    model = make_model(name, torch.bfloat16, **changes)
    statistics = make_statistics(model) if calibrated else None
    tokens = random_tokens(3, 53)
    mask = None if side == "none" else padding([53, 11, 29], 53, side)
    model.to("cuda")
    cache = MpfaCache(model.config, statistics=statistics)
    given = None if mask is None else mask.cuda()
    logits = run(model, tokens.cuda(), cache, mask=given, chunks=[30, 18, 1, 1, 3])
    exact = make_model(name, **changes)
    exact.load_state_dict(model.float().state_dict())
    expected = oracle_logits(exact.cpu(), tokens, to_cpu(cache), mask)
    assert_close(logits.float().cpu(), expected, 0.06, mask)


def test_generate() -> None:
    model = make_model("llama_d128", torch.bfloat16)
    statistics = make_statistics(model)
    model.to("cuda")
    tokens = random_tokens(2, 40).cuda()
    mask = padding([40, 17], 40, "left").cuda()
    for options in (
        {},
        {"num_beams": 3},
        {"prefill_chunk_size": 16},
        {"do_sample": True},
    ):
        cache = MpfaCache(model.config, statistics=statistics)
        new = model.generate(
            tokens, attention_mask=mask, past_key_values=cache, max_new_tokens=30, **options
        )
        assert new.shape == (2, 70)
    cache = MpfaCache(model.config, statistics=statistics)
    model.generate(
        tokens[:1], past_key_values=cache, prompt_lookup_num_tokens=4, max_new_tokens=30,
        attention_mask=torch.ones_like(tokens[:1]),
    )  # fmt: skip


def test_foreign_caches() -> None:
    model = make_model("gemma2", torch.bfloat16)
    statistics = make_statistics(model)
    model.to("cuda")
    tokens = random_tokens(2, 50).cuda()
    mask = padding([50, 20], 50, "left").cuda()
    cache = MpfaCache(model.config, statistics=statistics)
    expected = run(model, tokens, cache, mask=mask, chunks=[45, 5])
    with quantize_foreign_caches(statistics=statistics):
        logits = run(model, tokens, DynamicCache(), mask=mask, chunks=[45, 5])
    assert_close(logits.float(), expected.float(), 0.05, mask)


@pytest.mark.parametrize("side", ["none", "left"])
def test_decode_steps_do_not_wait(side: str) -> None:
    """Neither with a padding mask nor when the cache grows."""
    model = make_model("gemma2", torch.bfloat16)
    statistics = make_statistics(model)
    model.to("cuda")
    cache = MpfaCache(model.config, statistics=statistics, page_size=16)
    mask = padding([40, 17], 40, "left").cuda() if side == "left" else None
    run(model, random_tokens(2, 40).cuda(), cache, mask=mask)
    steps = [random_tokens(2, 1, seed=i).cuda() for i in range(30)]
    positions = [torch.full((2, 1), 40 + i, device="cuda") for i in range(30)]
    whole = None if mask is None else torch.cat([mask, mask.new_ones(2, 30)], 1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.no_grad():
            for i, (token, position) in enumerate(zip(steps, positions, strict=True)):
                model(
                    token,
                    attention_mask=None if whole is None else whole[:, : 41 + i],
                    position_ids=position,
                    past_key_values=cache,
                )
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert cache.get_seq_length() == 70


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_are_the_cpus(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    q, k = (torch.randn(2, h, 300, 128, generator=generator).add(1).to(dtype) for h in (4, 2))
    valid = padding([300, 120], 300, "left").bool()
    found: dict[str, Any] = {}
    for device in ("cpu", "cuda"):
        x = [t.to(device) for t in (q, k, valid)]
        moments = Moments(2, 4, 2, 128, torch.device(device))
        moments.add(*x)
        found[device] = row_statistics(
            moments, *x[1:], residual_rank=8, delta_s=False, scale_rule="search"
        )
    for name in ("k_mean", "q_mean"):
        assert_close(getattr(found["cuda"], name).cpu(), getattr(found["cpu"], name), 1e-5)
    first, second = (found[d].residual_basis[:, :, 0].cpu() for d in ("cuda", "cpu"))
    assert_close(first, second, 1e-3)  # the others' eigenvalues are too close to each other
    assert_close(found["cuda"].residual_scale[:, :, 0].cpu(),
                 found["cpu"].residual_scale[:, :, 0], 1e-2)  # fmt: skip


def test_calibration_and_memory() -> None:
    model = make_model("llama_d128", torch.bfloat16).cuda()
    statistics = calibrate_model(model, random_tokens(2, 400).split(1))
    assert statistics.layers[0].k_mean.device.type == "cpu"
    cache = MpfaCache(model.config, statistics=statistics)
    tokens = random_tokens(1, 8192).cuda()
    run(model, tokens[:, :64], cache)  # what is allocated once
    before = _requested() - _held(cache)
    run(model, tokens[:, 64:], cache, chunks=[4096, 4032])
    assert _requested() - before == pytest.approx(_held(cache), rel=0.02)
    assert cache.memory().ratio > 2.3


def _requested() -> int:
    """Bytes of all tensors: without what torch's allocator adds to each, up to 1 MiB."""
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def _held(cache: MpfaCache) -> int:
    memory = cache.memory()
    return memory.page_bytes + memory.statistics_bytes
