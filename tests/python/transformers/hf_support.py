"""Tiny models of random weights, and the oracle of their attention over a packed cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mpfa.transformers
import numpy as np
import oracle
import torch
from mpfa.transformers import ModelStatistics, MpfaCache, calibrate_model
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    Qwen3Config,
)
from transformers.cache_utils import Cache, DynamicLayer

torch.set_num_threads(1)  # the models are tiny: more threads would only wait for each other
VOCABULARY = 97
WINDOW = 20
_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 96,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "initializer_range": 0.15,  # so that attention prefers some keys
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
_CONFIGS = {
    "llama": (LlamaConfig, {}),
    "llama_d128": (LlamaConfig, {"head_dim": 128, "num_attention_heads": 6}),
    "qwen3": (Qwen3Config, {"num_attention_heads": 5, "num_key_value_heads": 1}),
    "mistral": (MistralConfig, {"sliding_window": WINDOW}),
    # Layers alternate between a window and none.
    "gemma2": (
        Gemma2Config,
        {"sliding_window": WINDOW, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 64},
    ),
    # Sinks, and windows.
    "gpt_oss": (
        GptOssConfig,
        {"sliding_window": WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
}
MODELS = tuple(_CONFIGS)


def make_model(name: str, dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    """A model of random weights, the same for the same name."""
    config_type, options = _CONFIGS[name]
    torch.manual_seed(0)
    config = config_type(**{**_COMMON, **options, **changes})
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="mpfa")
    return model.eval()


def random_tokens(rows: int, length: int, seed: int = 1) -> torch.Tensor:
    """input_ids [rows, length] without special tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (rows, length), generator=generator)


def make_statistics(model: Any, **options: Any) -> ModelStatistics:
    """Statistics of a text of its own."""
    return calibrate_model(model, random_tokens(2, 150, seed=99).split(1), **options)


def padding(lengths: list[int], width: int, side: str) -> torch.Tensor:
    """attention_mask [rows, width] of rows padded on a side."""
    column = torch.arange(width)
    rows = [column >= width - n if side == "left" else column < n for n in lengths]
    return torch.stack(rows).long()


@contextmanager
def attention_of(model: Any, name: str) -> Iterator[None]:
    """Another attention implementation for a while."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def run(
    model: Any,
    tokens: torch.Tensor,
    cache: Any,
    *,
    mask: torch.Tensor | None = None,
    chunks: list[int] | None = None,
) -> torch.Tensor:
    """Logits [rows, length, vocabulary] of passes over chunks of the tokens."""
    position = None if mask is None else (mask.cumsum(1) - 1).clamp(min=0)
    logits, begin = [], 0
    with torch.no_grad():
        for size in chunks or [tokens.shape[1]]:
            end = begin + size
            result = model(
                tokens[:, begin:end],
                attention_mask=None if mask is None else mask[:, :end],
                position_ids=None if position is None else position[:, begin:end],
                past_key_values=cache,
            )
            logits.append(result.logits)
            begin = end
    assert begin == tokens.shape[1]
    return torch.cat(logits, 1)


class _DequantisedLayer(DynamicLayer):
    """Gives attention the packed keys and values of a layer instead of those that it is given."""

    def __init__(self, layer: Any, mask: np.ndarray, table: np.ndarray) -> None:
        super().__init__()
        self._layer, self._mask, self._table = layer, mask, table

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any) -> Any:
        """All columns at once; padding gets zeros."""
        keys, values = torch.zeros_like(key_states), torch.zeros_like(value_states)
        for row, (mask, table) in enumerate(zip(self._mask, self._table, strict=True)):
            k, v = dequantised(self._layer.store, row, table, int(mask.sum()))
            keys[row][:, mask] = k.to(keys.dtype)
            values[row][:, mask] = v.to(values.dtype)
        return keys, values


def dequantised(
    store: Any, row: int, table: np.ndarray, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """A sequence's keys and values [Hkv, length, d] as the stored bytes mean them, by NumPy."""
    index = 0 if store.stats_index is None else int(store.stats_index[row])
    stats = oracle.stats_row(store, index)
    keys, values, _ = oracle._keys(store, table, length, stats)
    keys = keys + stats.k_mean
    return tuple(torch.from_numpy(x).transpose(0, 1) for x in (keys, values))


def block_table(cache: MpfaCache) -> np.ndarray:
    """Page numbers of each row [rows, pages]: page p of row i is p * rows + i."""
    rows = cache._sequences.rows
    pages = cache.layers[0].store.num_pages // rows
    return np.arange(pages)[None] * rows + np.arange(rows)[:, None]


def oracle_logits(
    model: Any, tokens: torch.Tensor, cache: MpfaCache, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Logits of the model with eager attention over what `cache` has stored of these tokens."""
    columns = torch.ones_like(tokens) if mask is None else mask
    table = block_table(cache)
    layers = [_DequantisedLayer(x, columns.bool().numpy(), table) for x in cache.layers]
    with attention_of(model, "eager"):
        return run(model, tokens, Cache(layers=layers), mask=mask)


def assert_close(
    actual: torch.Tensor, expected: torch.Tensor, tolerance: float, mask: torch.Tensor | None = None
) -> None:
    """The largest difference of valid columns, relative to the largest value."""
    if mask is not None:
        actual, expected = actual[mask.bool()], expected[mask.bool()]
    error = (actual - expected).abs().max() / expected.abs().max()
    assert error <= tolerance, f"differs by {error:.3g}, allowed {tolerance}"


__all__ = [name for name in globals() if not name.startswith("_")]
assert mpfa.transformers  # registers attention "mpfa"
