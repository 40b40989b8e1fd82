"""The bytes that a cache holds, beside docs/spec.md, section 4, and beside BF16."""

from __future__ import annotations

from typing import Any

import mpfa
import pytest
import torch
from hf_support import make_model, make_statistics, random_tokens, run
from mpfa.transformers import MpfaCache

LENGTH = 1024


@pytest.mark.parametrize("name", ["llama", "llama_d128"])
@pytest.mark.parametrize(
    "options",
    [
        {"residual_rank": 0, "first_key": False},
        {"residual_rank": 8, "first_key": False},
        {"residual_rank": 0, "first_key": False, "delta_s": True},
        {},
    ],
    ids=str,
)
def test_bytes_are_the_specifications(name: str, options: dict[str, Any]) -> None:
    model = make_model(name, torch.bfloat16)
    config = model.config
    rows, layers, heads = 2, config.num_hidden_layers, config.num_key_value_heads
    cache = MpfaCache(config, statistics=make_statistics(model), **options)
    tokens = random_tokens(rows, LENGTH)
    run(model, tokens, cache, chunks=[700, LENGTH - 700])
    memory = cache.memory()
    per_token = mpfa.bytes_per_token_and_kv_head(
        config.head_dim,
        residual_rank=options.get("residual_rank", 8),
        delta_s=options.get("delta_s", False),
        group_size=config.num_attention_heads // heads,
    )
    first_keys = 0 if "first_key" in options else 2 * config.head_dim / 64  # of a page of 64
    expected = rows * LENGTH * layers * heads * (per_token + first_keys)
    assert memory.tokens == rows * LENGTH
    assert memory.page_bytes == pytest.approx(expected, rel=0.01)
    assert memory.bfloat16_bytes == rows * LENGTH * layers * heads * 4 * config.head_dim
    if options.get("residual_rank") == 0 and "delta_s" not in options:
        assert memory.ratio == pytest.approx(2.56, rel=0.01)
    # Everything that the cache keeps alive, counted by another way.
    assert memory.page_bytes + memory.statistics_bytes == _bytes_of_tensors(cache)


def _bytes_of_tensors(cache: MpfaCache) -> int:
    found: dict[int, int] = {}
    for layer in cache.layers:
        for value in vars(layer.store).values():
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def test_growth_is_by_pages() -> None:
    model = make_model("llama")
    cache = MpfaCache(model.config, statistics=make_statistics(model), page_size=16)
    sizes = []
    for _ in range(40):
        run(model, random_tokens(3, 1), cache)
        sizes.append(cache.memory().page_bytes)
    page = sizes[0]
    assert sizes == [page * (1 + i // 16) for i in range(40)]
    reserved = MpfaCache(
        model.config, statistics=make_statistics(model), page_size=16, reserve_tokens=40
    )
    run(model, random_tokens(3, 1), reserved)
    assert reserved.memory().page_bytes == 3 * page
    store = reserved.layers[0].store.v
    run(model, random_tokens(3, 47), reserved)
    assert reserved.layers[0].store.v is store
    cache.crop(-38)
    run(model, random_tokens(3, 30), cache)
    assert cache.memory().page_bytes == 3 * page
    assert "times smaller" in str(cache.memory())
