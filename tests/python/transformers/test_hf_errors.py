"""What is not supported is refused by name, before anything is stored."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from hf_support import make_model, make_statistics, padding, random_tokens, run
from mpfa.transformers import ModelStatistics, MpfaCache, calibrate_model
from transformers import (
    DynamicCache,
    Gemma3nTextConfig,
    Llama4TextConfig,
    LlamaConfig,
    MambaConfig,
    Qwen3Config,
    T5Config,
)


@pytest.fixture(scope="module")
def model() -> Any:
    """A model that no test changes for good."""
    return make_model("llama")


@pytest.fixture
def cache(model: Any) -> MpfaCache:
    """An empty cache of the model."""
    return MpfaCache(model.config, statistics=make_statistics(model))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"residual_rank": 5}, "residual_rank = 5"),
        ({"residual_rank": "8"}, "residual_rank = '8'"),
        ({"page_size": 48}, "page_size = 48"),
        ({"scale_rule": "best"}, "scale_rule = 'best'"),
        ({"first_key": 1}, "first_key = 1"),
        ({"delta_s": None}, "delta_s = None"),
        ({"reserve_tokens": -1}, "reserve_tokens = -1"),
        ({"batch_invariant": 0}, "batch_invariant = 0"),
        ({"prefill_precision": "fp32"}, "prefill_precision = 'fp32'"),
    ],
)
def test_options(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        MpfaCache(model.config, **options)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (LlamaConfig(head_dim=96), "head_dim = 96"),
        (LlamaConfig(hidden_size=512, num_attention_heads=16), "head_dim = 32"),
        (T5Config(), "T5Config is an encoder-decoder"),
        (MambaConfig(), "MambaConfig"),
        (Gemma3nTextConfig(), "num_kv_shared_layers = 15"),
        (Llama4TextConfig(), "layer_types.0. = 'chunked_attention'"),
        (Qwen3Config(num_hidden_layers=2, layer_types=["full_attention", "linear_attention"]),
         "layer_types.1. = 'linear_attention'"),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, str) else "",
)  # fmt: skip
def test_models(config: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MpfaCache(config)


def test_latent_attention() -> None:
    config = importlib.import_module("transformers").DeepseekV3Config()
    with pytest.raises(ValueError, match="kv_lora_rank"):
        MpfaCache(config)


def test_statistics_that_do_not_fit(model: Any, tmp_path: Any) -> None:
    good = make_statistics(model, residual_rank=4)
    with pytest.raises(ValueError, match="residual_rank = 8: statistics of layer 0 has 4"):
        MpfaCache(model.config, statistics=good)
    one = ModelStatistics({0: good.layers[0]})
    with pytest.raises(ValueError, match="statistics has no layer 1"):
        MpfaCache(model.config, statistics=one, residual_rank=4)
    other = make_model("llama_d128")
    with pytest.raises(ValueError, match=r"do not fit layer 0.*k_mean has shape"):
        MpfaCache(other.config, statistics=good, residual_rank=4)
    with pytest.raises(OSError, match=r"none\.safetensors"):
        MpfaCache(model.config, statistics=tmp_path / "none.safetensors")
    with pytest.warns(UserWarning, match="scale_rule = 'plain'"):
        MpfaCache(model.config, statistics=good, residual_rank=4, scale_rule="plain")


def test_without_statistics_a_warning_says_so(model: Any) -> None:
    with pytest.warns(UserWarning, match="frozen from its first 9 tokens"):
        run(model, random_tokens(1, 9), MpfaCache(model.config))


def test_foreign_caches(model: Any) -> None:
    for cache in (None, DynamicCache()):
        with pytest.raises(ValueError, match="keys that are in no MpfaCache"):
            run(model, random_tokens(1, 5), cache)


@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_other_attention_on_an_mpfa_cache(name: str, cache: MpfaCache) -> None:
    other = make_model("llama")
    other.set_attn_implementation(name)
    with pytest.raises(TypeError, match="attn_implementation='mpfa'"):
        run(other, random_tokens(1, 5), cache)
    assert cache.get_seq_length() == 0


def test_masks(model: Any, cache: MpfaCache) -> None:
    tokens = random_tokens(2, 8)
    with torch.no_grad():
        with pytest.raises(ValueError, match=r"attention_mask has shape \(2, 1, 8, 8\)"):
            model(tokens, attention_mask=torch.ones(2, 1, 8, 8), past_key_values=cache)
        with pytest.raises(ValueError, match=r"attention_mask has shape \(2, 7\): must be \(2, 8"):
            model(tokens, attention_mask=torch.ones(2, 7), past_key_values=cache)
        assert cache.get_seq_length() == 0
        mask = padding([8, 5], 8, "left")
        model(tokens, attention_mask=mask, past_key_values=cache)
        with pytest.raises(ValueError, match="differs in its first 8 columns"):
            model(tokens[:, :1], attention_mask=torch.ones(2, 9), past_key_values=cache)
        with pytest.raises(ValueError, match="the batch has 3 rows: the cache holds 2"):
            model(random_tokens(3, 1), past_key_values=cache)
    assert cache.get_seq_length() == 8


def test_packed_sequences_without_a_cache(model: Any) -> None:
    position = torch.tensor([[0, 1, 2, 0, 1]])
    with torch.no_grad(), pytest.raises(ValueError, match="asked for the mask and_masks"):
        model(random_tokens(1, 5), position_ids=position, use_cache=False)


def test_static_caches(model: Any) -> None:
    with pytest.raises(ValueError, match="static caches are not supported"):
        model.generate(random_tokens(1, 5), cache_implementation="static", max_new_tokens=4)


def test_gradients(model: Any, cache: MpfaCache) -> None:
    with pytest.raises(ValueError, match="require grad"):
        model(random_tokens(1, 5), past_key_values=cache)
    assert cache.get_seq_length() == 0


def test_dropout(cache: MpfaCache) -> None:
    training = make_model("llama", attention_dropout=0.1).train()
    with pytest.raises(ValueError, match=r"dropout = 0\.1"):
        run(training, random_tokens(1, 5), cache)


@pytest.mark.parametrize(
    ("name", "options"),
    [("mistral", {}), ("llama_d128", {}), ("llama", {"num_key_value_heads": 4})],
    ids=str,
)
def test_caches_of_other_models(name: str, options: dict[str, Any], cache: MpfaCache) -> None:
    other = make_model(name, **options)
    if name == "mistral":
        cache = MpfaCache(other.config, statistics=make_statistics(other))
        other = make_model("llama")  # has no window
    with pytest.raises(ValueError, match=r"sliding window|have shape"):
        run(other, random_tokens(1, 5), cache)
    assert cache.get_seq_length() == 0


def test_more_layers_than_the_cache_has(cache: MpfaCache) -> None:
    with pytest.raises(ValueError, match="layer_idx = 2: the cache was made for 2 layers"):
        run(make_model("llama", num_hidden_layers=3), random_tokens(1, 5), cache)


def test_after_an_interrupted_pass(model: Any, cache: MpfaCache) -> None:
    class StopError(Exception):
        pass

    def stop(*_: Any) -> None:
        raise StopError

    hook = model.model.layers[1].register_forward_pre_hook(stop)
    with pytest.raises(StopError):
        run(model, random_tokens(1, 5), cache)
    hook.remove()
    with pytest.raises(RuntimeError, match="interrupted: reset"):
        run(model, random_tokens(1, 5), cache)
    cache.reset()
    run(model, random_tokens(1, 5), cache)


def test_crop_and_rows(model: Any, cache: MpfaCache) -> None:
    with pytest.raises(ValueError, match="no frozen statistics"):
        cache.frozen_statistics()
    run(model, random_tokens(2, 5), cache)
    with pytest.raises(ValueError, match="tokens_to_remove = -6"):
        cache.crop(-6)
    with pytest.raises(ValueError, match="row = 2"):
        cache.frozen_statistics(2)
    with pytest.raises(NotImplementedError, match="offloaded"):
        cache.layers[0].offload()


def test_calibration(model: Any) -> None:
    tokens = random_tokens(1, 5)
    with pytest.raises(ValueError, match="batches has no tokens"):
        calibrate_model(model, [])
    with pytest.raises(TypeError, match="a batch must be input_ids"):
        calibrate_model(model, [tokens[0]])
    with pytest.raises(ValueError, match="residual_rank = 5"):
        calibrate_model(model, [tokens], residual_rank=5)
    with pytest.raises(ValueError, match="sample_tokens = 0"):
        calibrate_model(model, [tokens], sample_tokens=0)
    broken = make_model("llama")
    broken.model.layers[1].self_attn.k_proj.weight.data[3] = float("nan")
    with pytest.raises(ValueError, match=r"layer 1: .*not finite"):
        calibrate_model(broken, [tokens])
    assert broken.config._attn_implementation == "mpfa"
