"""Attention functions that show queries and keys to an observer, and then do as others do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface

OBSERVER = "mpfa_observer"
EAGER_OBSERVER = "mpfa_observer_eager"

# Called with the layer's index, q [B, Hq, n, d] and k [B, Hkv, n, d], after the rotary embedding.
Observe = Callable[[int, torch.Tensor, torch.Tensor], None]

_observe: ContextVar[Observe | None] = ContextVar("mpfa_observe", default=None)


@contextmanager
def observed(model: Any, observe: Observe) -> Iterator[None]:
    """The model's attention shows queries and keys to `observe`; put back afterwards."""
    before = model.config._attn_implementation
    text = model.config.get_text_config(decoder=True)
    # SDPA has no softcap and no sinks: models with either bring their own eager attention.
    needs_eager = getattr(text, "attn_logit_softcapping", None) or not model._supports_sdpa
    token = _observe.set(observe)
    model.set_attn_implementation(EAGER_OBSERVER if needs_eager else OBSERVER)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
        _observe.reset(token)


def observer(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, Any]:
    """Attention of torch's SDPA."""
    _show(module, query, key)
    return AttentionInterface()["sdpa"](module, query, key, *args, **kwargs)


def eager_observer(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, Any]:
    """The eager attention of the module's own file."""
    _show(module, query, key)
    forward = sys.modules[type(module).__module__].eager_attention_forward
    return forward(module, query, key, *args, **kwargs)


def _show(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor) -> None:
    observe = _observe.get()
    if observe is None:
        raise ValueError(f"attention {OBSERVER!r} is for calibration: use 'mpfa'")
    observe(module.layer_idx, query, key)
