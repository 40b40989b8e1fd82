"""What MpfaCache.update() gives back: new keys or values on their way to attention "mpfa"."""

from __future__ import annotations

from typing import Any

import torch

_MESSAGE = (
    "keys and values of an MpfaCache can only be read by the attention function 'mpfa': the model"
    " must have attn_implementation='mpfa' (model.set_attn_implementation('mpfa')), and must not"
    " change them between the cache and the attention; {} was asked of them"
)


class PackedStates:
    """New keys or values of a layer, not stored yet, and where they go.

    They stand for all keys of the layer, which nobody else than MpFA's attention can read. So any
    other use of them is an error, of which this tells, and no wrong result.
    """

    __slots__ = ("layer", "states")

    def __init__(self, layer: Any, states: torch.Tensor) -> None:
        """States [B, Hkv, n, d] for a layer."""
        self.layer = layer
        self.states = states

    def __getattr__(self, name: str) -> Any:
        """Refuses."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise TypeError(_MESSAGE.format(f".{name}"))

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Refuses."""
        raise TypeError(_MESSAGE.format(getattr(function, "__name__", function)))
