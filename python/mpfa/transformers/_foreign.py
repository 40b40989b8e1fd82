"""Caches that are not MpfaCache, for those who ask for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from mpfa.transformers._layer import MpfaLayer
from mpfa.transformers._options import CacheOptions, ModelShape
from mpfa.transformers._sequences import Sequences


class _Permission:
    """The options of those who asked, checked once for each shape of a model."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._checked: dict[ModelShape, CacheOptions] = {}

    def options_for(self, shape: ModelShape) -> CacheOptions:
        if shape not in self._checked:
            self._checked[shape] = CacheOptions.checked(shape, **self._options)
        return self._checked[shape]


_permission: ContextVar[_Permission | None] = ContextVar("mpfa_foreign_caches", default=None)


@contextmanager
def quantize_foreign_caches(**options: Any) -> Iterator[None]:
    """Within it, attention "mpfa" takes keys of other caches, or of none: it packs all of them.

    For measurements, and for use_cache=False: each call quantises every key again, as an MpfaCache
    whose statistics are frozen at this call would hold it. Without this such a call is refused.

    Args:
        options: those of MpfaCache, for instance statistics; checked at the first call.
    """
    token = _permission.set(_Permission(options))
    try:
        yield
    finally:
        _permission.reset(token)


def attend_to_foreign(
    module: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    **attention_options: Any,
) -> torch.Tensor:
    """MpfaLayer.attend() over all keys of another cache; refused unless asked for."""
    permission = _permission.get()
    if permission is None:
        raise ValueError(
            "attention 'mpfa' got keys that are in no MpfaCache: pass"
            " past_key_values=mpfa.transformers.MpfaCache(model.config), or allow it by"
            " mpfa.transformers.quantize_foreign_caches()"
        )
    shape = ModelShape.of(module.config)
    options = permission.options_for(shape)
    layer = MpfaLayer(module.layer_idx, shape, options, Sequences(shape, options), leads=True)
    with warnings.catch_warnings():  # of statistics from a prompt, at every call
        warnings.simplefilter("ignore")
        return layer.attend(q, k, v, mask, **attention_options)
