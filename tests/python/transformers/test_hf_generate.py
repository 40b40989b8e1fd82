"""generate() and what it asks of a cache: padding, chunks, beams, assisted decoding, copies."""

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
from mpfa.transformers import ModelStatistics, MpfaCache, quantize_foreign_caches
from transformers import DynamicCache

NEW = 12


def generate(model: Any, tokens: torch.Tensor, cache: Any, **options: Any) -> torch.Tensor:
    """The new tokens [rows, NEW]."""
    options = {"max_new_tokens": NEW, "do_sample": False, **options}
    if "attention_mask" not in options:
        options["attention_mask"] = torch.ones_like(tokens)
    return model.generate(tokens, past_key_values=cache, **options)[:, tokens.shape[1] :]


@pytest.fixture(scope="module")
def model() -> Any:
    """A model that no test changes."""
    return make_model("llama")


@pytest.fixture(scope="module")
def statistics(model: Any) -> ModelStatistics:
    """Its statistics."""
    return make_statistics(model)


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_those_of_the_oracle(name: str) -> None:
    model = make_model(name)
    tokens = random_tokens(1, 30)
    cache = MpfaCache(model.config, statistics=make_statistics(model))
    new = generate(model, tokens, cache)
    assert cache.get_seq_length() == 30 + NEW - 1
    stored = torch.cat([tokens, new], 1)[:, :-1]
    logits = oracle_logits(model, stored, cache)
    assert torch.equal(logits[:, 29:].argmax(-1), new)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
def test_padded_rows_are_as_if_alone(name: str, calibrated: bool) -> None:
    model = make_model(name)
    statistics = make_statistics(model) if calibrated else None
    lengths, width = [33, 5, 21], 33
    tokens = random_tokens(3, width)
    alone = []
    for row, length in enumerate(lengths):
        cache = MpfaCache(model.config, statistics=statistics)
        alone.append(generate(model, tokens[row : row + 1, :length], cache))
    for side in ("left", "right"):
        mask = padding(lengths, width, side)
        batch = torch.zeros_like(tokens)
        for row, length in enumerate(lengths):
            batch[row][mask[row].bool()] = tokens[row, :length]
        cache = MpfaCache(model.config, statistics=statistics)
        if side == "left":
            new = generate(model, batch, cache, attention_mask=mask)
        else:
            new = _greedy_after_right_padding(model, batch, mask, cache)
        assert torch.equal(new, torch.cat(alone)), side


def _greedy_after_right_padding(
    model: Any, batch: torch.Tensor, mask: torch.Tensor, cache: MpfaCache
) -> torch.Tensor:
    """As generate() does it, but from each row's own last token."""
    lengths = mask.sum(1)
    logits = run(model, batch, cache, mask=mask)
    last = logits[torch.arange(len(batch)), lengths - 1].argmax(-1)
    new = [last]
    for step in range(NEW - 1):
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
        with torch.no_grad():
            result = model(
                new[-1][:, None],
                attention_mask=mask,
                position_ids=(lengths + step)[:, None],
                past_key_values=cache,
            )
        new.append(result.logits[:, -1].argmax(-1))
    return torch.stack(new, 1)


@pytest.mark.parametrize("size", [1, 7, 16])
def test_chunked_prompt(model: Any, statistics: ModelStatistics, size: int) -> None:
    tokens = random_tokens(2, 35)
    mask = padding([35, 20], 35, "left")
    one_shot, chunked = (MpfaCache(model.config, statistics=statistics) for _ in range(2))
    expected = generate(model, tokens, one_shot, attention_mask=mask)
    new = generate(model, tokens, chunked, attention_mask=mask, prefill_chunk_size=size)
    assert torch.equal(new, expected)
    # A key of a deeper layer may lie at a boundary of its code: some few bytes may differ.
    a, b = one_shot.layers[0].store, chunked.layers[0].store
    differing = (a.k_codes != b.k_codes).float().mean()
    assert differing < 1e-3


@pytest.mark.parametrize(
    "options", [{"num_beams": 3}, {"num_beams": 4, "num_return_sequences": 2}], ids=str
)
@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_beam_search(name: str, options: dict[str, Any]) -> None:
    """Beside transformers' own cache, whose keys are packed anew at each step."""
    model = make_model(name)
    statistics = make_statistics(model)
    tokens = random_tokens(2, 20)
    mask = padding([20, 9], 20, "left")
    cache = MpfaCache(model.config, statistics=statistics, page_size=16)
    beams = generate(model, tokens, cache, attention_mask=mask, **options)
    with quantize_foreign_caches(statistics=statistics):
        expected = generate(model, tokens, DynamicCache(), attention_mask=mask, **options)
    assert torch.equal(beams, expected)


