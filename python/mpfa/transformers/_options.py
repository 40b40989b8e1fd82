"""What a cache is made for: the model's shape, and the options of MpfaCache."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from transformers.cache_utils import get_layer_types_and_kwargs

from mpfa._cache import KvCache
from mpfa._scalars import (
    PrefillPrecision,
    flag,
    integer,
    prefill_precision_number,
    searches_scales,
)
from mpfa.transformers._statistics import ModelStatistics

_LAYER_TYPES = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class ModelShape:
    """The attention layers of a model."""

    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    is_sliding: tuple[bool, ...]  # each layer has a window

    @classmethod
    def of(cls, config: Any) -> ModelShape:
        """Reads a model's configuration; ValueError for a model that is not supported, by name."""
        if getattr(config, "is_encoder_decoder", False):
            raise ValueError(f"{_name(config)} is an encoder-decoder model: must be decoder-only")
        text = config.get_text_config(decoder=True)
        layer_types = _checked_layer_types(text)
        heads = text.num_attention_heads
        kv_heads = getattr(text, "num_key_value_heads", None) or heads
        head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
        for name, value in (
            ("num_attention_heads", heads),
            ("num_key_value_heads", kv_heads),
            ("head_dim", head_dim),
        ):
            if not isinstance(value, int):
                raise ValueError(f"{_name(text)}.{name} = {value!r}: must be one number")
        is_sliding = tuple(layer_type == "sliding_attention" for layer_type in layer_types)
        return cls(len(layer_types), heads, kv_heads, head_dim, is_sliding)


def _checked_layer_types(config: Any) -> list[str]:
    shared = getattr(config, "num_kv_shared_layers", None)
    if shared:
        raise ValueError(
            f"{_name(config)}.num_kv_shared_layers = {shared}: layers must not share keys"
        )
    if getattr(config, "kv_lora_rank", None) is not None:
        raise ValueError(
            f"{_name(config)}.kv_lora_rank = {config.kv_lora_rank}: latent attention (MLA) is not"
            " supported"
        )
    if not getattr(config, "is_causal", True):
        raise ValueError(f"{_name(config)}.is_causal is False: attention must be causal")
    layer_types = get_layer_types_and_kwargs(config)[0]
    for index, layer_type in enumerate(layer_types):
        if layer_type not in _LAYER_TYPES:
            raise ValueError(
                f"{_name(config)}.layer_types[{index}] = {layer_type!r}: must be one of"
                f" {', '.join(_LAYER_TYPES)}"
            )
    return layer_types


def _name(config: Any) -> str:
    return type(config).__qualname__


@dataclass(frozen=True)
class CacheOptions:
    """The options of MpfaCache, checked."""

    statistics: ModelStatistics | None  # None: frozen from the first tokens
    residual_rank: int
    first_key: bool
    delta_s: bool
    scale_rule: str
    page_size: int
    reserve_tokens: int
    batch_invariant: bool
    prefill_precision: PrefillPrecision

    @classmethod
    def checked(
        cls,
        shape: ModelShape,
        *,
        statistics: Any = None,
        residual_rank: int = 8,
        first_key: bool = True,
        delta_s: bool = False,
        scale_rule: str = "search",
        page_size: int = 64,
        reserve_tokens: int = 0,
        batch_invariant: bool = False,
        prefill_precision: PrefillPrecision = "auto",
    ) -> CacheOptions:
        """Options for a model, statistics loaded where they are a path; raises as MpfaCache()."""
        searches_scales(scale_rule)
        flag("batch_invariant", batch_invariant)
        prefill_precision_number(prefill_precision)
        if integer("reserve_tokens", reserve_tokens) < 0:
            raise ValueError(f"reserve_tokens = {reserve_tokens}: must not be negative")
        if statistics is not None and not isinstance(statistics, ModelStatistics):
            statistics = ModelStatistics.load(statistics)
        options = cls(
            statistics=statistics,
            residual_rank=residual_rank,
            first_key=first_key,
            delta_s=delta_s,
            scale_rule=scale_rule,
            page_size=page_size,
            reserve_tokens=reserve_tokens,
            batch_invariant=batch_invariant,
            prefill_precision=prefill_precision,
        )
        smallest = options.new_store(shape, num_pages=1)  # the library checks the rest
        if statistics is not None:
            for index in range(shape.num_layers):
                options.set_model_statistics(smallest, index)
            options._compare_scale_rules(statistics)
        return options

    def new_store(
        self, shape: ModelShape, *, num_pages: int, num_rows: int = 0, device: Any = "cpu"
    ) -> KvCache:
        """The packed tensors of one layer; num_rows above 0: that many rows of statistics."""
        return KvCache(
            num_pages=num_pages,
            num_q_heads=shape.num_q_heads,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            page_size=self.page_size,
            residual_rank=self.residual_rank,
            first_key=self.first_key,
            delta_s=self.delta_s,
            num_stats=max(num_rows, 1),
            batch_size=num_rows,
            device=device,
            framework="torch",
        )

    def set_model_statistics(self, store: KvCache, index: int) -> None:
        """Copies the given statistics of a layer into its store."""
        layer = self.statistics.layer(index, residual_rank=self.residual_rank, delta_s=self.delta_s)
        try:
            store.set_statistics(layer)
        except ValueError as error:
            raise ValueError(f"statistics do not fit layer {index} of the model: {error}") from None

    def _compare_scale_rules(self, statistics: ModelStatistics) -> None:
        rule = statistics.metadata.get("scale_rule", self.scale_rule)
        if self.residual_rank > 0 and rule != self.scale_rule:
            warnings.warn(
                f"scale_rule = {self.scale_rule!r}: the statistics' residual scales were made for"
                f" {rule!r}",
                stacklevel=4,
            )
