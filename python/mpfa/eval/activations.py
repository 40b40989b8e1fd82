"""Queries and keys of every layer, captured while a model reads a text."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import DynamicCache

from mpfa.eval.policies import Policy
from mpfa.eval.statistics import LayerStatistics, find_statistics

ATTENTION = "mpfa_capture"

_captured: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # of the pass that runs now


class Activations:
    """Post-RoPE queries [Hq, tokens, d] and keys [Hkv, tokens, d] of each layer, FP32."""

    def __init__(self, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.layers = layers
        self._found: dict[tuple[Any, ...], list[LayerStatistics]] = {}

    def statistics(self, policy: Policy) -> list[LayerStatistics]:
        """What a policy freezes of each layer; found once for policies that freeze the same."""
        key = (
            policy.centre_k,
            policy.delta_s,
            policy.residual_rank,
            policy.residual_format,
            policy.k_scale_rule,
        )
        if key not in self._found:
            self._found[key] = [find_statistics(policy, q, k) for q, k in self.layers]
        return self._found[key]


@torch.no_grad()
def capture(model: Any, windows: list[torch.Tensor]) -> Activations:
    """Runs the model over each window of tokens, from position 0, in plain attention."""
    before = model.config._attn_implementation
    parts: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
    model.set_attn_implementation(ATTENTION)
    try:
        for tokens in windows:
            _captured.clear()
            cache = DynamicCache()
            model(tokens[None].to(model.device), past_key_values=cache, logits_to_keep=1)
            parts.append([_captured[layer] for layer in sorted(_captured)])
    finally:
        _captured.clear()
        model.set_attn_implementation(before)
    joined = zip(*parts, strict=True)
    return Activations(
        [(torch.cat([q for q, _ in of], 1), torch.cat([k for _, k in of], 1)) for of in joined]
    )


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    _captured[module.layer_idx] = query[0].float().cpu(), key[0].float().cpu()
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, scale=scaling, is_causal=True, enable_gqa=True
    )
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, lambda **sizes: None)
