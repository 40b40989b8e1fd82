"""The mask function: padding goes on to the attention function, other masks are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers.masking_utils import causal_mask_function, sliding_window_overlay

_SLIDING = sliding_window_overlay(1).__code__


def padding_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    **kwargs: Any,
) -> torch.Tensor | None:
    """What attention "mpfa" gets as attention_mask: [B, kv_length] bool, or None.

    Causality and windows are the attention's own.

    Raises:
        ValueError: a mask other than causal or sliding, or keys that are not there yet (static
            caches).
    """
    if not _is_causal(mask_function):
        name = getattr(mask_function, "__qualname__", str(mask_function))
        raise ValueError(
            f"attention 'mpfa' was asked for the mask {name}: only causal masks, with padding and"
            " sliding windows, are supported (no packed sequences without a cache, no"
            " bidirectional or chunked attention, no custom masks)"
        )
    if kv_offset + kv_length != int(q_offset) + q_length:
        raise ValueError(
            f"attention 'mpfa' was asked for {kv_length} keys from {kv_offset} on, and {q_length}"
            f" queries from {int(q_offset)} on: keys must end where queries end (static caches are"
            " not supported)"
        )
    if attention_mask is None or kv_offset == 0:
        return attention_mask
    return attention_mask[:, kv_offset:]


def _is_causal(function: Callable[..., Any]) -> bool:
    """Whether a mask function of transformers is the causal one, or that and a window."""
    if function is causal_mask_function:
        return True
    parts = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    if len(parts) != 1 or not isinstance(parts[0], tuple) or len(parts[0]) != 2:
        return False
    window, causal = parts[0]
    is_window = getattr(window, "__code__", None) is _SLIDING
    # or_masks() has the same parts, but not the same code.
    joins_by_and = getattr(function, "__qualname__", "").startswith("and_masks.")
    return is_window and joins_by_and and causal is causal_mask_function
