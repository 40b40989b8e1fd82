"""Logits of models on the packed cache, beside eager attention over the dequantised cache."""

from __future__ import annotations

from typing import Any

import mpfa
import numpy as np
import oracle
import pytest
import torch
from hf_support import (
    MODELS,
    assert_close,
    block_table,
    make_model,
    make_statistics,
    oracle_logits,
    padding,
    random_tokens,
    run,
)
from mpfa.transformers import MpfaCache, quantize_foreign_caches
from mpfa.transformers._layer import MpfaLayer
from mpfa.transformers._options import CacheOptions, ModelShape
from mpfa.transformers._sequences import Sequences
from transformers import DynamicCache

TOLERANCE = 2e-5  # FP32: only the order of sums differs
LENGTH = 53
CHUNKS = [30, 17, 1, 1, 3, 1]  # a prompt in two pieces, decode steps, a speculative one


@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_prompt_chunks_and_decode_steps(name: str, side: str) -> None:
    model = make_model(name)
    tokens = random_tokens(3, LENGTH)
    mask = None
    if side != "none":
        mask = padding([LENGTH, 11, 29], LENGTH, side)
    if side == "right":  # padding between the prompt and what follows it
        mask[:, 47:] = 1
    if side == "right" and name in ("mistral", "gemma2", "gpt_oss"):
        mask = padding([LENGTH, 11, 29], LENGTH, side)  # windows count tokens, see docs/python.md
    cache = MpfaCache(model.config, statistics=make_statistics(model), page_size=16)
    logits = run(model, tokens, cache, mask=mask, chunks=CHUNKS)
    assert_close(logits, oracle_logits(model, tokens, cache, mask), TOLERANCE, mask)


@pytest.mark.parametrize(
    "options",
    [
        {"residual_rank": 0, "first_key": False},
        {"residual_rank": 0, "first_key": False, "scale_rule": "plain"},
        {"residual_rank": 4, "page_size": 128},
        {"residual_rank": 16, "page_size": 32, "batch_invariant": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
def test_options(options: dict[str, Any], calibrated: bool) -> None:
    model = make_model("llama")
    tokens = random_tokens(2, LENGTH)
    rule = options.get("scale_rule", "search")
    statistics = make_statistics(model, scale_rule=rule) if calibrated else None
    cache = MpfaCache(model.config, statistics=statistics, **options)
    logits = run(model, tokens, cache, chunks=CHUNKS)
    assert_close(logits, oracle_logits(model, tokens, cache), TOLERANCE)
    assert cache.layers[0].store.residual_rank == options["residual_rank"]
    assert (cache.layers[0].store.k_first is not None) == options.get("first_key", True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_models(dtype: torch.dtype) -> None:
    model = make_model("llama_d128", dtype)
    tokens = random_tokens(2, LENGTH)
    cache = MpfaCache(model.config, statistics=make_statistics(model))
    logits = run(model, tokens, cache, chunks=CHUNKS).float()
    expected = oracle_logits(model.float(), tokens, cache)
    assert_close(logits, expected, 0.05 if dtype == torch.bfloat16 else 0.01)


@pytest.mark.parametrize("rule", ["search", "plain"])
def test_stored_bytes(rule: str) -> None:
    """Of layer 0, whose inputs do not depend on attention."""
    model = make_model("llama")
    tokens = random_tokens(2, 40)
    mask = padding([40, 23], 40, "left")
    plain = DynamicCache()
    with quantize_foreign_caches():
        run(model, tokens, plain, mask=mask)
    cache = MpfaCache(
        model.config, statistics=make_statistics(model), scale_rule=rule, residual_rank=8
    ) if rule == "search" else MpfaCache(
        model.config,
        statistics=make_statistics(model, scale_rule=rule),
        scale_rule=rule,
        delta_s=True,
    )  # fmt: skip
    run(model, tokens, cache, mask=mask)
    store = cache.layers[0].store
    stats = oracle.stats_row(store, 0)
    for row, table in enumerate(block_table(cache)):
        valid = mask[row].bool()
        k, v = (x[row][:, valid].transpose(0, 1).numpy() for x in (
            plain.layers[0].keys, plain.layers[0].values))  # fmt: skip
        expected = oracle.written(k, v, stats, rule == "search")
        for name in ("k_codes", "k_scales", "v", "k_residual", "delta_s"):
            stored = oracle._tokens(getattr(store, name), table, int(valid.sum()), 64)
            if stored is not None:
                np.testing.assert_array_equal(
                    stored.view(np.uint8), expected[name].view(np.uint8), err_msg=name
                )


@pytest.mark.parametrize("residual_rank", [0, 8])
@pytest.mark.parametrize("per_row", [True, False])
@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
def test_delta_s(residual_rank: int, per_row: bool) -> None:
    """A layer alone, for which the oracle knows delta_s."""
    model = make_model("llama")
    shape = ModelShape.of(model.config)
    statistics = None if per_row else make_statistics(model, delta_s=True)
    options = CacheOptions.checked(
        shape, statistics=statistics, residual_rank=residual_rank, delta_s=True, page_size=16
    )
    layer = MpfaLayer(0, shape, options, Sequences(shape, options), leads=True)
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, h, 40, 64, generator=generator) + 1 for h in (4, 2, 2))
    mask = padding([40, 25], 40, "left")
    outs = [
        layer.attend(q[:, :, a:b], k[:, :, a:b], v[:, :, a:b], mask[:, :b].bool())
        for a, b in ((0, 30), (30, 39), (39, 40))
    ]
    out = torch.cat(outs, 1)
    rows, pages = 2, layer.store.num_pages // 2
    table = np.arange(pages)[None] * rows + np.arange(rows)[:, None]
    queries = np.concatenate([q[i][:, mask[i].bool()].transpose(0, 1).numpy() for i in range(2)])
    expected, _ = oracle.attend(queries, layer.store, table, [40, 25], np.array([0, 40, 65]))
    assert_close(out[mask.bool()].double(), torch.from_numpy(expected), 1e-5)


def test_foreign_caches_give_the_same() -> None:
    """Keys of transformers' own caches, packed anew at each call, where the user asks for it."""
    model = make_model("gemma2")
    tokens = random_tokens(2, LENGTH)
    mask = padding([LENGTH, 20], LENGTH, "left")
    statistics = make_statistics(model)
    cache = MpfaCache(model.config, statistics=statistics)
    expected = run(model, tokens, cache, mask=mask, chunks=CHUNKS)
    with quantize_foreign_caches(statistics=statistics):
        dynamic = run(model, tokens, DynamicCache(), mask=mask, chunks=CHUNKS)
        none = run(model, tokens, None, mask=mask)
    assert_close(dynamic, expected, TOLERANCE, mask)
    assert_close(none, expected, TOLERANCE, mask)


def test_accuracy_is_that_of_4_bits() -> None:
    """Beside the model in full precision, so that oracle and cache cannot be wrong alike."""
    model = make_model("qwen3")
    tokens = random_tokens(2, 200)
    cache = MpfaCache(model.config, statistics=make_statistics(model))
    logits = run(model, tokens, cache)
    model.set_attn_implementation("eager")
    exact = run(model, tokens, DynamicCache())
    error = ((logits - exact).norm() / exact.norm()).item()
    assert 1e-3 < error < 0.1
    assert mpfa.bytes_per_token_and_kv_head(64) == 108
