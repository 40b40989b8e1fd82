"""A Llama-shaped model of random weights: speed does not depend on what weights are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from mpfa.transformers import ModelStatistics, calibrate_model


@dataclass(frozen=True)
class ModelSize:
    """By default Llama 3.1 8B's, but for the number of layers."""

    layers: int
    hidden_size: int = 4096
    intermediate_size: int = 14336
    num_q_heads: int = 32
    num_kv_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 128256


def make_model(size: ModelSize, *, max_tokens: int, dtype: torch.dtype, device: str) -> Any:
    """A model in evaluation mode that never ends an answer; made on the device."""
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden_size,
        intermediate_size=size.intermediate_size,
        num_hidden_layers=size.layers,
        num_attention_heads=size.num_q_heads,
        num_key_value_heads=size.num_kv_heads,
        head_dim=size.head_dim,
        max_position_embeddings=max_tokens,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval()


def random_tokens(model: Any, batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """input_ids [batch, length] on the model's device."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(2, model.config.vocab_size, (batch, length), generator=generator)
    return tokens.to(model.device)


def model_statistics(model: Any, tokens: int = 2048) -> ModelStatistics:
    """Of random tokens, as many as all models are given."""
    return calibrate_model(model, [random_tokens(model, 1, tokens, seed=1)], source="random tokens")