@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
def test_beam_search_with_statistics_of_each_row(model: Any) -> None:
    """Rows take their statistics with them: reordered pages must be read with their own."""
    tokens = random_tokens(3, 20)
    order = torch.tensor([2, 0, 0])
    cache = MpfaCache(model.config)
    run(model, tokens, cache)
    cache.reorder_cache(order)
    more = random_tokens(3, 5, seed=3)
    logits = run(model, more, cache)
    fresh = MpfaCache(model.config)
    both = torch.cat([tokens[order], more], 1)
    assert_close(logits, run(model, both, fresh, chunks=[20, 5])[:, -5:], 2e-5)
    assert_close(logits, oracle_logits(model, both, cache)[:, -5:], 2e-5)


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_assisted_decoding(name: str) -> None:
    model = make_model(name)
    statistics = make_statistics(model)
    tokens = random_tokens(1, 25)
    expected = generate(model, tokens, MpfaCache(model.config, statistics=statistics))
    ways: list[dict[str, Any]] = [{"prompt_lookup_num_tokens": 4}]
    if name == "llama":  # transformers' own cache of an assistant with a window gets masks wrong
        assistant = make_model(name, num_hidden_layers=1)
        assistant.set_attn_implementation("sdpa")
        ways.append({"assistant_model": assistant})
    for options in ways:
        cache = MpfaCache(model.config, statistics=statistics)
        new = generate(model, tokens, cache, **options)
        assert torch.equal(new, expected), options


def test_sampling_is_reproducible(model: Any, statistics: ModelStatistics) -> None:
    tokens = random_tokens(2, 10)
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        cache = MpfaCache(model.config, statistics=statistics)
        results.append(generate(model, tokens, cache, do_sample=True, num_return_sequences=2))
    assert torch.equal(*results)
    assert results[0].shape == (4, NEW)


@pytest.mark.parametrize("side", ["none", "left"])
def test_crop_and_what_follows(model: Any, statistics: ModelStatistics, side: str) -> None:
    tokens = random_tokens(2, 50)
    mask = None if side == "none" else padding([50, 44], 50, "left")
    cache = MpfaCache(model.config, statistics=statistics, page_size=16)
    expected = run(model, tokens, cache, mask=mask, chunks=[40, 10])
    wrong = MpfaCache(model.config, statistics=statistics, page_size=16)
    first = None if mask is None else mask[:, :40]
    run(model, tokens[:, :40], wrong, mask=first)
    longer = None if mask is None else torch.cat([first, torch.ones_like(mask[:, :12])], 1)
    with torch.no_grad():
        model(random_tokens(2, 12, seed=8), attention_mask=longer, past_key_values=wrong)
    wrong.crop(-12)
    assert wrong.get_seq_length() == 40
    wrong.crop(0)
    position = None if mask is None else (mask.cumsum(1) - 1)[:, 40:]
    with torch.no_grad():
        result = model(
            tokens[:, 40:], attention_mask=mask, position_ids=position, past_key_values=wrong
        )
    assert_close(result.logits, expected[:, 40:], 2e-5)


@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
def test_rows_repeated_and_chosen(model: Any) -> None:
    tokens = random_tokens(2, 30)
    mask = padding([30, 18], 30, "left")
    cache = MpfaCache(model.config)
    run(model, tokens, cache, mask=mask)
    cache.batch_repeat_interleave(2)
    cache.batch_select_indices(torch.tensor([True, False, False, True]))
    cache.reorder_cache(torch.tensor([1, 0]))
    tokens, mask = tokens.flip(0), mask.flip(0)
    more = random_tokens(2, 3, seed=7)
    wide = torch.cat([mask, torch.ones(2, 3, dtype=mask.dtype)], 1)
    position = (wide.cumsum(1) - 1)[:, 30:]
    with torch.no_grad():
        logits = model(
            more, attention_mask=wide, position_ids=position, past_key_values=cache
        ).logits
    both = torch.cat([tokens, more], 1)
    assert_close(logits, oracle_logits(model, both, cache, wide)[:, 30:], 2e-5)


def test_copies_share_nothing(model: Any, statistics: ModelStatistics) -> None:
    """A prefix that is prefilled once and continued in several ways."""
    prefix = random_tokens(1, 40)
    cache = MpfaCache(model.config, statistics=statistics)
    run(model, prefix, cache)
    for seed in (1, 2):
        whole = torch.cat([prefix, random_tokens(1, 6, seed)], 1)
        copied = copy.deepcopy(cache)
        new = generate(model, whole, copied)
        expected = generate(model, whole, MpfaCache(model.config, statistics=statistics))
        assert torch.equal(new, expected)
    assert cache.get_seq_length() == 40


@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
def test_reset_and_another_batch(model: Any) -> None:
    cache = MpfaCache(model.config)
    first = generate(model, random_tokens(2, 20), cache)
    cache.reset()
    assert cache.get_seq_length() == 0
    assert cache.memory().page_bytes == 0
    generate(model, random_tokens(3, 9, seed=5), cache)
    cache.reset()
    assert torch.equal(generate(model, random_tokens(2, 20), cache), first)


def test_conversation_goes_on(model: Any, statistics: ModelStatistics) -> None:
    cache = MpfaCache(model.config, statistics=statistics)
    turn = random_tokens(1, 20)
    answer = generate(model, turn, cache)
    whole = torch.cat([turn, answer, random_tokens(1, 7, seed=4)], 1)
    new = generate(model, whole, cache)
    assert torch.equal(new, generate(model, whole, MpfaCache(model.config, statistics=statistics)))
