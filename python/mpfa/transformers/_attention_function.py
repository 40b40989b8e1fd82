"""The attention function "mpfa"."""

from __future__ import annotations

from typing import Any

import torch

from mpfa.transformers._foreign import attend_to_foreign
from mpfa.transformers._packed_states import PackedStates

# Arguments of other attention functions that would change the result.
_UNSUPPORTED = (
    "position_bias",
    "attn_bias",
    "head_mask",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "indexer",
    "topk_indices",
)


def mpfa_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: PackedStates | torch.Tensor,
    value: PackedStates | torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Stores the new keys and values of a layer in its MpfaCache, and attends to all of them.

    Args:
        module: the attention layer.
        query: [B, Hq, n, d].
        key, value: what MpfaCache.update() gave back.
        attention_mask: [B, columns] bool of the mask function "mpfa", or None.
        dropout: must be 0.
        scaling: None: 1 / sqrt(d).
        sliding_window: keys that a query sees, itself included; None: all.
        softcap: above 0: scores are softcap tanh(score / softcap).
        s_aux: [Hq]: logits that join the softmax's denominator only.

    Returns:
        [B, n, Hq, d], and None for the probabilities.

    Raises:
        ValueError: what is not supported, by name, before anything is stored.
    """
    _refuse_unsupported(module, dropout, attention_mask, kwargs)
    options = {
        "softmax_scale": scaling,
        "window_left": -1 if sliding_window is None else sliding_window - 1,
        "softcap": 0.0 if softcap is None else softcap,
        "sinks": _sinks(query, s_aux),
    }
    if isinstance(key, PackedStates) and isinstance(value, PackedStates):
        result = key.layer.attend(query, key.states, value.states, attention_mask, **options)
    else:
        result = attend_to_foreign(module, query, key, value, attention_mask, **options)
    return result, None


def _refuse_unsupported(
    module: torch.nn.Module,
    dropout: float,
    attention_mask: torch.Tensor | None,
    others: dict[str, Any],
) -> None:
    if dropout != 0:
        raise ValueError(f"dropout = {dropout}: attention 'mpfa' has none; use model.eval()")
    is_causal = others.get("is_causal")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if not is_causal:
        raise ValueError(
            f"{type(module).__qualname__} is not causal: attention 'mpfa' supports causal"
            " self-attention only"
        )
    for name in _UNSUPPORTED:
        if others.get(name) is not None:
            raise ValueError(f"{name} is not supported by attention 'mpfa'")
    if others.get("output_attentions"):
        raise ValueError(
            "output_attentions = True: attention 'mpfa' has no probabilities to return;"
            " use attn_implementation='eager'"
        )
    if attention_mask is not None and attention_mask.ndim != 2:
        raise ValueError(
            f"attention_mask has shape {tuple(attention_mask.shape)}: must be [batch, tokens],"
            " which says what is padding; other masks are not supported by attention 'mpfa'"
        )


def _sinks(query: torch.Tensor, s_aux: torch.Tensor | None) -> torch.Tensor | None:
    if s_aux is None:
        return None
    if tuple(s_aux.shape) != (query.shape[1],):
        raise ValueError(f"s_aux has shape {tuple(s_aux.shape)}: must be {(query.shape[1],)}")
    return s_aux.detach().float().contiguous()
