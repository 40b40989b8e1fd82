"""What is measured: an attention implementation of transformers, and a cache."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import DynamicCache, StaticCache
from transformers.utils import import_utils

from mpfa.transformers import ModelStatistics, MpfaCache


@dataclass(frozen=True)
class Method:
    """One row of the table."""

    attention: str  # attn_implementation
    says: str
    make_cache: Callable[[Any, int, ModelStatistics], Any]  # config, tokens, statistics
    available: Callable[[], bool] = lambda: True
    options: dict[str, Any] = field(default_factory=dict)  # of generate()
    context: Callable[[], AbstractContextManager[Any]] = nullcontext  # around all work


def _packed(config: Any, _: int, statistics: ModelStatistics) -> Any:
    return MpfaCache(config, statistics=statistics)


def _dynamic(config: Any, *_: Any) -> Any:
    return DynamicCache(config=config)


def _static(config: Any, tokens: int, _: Any) -> Any:
    return StaticCache(config=config, max_cache_len=tokens)


def _available(name: str) -> Callable[[], bool]:
    return lambda: bool(getattr(import_utils, f"is_{name}_available")())


METHODS: dict[str, Method] = {
    "mpfa": Method("mpfa", "MpfaCache, K in NVFP4 and V in FP8", _packed),
    "sdpa": Method("sdpa", "DynamicCache, torch's scaled_dot_product_attention", _dynamic),
    # torch prefers cuDNN's kernels on Hopper, which are planned anew for each number of keys.
    "sdpa_flash": Method(
        "sdpa",
        "DynamicCache, FlashAttention 2 as torch has it",
        _dynamic,
        context=lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION),
    ),
    "flash_attention_2": Method(
        "flash_attention_2", "DynamicCache, flash-attn 2", _dynamic, _available("flash_attn_2")
    ),
    "flash_attention_3": Method(
        "flash_attention_3", "DynamicCache, flash-attn 3", _dynamic, _available("flash_attn_3")
    ),
    "sdpa_static": Method(
        "sdpa", "StaticCache, not compiled", _static, options={"disable_compile": True}
    ),
    "sdpa_compiled": Method("sdpa", "StaticCache, decode steps by torch.compile", _static),
}


def cache_bytes(cache: Any) -> int:
    """Bytes of the tensors that a cache holds, statistics and room for more tokens included."""
    if isinstance(cache, MpfaCache):
        memory = cache.memory()
        return memory.page_bytes + memory.statistics_bytes
    tensors = (x for layer in cache.layers for x in (layer.keys, layer.values))
    return sum(x.nbytes for x in tensors if x is not None)
